#pragma once

#include <span>
#include <string_view>

namespace driftbound {

/// The library's own float32 elementary functions: the same bits on every machine and on the GPU.
/// Each computes in double and rounds once; every NaN result is the bit pattern 0x7fc00000.
/// Domain:    every float; the caller's thread rounds to nearest and keeps subnormals
/// Guarantee: |computed - f(x)| <= units (2^-24 |f(x)| + 2^-150) wherever f(x) is finite and within
///            float32 range, with the units of `own_float32_accuracy`; otherwise NaN where f is
///            undefined, and the correctly signed infinity at a pole or beyond the range
/// Source:    docs/elementary.md (methods; exhaustive measurement over all 2^32 inputs)
/// Throws:    none

/// e^x. exp(-inf) = 0, exp(+inf) = +inf.
float exp_f32(float x) noexcept;
/// e^x - 1. Keeps the sign of zero; expm1(-inf) = -1.
float expm1_f32(float x) noexcept;
/// Natural logarithm. log(+-0) = -inf; NaN for x < 0.
float log_f32(float x) noexcept;
/// log(1 + x). Keeps the sign of zero; log1p(-1) = -inf; NaN for x < -1.
float log1p_f32(float x) noexcept;
/// (e^x - e^-x) / (e^x + e^-x). Odd bit for bit, also at zero.
float tanh_f32(float x) noexcept;
/// 1 / (1 + e^-x), subnormal results included.
float sigmoid_f32(float x) noexcept;
/// log(1 + e^x), subnormal results included.
float softplus_f32(float x) noexcept;
/// Sine of x radians, the argument reduced exactly enough for every float. Odd bit for bit; NaN for +-inf.
float sin_f32(float x) noexcept;
/// Cosine of x radians, the argument reduced exactly enough for every float. Even bit for bit; NaN for +-inf.
float cos_f32(float x) noexcept;
/// 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x. Odd bit for bit, also at zero.
float erf_f32(float x) noexcept;
/// Tangent of x radians, the argument reduced exactly enough for every float. Odd bit for bit; NaN for +-inf.
float tan_f32(float x) noexcept;
/// The angle in [-pi/2, pi/2] whose tangent is x. Odd bit for bit, also at zero.
float atan_f32(float x) noexcept;
/// (e^x - e^-x) / 2. Odd bit for bit, also at zero.
float sinh_f32(float x) noexcept;
/// (e^x + e^-x) / 2. Even bit for bit.
float cosh_f32(float x) noexcept;
/// x^p for a real exponent p, which is used as it is, not rounded to float.
/// p = 0 gives 1 and x = 1 gives 1, whatever the other is, NaN too; p = 1, -1, 0.5, 2 and 3 are correctly rounded
/// results; an integer p takes negative x; every other special value is that of IEEE 754 pow.
float pow_f32(float x, double p) noexcept;

/// How accurate one of the functions above is.
struct ElementaryAccuracy {
  std::string_view function;  ///< the name of one of them without its _f32
  double units;               ///< see own_float32_accuracy
  std::string_view evidence;  ///< how `units` is known
};

/// For every float32 x with f(x) finite and within float32 range,
/// |computed - f(x)| <= units (2^-24 |f(x)| + 2^-150).
/// Domain:    none
/// Guarantee: measured, not proven: the maximum over all 2^32 inputs (pow: over many inputs for many exponents),
///            rounded up in the fourth decimal
/// Source:    docs/elementary.md, reproduced by scripts/exhaustive_f32.sh
/// Throws:    none
std::span<const ElementaryAccuracy> own_float32_accuracy() noexcept;

}  // namespace driftbound

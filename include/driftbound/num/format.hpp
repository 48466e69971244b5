#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace driftbound {

enum class FormatId { fp64, fp32, tf32, bf16, fp16, fp8_e4m3, fp8_e5m2 };

enum class Rounding { nearest_even, nearest_away, toward_zero, up, down };

/// A binary floating-point format as data. Finite values are 0 and +-m 2^(e - precision + 1) with
/// 2^(precision-1) <= m < 2^precision for min_exponent <= e <= max_exponent (normal), and smaller m
/// at e = min_exponent (subnormal), none larger in magnitude than `largest`.
/// Source:    docs/theory.md T-01 (table of formats)
struct Format {
  FormatId id;
  std::string_view name;      ///< "fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"
  int precision;              ///< significand bits including the hidden one
  int min_exponent;           ///< exponent of the smallest normal number
  int max_exponent;           ///< exponent of the largest finite number
  double largest;             ///< largest finite number
  double smallest_normal;     ///< omega = 2^min_exponent
  double smallest_subnormal;  ///< lambda = 2^(min_exponent - precision + 1)
  bool has_infinity;          ///< false for E4M3: overflow is NaN
};

const Format& format(FormatId id);
std::optional<FormatId> find_format(std::string_view name);
/// All of them, for messages: "fp64, fp32, ...".
std::string format_names();

/// Whether every finite number of `narrow` is one of `wide`.
bool holds_all_of(const Format& wide, const Format& narrow);

/// u: |fl(t) - t| <= u |t| for every t in the normal range. 2^-precision to nearest, twice that directed.
double unit_roundoff(const Format& f, Rounding rounding);

/// eta: bound on the absolute error of one rounding whose exact result is below the normal range:
/// lambda/2 to nearest and lambda directed under gradual underflow, omega where subnormals are flushed.
/// For fp64 to nearest it is lambda: half of that is no double.
double underflow_unit(const Format& f, Rounding rounding, bool flushes_subnormals);

/// The nearest (or directed) element of the format. Ties by the rounding named; the sign of zero is kept.
/// Overflow as in IEEE 754: where the result rounded without a limit on its exponent is above `largest`, it becomes
/// `largest` if the rounding is toward zero there and infinity otherwise, NaN where the format has no infinity.
/// To nearest that is infinity from the midpoint above `largest` on; in E4M3 the midpoint 464 ties to even 448.
/// Domain:    every double; NaN -> NaN, infinities -> infinity, or NaN where the format has none
/// Guarantee: exact (correct rounding)
/// Source:    docs/theory.md T-01
double round_to(double x, const Format& f, Rounding rounding);

/// Whether x is an element of the format (infinities count where the format has them; NaN always).
bool representable(double x, const Format& f);

/// The distance between the two elements of the format that enclose |x|, by binade of x
/// (2^(e - precision + 1) for 2^e <= |x| < 2^(e+1), lambda below the normal range and at 0).
/// Domain:    every double; the formula is continued above `largest`; infinity -> infinity, NaN -> NaN
double ulp(double x, const Format& f);

}  // namespace driftbound

#pragma once

// Residues and integers from them (T-100), for the sources that multiply them, each in its own way.

#include <cstddef>
#include <cstdint>

#include "linalg/kernels/residue_product.hpp"
#include "simd/vector.hpp"

namespace driftbound::linalg {
namespace {

using Vector = simd::Native<double>;
constexpr std::size_t lanes = Vector::lanes;

// Each source says how.

/// Keeps integers, below 2^51, as the digits l, l + 1 ...
void keep_digits(Vector integers, double* digits, std::size_t l);
/// Integers of 16 bits as doubles.
Vector widened(const std::int16_t* p);
/// p[places[i]] in lane i.
Vector gathered(const double* p, const std::int32_t* places);

constexpr double limb = 0x1p40, limb_inverse = 0x1p-40;
static_assert((2 * moduli.size() * largest_residue + 1) * (std::uint64_t{1} << limb_bits) < std::uint64_t{1} << 53);
static_assert(chunks_at_once * residue_steps * 255 * 128 + largest_residue < std::uint64_t{1} << 28);

/// x factor to the nearest integer, below 2^51.
Vector nearest(Vector x, double factor) {
  return fma(x, Vector(factor), Vector(to_integer)) - to_integer;
}

/// x less the multiple of `unit` nearest to it, which is digit * unit.
Vector without(Vector& x, double unit) {
  const Vector digit = nearest(x, 1.0 / unit);
  x = fma(-digit, Vector(unit), x);
  return digit;
}

void digits(const double* high, const double* low, std::size_t length, double factor, std::size_t count,
            double* digits) {
  for (std::size_t l = 0; l < length; l += lanes) {
    Vector x = Vector::load(high + l) * factor;
    if (count == 3) keep_digits(without(x, limb * limb), digits + 2 * length, l);
    if (count >= 2) {
      Vector middle = without(x, limb);
      if (low != nullptr) {
        Vector y = Vector::load(low + l) * factor;
        middle += without(y, limb);
        x += y;
      }
      keep_digits(middle, digits + length, l);
    }
    keep_digits(nearest(x, 1.0), digits, l);
  }
}

/// a + b = a + error, for a = 0 or |a| >= |b|.
Vector take_in(Vector& a, Vector b) {
  const Vector sum = a + b, error = b - (sum - a);
  a = sum;
  return error;
}

Vector take_in_any(Vector& a, Vector b) {
  const Vector sum = a + b, b_part = sum - a, a_part = sum - b_part;
  const Vector error = (a - a_part) + (b - b_part);
  a = sum;
  return error;
}

/// Neighbours whose integers are found together.
constexpr std::size_t together = 4;

/// Takes multiples of 2^40 from one limb to the next.
template <std::size_t count>
void carry_over(Vector (&limbs)[count], std::size_t i, Vector multiple) {
  limbs[i] = fma(-multiple, Vector(limb), limbs[i]);
  limbs[i + 1] += multiple;
}

/// Limbs of sum_s r_s weight_s less the multiple of the product of the moduli nearest to it, all but the highest within
/// half of 2^40; where there are three or more that half itself is positive.
template <std::size_t count>
void limbs_of(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis,
              Vector (&limbs)[together][count]) {
  for (std::size_t v = 0; v < together; ++v)
    for (std::size_t i = 0; i < count; ++i) limbs[v][i] = Vector(0.0);
  for (std::size_t s = 0; s < basis.count; ++s) {
    for (std::size_t v = 0; v < together; ++v) {
      const Vector r = widened(residues + s * step + v * lanes);
      for (std::size_t i = 0; i < count; ++i) limbs[v][i] = fma(r, Vector(basis.weight[s][i]), limbs[v][i]);
    }
  }
  for (std::size_t v = 0; v < together; ++v) {
    Vector quotient = limbs[v][0] * basis.share[0];
    for (std::size_t i = 1; i < count; ++i) quotient = fma(limbs[v][i], Vector(basis.share[i]), quotient);
    const Vector multiple = nearest(quotient, 1.0);
    for (std::size_t i = 0; i < count; ++i) limbs[v][i] = fma(-multiple, Vector(basis.product[i]), limbs[v][i]);
    for (std::size_t i = 0; i + 1 < count; ++i) carry_over(limbs[v], i, nearest(limbs[v][i], limb_inverse));
    for (std::size_t i = 0; count > 2 && i + 1 < count; ++i) {
      const Vector below = fma(limbs[v][i], Vector(limb_inverse), Vector(-0x1p-42));
      carry_over(limbs[v], i, nearest(below, 1.0));
    }
  }
}

struct Sum {
  Vector high, low, rest;
};

/// sum_i limbs[i] 2^(40 i): what additions from the lowest limb up lose is kept, and added up behind the sum.
template <std::size_t count>
Sum sum_of(const Vector (&limbs)[count]) {
  Vector high = limbs[0], lost[count];
  double unit = 1.0;
  for (std::size_t i = 1; i < count; ++i) {
    unit *= limb;
    Vector next = limbs[i] * unit;
    lost[i] = take_in(next, high);
    high = next;
  }
  Vector low = lost[count - 1], rest = Vector(0.0);
  for (std::size_t i = count - 1; i-- > 1;) rest += simd::magnitude(take_in_any(low, lost[i]));
  low = take_in(high, low);
  return {high, low, rest};
}

template <std::size_t count>
void combine_limbs(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis, const double* row_scale,
                   const double* column_scale, std::size_t stride, double* high, double* low, double* rest) {
  for (std::size_t place = 0; place < tile_size; place += together * lanes) {
    Vector limbs[together][count];
    limbs_of(residues + place, step, basis, limbs);
    for (std::size_t v = 0; v < together; ++v) {
      const std::size_t row = (place + v * lanes) / residue_rows, column = (place + v * lanes) % residue_rows;
      const Sum sum = sum_of(limbs[v]);
      const Vector scale = row_scale[row] * Vector::load(column_scale + column);
      (sum.high * scale).store(high + row * stride + column);
      (sum.low * scale).store(low + row * stride + column);
      if (rest != nullptr) (sum.rest * scale).store(rest + row * stride + column);
    }
  }
}

void combine(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis, const double* row_scale,
             const double* column_scale, std::size_t stride, double* high, double* low, double* rest) {
  const auto combine_these = basis.limbs == 2   ? &combine_limbs<2>
                             : basis.limbs == 3 ? &combine_limbs<3>
                                                : &combine_limbs<4>;
  combine_these(residues, step, basis, row_scale, column_scale, stride, high, low, rest);
}

void rearrange(const double* source, const std::int32_t* place, std::size_t count, double* target) {
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) gathered(source, place + i).store(target + i);
  for (; i < count; ++i) target[i] = source[place[i]];
}

constexpr ResidueKernels residue_kernels(decltype(ResidueKernels::left_residues) left,
                                         decltype(ResidueKernels::right_residues) right,
                                         decltype(ResidueKernels::multiply) multiply) {
  return {DRIFTBOUND_SIMD_TARGET_NAME, &digits, left, right, multiply, &combine, &rearrange};
}

}  // namespace
}  // namespace driftbound::linalg

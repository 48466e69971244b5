#pragma once

// Residues and integers from them (T-100), written once and compiled once per instruction set. Everything here has
// internal linkage and calls no inline function of another header: code compiled for a newer processor must not be
// shared with the rest of the program.

#include <cstddef>
#include <cstdint>

#include "num/kernels/residue_product.hpp"

namespace driftbound::num {
namespace {

constexpr double limb = 0x1p40, limb_inverse = 0x1p-40;
static_assert((2 * moduli.size() * largest_residue + 1) * (std::uint64_t{1} << limb_bits) < std::uint64_t{1} << 53);
static_assert(chunks_at_once * residue_steps * 255 * 128 + largest_residue < std::uint64_t{1} << 28);

/// x factor to the nearest integer, below 2^51.
template <class Vector>
Vector nearest(Vector x, double factor) {
  return sub(fma(x, Vector::all(factor), Vector::all(to_integer)), Vector::all(to_integer));
}

/// x less the multiple of `unit` nearest to it, which is digit * unit.
template <class Vector>
Vector without(Vector& x, double unit) {
  const Vector digit = nearest(x, 1.0 / unit);
  x = fnma(digit, Vector::all(unit), x);
  return digit;
}

template <class Vector>
void digits(const double* high, const double* low, std::size_t length, double factor, std::size_t count,
            double* digits) {
  const Vector scale = Vector::all(factor);
  for (std::size_t l = 0; l < length; l += Vector::lanes) {
    Vector x = mul(Vector::load(high + l), scale);
    if (count == 3) without(x, limb * limb).keep_digit(digits + 2 * length, l);
    if (count >= 2) {
      Vector middle = without(x, limb);
      if (low != nullptr) {
        Vector y = mul(Vector::load(low + l), scale);
        middle = add(middle, without(y, limb));
        x = add(x, y);
      }
      middle.keep_digit(digits + length, l);
    }
    nearest(x, 1.0).keep_digit(digits, l);
  }
}

/// a + b = a + error, for a = 0 or |a| >= |b|.
template <class Vector>
Vector take_in(Vector& a, Vector b) {
  const Vector sum = add(a, b), error = sub(b, sub(sum, a));
  a = sum;
  return error;
}

template <class Vector>
Vector take_in_any(Vector& a, Vector b) {
  const Vector sum = add(a, b), b_part = sub(sum, a), a_part = sub(sum, b_part);
  const Vector error = add(sub(a, a_part), sub(b, b_part));
  a = sum;
  return error;
}

/// Neighbours whose integers are found together.
constexpr std::size_t together = 4;

/// Takes multiples of 2^40 from one limb to the next.
template <class Vector, std::size_t count>
void carry_over(Vector (&limbs)[count], std::size_t i, Vector multiple) {
  limbs[i] = fnma(multiple, Vector::all(limb), limbs[i]);
  limbs[i + 1] = add(limbs[i + 1], multiple);
}

/// Limbs of sum_s r_s weight_s less the multiple of the product of the moduli nearest to it, all but the highest within
/// half of 2^40; where there are three or more that half itself is positive.
template <class Vector, std::size_t count>
void limbs_of(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis,
              Vector (&limbs)[together][count]) {
  for (std::size_t v = 0; v < together; ++v)
    for (std::size_t i = 0; i < count; ++i) limbs[v][i] = Vector::all(0.0);
  for (std::size_t s = 0; s < basis.count; ++s) {
    for (std::size_t v = 0; v < together; ++v) {
      const Vector r = Vector::from_integers(residues + s * step + v * Vector::lanes);
      for (std::size_t i = 0; i < count; ++i) limbs[v][i] = fma(r, Vector::all(basis.weight[s][i]), limbs[v][i]);
    }
  }
  for (std::size_t v = 0; v < together; ++v) {
    Vector quotient = mul(limbs[v][0], Vector::all(basis.share[0]));
    for (std::size_t i = 1; i < count; ++i) quotient = fma(limbs[v][i], Vector::all(basis.share[i]), quotient);
    const Vector multiple = nearest(quotient, 1.0);
    for (std::size_t i = 0; i < count; ++i) limbs[v][i] = fnma(multiple, Vector::all(basis.product[i]), limbs[v][i]);
    for (std::size_t i = 0; i + 1 < count; ++i) carry_over(limbs[v], i, nearest(limbs[v][i], limb_inverse));
    for (std::size_t i = 0; count > 2 && i + 1 < count; ++i) {
      const Vector below = fma(limbs[v][i], Vector::all(limb_inverse), Vector::all(-0x1p-42));
      carry_over(limbs[v], i, nearest(below, 1.0));
    }
  }
}

template <class Vector>
struct Sum {
  Vector high, low, rest;
};

/// sum_i limbs[i] 2^(40 i): what additions from the lowest limb up lose is kept, and added up behind the sum.
template <class Vector, std::size_t count>
Sum<Vector> sum_of(const Vector (&limbs)[count]) {
  Vector high = limbs[0], lost[count];
  double unit = 1.0;
  for (std::size_t i = 1; i < count; ++i) {
    unit *= limb;
    Vector next = mul(limbs[i], Vector::all(unit));
    lost[i] = take_in(next, high);
    high = next;
  }
  Vector low = lost[count - 1], rest = Vector::all(0.0);
  for (std::size_t i = count - 1; i-- > 1;) rest = add(rest, magnitude(take_in_any(low, lost[i])));
  low = take_in(high, low);
  return {high, low, rest};
}

template <class Vector, std::size_t count>
void combine_limbs(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis, const double* row_scale,
                   const double* column_scale, std::size_t stride, double* high, double* low, double* rest) {
  constexpr std::size_t lanes = Vector::lanes;
  for (std::size_t place = 0; place < tile_size; place += together * lanes) {
    Vector limbs[together][count];
    limbs_of(residues + place, step, basis, limbs);
    for (std::size_t v = 0; v < together; ++v) {
      const std::size_t row = (place + v * lanes) / residue_rows, column = (place + v * lanes) % residue_rows;
      const Sum<Vector> sum = sum_of(limbs[v]);
      const Vector scale = mul(Vector::all(row_scale[row]), Vector::load(column_scale + column));
      mul(sum.high, scale).store(high + row * stride + column);
      mul(sum.low, scale).store(low + row * stride + column);
      if (rest != nullptr) mul(sum.rest, scale).store(rest + row * stride + column);
    }
  }
}

template <class Vector>
void combine(const std::int16_t* residues, std::size_t step, const ResidueBasis& basis, const double* row_scale,
             const double* column_scale, std::size_t stride, double* high, double* low, double* rest) {
  const auto combine_these = basis.limbs == 2   ? &combine_limbs<Vector, 2>
                             : basis.limbs == 3 ? &combine_limbs<Vector, 3>
                                                : &combine_limbs<Vector, 4>;
  combine_these(residues, step, basis, row_scale, column_scale, stride, high, low, rest);
}

template <class Vector>
void rearrange(const double* source, const std::int32_t* place, std::size_t count, double* target) {
  std::size_t i = 0;
  for (; i + Vector::lanes <= count; i += Vector::lanes) Vector::gather(source, place + i).store(target + i);
  for (; i < count; ++i) target[i] = source[place[i]];
}

template <class Vector>
constexpr ResidueKernels residue_kernels(const char* name, decltype(ResidueKernels::left_residues) left,
                                         decltype(ResidueKernels::right_residues) right,
                                         decltype(ResidueKernels::multiply) multiply) {
  return {name, &digits<Vector>, left, right, multiply, &combine<Vector>, &rearrange<Vector>};
}

}  // namespace
}  // namespace driftbound::num

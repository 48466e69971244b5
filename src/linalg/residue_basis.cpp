#include "linalg/residue_basis.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace driftbound::linalg {

namespace {

using Limbs = std::array<std::uint64_t, most_limbs>;  ///< of 40 bits, the lowest first

Limbs times(const Limbs& x, std::uint64_t factor) {
  Limbs product{};
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < most_limbs; ++i) {
    carry += x[i] * factor;
    product[i] = carry & ((std::uint64_t{1} << limb_bits) - 1);
    carry >>= limb_bits;
  }
  return product;
}

std::int32_t remainder(const Limbs& x, std::int32_t modulus) {
  const auto p = static_cast<std::uint64_t>(modulus);
  std::uint64_t rest = 0;
  for (std::size_t i = most_limbs; i-- > 0;) rest = ((rest << limb_bits) + x[i]) % p;
  return static_cast<std::int32_t>(rest);
}

std::int32_t inverse(std::int32_t x, std::int32_t modulus) {
  std::int32_t y = 1;
  while (x * y % modulus != 1) ++y;
  return y;
}

int bit_length(const Limbs& x) {
  for (std::size_t i = most_limbs; i-- > 0;)
    if (x[i] != 0) return limb_bits * static_cast<int>(i) + static_cast<int>(std::bit_width(x[i]));
  return 0;
}

std::array<double, most_limbs> as_doubles(const Limbs& x) {
  std::array<double, most_limbs> doubles{};
  std::transform(x.begin(), x.end(), doubles.begin(), [](std::uint64_t y) { return static_cast<double>(y); });
  return doubles;
}

Modulus modulus_of(std::int32_t p) {
  Modulus modulus{p, {}, {}};
  std::int32_t power = 1;
  for (std::int8_t& byte : modulus.byte) {
    byte = static_cast<std::int8_t>(2 * power > p ? power - p : power);
    power = power * 256 % p;
  }
  constexpr std::size_t place = 6;
  constexpr auto upper = static_cast<std::int32_t>(bits_of_zero >> (8 * place));
  static_assert(std::uint64_t{upper} << (8 * place) == bits_of_zero);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < most_digits; ++i) {
    sum += upper * modulus.byte[place + i * limb_bytes];
    modulus.offset[i] = -sum % p;
  }
  return modulus;
}

Limbs product_of(std::size_t count, std::size_t without) {
  Limbs product = {1};
  for (std::size_t s = 0; s < count; ++s)
    if (s != without) product = times(product, static_cast<std::uint64_t>(moduli[s]));
  return product;
}

ResidueBasis basis_of(std::size_t count) {
  ResidueBasis basis{};
  const Limbs all = product_of(count, count);
  basis.count = count;
  basis.bits = bit_length(all) - 1;
  basis.limbs = std::max<std::size_t>(2, static_cast<std::size_t>(basis.bits / limb_bits) + 1);
  basis.product = as_doubles(all);
  for (std::size_t i = most_limbs; i-- > 0;) basis.size = basis.size * 0x1p40 + basis.product[i];
  for (std::size_t i = 0; i < most_limbs; ++i)
    basis.share[i] = std::ldexp(1.0, limb_bits * static_cast<int>(i)) / basis.size;
  basis.size *= 1.0 - 0x1p-50;
  for (std::size_t s = 0; s < count; ++s) {
    const std::int32_t p = moduli[s];
    const Limbs others = product_of(count, s);
    const std::int32_t factor = inverse(remainder(others, p), p);
    basis.modulus[s] = modulus_of(p);
    basis.weight[s] = as_doubles(times(others, static_cast<std::uint64_t>(factor)));
  }
  return basis;
}

}  // namespace

const ResidueBasis& residue_basis(std::size_t count) {
  static const auto all = [] {
    std::array<ResidueBasis, moduli.size()> bases{};
    for (std::size_t i = 0; i < bases.size(); ++i) bases[i] = basis_of(i + 1);
    return bases;
  }();
  return all[count - 1];
}

std::size_t moduli_for(int bits) {
  std::size_t count = 1;
  while (count <= moduli.size() && residue_basis(count).bits < bits) ++count;
  return count;
}

std::size_t moduli_for_integers(double largest) {
  std::size_t count = 1;
  while (count <= moduli.size() && !(2.0 * (1.0 + 0x1p-18) * largest <= residue_basis(count).size)) ++count;
  return count;
}

}  // namespace driftbound::linalg

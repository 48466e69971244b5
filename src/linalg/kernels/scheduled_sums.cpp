// Parts of sums whose terms are dealt out by a list: chains of operations, and the steps of a matrix unit. Vector:
// neighbouring sums in the lanes of a register.

#include "linalg/kernels/scheduled_sums.hpp"

#include "simd/vector.hpp"

namespace driftbound::linalg {
namespace {

using Doubles = simd::Vector<double, sum_lanes>;

template <class Vector, bool by_lane>
Vector factor(const typename Vector::Number* a, std::size_t k) {
  if constexpr (by_lane) {
    return Vector::load(a + k * sum_lanes);
  } else {
    return Vector(a[k]);
  }
}

template <class Real, bool by_lane, bool fused>
void add_chains(const ChainParts<Real>& p) {
  using Numbers = simd::Vector<Real, sum_lanes>;
  std::size_t i = 0;
  for (std::size_t part = 0; part < p.parts; ++part) {
    Numbers sum;
    if (p.start != nullptr) {
      sum = Numbers::load(p.start);
    } else {
      const std::size_t k = p.terms[i++];
      sum = factor<Numbers, by_lane>(p.a, k) * Numbers::load(p.b + k * sum_lanes);
    }
    for (; i < p.ends[part]; ++i) {
      const std::size_t k = p.terms[i];
      const Numbers x = factor<Numbers, by_lane>(p.a, k), y = Numbers::load(p.b + k * sum_lanes);
      if constexpr (fused) {
        sum = fma(x, y, sum);
      } else {
        sum += x * y;
      }
    }
    sum.store(p.sums + part * sum_lanes);
  }
}

template <class Real, bool by_lane>
void chains_of(const ChainParts<Real>& p) {
  p.fma ? add_chains<Real, by_lane, true>(p) : add_chains<Real, by_lane, false>(p);
}

template <class Real>
void chains(const ChainParts<Real>& p) {
  p.a_by_lane ? chains_of<Real, true>(p) : chains_of<Real, false>(p);
}

/// x without the bits behind the point.
/// Domain:    |x| < 2^51, or NaN
DRIFTBOUND_SIMD_INLINE inline Doubles cut(Doubles x) {
  const Doubles magic(0x1p52), size = magnitude(x), rounded = (size + magic) - magic;
  return with_sign_of(where(rounded > size, rounded - Doubles(1.0), rounded), x);
}

/// The power of two below or equal to |x|; 0 for x = 0.
/// Domain:    normal numbers and 0
DRIFTBOUND_SIMD_INLINE inline Doubles power_of(Doubles x) {
  return simd::bits_as<double>(bits_of(x) & (std::int64_t{0x7ff} << 52));
}

/// c after the products [first, last) of the list are added in one step; infinite, and NaN after the next step, beyond
/// float32.
template <bool by_lane>
DRIFTBOUND_SIMD_INLINE inline Doubles step(const UnitParts& p, Doubles c, std::size_t first, std::size_t last) {
  const Doubles lowest(0x1p-126);
  Doubles largest = larger(power_of(c), lowest);
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t k = p.terms[i];
    largest = larger(factor<Doubles, by_lane>(p.a_power, k) * Doubles::load(p.b_power + k * sum_lanes), largest);
  }
  const Doubles scale = Doubles(p.fraction_unit) / largest;
  Doubles sum = cut(c * scale);
  for (std::size_t i = first; i < last; ++i) {
    const std::size_t k = p.terms[i];
    sum += cut(factor<Doubles, by_lane>(p.a, k) * Doubles::load(p.b + k * sum_lanes) * scale);
  }
  const Doubles exact = sum * (largest * Doubles(1.0 / p.fraction_unit));
  const Doubles power = larger(power_of(exact), lowest);
  const Doubles result = cut(exact * (Doubles(p.sum_unit) / power)) * (power * Doubles(1.0 / p.sum_unit));
  return where(magnitude(result) < Doubles(0x1p128), result, result * Doubles(0x1p1000));
}

template <bool by_lane>
void add_steps(const UnitParts& p) {
  std::size_t i = 0;
  for (std::size_t part = 0; part < p.parts; ++part) {
    Doubles c =
        p.start == nullptr ? Doubles(0.0) : simd::converted<double>(simd::Vector<float, sum_lanes>::load(p.start));
    for (; i < p.ends[part];) {
      const std::size_t last = i + p.block < p.ends[part] ? i + p.block : p.ends[part];
      c = step<by_lane>(p, c, i, last);
      i = last;
    }
    simd::converted<float>(c).store(p.sums + part * sum_lanes);
  }
}

void units(const UnitParts& p) {
  p.a_by_lane ? add_steps<true>(p) : add_steps<false>(p);
}

}  // namespace

const ScheduledKernels DRIFTBOUND_SIMD_NAME(scheduled) = {DRIFTBOUND_SIMD_TARGET_NAME, &chains<float>, &chains<double>,
                                                          &units};

}  // namespace driftbound::linalg

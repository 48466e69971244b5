// Sums in a declared order (trace/arithmetic.hpp), the same bits on host and device. A compiler that fused a
// multiplication with an addition of its own accord would break them: cmake/FloatingPoint.cmake has the flags.
#pragma once

#include <cstdint>

#include "num/host_device.hpp"
#include "num/ieee.inl.hpp"

namespace driftbound::shared {

template <class Real>
DRIFTBOUND_HD Real add_product(bool fused, Real a, Real b, Real sum) {
  return fused ? ieee::fused_multiply_add(a, b, sum) : sum + a * b;
}

/// chain(first, last) is the sum of the terms first ... last - 1. Chains of `length` terms, their sums added one
/// after the other.
template <class Chain>
DRIFTBOUND_HD auto sum_of_chains(std::int64_t terms, std::int64_t length, const Chain& chain) {
  std::int64_t last = length < terms ? length : terms;
  auto sum = chain(0, last);
  while (last < terms) {
    const std::int64_t first = last;
    last = length < terms - first ? first + length : terms;
    sum += chain(first, last);
  }
  return sum;
}

/// Halves, the left one the largest power of two below the number of terms, recursively: finished sums of 2^j terms
/// wait on a stack, as the ones of a binary counter.
template <class Chain>
DRIFTBOUND_HD auto pairwise_sum(std::int64_t terms, const Chain& chain) {
  decltype(chain(0, 1)) waiting[64];
  int depth = 0;
  for (std::int64_t pair = 0; 2 * pair < terms; ++pair) {
    auto sum = chain(2 * pair, 2 * pair + 2 < terms ? 2 * pair + 2 : terms);
    for (std::int64_t carry = pair; carry % 2 == 1; carry /= 2) sum += waiting[--depth];
    waiting[depth++] = sum;
  }
  auto sum = waiting[--depth];
  while (depth > 0) sum += waiting[--depth];
  return sum;
}

/// A sum in a declared order: in chains of `chain_length` terms, or pairwise where that is 0.
/// Domain:    terms >= 1
struct OrderedSum {
  std::int64_t chain_length;

  template <class Chain>
  DRIFTBOUND_HD auto operator()(std::int64_t terms, const Chain& chain) const {
    return chain_length == 0 ? pairwise_sum(terms, chain) : sum_of_chains(terms, chain_length, chain);
  }
};

/// Chains of plain terms.
template <class Real>
struct TermChain {
  const Real* terms;
  std::int64_t stride;

  DRIFTBOUND_HD Real operator()(std::int64_t first, std::int64_t last) const {
    Real sum = terms[first * stride];
    for (std::int64_t j = first + 1; j < last; ++j) sum += terms[j * stride];
    return sum;
  }
};

/// Chains of products, the first product rounded.
template <class Real>
struct ProductChain {
  const Real* a;
  std::int64_t a_stride;
  const Real* b;
  std::int64_t b_stride;
  bool fused;

  DRIFTBOUND_HD Real operator()(std::int64_t first, std::int64_t last) const {
    Real sum = a[first * a_stride] * b[first * b_stride];
    for (std::int64_t k = first + 1; k < last; ++k) sum = add_product(fused, a[k * a_stride], b[k * b_stride], sum);
    return sum;
  }
};

}  // namespace driftbound::shared

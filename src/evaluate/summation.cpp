#include "evaluate/summation.hpp"

#include <algorithm>
#include <bit>

namespace driftbound {
namespace {

template <class Real>
Real chain(std::span<const Real> terms) {
  Real total = terms[0];
  for (const Real term : terms.subspan(1)) total += term;
  return total;
}

template <class Real>
Real pairwise(std::span<const Real> terms) {
  if (terms.size() <= 2) return chain(terms);
  const std::size_t left = std::bit_ceil(terms.size()) / 2;
  return pairwise(terms.first(left)) + pairwise(terms.subspan(left));
}

}  // namespace

std::size_t chain_length(const SummationOrder& order, std::int64_t n) {
  const std::vector<std::int64_t> lengths = chain_lengths(order, n);
  return lengths.empty() ? 0 : static_cast<std::size_t>(lengths.front());
}

template <class Real>
Real sum(std::span<const Real> terms, const SummationOrder& order) {
  if (terms.empty()) return Real(0);
  const std::size_t length = chain_length(order, static_cast<std::int64_t>(terms.size()));
  if (length == 0) return pairwise(terms);
  Real total = chain(terms.first(std::min(length, terms.size())));
  for (std::size_t first = length; first < terms.size(); first += length) {
    total += chain(terms.subspan(first, std::min(length, terms.size() - first)));
  }
  return total;
}

template float sum<float>(std::span<const float>, const SummationOrder&);
template double sum<double>(std::span<const double>, const SummationOrder&);

}  // namespace driftbound

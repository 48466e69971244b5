#include "linalg/summation.hpp"

namespace driftbound {

std::size_t chain_length(const SummationOrder& order, std::int64_t n) {
  const std::vector<std::int64_t> lengths = chain_lengths(order, n);
  return lengths.empty() ? 0 : static_cast<std::size_t>(lengths.front());
}

}  // namespace driftbound

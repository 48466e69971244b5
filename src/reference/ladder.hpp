#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "driftbound/reference/reference.hpp"
#include "num/parallel.hpp"
#include "reference/mpfr_range.hpp"

namespace driftbound {

/// Throws:    InvalidArgument
void require_valid(const PrecisionPolicy& policy);

/// Calls evaluate(bits) for rising precisions, doubling, until it returns false (nothing is open) or the limit is
/// reached; returns the last precision.
template <class Evaluate>
int climb(const PrecisionPolicy& policy, int default_bits, Evaluate evaluate) {
  int bits = std::min(policy.initial_bits > 0 ? policy.initial_bits : default_bits, policy.max_bits);
  while (evaluate(bits) && bits < policy.max_bits) bits = std::min(2 * bits, policy.max_bits);
  return bits;
}

/// How many rows go through a rung together.
struct BlockSizes {
  std::size_t smallest, largest, blocks_of_a_thread;
};
inline constexpr BlockSizes pair_block = {16, 96, 1}, ball_block = {16, 64, 4};

/// Calls evaluate(block) for blocks of rows, split over threads. No block sees another, and no row of a block another
/// row of it, so that neither changes a result.
template <class Evaluate>
void for_blocks(const std::vector<std::size_t>& rows, int threads, BlockSizes sizes, Evaluate evaluate) {
  const std::size_t wanted = sizes.blocks_of_a_thread * static_cast<std::size_t>(threads);
  const std::size_t size = std::clamp((rows.size() + wanted - 1) / wanted, sizes.smallest, sizes.largest);
  const std::size_t blocks = (rows.size() + size - 1) / size;
  parallel_for(static_cast<std::int64_t>(blocks), threads, [&](std::int64_t first, std::int64_t last) {
    const MpfrRange range;
    for (auto block = static_cast<std::size_t>(first); block < static_cast<std::size_t>(last); ++block) {
      const std::size_t begin = block * size;
      evaluate(std::span(rows).subspan(begin, std::min(size, rows.size() - begin)));
    }
  });
}

}  // namespace driftbound

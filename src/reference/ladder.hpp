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

/// Bits of the rung behind double-double: three doubles hold 159.
inline constexpr int triple_bits = 160;

/// The precisions of balls, one after the other: the one that the caller names, or triple_bits unless `wide_bits` is
/// beyond twice that, then wide_bits; and doubled from there.
class Rungs {
public:
  Rungs(const PrecisionPolicy& policy, int wide_bits) : most_(policy.max_bits), wide_(wide_bits) {
    const int first = wide_bits <= 2 * triple_bits ? triple_bits : wide_bits;
    bits_ = std::min(policy.initial_bits > 0 ? policy.initial_bits : first, most_);
    is_triple_ = policy.initial_bits == 0 && bits_ == triple_bits;
  }

  int bits() const { return bits_; }
  bool is_last() const { return bits_ == most_; }
  void climb() {
    bits_ = std::min(is_triple_ ? wide_ : 2 * bits_, most_);
    is_triple_ = false;
  }

private:
  int most_, wide_, bits_ = 0;
  bool is_triple_ = false;
};

/// Calls evaluate(bits) for rising precisions until it returns false (nothing is open) or the limit is reached; returns
/// the last precision.
template <class Evaluate>
int climb(const PrecisionPolicy& policy, int wide_bits, Evaluate evaluate) {
  Rungs rungs(policy, wide_bits);
  while (evaluate(rungs.bits()) && !rungs.is_last()) rungs.climb();
  return rungs.bits();
}

/// How many rows go through a rung together.
struct BlockSizes {
  std::size_t smallest, largest, blocks_of_a_thread;
};
inline constexpr BlockSizes double_block = {64, 64, 1}, pair_block = {16, 96, 1}, ball_block = {16, 64, 4};

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

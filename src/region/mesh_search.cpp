#include "region/mesh_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "region/narrowing.hpp"

namespace driftbound::meshing {
namespace {

/// Cells [first, last) of the lattice.
struct Block {
  Index first, last;
  std::int64_t extent(std::size_t c) const { return last[c] - first[c]; }
  bool is_cell() const { return extent(0) == 1 && extent(1) == 1 && extent(2) == 1; }
};

/// Halves it in every coordinate in which it is more than half as long as in its longest one.
void cut_block(const Block& block, std::vector<Block>& parts) {
  const std::int64_t longest = std::max({block.extent(0), block.extent(1), block.extent(2)});
  std::vector<Block> pieces = {block};
  for (std::size_t c = 0; c < 3; ++c) {
    if (block.extent(c) < 2 || 2 * block.extent(c) <= longest) continue;
    const std::size_t count = pieces.size();
    for (std::size_t p = 0; p < count; ++p) {
      Block upper = pieces[p];
      const std::int64_t middle = upper.first[c] + upper.extent(c) / 2;
      upper.first[c] = pieces[p].last[c] = middle;
      pieces.push_back(upper);
    }
  }
  parts.insert(parts.end(), pieces.begin(), pieces.end());
}

Boxes boxes_of(const Lattice& lattice, const std::vector<Block>& blocks) {
  Boxes boxes{.dimension = 3, .lower = {}, .upper = {}};
  for (const Block& block : blocks) {
    std::array<double, 3> lower{}, upper{};
    for (std::size_t c = 0; c < 3; ++c) {
      lower[c] = lattice.coordinate(c, block.first[c]);
      upper[c] = lattice.coordinate(c, block.last[c]);
    }
    boxes.add(lower, upper);
  }
  return boxes;
}

constexpr std::size_t blocks_at_once = 16384;

}  // namespace

FoundCells cells_with_surface(const Lattice& lattice, const RegionEvaluator& evaluator, const Report& report) {
  FoundCells found;
  std::vector<Block> front = {{{0, 0, 0}, lattice.cells}};
  region::Narrowing narrowing(evaluator, boxes_of(lattice, front));
  while (!front.empty()) {
    std::vector<Block> next;
    const bool is_last = std::all_of(front.begin(), front.end(), [](const Block& block) { return block.is_cell(); });
    for (std::size_t first = 0; first < front.size(); first += blocks_at_once) {
      const std::size_t last = std::min(front.size(), first + blocks_at_once);
      const std::vector<Block> some(front.begin() + static_cast<std::ptrdiff_t>(first),
                                    front.begin() + static_cast<std::ptrdiff_t>(last));
      const Ranges ranges = evaluator.ranges(boxes_of(lattice, some));
      found.boxes += static_cast<std::int64_t>(some.size());
      narrowing.take(ranges);
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (ranges.sign[i] != RegionSign::unknown) continue;
        if (some[i].is_cell())
          found.cells.push_back(some[i].first);
        else
          cut_block(some[i], next);
      }
      report(static_cast<std::int64_t>(last), static_cast<std::int64_t>(front.size()));
    }
    double all = 1.0;  // blocks of this size
    for (std::size_t c = 0; c < 3; ++c)
      all *= std::ceil(static_cast<double>(lattice.cells[c]) / static_cast<double>(front.front().extent(c)));
    narrowing.check(all, "mesh", is_last ? ", or smaller cells" : "");
    front = std::move(next);
  }
  std::sort(found.cells.begin(), found.cells.end());
  return found;
}

}  // namespace driftbound::meshing

#include "driftbound/region/grid_cells.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {

/// Cells [first, last).
struct GridCells::Block {
  Place first, last;
  std::size_t extent(std::size_t c) const { return last[c] - first[c]; }
  bool is_cell() const { return extent(0) == 1 && extent(1) == 1 && extent(2) == 1; }

  void halve(std::vector<Block>& parts) const {
    std::size_t longest = 0;
    for (std::size_t c = 1; c < 3; ++c)
      if (extent(c) > extent(longest)) longest = c;
    Block lower = *this, upper = *this;
    lower.last[longest] = upper.first[longest] = first[longest] + extent(longest) / 2;
    parts.push_back(lower);
    parts.push_back(upper);
  }
};

GridCells::GridCells(std::array<std::vector<double>, 3> coordinates) : coordinates_(std::move(coordinates)) {
  for (const std::vector<double>& line : coordinates_)
    if (line.size() < 2 || !std::is_sorted(line.begin(), line.end()))
      throw InvalidArgument("grid: at least two points are needed in every coordinate, in ascending order");
  signs_.assign(extent(0) * extent(1) * extent(2), 0);
}

void GridCells::set(const Block& block, RegionSign sign) {
  for (std::size_t k = block.first[2]; k < block.last[2]; ++k)
    for (std::size_t j = block.first[1]; j < block.last[1]; ++j)
      for (std::size_t i = block.first[0]; i < block.last[0]; ++i)
        signs_[number_of(i, j, k)] = static_cast<std::int8_t>(sign);
}

void GridCells::find_signs(const RegionEvaluator& evaluator, const Octree* octree,
                           const std::function<bool()>& goes_on) {
  constexpr std::size_t blocks_at_once = 16384;
  std::vector<Block> open = {{{0, 0, 0}, {extent(0), extent(1), extent(2)}}};
  while (!open.empty()) {
    if (goes_on && !goes_on()) throw Interrupted("interrupted");
    const std::size_t count = std::min(open.size(), blocks_at_once);
    const std::vector<Block> some(open.end() - static_cast<std::ptrdiff_t>(count), open.end());
    open.resize(open.size() - count);
    std::vector<Block> enclosed;
    Boxes boxes{.dimension = 3, .lower = {}, .upper = {}};
    for (const Block& block : some) {
      Box box{std::vector<double>(3), std::vector<double>(3)};
      for (std::size_t c = 0; c < 3; ++c) {
        box.lower[c] = coordinates_[c][block.first[c]];
        box.upper[c] = coordinates_[c][block.last[c]];
      }
      const RegionSign by_tree = octree != nullptr ? octree->sign_over(box) : RegionSign::unknown;
      if (by_tree != RegionSign::unknown) {
        set(block, by_tree);
        continue;
      }
      enclosed.push_back(block);
      boxes.add(box.lower, box.upper);
    }
    const Ranges ranges = evaluator.ranges(boxes);
    for (std::size_t i = 0; i < enclosed.size(); ++i) {
      if (ranges.sign[i] != RegionSign::unknown)
        set(enclosed[i], ranges.sign[i]);
      else if (!enclosed[i].is_cell())
        enclosed[i].halve(open);
    }
  }
}

bool GridCells::is_at_unknown(const Place& point) const {
  const auto from = [&](std::size_t c) { return point[c] == 0 ? 0 : point[c] - 1; };
  const auto to = [&](std::size_t c) { return std::min(point[c] + 1, extent(c)); };
  for (std::size_t k = from(2); k < to(2); ++k)
    for (std::size_t j = from(1); j < to(1); ++j)
      for (std::size_t i = from(0); i < to(0); ++i)
        if (signs_[number_of(i, j, k)] == 0) return true;
  return false;
}

std::vector<std::int8_t> GridCells::corners(std::span<const std::int8_t> point_signs) const {
  constexpr auto undecided = static_cast<std::int8_t>(Sign::undecided);
  const std::size_t nx = coordinates_[0].size(), ny = coordinates_[1].size();
  if (point_signs.size() != nx * ny * coordinates_[2].size())
    throw InvalidArgument("grid: " + std::to_string(point_signs.size()) + " signs for " +
                          std::to_string(nx * ny * coordinates_[2].size()) + " points");
  std::vector<std::int8_t> cells;
  cells.reserve(size());
  const auto at = [&](std::size_t i, std::size_t j, std::size_t k) { return point_signs[(k * ny + j) * nx + i]; };
  for (std::size_t k = 0; k < extent(2); ++k)
    for (std::size_t j = 0; j < extent(1); ++j)
      for (std::size_t i = 0; i < extent(0); ++i) {
        std::int8_t all = at(i, j, k);
        for (std::size_t corner = 1; corner < 8; ++corner) {
          const std::int8_t here = at(i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2));
          if (here == undecided) all = undecided;
          if (all != undecided && here != all) all = 0;
        }
        cells.push_back(all);
      }
  return cells;
}

std::vector<std::int8_t> GridCells::states(std::span<const std::int8_t> corners) const {
  if (corners.size() != size()) throw InvalidArgument("grid: the signs of corners are those of other cells");
  std::vector<std::int8_t> states;
  states.reserve(size());
  for (std::size_t i = 0; i < size(); ++i)
    states.push_back(signs_[i] != 0 || corners[i] == 0 ? signs_[i] : static_cast<std::int8_t>(Sign::undecided));
  return states;
}

}  // namespace driftbound

#include "region/mesh_lattice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "driftbound/num/errors.hpp"

namespace driftbound::meshing {
namespace {

/// Units are this much finer than the sides of the box.
constexpr int bits_of_a_side = 33;
constexpr int most_fraction_bits = 15, fewest_fraction_bits = 6;
/// How far the lattice goes beyond the box, in units: before it, and in all. What is before differs by coordinate,
/// without simple ratios, and the whole is more than all three together: corners of cells do not lie on planes whose
/// coefficients are small integers. With most_cells it is less than 2^-20 of a side.
constexpr std::array<double, 3> units_before = {613.0, 1021.0, 1493.0};
constexpr double units_beyond = 3301.0;

void check_side(std::size_t axis, double lower, double upper) {
  constexpr double limit = std::numeric_limits<float>::max();
  const auto complain = [&](const char* what) {
    throw InvalidArgument(fmt::format("mesh: coordinate {} of the box is {}:{}, {}", axis, lower, upper, what));
  };
  if (!std::isfinite(lower) || !std::isfinite(upper)) complain("which is not finite; write two numbers");
  if (lower > upper) complain("which is reversed; write the smaller number first");
  if (lower == upper) complain("which is empty; a surface needs room in every coordinate");
  if (std::fabs(lower) > limit || std::fabs(upper) > limit) complain("beyond the largest float32 number");
  if (!(upper - lower > 0x1p-100)) complain("narrower than 2^-100; scale the network's input");
}

}  // namespace

double Lattice::coordinate(std::size_t axis, std::int64_t i) const {
  return std::ldexp(static_cast<double>(first[axis] + i * step[axis]), unit[axis]);
}

double Lattice::cell_side(std::size_t axis) const {
  return std::ldexp(static_cast<double>(step[axis]), unit[axis]);
}

Box Lattice::box() const {
  Box box;
  for (std::size_t c = 0; c < 3; ++c) {
    box.lower.push_back(coordinate(c, 0));
    box.upper.push_back(coordinate(c, cells[c]));
  }
  return box;
}

Lattice lattice_of(const Box& box, double cell) {
  if (box.lower.size() != 3 || box.upper.size() != 3)
    throw InvalidArgument(fmt::format("mesh: a box of three coordinates is needed, this one has {}", box.lower.size()));
  double longest = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    check_side(c, box.lower[c], box.upper[c]);
    longest = std::max(longest, box.upper[c] - box.lower[c]);
  }
  if (cell == 0.0) cell = longest / 128;
  if (!(cell > 0.0) || !std::isfinite(cell))
    throw InvalidArgument(fmt::format("mesh: the side of a cell is {}; it must be a positive number", cell));
  Lattice lattice;
  lattice.fraction_bits = most_fraction_bits;
  for (std::size_t c = 0; c < 3; ++c) {
    const double cells = std::ceil((box.upper[c] - box.lower[c]) / cell);
    if (!(cells <= static_cast<double>(most_cells)))
      throw InvalidArgument(
          fmt::format("mesh: cells of {} divide coordinate {} of the box into {} parts; at most {} are "
                      "possible: use larger cells, or a smaller box",
                      cell, c, cells, most_cells));
    lattice.cells[c] = static_cast<std::int64_t>(cells) | 1;
    lattice.unit[c] = std::ilogb(box.upper[c] - box.lower[c]) - bits_of_a_side;
    const double first = std::floor(std::ldexp(box.lower[c], -lattice.unit[c])) - units_before[c];
    const double last = std::ceil(std::ldexp(box.upper[c], -lattice.unit[c])) + (units_beyond - units_before[c]);
    int bits = -1;
    if (std::fmax(std::fabs(first), std::fabs(last)) < 0x1p51) {
      lattice.first[c] = static_cast<std::int64_t>(first);
      lattice.step[c] = (static_cast<std::int64_t>(last) - lattice.first[c] + lattice.cells[c] - 1) / lattice.cells[c];
      const std::int64_t end = lattice.first[c] + lattice.cells[c] * lattice.step[c];
      bits =
          51 - std::ilogb(static_cast<double>(std::max({std::abs(lattice.first[c]), std::abs(end), std::int64_t{1}})));
    }
    if (bits < fewest_fraction_bits)
      throw InvalidArgument(fmt::format("mesh: coordinate {} of the box, {}:{}, is too narrow for its distance from 0",
                                        c, box.lower[c], box.upper[c]));
    lattice.fraction_bits = std::min(lattice.fraction_bits, bits);
  }
  return lattice;
}

}  // namespace driftbound::meshing

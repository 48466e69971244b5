#pragma once

#include <array>
#include <cstdint>

#include "driftbound/bounds/box.hpp"

namespace driftbound::meshing {

using Index = std::array<std::int64_t, 3>;

/// In one coordinate.
inline constexpr std::int64_t most_cells = 4096;

/// The lattice of a mesh. Corners, and points that divide edges between them into 2^fraction_bits equal parts, are
/// doubles: multiples of 2^unit with at most 53 bits.
struct Lattice {
  Index cells{};
  Index first{}, step{};  ///< in units of 2^unit
  std::array<int, 3> unit{};
  int fraction_bits = 0;

  double coordinate(std::size_t axis, std::int64_t i) const;
  double cell_side(std::size_t axis) const;
  Box box() const;
};

/// Cells of at most this side that cover the box, an odd number in every coordinate: kinks at simple fractions of the
/// box, where f is often 0 or symmetric, do not lie on the lattice. The box grows by less than 2^-20 of its sides, by
/// another share in every coordinate: planes such as x = y, and corners of solids on the sides of the box, do not lie
/// on the lattice either.
/// Throws:    InvalidArgument
Lattice lattice_of(const Box& box, double cell);

}  // namespace driftbound::meshing

#pragma once

#include <map>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "implicit/slope_theorems.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::implicit {

/// Difference quotients in t over a piece, one interval an element; empty: the value does not change there.
struct Slopes {
  std::vector<double> middle;
  std::vector<double> radius;  ///< infinite: nothing is known

  bool empty() const { return middle.empty(); }
  Interval at(std::size_t i) const;
};

/// Right matrices of products that are the same for all samples, packed; by node.
struct PackedConstant {
  PackedMatrices<double> middle, magnitude;
};
using PackedConstants = std::map<std::size_t, PackedConstant>;

/// One entry for every product with a constant right operand whose values are known exactly.
PackedConstants pack_constants(const Program& program, const bounds::Shadow& shadow,
                               const bounds::Deviation& deviation);

/// Slopes of every value of a network whose input moves at slope 1: for all s, t of a row's piece v(s) - v(t) lies in
/// S (s - t). The shadow stands at one point of every piece, `half_widths` (one a row) away from its ends at most.
/// Guarantee: proven
/// Source:    docs/theory.md T-121
std::vector<Slopes> slopes_of(const Program& program, const bounds::Shadow& shadow, const bounds::Deviation& deviation,
                              const std::vector<double>& half_widths, const PackedConstants& constants);

}  // namespace driftbound::implicit

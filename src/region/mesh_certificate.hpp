#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/region/mesh.hpp"
#include "driftbound/region/range.hpp"
#include "region/mesh_function.hpp"
#include "region/mesh_search.hpp"
#include "region/mesh_turned.hpp"

namespace driftbound::meshing {

/// Intervals that hold a generalised gradient.
struct GradientBox {
  std::array<double, 3> lower{}, upper{};
};

/// Lower bound of the smallest p . d over all p of a box; NaN and infinities give -infinity.
/// Source:    docs/theory.md T-161
double smallest_product(const GradientBox& gradients, const std::array<double, 3>& direction);
double smallest_product(const std::array<double, 3>& gradient, const std::array<double, 3>& direction);

/// A direction of length 1 at most in which f and g grow, and how fast f does, at least.
struct Ascent {
  std::array<double, 3> direction{};
  double rate = 0.0;
};

/// Gradients of g, and whether some may be 0: where g itself is not.
struct FunctionGradients {
  std::span<const std::array<double, 3>> gradients;
  bool may_vanish = false;
};

/// Looks for a direction d with p . d > 0 for every p of the box and every one of the gradients that does not vanish;
/// coordinates that are `fixed` stay 0. None found proves nothing.
/// Guarantee: proven, where one is found
std::optional<Ascent> common_ascent(const GradientBox& box, const FunctionGradients& function,
                                    const std::array<bool, 3>& fixed);

/// The same for an enclosure of the products of a gradient with the vectors of a turned basis. `touched`: sides of the box
/// along which the direction must lie.
/// Guarantee: proven, where one is found
std::optional<Ascent> common_ascent(const Basis& basis, const GradientBox& box, const FunctionGradients& function,
                                    const std::array<bool, 3>& touched);

/// Largest |f - g| over a cell: half the widths of the gradient's components times the sides, and `at_corners`.
/// Source:    docs/theory.md T-163
double deviation_over(const GradientBox& gradients, const std::array<double, 3>& sides, double at_corners);

struct Certificate {
  std::vector<bool> is_uncertain;       ///< of each cell
  std::vector<double> rate, deviation;  ///< of each cell; 0 and infinity where uncertain
  std::int64_t boxes = 0;
};

/// Source:    docs/theory.md T-160, T-161
Certificate certify_cells(const Lattice& lattice, const SurfaceCells& cells, const CellIndex& index,
                          std::span<const double> value_bounds, const RegionEvaluator& evaluator,
                          const TurnedEvaluators& turned, int depth, int threads, const Report& report);

}  // namespace driftbound::meshing

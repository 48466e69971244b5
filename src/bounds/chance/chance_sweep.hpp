#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/adjoint/sweep.hpp"
#include "bounds/sums/term_patterns.hpp"
#include "bounds/theorems/chance.hpp"

namespace driftbound::bounds {

// End-to-end bounds with rounding errors modelled as random: "adjoint/probabilistic" (docs/theory.md T-74) and the
// estimate "adjoint/statistical" (T-75).

/// The factors by which the root of the weighted sum of squares of the random errors is multiplied; 0: this bound is
/// not requested.
struct ChanceFactors {
  double martingale = 0.0;    ///< lambda of T-74
  double random_order = 0.0;  ///< sigmas of T-75
  bool any() const { return martingale > 0.0 || random_order > 0.0; }
};

/// Bounds (or estimates) of |c.(run - shadow)| of one target with rounding errors modelled as random; one entry per
/// row.
struct ChanceBound {
  std::vector<double> total;      ///< infinite where a pattern of terms contradicts the model
  std::vector<double> remainder;  ///< part of `total`: second-order remainders, including errors of constants
  /// Part of `remainder` from uncovered elements, whose remainder exceeds |J| E (K of T-75).
  std::vector<double> unattributed;
  /// Part of `total` from the errors modelled as random. Empty if constants have errors, which are in `remainder`.
  std::vector<double> spread;
  std::vector<TermPattern> patterns;  ///< the first pattern other than `none` among the sums that the target depends on
};

/// Returns unseen + r (remainder - unseen) for a row, with r = (3 spread + unseen + rest) / local and `rest` the part
/// of the total other than spread and remainder. Returns the remainder unchanged if r >= 1, if `spread` is empty or if
/// the total is not finite. `local`: the contribution of local errors to the any-order bound.
/// Source:    docs/theory.md T-75
double remainder_at_smaller_radii(double local, const ChanceBound& estimate, std::size_t row);

/// Replaces a row's remainder by remainder_at_smaller_radii() and reduces the total by the difference.
/// Source:    docs/theory.md T-75
void estimate_remainder(double local, ChanceBound& estimate, std::size_t row);

/// Replaces a row's remainder by `by_chance`, the remainder at radii from random sign vectors, and reduces the total by
/// the difference. Does nothing if the remainder is at most 5 % of the total, the total is infinite or `by_chance` is
/// not smaller.
/// Source:    docs/theory.md T-75
void take_remainder_by_chance(double by_chance, ChanceBound& estimate, std::size_t row);

struct ChanceBounds {
  std::optional<ChanceBound> martingale, random_order;
};

/// Bounds the difference of any run from the shadow for several targets. The squares of the random errors add up; all
/// other errors are charged as in T-71, except that the estimate of T-75 uses smaller remainders.
/// Shapes:    returns one entry per direction; `local`: per direction and row, the contribution of local errors to the
///            any-order bound; `narrow`: the steps of a NarrowedProgram, null for other programs
/// Source:    docs/theory.md T-74, T-75
std::vector<ChanceBounds> chance_bounds(const Program& program, const Shadow& shadow, const Deviation& any_order,
                                        std::span<const Direction> directions,
                                        std::span<const std::vector<double>> local, const ChanceFactors& factors,
                                        const Setting& setting, const NarrowSteps* narrow = nullptr);

}  // namespace driftbound::bounds

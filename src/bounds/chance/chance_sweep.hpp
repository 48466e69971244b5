#pragma once

#include <optional>
#include <span>
#include <vector>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/adjoint/sweep.hpp"
#include "bounds/sums/term_patterns.hpp"
#include "bounds/theorems/chance.hpp"

namespace driftbound::bounds {

/// How many roots of summed squares a target's error may be; 0: not asked for.
struct ChanceFactors {
  double martingale = 0.0;    ///< lambda of T-74
  double random_order = 0.0;  ///< sigmas of T-75
  bool any() const { return martingale > 0.0 || random_order > 0.0; }
};

/// Bounds of |c.(run - shadow)| of one target where roundings are left to chance, one entry a sample.
struct ChanceBound {
  std::vector<double> total;          ///< infinite where a pattern says that chance does not rule
  std::vector<double> remainder;      ///< curvature, kinks and fixed operands in it
  std::vector<double> unattributed;   ///< of the remainder: of elements that it moves by more than their slopes do
  std::vector<double> spread;         ///< what is left to chance in it; empty where fixed operands are in the remainder
  std::vector<TermPattern> patterns;  ///< of sums that the target depends on
};

/// What is left of a row's remainder where radii are taken for smaller: what is unseen, and of all else three times the
/// share of the worst case that the estimate has in local errors, with what is unseen, or all of it.
/// Shapes:    `local` of any order
/// Source:    docs/theory.md T-75
double remainder_at_smaller_radii(double local, const ChanceBound& estimate, std::size_t row);

/// Leaves that of a row's remainder.
/// Shapes:    `local` of any order
/// Source:    docs/theory.md T-75
void estimate_remainder(double local, ChanceBound& estimate, std::size_t row);

/// Leaves of a row's remainder what it is at radii that chance gives, where the remainder is large and that is less.
/// Source:    docs/theory.md T-75
void take_remainder_by_chance(double by_chance, ChanceBound& estimate, std::size_t row);

struct ChanceBounds {
  std::optional<ChanceBound> martingale, random_order;
};

/// Any run against the shadow. The rounding errors of the model add up by their squares; all else is charged as T-71
/// has it, but for remainders of estimates.
/// Shapes:    one entry a direction; `local`: what local errors make up of the worst case, one entry a sample;
///            `narrow`: of a narrowed program, null of others
/// Source:    docs/theory.md T-74, T-75
std::vector<ChanceBounds> chance_bounds(const Program& program, const Shadow& shadow, const Deviation& any_order,
                                        std::span<const Direction> directions,
                                        std::span<const std::vector<double>> local, const ChanceFactors& factors,
                                        const Setting& setting, const NarrowSteps* narrow = nullptr);

}  // namespace driftbound::bounds

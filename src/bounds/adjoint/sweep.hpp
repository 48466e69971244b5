#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::bounds {

// The adjoint sweep in double, with a bound of its own rounding errors, and the error bound of a target that it gives
// (docs/theory.md T-60, T-64).

/// A term of a target: a factor times one element of a value, the same element in every row.
struct Seed {
  ValueId value = 0;
  std::int64_t element = 0;  ///< within a row
  double factor = 1.0;
};

/// c.x for the target c with these seeds, where x_of(seed) is an enclosure of the seed's element.
template <class EnclosureOf>
Ball enclosure_of(const std::vector<Seed>& seeds, const EnclosureOf& x_of) {
  Ball sum;
  for (const Seed& seed : seeds) sum = seed.factor > 0.0 ? sum + x_of(seed) : sum - x_of(seed);
  return sum;
}

/// The vectors c of T-60, for the values at which c is not 0.
using Direction = std::vector<std::pair<ValueId, std::vector<double>>>;
/// Returns the direction of the target that is the sum of the seeds.
Direction direction_of(const Program& program, const Shadow& shadow, const std::vector<Seed>& seeds);

/// An upper bound of |c.Delta| for every row, and its parts.
struct Certificate {
  std::vector<double> total;                ///< per row; infinite: not certifiable
  std::vector<double> local;                ///< per row: sum |d|.sigma, the contribution of local errors
  std::vector<double> remainder;            ///< per row: sum |d|.kappa, the contribution of remainders
  std::vector<std::vector<double>> layers;  ///< [node of the original graph][row]: |d|.(sigma + kappa)
};

/// Computes the adjoint of c and charges it with the local errors and remainders of every deviation. Deviations with
/// the same slopes share one adjoint.
/// Shapes:    returns one certificate per deviation; `adjoints`, if not null, receives the adjoint for the first
///            deviation: by value, empty for values that c does not depend on and for graph inputs
/// Guarantee: that of the deviations
/// Source:    docs/theory.md T-60, T-64
std::vector<Certificate> sweep(const Program& program, const Shadow& shadow, std::span<const Deviation> deviations,
                               const Direction& c, const Setting& setting,
                               std::vector<std::vector<double>>* adjoints = nullptr);

}  // namespace driftbound::bounds

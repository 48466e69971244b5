#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bounds/adjoint/radii.hpp"

namespace driftbound::bounds {

/// An element of every row of a value, and its factor.
struct Seed {
  ValueId value = 0;
  std::int64_t element = 0;  ///< within a row
  double factor = 1.0;
};

/// The vectors c of T-60, by value.
using Direction = std::vector<std::pair<ValueId, std::vector<double>>>;
Direction direction_of(const Program& program, const Shadow& shadow, const std::vector<Seed>& seeds);

/// An upper bound of |c.Delta| for every row, and what it is made of.
struct Certificate {
  std::vector<double> total;                ///< per row; infinite: not certifiable
  std::vector<double> local;                ///< the part of it that local errors make up …
  std::vector<double> remainder;            ///< … and curvature, kinks and fixed operands
  std::vector<std::vector<double>> layers;  ///< [node of the original graph][row]: |d|.(sigma + kappa)
};

/// One adjoint for all trajectories of the same slopes.
/// Shapes:    one certificate a deviation; `adjoints` (where asked for) those of the first, by value, empty where c
/// does
///            not depend on it
/// Guarantee: as the deviations
/// Source:    docs/theory.md T-60, T-64
std::vector<Certificate> sweep(const Program& program, const Shadow& shadow, std::span<const Deviation> deviations,
                               const Direction& c, const Setting& setting,
                               std::vector<std::vector<double>>* adjoints = nullptr);

}  // namespace driftbound::bounds

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "implicit/isolation.hpp"

namespace driftbound::implicit {

/// Zeros of g, each the only one in a run on which g is strictly monotone and has a zero, enclosed in a few units in
/// the last place of t where the points are precise enough.
/// Source:    docs/theory.md T-122
struct Narrowed {
  std::vector<Interval> zeros;
  std::int64_t pieces = 0, points = 0;
};
Narrowed narrow(const PieceEvaluator& evaluator, const PointValues& points, std::span<const Run> runs, int threads);

}  // namespace driftbound::implicit

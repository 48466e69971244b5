#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/implicit/segment.hpp"
#include "implicit/piece_evaluator.hpp"
#include "implicit/point_values.hpp"

namespace driftbound::implicit {

/// What is certain of g all over a closed piece.
enum class Course {
  negative,
  positive,
  rising,  ///< strictly; at most one zero
  falling,
  zero,  ///< g is exactly 0
  open   ///< nothing of these
};

/// Neighbouring pieces of one course.
struct Run {
  Piece piece;
  Course course = Course::open;
  Interval slope;  ///< of g all over the run; whole: g may jump
};

struct Isolation {
  std::vector<Run> runs;  ///< from 0 to 1, each starting where the last one ends
  std::int64_t pieces = 0, points = 0;
};

/// Cuts [0, 1] until the course of g is known everywhere, or cutting does not help any more.
/// Throws:    Interrupted
/// Source:    docs/theory.md T-122
Isolation isolate(const PieceEvaluator& evaluator, const PointValues& points, const SegmentOptions& options);

}  // namespace driftbound::implicit

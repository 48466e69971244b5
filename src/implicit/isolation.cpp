#include "implicit/isolation.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

/// Enclosures this much below the largest value seen say no more in double.
constexpr double resolution = 0x1p-50;
constexpr std::size_t pieces_at_a_time = 512, points_at_a_time = 64;  // a fraction of a second's work

/// Whether g changes less over the piece than it is uncertain at its middle.
bool is_exhausted(const PieceEnclosure& enclosure, const Piece& piece, double scale) {
  const double moves = enclosure.slope.magnitude().value() * (piece.upper - piece.lower);
  const double uncertain = enclosure.value.width().value();
  return std::isfinite(uncertain) && moves <= std::max(uncertain / 8.0, resolution * scale);
}

std::optional<Course> course_of(const Interval& range, const Interval& slope) {
  const Sign sign = sign_of(range);
  if (sign == Sign::negative) return Course::negative;
  if (sign == Sign::positive) return Course::positive;
  if (sign == Sign::zero) return Course::zero;
  if (slope.lower() > 0.0) return Course::rising;
  if (slope.upper() < 0.0) return Course::falling;
  return std::nullopt;
}

class Isolating {
public:
  Isolating(const PieceEvaluator& evaluator, const PointValues& points, const SegmentOptions& options)
      : evaluator_(evaluator), points_(points), options_(options) {}

  Isolation operator()() {
    std::vector<Piece> pieces = {{0.0, 1.0}};
    while (!pieces.empty()) {
      const auto left = static_cast<std::size_t>(std::max<std::int64_t>(options_.most_pieces - result_.pieces, 0));
      for (std::size_t i = left; i < pieces.size(); ++i) leave_open(pieces[i], Interval::whole());
      pieces.resize(std::min(pieces.size(), left));
      pieces = generation(pieces);
      look_again();
    }
    std::sort(result_.runs.begin(), result_.runs.end(),
              [](const Run& a, const Run& b) { return a.piece.lower < b.piece.lower; });
    merge();
    return std::move(result_);
  }

private:
  /// What is left to look at after the pieces, cut in two.
  std::vector<Piece> generation(std::span<const Piece> pieces) {
    const std::vector<PieceEnclosure> enclosures = enclose(pieces);
    for (const PieceEnclosure& enclosure : enclosures) {
      const Magnitude size = enclosure.value.magnitude();
      if (size.is_finite()) scale_ = std::max(scale_, size.value());
    }
    std::vector<Piece> next;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const PieceEnclosure& enclosure = enclosures[i];
      const double middle = enclosure.middle;
      const bool is_narrow = piece.upper - piece.lower <= options_.narrowest;
      if (const auto course = course_of(enclosure.range, enclosure.slope)) {
        result_.runs.push_back({piece, *course, enclosure.slope});
      } else if (is_exhausted(enclosure, piece, scale_)) {
        exhausted_.emplace_back(piece, enclosure);
      } else if (is_narrow || !(piece.lower < middle && middle < piece.upper)) {
        leave_open(piece, enclosure.slope);
      } else {
        next.push_back({piece.lower, middle});
        next.push_back({middle, piece.upper});
      }
    }
    return next;
  }

  /// Pieces over which the value at the middle decides, by a more precise one.
  void look_again() {
    std::vector<double> middles;
    for (const auto& [piece, enclosure] : exhausted_) middles.push_back(enclosure.middle);
    const std::vector<Interval> values = precise(middles);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& [piece, enclosure] = exhausted_[i];
      const Interval offset = Interval(piece.lower, piece.upper) - Interval(enclosure.middle);
      const auto course = course_of(values[i] + enclosure.slope * offset, enclosure.slope);
      result_.runs.push_back({piece, course.value_or(Course::open), enclosure.slope});
    }
    exhausted_.clear();
  }

  std::vector<PieceEnclosure> enclose(std::span<const Piece> pieces) {
    std::vector<PieceEnclosure> enclosures;
    for (std::size_t first = 0; first < pieces.size(); first += pieces_at_a_time) {
      const auto some = pieces.subspan(first, std::min(pieces_at_a_time, pieces.size() - first));
      for (PieceEnclosure& enclosure : evaluator_(some, options_.threads)) enclosures.push_back(std::move(enclosure));
      result_.pieces += static_cast<std::int64_t>(some.size());
      go_on();
    }
    return enclosures;
  }

  std::vector<Interval> precise(std::span<const double> t) {
    std::vector<Interval> values;
    for (std::size_t first = 0; first < t.size(); first += points_at_a_time) {
      const auto some = t.subspan(first, std::min(points_at_a_time, t.size() - first));
      for (const Interval& value : points_.precise(some)) values.push_back(value);
      result_.points += static_cast<std::int64_t>(some.size());
      go_on();
    }
    return values;
  }

  void go_on() const {
    if (options_.progress && !options_.progress(result_.pieces)) throw Interrupted("interrupted");
  }

  void leave_open(const Piece& piece, const Interval& slope) { result_.runs.push_back({piece, Course::open, slope}); }

  void merge() {
    std::vector<Run> merged;
    for (const Run& run : result_.runs) {
      if (!merged.empty() && merged.back().course == run.course) {
        merged.back().piece.upper = run.piece.upper;
        merged.back().slope = hull(merged.back().slope, run.slope);
      } else {
        merged.push_back(run);
      }
    }
    result_.runs = std::move(merged);
  }

  const PieceEvaluator& evaluator_;
  const PointValues& points_;
  const SegmentOptions& options_;
  double scale_ = 0.0;
  std::vector<std::pair<Piece, PieceEnclosure>> exhausted_;
  Isolation result_;
};

}  // namespace

Isolation isolate(const PieceEvaluator& evaluator, const PointValues& points, const SegmentOptions& options) {
  return Isolating(evaluator, points, options)();
}

}  // namespace driftbound::implicit

#include "driftbound/implicit/segment.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/line_graph.hpp"
#include "implicit/narrowing.hpp"

namespace driftbound {
namespace implicit {
namespace {

void require(const SegmentOptions& options, std::span<const double> a, std::span<const double> b) {
  const auto fail = [](const std::string& message) { throw InvalidArgument("segment: " + message); };
  if (a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin())) fail("it is empty, its ends are equal");
  if (a.size() == 1 && b.size() == 1 && b[0] < a[0])
    fail("it is reversed; of one coordinate give the smaller end first");
  if (!(options.narrowest > 0.0)) fail("the narrowest piece must be wider than 0");
  if (options.most_pieces < 1) fail("at least one piece is needed");
}

bool is_monotone(const Run& run) {
  return run.course == Course::rising || run.course == Course::falling;
}

/// The number with the fewest binary digits strictly inside a piece of [0, 1], where functions of few digits have their
/// kinks; empty where the piece has none of up to 52.
std::optional<double> simplest_inside(double lower, double upper) {
  for (double step = 1.0; step >= 0x1p-52; step /= 2.0) {
    const double t = (std::floor(lower / step) + 1.0) * step;
    if (lower < t && t < upper) return t;
  }
  return std::nullopt;
}

/// What a run says of the sign of g at its own ends; undecided: nothing.
Sign sign_at_ends(const Run& run) {
  if (run.course == Course::negative) return Sign::negative;
  if (run.course == Course::positive) return Sign::positive;
  return run.course == Course::zero ? Sign::zero : Sign::undecided;
}

/// The sign of g next to an end of a run, on the run's side of it, where g is 0 at that end.
Sign sign_beside_zero(const Run& run, bool is_lower_end) {
  if (!is_monotone(run)) return Sign::undecided;
  return (run.course == Course::rising) == is_lower_end ? Sign::positive : Sign::negative;
}

bool differ(Sign a, Sign b) {
  return (a == Sign::negative && b == Sign::positive) || (a == Sign::positive && b == Sign::negative);
}

class Zeros {
public:
  Zeros(const Graph& line, const SegmentOptions& options)
      : options_(options),
        evaluator_(line),
        points_(line, options.max_bits, options.threads),
        isolation_(isolate(evaluator_, points_, options)) {}

  SegmentZeros operator()() {
    find_signs();
    for (std::size_t i = 0; i < runs().size(); ++i) {
      add_zero_at_lower_end(i);
      add_run(i);
    }
    add_zero_at_lower_end(runs().size());
    add_crossed();
    result_.pieces += isolation_.pieces;
    result_.points += isolation_.points;
    return std::move(result_);
  }

private:
  const std::vector<Run>& runs() const { return isolation_.runs; }
  double end(std::size_t i) const { return i < runs().size() ? runs()[i].piece.lower : runs().back().piece.upper; }

  /// Of g where runs meet, by the runs where these know.
  void find_signs() {
    signs_.assign(runs().size() + 1, Sign::undecided);
    std::vector<std::size_t> open;
    std::vector<double> t;
    for (std::size_t i = 0; i < signs_.size(); ++i) {
      if (i < runs().size()) signs_[i] = sign_at_ends(runs()[i]);
      if (i > 0 && signs_[i] == Sign::undecided) signs_[i] = sign_at_ends(runs()[i - 1]);
      if (signs_[i] != Sign::undecided) continue;
      open.push_back(i);
      t.push_back(end(i));
    }
    for (std::size_t i = 0; i < runs().size(); ++i) {
      const Run& run = runs()[i];
      const bool is_beside_stretch = (i > 0 && runs()[i - 1].course == Course::zero) ||
                                     (i + 1 < runs().size() && runs()[i + 1].course == Course::zero);
      if (run.course != Course::open || is_beside_stretch) continue;
      if (const auto inside = simplest_inside(run.piece.lower, run.piece.upper)) t.push_back(*inside);
    }
    const std::vector<Sign> found = points_.signs(t);
    result_.points += static_cast<std::int64_t>(t.size());
    for (std::size_t j = 0; j < open.size(); ++j) signs_[open[j]] = found[j];
    for (std::size_t j = open.size(); j < t.size(); ++j)
      if (found[j] == Sign::zero) inside_.push_back(t[j]);
  }

  /// A run of which nothing is known but that g may be 0 there, and the zero inside that was found, if there is one.
  void add_open(const Interval& t, Sign lower, Sign upper, bool is_continuous) {
    const auto found =
        std::find_if(inside_.begin(), inside_.end(), [&](double zero) { return t.lower() < zero && zero < t.upper(); });
    if (found == inside_.end()) {
      result_.unresolved.push_back({t, lower, upper, is_continuous && differ(lower, upper), false});
      return;
    }
    result_.zeros.push_back({Interval(*found), Crossing::unknown});
    result_.unresolved.push_back({Interval(t.lower(), *found), lower, Sign::zero, false, false});
    result_.unresolved.push_back({Interval(*found, t.upper()), Sign::zero, upper, false, false});
  }

  /// Where run `i` starts, or the last one ends.
  void add_zero_at_lower_end(std::size_t i) {
    const Run* before = i > 0 ? &runs()[i - 1] : nullptr;
    const Run* after = i < runs().size() ? &runs()[i] : nullptr;
    const auto is_stretch = [](const Run* run) { return run != nullptr && run->course == Course::zero; };
    if (signs_[i] != Sign::zero || is_stretch(before) || is_stretch(after)) return;
    Sign left = before != nullptr ? sign_beside_zero(*before, false) : Sign::undecided;
    Sign right = after != nullptr ? sign_beside_zero(*after, true) : Sign::undecided;
    if (before == nullptr) left = opposite(right);
    if (after == nullptr) right = opposite(left);
    result_.zeros.push_back({Interval(end(i)), crossing_of(left, right)});
  }

  /// At an end of the segment g passes 0 as it does inside.
  static Sign opposite(Sign sign) {
    if (sign == Sign::negative) return Sign::positive;
    return sign == Sign::positive ? Sign::negative : sign;
  }

  static Crossing crossing_of(Sign left, Sign right) {
    if (left == Sign::undecided || right == Sign::undecided) return Crossing::unknown;
    if (left == right) return Crossing::touching;
    return left == Sign::negative ? Crossing::rising : Crossing::falling;
  }

  void add_run(std::size_t i) {
    const Run& run = runs()[i];
    const Sign lower = signs_[i], upper = signs_[i + 1];
    const Interval t(run.piece.lower, run.piece.upper);
    const bool is_continuous = run.slope.is_finite();
    if (run.course == Course::zero) result_.stretches.push_back(t);
    if (run.course == Course::open) add_open(t, lower, upper, is_continuous);
    if (!is_monotone(run)) return;
    const Sign before_zero = run.course == Course::rising ? Sign::negative : Sign::positive;
    if (differ(lower, upper)) {
      crossed_.push_back(run);
    } else if (may_differ(lower, upper, before_zero)) {
      result_.unresolved.push_back({t, lower, upper, false, true});
    }
  }

  /// Whether signs that are not known leave room for a zero that is at neither end.
  static bool may_differ(Sign lower, Sign upper, Sign before_zero) {
    if (lower == Sign::undecided) return upper != before_zero && upper != Sign::zero;
    return upper == Sign::undecided && lower == before_zero;
  }

  void add_crossed() {
    const Narrowed narrowed = narrow(evaluator_, points_, crossed_, options_.threads);
    result_.pieces += narrowed.pieces;
    result_.points += narrowed.points;
    for (std::size_t i = 0; i < crossed_.size(); ++i) {
      const bool rises = crossed_[i].course == Course::rising;
      result_.zeros.push_back({narrowed.zeros[i], rises ? Crossing::rising : Crossing::falling});
    }
    std::sort(result_.zeros.begin(), result_.zeros.end(),
              [](const SegmentZero& x, const SegmentZero& y) { return x.t.lower() < y.t.lower(); });
  }

  const SegmentOptions& options_;
  const PieceEvaluator evaluator_;
  const PointValues points_;
  const Isolation isolation_;
  std::vector<Sign> signs_;     ///< where run i starts; the last one: where the last run ends
  std::vector<Run> crossed_;    ///< monotone runs with a zero inside
  std::vector<double> inside_;  ///< zeros found inside of open runs
  SegmentZeros result_;
};

}  // namespace
}  // namespace implicit

SegmentZeros zeros_on_segment(const Graph& graph, const Target& target, std::span<const double> a,
                              std::span<const double> b, const SegmentOptions& options) {
  require_sound_environment();
  const Graph line = implicit::line_graph(graph, target, options.iso, a, b);
  implicit::require(options, a, b);
  return implicit::Zeros(line, options)();
}

SegmentZeros zeros_on_segment(const SignField& field, std::span<const double> a, std::span<const double> b,
                              SegmentOptions options) {
  options.iso = field.options().iso;
  options.max_bits = field.options().max_bits;
  options.threads = field.options().threads;
  return zeros_on_segment(field.graph(), field.target(), a, b, options);
}

std::string_view name_of(Crossing crossing) {
  switch (crossing) {
    case Crossing::rising:
      return "rising";
    case Crossing::falling:
      return "falling";
    case Crossing::touching:
      return "touching";
    case Crossing::unknown:
      break;
  }
  return "unknown";
}

}  // namespace driftbound

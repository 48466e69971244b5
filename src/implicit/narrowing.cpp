#include "implicit/narrowing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "driftbound/num/directed.hpp"
#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

/// A zero and what is known of the slope around it.
struct Bracket {
  Interval t, slope;
  bool is_done = false;
};

/// Of two intervals that hold the same number.
Interval common(const Interval& a, const Interval& b) {
  return {std::max(a.lower(), b.lower()), std::min(a.upper(), b.upper())};
}

/// Two neighbouring doubles, or three: no more is asked for.
bool is_narrow(const Interval& t) {
  return next_up(next_up(t.lower())) >= t.upper();
}

class Narrowing {
public:
  Narrowing(const PieceEvaluator& evaluator, const PointValues& points, std::span<const Run> runs, int threads)
      : evaluator_(evaluator), points_(points), threads_(threads) {
    for (const Run& run : runs) brackets_.push_back({Interval(run.piece.lower, run.piece.upper), run.slope});
  }

  Narrowed operator()() {
    iterate([&](std::span<const std::size_t> open) { step_in_double(open); });
    for (Bracket& bracket : brackets_) bracket.is_done = is_narrow(bracket.t);
    iterate([&](std::span<const std::size_t> open) { step_precisely(open); });
    for (const Bracket& bracket : brackets_) result_.zeros.push_back(bracket.t);
    return std::move(result_);
  }

private:
  void iterate(const auto& step) {
    while (true) {
      std::vector<std::size_t> open;
      for (std::size_t i = 0; i < brackets_.size(); ++i) {
        if (!brackets_[i].is_done) open.push_back(i);
      }
      if (open.empty()) return;
      step(open);
    }
  }

  void step_in_double(std::span<const std::size_t> open) {
    std::vector<Piece> pieces;
    for (const std::size_t i : open) pieces.push_back({brackets_[i].t.lower(), brackets_[i].t.upper()});
    const std::vector<PieceEnclosure> enclosures = evaluator_(pieces, threads_);
    result_.pieces += static_cast<std::int64_t>(pieces.size());
    for (std::size_t j = 0; j < open.size(); ++j) {
      Bracket& bracket = brackets_[open[j]];
      bracket.slope = common(bracket.slope, enclosures[j].slope);
      cut(bracket, enclosures[j].middle, enclosures[j].value);
    }
  }

  void step_precisely(std::span<const std::size_t> open) {
    std::vector<double> middles;
    for (const std::size_t i : open) middles.push_back(brackets_[i].t.midpoint());
    const std::vector<Interval> values = points_.precise(middles);
    result_.points += static_cast<std::int64_t>(middles.size());
    for (std::size_t j = 0; j < open.size(); ++j) cut(brackets_[open[j]], middles[j], values[j]);
  }

  /// Done where it does not get much narrower.
  void cut(Bracket& bracket, double middle, const Interval& value) const {
    const double before = bracket.t.upper() - bracket.t.lower();
    if (sign_of(value) == Sign::zero)
      bracket.t = Interval(middle);
    else
      bracket.t = common(bracket.t, theorems::newton(middle, value, bracket.slope));
    const double after = bracket.t.upper() - bracket.t.lower();
    bracket.is_done = is_narrow(bracket.t) || !(after < 0.75 * before);
  }

  const PieceEvaluator& evaluator_;
  const PointValues& points_;
  const int threads_;
  std::vector<Bracket> brackets_;
  Narrowed result_;
};

}  // namespace

Narrowed narrow(const PieceEvaluator& evaluator, const PointValues& points, std::span<const Run> runs, int threads) {
  return Narrowing(evaluator, points, runs, threads)();
}

}  // namespace driftbound::implicit

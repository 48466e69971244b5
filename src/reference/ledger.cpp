#include "reference/ledger.hpp"

#include <algorithm>
#include <cmath>

#include "reference/pair_kernels.hpp"

namespace driftbound {

namespace {

constexpr int open = 0;
constexpr int hopeless = -1;

// More bits shrink the radius of the ball, not what is lost where hi + lo cannot represent its midpoint.
bool gains_from_more_bits(const MpBall& ball, const Ball& published) {
  if (ball.is_void() || !std::isfinite(published.hi)) return false;
  return ball.is_unknown() || mul_up(Scaled::of(4.0), ball.radius) >= Scaled::of(published.radius.value());
}

}  // namespace

LayerLedger::LayerLedger(Shape shape, std::size_t rows, const Tensor<double>* computed, const PrecisionPolicy& policy)
    : balls_(std::move(shape)),
      rows_(rows),
      width_(rows == 0 ? 0 : balls_.size() / rows),
      computed_(computed),
      policy_(policy),
      decided_at_(balls_.size(), open) {}

bool LayerLedger::is_precise(std::size_t element, const Ball& ball) const {
  if (!ball.is_finite()) return false;
  const double radius = ball.radius.value();
  if (computed_ != nullptr && std::isfinite(computed_->values[element])) {
    const double error = approx_error_of(computed_->values[element], ball);
    if (error > radius) return radius <= policy_.error_ratio * error;
  }
  return radius <= policy_.relative_radius * std::fabs(ball.hi);
}

void LayerLedger::record(std::span<const std::size_t> rows, const BallTensor& balls) {
  BallTensor scratch({2}, balls.bits() + 64);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < width_; ++i) {
      const std::size_t element = rows[r] * width_ + i;
      if (decided_at_[element] != open) continue;
      const MpBall& ball = balls[r * width_ + i];
      const Ball published = to_ball(ball, scratch);
      balls_.values[element] = published;
      if (is_precise(element, published)) {
        decided_at_[element] = balls.bits();
      } else if (!gains_from_more_bits(ball, published)) {
        decided_at_[element] = hopeless;
      }
    }
  }
}

void LayerLedger::record(std::span<const std::size_t> rows, const PairTensor& balls) {
  std::vector<unsigned char> precise(width_);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t first = rows[r] * width_;
    const ConstPairs row = balls.view().from(r * width_);
    fastest_pair_kernels().judge(row, computed_ == nullptr ? nullptr : computed_->values.data() + first,
                                 policy_.error_ratio, policy_.relative_radius, width_, precise.data());
    for (std::size_t i = 0; i < width_; ++i) {
      if (decided_at_[first + i] != open) continue;
      balls_.values[first + i] = {row.hi[i], row.lo[i], Magnitude(row.radius[i])};
      if (precise[i] != 0) decided_at_[first + i] = pair_bits;
    }
  }
}

bool LayerLedger::is_open(std::size_t row) const {
  const auto first = decided_at_.begin() + static_cast<std::ptrdiff_t>(row * width_);
  return std::find(first, first + static_cast<std::ptrdiff_t>(width_), open) !=
         first + static_cast<std::ptrdiff_t>(width_);
}

void LayerLedger::close(Reference& reference) {
  int bits = open;
  std::int64_t run = 0;
  const auto add_run = [&] {
    if (run > 0) (bits > 0 ? reference.rungs[bits] : reference.undecided) += run;
  };
  for (const int next : decided_at_) {
    if (next != bits) {
      add_run();
      bits = next;
      run = 0;
    }
    ++run;
  }
  add_run();
  reference.layers.push_back(std::move(balls_));
}

}  // namespace driftbound

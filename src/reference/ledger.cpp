#include "reference/ledger.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "reference/pair_kernels.hpp"

namespace driftbound {

namespace {

constexpr int open = 0;
constexpr int valueless = -1;
constexpr int too_fine = -2;

/// What a ball consists of.
struct Parts {
  double hi, lo, radius;
};

// More bits shrink the radius of the ball, not what is lost where hi + lo cannot represent its midpoint.
int why_not_precise(const MpBall& ball, const Ball& published) {
  if (ball.is_void() || !std::isfinite(published.hi)) return valueless;
  const bool gains_from_more_bits =
      ball.is_unknown() || mul_up(Scaled::of(4.0), ball.radius) >= Scaled::of(published.radius.value());
  return gains_from_more_bits ? open : too_fine;
}

WantedPrecision wanted_by(const PrecisionPolicy& policy, std::optional<FormatId> recorded) {
  if (!recorded) return {policy.error_ratio, policy.relative_radius, 0.0, 0.0};
  const Format& type = format(*recorded);
  return {policy.error_ratio, policy.relative_radius, policy.of_rounding * unit_roundoff(type, Rounding::nearest_even),
          policy.of_rounding * underflow_unit(type, Rounding::nearest_even, false)};
}

}  // namespace

LayerLedger::LayerLedger(Shape shape, std::size_t rows, const Tensor<double>* computed, ElementType type,
                         const PrecisionPolicy& policy)
    : shape_(std::move(shape)),
      size_(static_cast<std::size_t>(element_count(shape_))),
      rows_(rows),
      width_(rows == 0 ? 0 : size_ / rows),
      computed_(computed),
      wanted_(wanted_by(policy, computed == nullptr ? std::nullopt : float_format(type))),
      is_alone_(policy.threads == 1),
      whole_rows_(rows, 0) {}

void LayerLedger::make_room() {
  const std::lock_guard lock(*mutex_);
  if (balls_.size() < size_) balls_.resize(size_);
}

void LayerLedger::make_room_for_elements() {
  const std::lock_guard lock(*mutex_);
  if (decided_at_.empty()) decided_at_.resize(size_, open);
}

bool LayerLedger::is_precise(std::size_t element, const Ball& ball) const {
  if (!ball.is_finite()) return false;
  const double radius = ball.radius.value();
  if (computed_ != nullptr && std::isfinite(computed_->values[element])) {
    const double error = approx_error_of(computed_->values[element], ball);
    if (radius <= wanted_.of_computed * std::fabs(computed_->values[element]) + wanted_.absolute) return true;
    if (error > radius) return radius <= wanted_.error_ratio * error;
  }
  return radius <= wanted_.relative_radius * std::fabs(ball.hi);
}

void LayerLedger::record(std::size_t element, const MpBall& ball, int bits, BallTensor& scratch) {
  if (decided_at_[element] != open) return;
  const Ball published = to_ball(ball, scratch);
  balls_[element] = published;
  if (is_precise(element, published)) {
    decided_at_[element] = bits;
  } else {
    decided_at_[element] = why_not_precise(ball, published);
  }
}

void LayerLedger::record(std::span<const std::size_t> rows, const BallTensor& balls) {
  make_room();
  make_room_for_elements();
  BallTensor scratch({2}, balls.bits() + 64);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (whole_rows_[rows[r]] != 0) continue;
    for (std::size_t i = 0; i < width_; ++i) record(rows[r] * width_ + i, balls[r * width_ + i], balls.bits(), scratch);
  }
}

void LayerLedger::record_elements(std::span<const std::size_t> elements, const BallTensor& balls) {
  make_room();
  make_room_for_elements();
  BallTensor scratch({2}, balls.bits() + 64);
  for (std::size_t i = 0; i < elements.size(); ++i) record(elements[i], balls[i], balls.bits(), scratch);
}

std::vector<std::size_t> LayerLedger::open_elements(std::span<const std::size_t> rows) const {
  const bool all_are_open = [this] {
    const std::lock_guard lock(*mutex_);  // another block may make room just now
    return decided_at_.empty();
  }();
  std::vector<std::size_t> elements;
  for (const std::size_t row : rows) {
    if (whole_rows_[row] != 0) continue;
    for (std::size_t i = row * width_; i < (row + 1) * width_; ++i)
      if (all_are_open || decided_at_[i] == open) elements.push_back(i);
  }
  return elements;
}

void LayerLedger::store(std::size_t first, ConstPairs row) {
  const auto ball = [&](std::size_t i) { return std::bit_cast<Ball>(Parts{row.hi[i], row.lo[i], row.radius[i]}); };
  const bool is_next = is_alone_ && first == balls_.size();
  if (is_next && first == 0) balls_.reserve(size_);
  if (is_next) {
    for (std::size_t i = 0; i < width_; ++i) balls_.push_back(ball(i));
  } else {
    make_room();
    for (std::size_t i = 0; i < width_; ++i) balls_[first + i] = ball(i);
  }
}

void LayerLedger::record(std::span<const std::size_t> rows, const PairTensor& balls) {
  std::vector<unsigned char> precise(width_);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (whole_rows_[rows[r]] != 0) continue;
    const std::size_t first = rows[r] * width_;
    const ConstPairs row = balls.view().from(r * width_);
    const std::size_t imprecise = fastest_pair_kernels().judge(
        row, computed_ == nullptr ? nullptr : computed_->values.data() + first, wanted_, width_, precise.data());
    store(first, row);
    if (imprecise == 0) {
      whole_rows_[rows[r]] = pair_bits;
      continue;
    }
    make_room_for_elements();
    for (std::size_t i = 0; i < width_; ++i) decided_at_[first + i] = precise[i] != 0 ? pair_bits : open;
  }
}

void LayerLedger::record_doubles(std::size_t row, std::span<const double> values, double radius) {
  if (whole_rows_[row] != 0) return;
  const Doubles low(width_, 0.0), radii(width_, radius);
  const ConstPairs balls = {values.data(), low.data(), radii.data()};
  const std::size_t first = row * width_;
  std::vector<unsigned char> precise(width_);
  const double* const computed = computed_ == nullptr ? nullptr : computed_->values.data() + first;
  if (fastest_pair_kernels().judge(balls, computed, wanted_, width_, precise.data()) != 0) return;
  store(first, balls);
  whole_rows_[row] = double_bits;
}

bool LayerLedger::is_open(std::size_t row) const {
  if (width_ == 0 || whole_rows_[row] != 0) return false;
  if (decided_at_.empty()) return true;
  const auto first = decided_at_.begin() + static_cast<std::ptrdiff_t>(row * width_);
  return std::find(first, first + static_cast<std::ptrdiff_t>(width_), open) !=
         first + static_cast<std::ptrdiff_t>(width_);
}

void LayerLedger::close(Reference& reference) {
  make_room();
  const auto count = [&](int bits, std::size_t elements) {
    if (elements > 0) (bits > 0 ? reference.rungs[bits] : reference.undecided) += static_cast<std::int64_t>(elements);
    if (bits == valueless) reference.valueless += static_cast<std::int64_t>(elements);
    if (bits == too_fine) reference.too_fine += static_cast<std::int64_t>(elements);
  };
  for (std::size_t row = 0; row < rows_; ++row) {
    if (whole_rows_[row] != 0) {
      count(whole_rows_[row], width_);
    } else if (decided_at_.empty()) {
      count(open, width_);
    } else {
      for (std::size_t i = row * width_; i < (row + 1) * width_; ++i) count(decided_at_[i], 1);
    }
  }
  reference.layers.emplace_back(std::move(shape_), std::move(balls_));
}

}  // namespace driftbound

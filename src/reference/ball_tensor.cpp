#include "reference/ball_tensor.hpp"

#include <cmath>

namespace driftbound {

void make_void(MpBall& ball) {
  mpfr_set_nan(ball.mid());
  ball.radius = Scaled::infinite();
}

void make_unknown(MpBall& ball) {
  mpfr_set_zero(ball.mid(), 1);
  ball.radius = Scaled::infinite();
}

void settle(MpBall& ball, int ternary, Scaled propagated, int log2_units) {
  if (!mpfr_number_p(ball.mid())) return make_void(ball);
  ball.radius = propagated;
  if (ternary == 0) return;
  // A zero that is not exact is an underflow; the smallest radius covers it.
  const Scaled rounding =
      mpfr_zero_p(ball.mid())
          ? Scaled::smallest()
          : Scaled::power_of_two(mpfr_get_exp(ball.mid()) - mpfr_get_prec(ball.mid()) - 1 + log2_units);
  ball.radius = add_up(ball.radius, rounding);
}

void assign(MpBall& ball, double value) {
  settle(ball, mpfr_set_d(ball.mid(), value, MPFR_RNDN), {});
}

void assign(MpBall& ball, const MpBall& other) {
  if (other.is_void()) return make_void(ball);
  settle(ball, mpfr_set(ball.mid(), other.mid(), MPFR_RNDN), other.radius);
}

BallTensor::BallTensor(Shape shape, int bits)
    : shape_(std::move(shape)), bits_(bits), balls_(static_cast<std::size_t>(element_count(shape_))) {
  const std::size_t limbs = (static_cast<std::size_t>(bits) + GMP_NUMB_BITS - 1) / GMP_NUMB_BITS;
  limbs_.resize(limbs * balls_.size());
  for (std::size_t i = 0; i < balls_.size(); ++i)
    mpfr_custom_init_set(balls_[i].mid(), MPFR_ZERO_KIND, 0, bits, &limbs_[i * limbs]);
}

BallTensor::BallTensor(const Tensor<double>& values, int bits) : BallTensor(values.shape, bits) {
  for (std::size_t i = 0; i < size(); ++i) assign(balls_[i], values.values[i]);
}

namespace {

Shape with_rows(Shape shape, std::size_t rows) {
  shape.at(0) = static_cast<std::int64_t>(rows);
  return shape;
}

}  // namespace

BallTensor::BallTensor(const Tensor<double>& values, std::span<const std::size_t> rows, int bits)
    : BallTensor(with_rows(values.shape, rows.size()), bits) {
  if (rows.empty()) return;
  const std::size_t width = size() / rows.size();
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t i = 0; i < width; ++i) assign(balls_[r * width + i], values.values[rows[r] * width + i]);
}

Ball to_ball(const MpBall& ball, BallTensor& scratch) {
  Ball result;
  result.hi = mpfr_get_d(ball.mid(), MPFR_RNDN);
  result.radius = Magnitude::infinite();
  if (!std::isfinite(result.hi) || ball.is_unknown()) return result;

  MpBall& rest = scratch[0];
  settle(rest, mpfr_sub_d(rest.mid(), ball.mid(), result.hi, MPFR_RNDN), ball.radius);
  result.lo = mpfr_get_d(rest.mid(), MPFR_RNDN);
  MpBall& lost = scratch[1];
  settle(lost, mpfr_sub_d(lost.mid(), rest.mid(), result.lo, MPFR_RNDN), rest.radius);
  result.radius = Magnitude(add_up(Scaled::upper(lost.mid()), lost.radius).to_double_up());
  return result;
}

}  // namespace driftbound

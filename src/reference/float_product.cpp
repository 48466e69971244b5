#include "reference/float_product.hpp"

#include <cmath>

#include "linalg/exact_product.hpp"

namespace driftbound {

namespace {

/// x as a float32 number; false where it is none.
bool read_float(float& result, mpfr_srcptr x) {
  result = 0.0f;
  if (mpfr_zero_p(x)) return true;
  if (!mpfr_regular_p(x)) return false;
  constexpr int leading = 24;
  const auto* digits = static_cast<const mp_limb_t*>(mpfr_custom_get_significand(x));
  std::size_t last = (static_cast<std::size_t>(mpfr_get_prec(x)) + GMP_NUMB_BITS - 1) / GMP_NUMB_BITS - 1;
  const mp_limb_t top = digits[last];
  if ((top << leading) != 0) return false;
  while (last > 0) {
    if (digits[--last] != 0) return false;
  }
  const mpfr_exp_t exponent = mpfr_get_exp(x);
  if (exponent > 128 || exponent < -148) return false;
  const double value =
      std::ldexp(static_cast<double>(top >> (GMP_NUMB_BITS - leading)), static_cast<int>(exponent) - leading);
  result = static_cast<float>(mpfr_sgn(x) < 0 ? -value : value);
  return std::fabs(static_cast<double>(result)) == value;
}

bool read_floats(std::vector<float>& floats, const BallTensor& tensor) {
  floats.resize(tensor.size());
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    if (!tensor[i].is_exact() || !read_float(floats[i], tensor[i].mid())) return false;
  }
  return true;
}

/// ball = high + low, rounded once.
void assign_sum(MpBall& ball, double high, double low) {
  mp_limb_t limb = 0;
  __mpfr_struct exact;
  mpfr_custom_init_set(&exact, MPFR_ZERO_KIND, 0, 53, &limb);
  mpfr_set_d(&exact, high, MPFR_RNDN);
  settle(ball, mpfr_add_d(ball.mid(), &exact, low, MPFR_RNDN), {});
}

}  // namespace

FloatProduct::FloatProduct(const BallTensor& a, const BallTensor& b, const ProductPlan& plan)
    : plan_(plan), are_floats_(read_floats(a_, a) && read_floats(b_, b)) {}

bool FloatProduct::multiply(BallTensor& c, std::int64_t batch) const {
  if (!are_floats_ || plan_.k == 0) return false;
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  const linalg::FloatRows rows = {a_.data() + plan_.a_index(batch, 0, 0), size(plan_.m), size(plan_.k), plan_.a_row,
                                  plan_.a_col};
  const linalg::FloatRows columns = {b_.data() + plan_.b_index(batch, 0, 0), size(plan_.n), size(plan_.k), plan_.b_col,
                                     plan_.b_row};
  linalg::ExactProduct y;
  linalg::exact_product(linalg::ExactOperand(rows, linalg::Side::left, 1),
                        linalg::ExactOperand(columns, linalg::Side::right, 1), y, 1);
  for (const double radius : y.radius) {
    if (radius != 0.0) return false;
  }
  const std::size_t first = size(batch) * y.high.size();
  for (std::size_t i = 0; i < y.high.size(); ++i) assign_sum(c[first + i], y.high[i], y.low[i]);
  return true;
}

}  // namespace driftbound

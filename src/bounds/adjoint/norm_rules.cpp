#include "bounds/adjoint/norm_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds/matrix.hpp"
#include "bounds/row_kernels.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound::bounds {
namespace {

Magnitude as_magnitude(std::size_t count) {
  return Magnitude(static_cast<double>(count));
}

}  // namespace

Magnitude norm_of_copies(Magnitude norm, std::size_t copies) {
  return sqrt_up(as_magnitude(copies)) * norm;
}

Magnitude norm_of_function(Magnitude lipschitz, Magnitude norm) {
  return lipschitz * norm;
}

Magnitude norm_of_sum(Magnitude first, Magnitude second) {
  return first + second;
}

Magnitude norm_of_reduce_sum(Magnitude norm, std::size_t terms) {
  return sqrt_up(as_magnitude(terms)) * norm;
}

Magnitude norm_of_extremum(Magnitude norm) {
  return norm;
}

Magnitude norm_of_softmax(Magnitude norm) {
  return Magnitude(0.5) * norm;
}

Magnitude norm_of_quotient(Magnitude norm, double smallest_divisor) {
  return divide_up(norm, smallest_divisor);
}

Magnitude norm_of_elementwise_product(const ElementwiseFactor& a, const ElementwiseFactor& b) {
  return b.largest * a.norm + (a.largest + a.largest_radius) * b.norm;
}

Magnitude norm_of_selection(std::span<const SelectedPart> parts) {
  Magnitude squares;
  for (const SelectedPart& part : parts) squares += as_magnitude(part.most_uses) * part.norm * part.norm;
  return sqrt_up(squares);
}

Magnitude norm_of_constant_product(const MatrixFactor& moving, Magnitude spectral, Magnitude constant_radius,
                                   std::size_t uses) {
  return sqrt_up(as_magnitude(uses)) * (spectral * moving.norm + (moving.centre + moving.norm) * constant_radius);
}

Magnitude norm_of_matrix_product(const MatrixFactor& a, const MatrixFactor& b) {
  return b.centre * a.norm + (a.centre + a.norm) * b.norm;
}

Magnitude norm_with_addend(double alpha, Magnitude product, double beta, Magnitude addend) {
  return Magnitude(alpha) * product + Magnitude(beta) * addend;
}

Magnitude norm_of_vector(std::span<const double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const double plain = fastest_row_kernels().weighted_sum(values.data(), values.data(), values.size());
  if (plain >= 0x1p-900 && plain <= 0x1p900) return sqrt_up(Magnitude(outward(plain, size + 1, size)));
  double largest = 0.0;
  for (const double x : values) {
    if (!std::isfinite(x)) return Magnitude::infinite();
    largest = std::max(largest, std::abs(x));
  }
  if (largest == 0.0) return {};
  const int scale = std::ilogb(largest);
  double squares = 0.0;
  for (const double x : values) {
    const double scaled = std::ldexp(x, -scale);
    squares += scaled * scaled;
  }
  return sqrt_up(Magnitude(outward(squares, size + 1, size))) * Magnitude(std::ldexp(1.0, scale));
}

Magnitude norm_of_product_rounding(std::int64_t roundings, Magnitude product, Magnitude addend) {
  return gamma(roundings, 0x1p-53) * (product + addend);
}

Magnitude norm_of_rounding(double units, Magnitude norm) {
  return Magnitude(units) * Magnitude(0x1p-53) * norm;
}

namespace {

struct SteepestSlope {
  Magnitude operator()(const OneOf<op::Neg, op::Cast, op::Relu, op::Abs, op::Clip, op::Tanh, op::Softplus, op::Sin,
                                   op::Cos, op::Atan> auto&) const {
    return Magnitude(1.0);
  }
  Magnitude operator()(const op::Sigmoid&) const { return Magnitude(0.25); }
  Magnitude operator()(const op::Erf&) const { return Magnitude(0x1.20dd750429b6ep+0); }  // above 2 / sqrt(pi)
  Magnitude operator()(const OneOf<op::LeakyRelu, op::Elu> auto& op) const {
    return std::max(Magnitude(1.0), Magnitude(op.alpha));
  }
  Magnitude operator()(const auto&) const { return Magnitude::infinite(); }
};

}  // namespace

Magnitude steepest_slope(const Op& op) {
  return std::visit(SteepestSlope(), op);
}

bool stays_below_zero(std::span<const double> values, double radius) {
  return std::none_of(values.begin(), values.end(), [&](double x) { return !(x <= -radius); });
}

}  // namespace driftbound::bounds

#include "bounds/theorems/norms.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds/kernels/row_kernels.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound::bounds::inline theorems {
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

Magnitude norm_of_moving_quotient(Magnitude norm, Magnitude quotients, Magnitude divisor_norm, double least_divisor) {
  return divide_up(norm + quotients * divisor_norm, least_divisor);
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

Magnitude norm_of_spectral_product(const MatrixFactor& a, std::size_t uses_of_a, const MatrixFactor& b,
                                   std::size_t uses_of_b) {
  return norm_of_copies(b.centre * a.norm, uses_of_a) + norm_of_copies((a.centre + a.norm) * b.norm, uses_of_b);
}

Magnitude norm_with_addend(double alpha, Magnitude product, double beta, Magnitude addend) {
  return Magnitude(alpha) * product + Magnitude(beta) * addend;
}

Magnitude norm_of_centred(Magnitude norm, std::size_t terms, Magnitude sums, Magnitude means) {
  return norm + norm_of_copies(divide_up(sums, static_cast<double>(terms)) + means, terms);
}

Magnitude norm_of_normalised(double terms, double root, Magnitude norm) {
  const Magnitude length = sqrt_up(Magnitude(terms));
  const Magnitude share = divide_up(norm, mul_down(sqrt_down(terms), root));
  if (!(share < Magnitude(1.0))) return Magnitude(2.0) * length;
  const double cosine = sqrt_down(std::max(sub_down(1.0, (share * share).value()), 0.0));
  return length * share * sqrt_up(divide_up(Magnitude(2.0), add_down(1.0, cosine)));
}

Magnitude error_of_root(Magnitude argument, double least_root, Magnitude own) {
  const double least_argument = sub_down(mul_down(least_root, least_root), argument.value());
  if (!(least_argument > 0.0)) return Magnitude::infinite();
  return divide_up(argument, add_down(least_root, sqrt_down(least_argument))) + own;
}

Magnitude norm_of_wrong_root(double terms, double least_root, Magnitude error) {
  return sqrt_up(Magnitude(terms)) * divide_up(error, sub_down(least_root, error.value()));
}

namespace {

/// Upper bound 1 + x + x^2 of e^x for x <= 1.
Magnitude exp_above(Magnitude x) {
  return Magnitude(1.0) + x + x * x;
}

}  // namespace

Magnitude norm_of_softmax_near(Magnitude norm, Magnitude largest_share, Magnitude largest_spread, Magnitude radius) {
  const Magnitude twice = Magnitude(2.0) * radius, four = Magnitude(4.0) * radius;
  Magnitude slope(0.5);
  if (twice <= Magnitude(1.0)) slope = std::min(slope, largest_share * exp_above(twice));
  if (four <= Magnitude(1.0)) slope = std::min(slope, Magnitude(2.0) * largest_spread * exp_above(four));
  return slope * norm;
}

namespace {

/// Upper bound of ω = e^x - 1, x the largest local error of an exponent; infinite for x > 1.
Magnitude relative_error_of_powers(const ShareErrors& errors) {
  if (!(errors.exponents <= Magnitude(1.0))) return Magnitude::infinite();
  return errors.exponents * (Magnitude(1.0) + errors.exponents);
}

}  // namespace

double least_sum_of_powers(double least_computed, const ShareErrors& errors) {
  const Magnitude factor = Magnitude(1.0) + relative_error_of_powers(errors);
  return div_down(sub_down(least_computed, errors.powers_and_sum.value()), factor.value());
}

Magnitude norm_of_share_errors(const ShareErrors& errors, double least_sum) {
  const Magnitude relative = relative_error_of_powers(errors);
  const Magnitude alpha = divide_up(errors.powers_norm, least_sum) + relative;
  const Magnitude beta = divide_up(errors.powers_and_sum, least_sum) + relative;
  return divide_up(alpha + beta, sub_down(1.0, beta.value()));
}

Magnitude norm_of_attended(Magnitude spread, Magnitude norm, Magnitude radius) {
  const Magnitude twice = Magnitude(2.0) * radius;
  return twice <= Magnitude(1.0) ? exp_above(twice) * spread * norm : Magnitude::infinite();
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
  template <class F>
  requires ElementwiseUnary<F> || std::same_as<F, op::Gelu> Magnitude operator()(const F& f) const {
    return OpTraits<F>::steepest(f);
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

}  // namespace driftbound::bounds::inline theorems

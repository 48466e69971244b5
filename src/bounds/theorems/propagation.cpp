#include "bounds/theorems/propagation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "driftbound/evaluate/scalar_functions.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

// Half the largest second derivative, rounded up.
constexpr double half_curvature_tanh = 0.5 * OpTraits<op::Tanh>::curvature;
constexpr double half_curvature_sigmoid = 0.5 * OpTraits<op::Sigmoid>::curvature;
constexpr double half_curvature_softplus = 0.5 * OpTraits<op::Softplus>::curvature;
constexpr double half_curvature_sine = 0.5 * OpTraits<op::Sin>::curvature;
constexpr double half_curvature_erf = 0.5 * OpTraits<op::Erf>::curvature;
constexpr double steepest_erf = OpTraits<op::Erf>::two_over_root_pi;

/// |f'(x)| e + half_curvature e^2, half_curvature = sup |f''| / 2.
Magnitude second_order(Magnitude slope, Magnitude e, double half_curvature) {
  return slope * e + Magnitude(half_curvature) * e * e;
}

/// min(bound, width of the function's range); infinite if e is.
Magnitude within_range(Magnitude bound, Magnitude e, Magnitude width) {
  return e.is_finite() ? std::min(bound, width) : Magnitude::infinite();
}

double lower_magnitude(const Point& p) {
  return std::max(0.0, sub_down(std::abs(p.y), p.y_error.value()));
}

/// Upper bound of 1 - f(x)^2 for |f(x)| <= 1, from the stored value.
Magnitude one_minus_square(const Point& p) {
  const double low = lower_magnitude(p);
  return subtract_up(Magnitude(1.0), mul_down(low, low));
}

}  // namespace

Magnitude propagate_identity(const Point& p) {
  return p.e;
}

Magnitude propagate_relu(const Point& p) {
  if (p.x >= 0.0) return p.e;
  if (p.e.is_finite() && p.e.value() <= -p.x) return Magnitude();
  return subtract_up(p.e, -p.x);
}

Magnitude propagate_leaky_relu(const Point& p) {
  const double e = p.e.value();
  if (e <= p.x) return p.e;
  const Magnitude alpha(p.alpha);
  if (e <= -p.x) return alpha * p.e;
  const bool is_gentle = p.alpha >= 0.0 && p.alpha <= 1.0;
  if (is_gentle && p.x < 0.0) return subtract_up(p.e, -p.x) + alpha * Magnitude(p.x);
  return std::max(Magnitude(1.0), alpha) * p.e;
}

Magnitude propagate_elu(const Point& p) {
  const double e = p.e.value();
  if (e <= p.x) return p.e;
  const Magnitude alpha(p.alpha);
  if (e <= -p.x) return alpha * std::min(p.e, Magnitude(exp_up(p.x)) * Magnitude(expm1_up(e)));
  return std::max(Magnitude(1.0), alpha) * p.e;
}

Magnitude propagate_tanh(const Point& p) {
  const Magnitude bound = std::min(second_order(one_minus_square(p), p.e, half_curvature_tanh), p.e);
  return within_range(bound, p.e, Magnitude(2.0));
}

Magnitude propagate_sigmoid(const Point& p) {
  const double low = std::max(0.0, sub_down(p.y, p.y_error.value()));
  const double high = std::min(1.0, (Magnitude(p.y) + p.y_error).value());
  const auto slope_at = [](double s) { return Magnitude(s) * subtract_up(Magnitude(1.0), s); };
  const Magnitude slope = low > 0.5 ? slope_at(low) : high < 0.5 ? slope_at(high) : Magnitude(0.25);
  const Magnitude bound = std::min(second_order(slope, p.e, half_curvature_sigmoid), Magnitude(0.25) * p.e);
  return within_range(bound, p.e, Magnitude(1.0));
}

Magnitude propagate_softplus(const Point& p) {
  const Magnitude slope = divide_up(Magnitude(1.0), add_down(1.0, exp_down(-p.x)));
  const Magnitude growing = slope * Magnitude(expm1_up(p.e.value()));
  return std::min({second_order(slope, p.e, half_curvature_softplus), growing, p.e});
}

Magnitude propagate_sin_or_cos(const Point& p) {
  const Magnitude bound = std::min(second_order(sqrt_up(one_minus_square(p)), p.e, half_curvature_sine), p.e);
  return within_range(bound, p.e, Magnitude(2.0));
}

Magnitude propagate_erf(const Point& p) {
  const Magnitude slope = Magnitude(steepest_erf) * Magnitude(exp_up(-mul_down(p.x, p.x)));
  const Magnitude bound = std::min(second_order(slope, p.e, half_curvature_erf), Magnitude(steepest_erf) * p.e);
  return within_range(bound, p.e, Magnitude(2.0));
}

Magnitude propagate_exp(const Point& p) {
  const Magnitude growth = (Magnitude(p.y) + p.y_error) * Magnitude(expm1_up(p.e.value()));
  return std::min(growth, Magnitude(exp_up(add_up(p.x, p.e.value()))));
}

Magnitude propagate_sqrt(const Point& p) {
  if (p.e == Magnitude()) return Magnitude();
  const double lowest = sub_down(p.x, p.e.value());
  if (!(p.x >= 0.0 && p.e.value() <= p.x)) return Magnitude::infinite();
  return divide_up(p.e, add_down(sqrt_down(p.x), sqrt_down(std::max(0.0, lowest))));
}

Magnitude propagate_sum(double, Magnitude ea, double, Magnitude eb) {
  return ea + eb;
}

Magnitude propagate_product(double a, Magnitude ea, double b, Magnitude eb) {
  return Magnitude(a) * eb + ea * (Magnitude(b) + eb);
}

Magnitude propagate_quotient(double a, Magnitude ea, double b, Magnitude eb) {
  if (ea == Magnitude() && eb == Magnitude()) return Magnitude();
  const double divisor = std::abs(b);
  if (!(eb.value() < divisor)) return Magnitude::infinite();
  return divide_up(ea + divide_up(Magnitude(a), divisor) * eb, sub_down(divisor, eb.value()));
}

Magnitude propagate_sqrt_above(double x, Magnitude e, double least) {
  if (!(x >= 0.0 && e.is_finite())) return Magnitude::infinite();
  if (e == Magnitude()) return Magnitude();
  const double root = sqrt_down(x), lowest = std::max(least, sub_down(x, e.value()));
  const Magnitude up = divide_up(e, add_down(root, sqrt_down(add_down(x, e.value()))));
  const Magnitude down =
      lowest < x ? divide_up(Magnitude(sub_up(x, lowest)), add_down(root, sqrt_down(lowest))) : Magnitude();
  return std::max(up, down);
}

Magnitude propagate_quotient_above(double a, Magnitude ea, double b, Magnitude eb, double least) {
  const double lowest = std::max(least, sub_down(b, eb.value()));
  if (!(b > 0.0 && lowest > 0.0 && ea.is_finite() && eb.is_finite())) return Magnitude::infinite();
  const Magnitude up = divide_up(eb, add_down(b, eb.value()));
  const Magnitude down = lowest < b ? divide_up(Magnitude(sub_up(b, lowest)), lowest) : Magnitude();
  return divide_up(ea, lowest) + divide_up(Magnitude(a), b) * std::max(up, down);
}

Magnitude propagate_common_factor(double a, Magnitude ea, double b, Magnitude eb, double r, Magnitude er) {
  const Magnitude apart(std::max(sub_up(a, b), sub_up(b, a)));
  return (ea + eb) * (Magnitude(r) + er) + apart * er;
}

Magnitude propagate_prelu(double x, Magnitude ex, double slope, Magnitude eb) {
  if (ex.value() <= x) return ex;
  const Magnitude steepest = Magnitude(slope) + eb;
  if (ex.value() <= -x) return propagate_product(x, ex, slope, eb);
  const Magnitude below = Magnitude(x < 0.0 ? x : 0.0);  // the term |t - slope| |s| occurs for s < 0 only
  return std::max(Magnitude(1.0), steepest) * ex + eb * (below + ex);
}

Magnitude propagate_thresholded_relu(const Point& p) {
  if (p.e == Magnitude()) return Magnitude();
  const double lower = sub_down(p.x, p.e.value()), upper = add_up(p.x, p.e.value());
  if (!std::isfinite(lower) || !std::isfinite(upper)) return Magnitude::infinite();
  const Interval range = scalar::thresholded_relu(Interval(lower, upper), Interval(p.alpha));
  const double y = p.x > p.alpha ? p.x : 0.0;
  return Magnitude(std::max(sub_up(range.upper(), y), sub_up(y, range.lower())));
}

Magnitude propagate_reduce_sum(std::span<const double> x, std::span<const double> e) {
  Magnitude total;
  for (std::size_t j = 0; j < x.size(); ++j) total += Magnitude(e[j]);
  return total;
}

namespace {

/// The largest change of max_j sign x_j when x_j changes by at most e_j.
Magnitude extremum_moves(std::span<const double> x, std::span<const double> e, double sign) {
  double highest = -std::numeric_limits<double>::infinity();
  double middle = highest, lowest = highest;
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (!std::isfinite(e[j])) return Magnitude::infinite();
    middle = std::max(middle, sign * x[j]);
    highest = std::max(highest, add_up(sign * x[j], e[j]));
    lowest = std::max(lowest, sub_down(sign * x[j], e[j]));
  }
  return Magnitude(std::max(sub_up(highest, middle), sub_up(middle, lowest)));
}

}  // namespace

Magnitude propagate_reduce_max(std::span<const double> x, std::span<const double> e) {
  return extremum_moves(x, e, 1.0);
}

Magnitude propagate_reduce_min(std::span<const double> x, std::span<const double> e) {
  return extremum_moves(x, e, -1.0);
}

void propagate_softmax(std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                       std::span<double> result) {
  const std::size_t n = p.size();
  Magnitude largest;
  std::vector<Magnitude> after(n + 1);  // sum of p_j e_j over j >= i
  for (std::size_t j = n; j-- > 0;) {
    largest = std::max(largest, Magnitude(e[j]));
    after[j] = after[j + 1] + (Magnitude(p[j]) + Magnitude(p_error[j])) * Magnitude(e[j]);
  }
  const Magnitude spread = Magnitude(0.5) * largest * largest;
  Magnitude before;
  for (std::size_t i = 0; i < n; ++i) {
    const double low = std::max(0.0, sub_down(p[i], p_error[i]));
    const Magnitude high = std::min(Magnitude(1.0), Magnitude(p[i]) + Magnitude(p_error[i]));
    const Magnitude rest = subtract_up(Magnitude(1.0), low);
    const Magnitude y = rest * Magnitude(e[i]) + before + after[i + 1];
    const Magnitude moved = high * std::max(Magnitude(expm1_up(y.value())), y + spread);
    result[i] = within_range(moved, largest, std::max(high, rest)).value();
    before += (Magnitude(p[i]) + Magnitude(p_error[i])) * Magnitude(e[i]);
  }
}

double product_weight(double w) {
  return Magnitude(w).value();
}

void add_local_errors(std::span<const double> local, std::span<double> propagated) {
  add_magnitudes(propagated, local);
}

}  // namespace driftbound::bounds::inline theorems

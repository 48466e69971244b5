#include "bounds/nodes/centre.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/directed.hpp"
#include "linalg/ordered_product.hpp"
#include "linalg/pair_product.hpp"
#include "num/enclosed.hpp"
#include "num/error_free.hpp"
#include "num/power_of_two.hpp"

namespace driftbound::bounds {
namespace {

constexpr double smallest = std::numeric_limits<double>::denorm_min();
constexpr double unit = 0x1p-53;

/// Returns a bound of the error of a sum rounded to y: w ufp(y), w = 2^-53, which underflows to 0 if y is so small that
/// the sum is exact.
double sum_error(double y) {
  return num::power_of_two_in(y) * unit;
}

/// The same for products and quotients, whose results may underflow.
double rounding_error(double y) {
  return std::max(sum_error(y), smallest);
}

/// a + b and what is lost in rounding it, which is a double unless a - b overflows.
Enclosed sum_of_numbers(double a, double b) {
  const num::ErrorFree sum = num::two_sum(a, b);
  return {sum.value, std::isfinite(sum.error) ? std::abs(sum.error) : sum_error(sum.value)};
}

/// Products that large have a rounding error that is a double.
constexpr double least_with_exact_error = 0x1p-960;

Enclosed product_of_numbers(double a, double b) {
  const double y = a * b;
  if (a == 0.0 || b == 0.0) return {y, 0.0};
  return {y, std::abs(y) >= least_with_exact_error ? std::abs(std::fma(a, b, -y)) : rounding_error(y)};
}

Enclosed quotient_of_numbers(double a, double b) {
  const double y = a / b;
  if (b != 0.0 && (a == 0.0 || std::abs(b) == 1.0)) return {y, 0.0};
  if (!(std::abs(a) >= least_with_exact_error && std::abs(y) >= least_with_exact_error)) return {y, rounding_error(y)};
  return {y, divide_up(Magnitude(std::fma(-y, b, a)), std::abs(b)).value()};
}

Enclosed root_of_number(double x) {
  const double y = std::sqrt(x);
  if (!(x >= least_with_exact_error)) return {y, sum_error(y)};
  return {y, std::min(sum_error(y), divide_up(Magnitude(std::fma(-y, y, x)), y).value())};
}

Enclosed leaky_product(double x, double slope) {
  return x >= 0.0 ? Enclosed{x, 0.0} : product_of_numbers(slope, x);
}

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

/// Sets the error to infinity, and the value to 0, where the value is not finite.
Centre checked(Centre centre) {
  for (std::size_t i = 0; i < centre.error.size(); ++i) {
    if (std::isfinite(centre.value.values[i])) continue;
    centre.value.values[i] = 0.0;
    centre.error[i] = infinity;
  }
  return centre;
}

Centre centre_of(const Tensor<Interval>& enclosures) {
  Centre centre;
  centre.value.shape = enclosures.shape;
  for (const Interval& enclosure : enclosures.values) {
    const Enclosed y = enclosed(enclosure);
    centre.value.values.push_back(y.value);
    centre.error.push_back(y.error);
  }
  return centre;
}

/// The terms e^(x_j - m) of a softmax, m = max x_j, and bounds of their relative errors (T-80).
struct SoftmaxTerms {
  std::vector<double> t, relative;
  double sum = 0.0;
  double error = 0.0;  ///< sum of the errors of the terms, except those below e^-700, which are set to 0
};

SoftmaxTerms softmax_terms(std::span<const double> x) {
  const double m = *std::max_element(x.begin(), x.end());
  SoftmaxTerms terms;
  for (const double value : x) {
    const double d = value - m;
    const bool vanishes = d < -700.0;
    terms.t.push_back(vanishes ? 0.0 : enclosed_exp(d).value);
    terms.relative.push_back(vanishes ? 0.0 : (3.0 - d) * unit);
    terms.sum += terms.t.back();
    terms.error += terms.t.back() * terms.relative.back();
  }
  return terms;
}

/// Replaces a row x by its softmax, and sets the error bounds.
void softmax_in_double(std::span<double> x, std::span<double> error) {
  constexpr double vanishing = 0x1p-1000, largest_covered = 0x1p-24;
  const SoftmaxTerms terms = softmax_terms(x);
  const auto n = static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double eta = terms.relative[i] + terms.error / terms.sum + (n + 2.0) * unit;
    x[i] = terms.t[i] / terms.sum;
    error[i] = eta <= largest_covered ? x[i] * (eta * (1.0 + 0x1p-20)) + n * vanishing : infinity;
  }
}

/// Each overload evaluates one op at the view's inputs in double, and bounds the error.
class InDouble {
public:
  InDouble(const NodeView& view, const Shape& shape, const Setting& setting)
      : view_(view), shape_(shape), setting_(setting) {}

  Centre operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    const Product product = product_of(view_).value();
    Centre centre = sums_of_products(product.plan);
    if (product.alpha != 1.0) scale(centre, product.alpha);
    if (product.has_addend && product.beta != 0.0) add(centre, product.beta, view_.input(2));
    return centre;
  }

  Centre operator()(const op::Add&) const { return pairs(sum_of_numbers); }
  Centre operator()(const op::Sub&) const {
    return pairs([](double a, double b) { return sum_of_numbers(a, -b); });
  }
  Centre operator()(const op::Mul&) const { return pairs(product_of_numbers); }
  Centre operator()(const op::Div&) const { return pairs(quotient_of_numbers); }
  Centre operator()(const op::PRelu&) const { return pairs(leaky_product); }

  Centre operator()(const op::Reciprocal&) const {
    return elements([](double x) { return quotient_of_numbers(1.0, x); });
  }
  Centre operator()(const op::Sqrt&) const { return elements(root_of_number); }
  Centre operator()(const op::LeakyRelu& leaky) const {
    return elements([&](double x) { return leaky_product(x, leaky.alpha); });
  }

  Centre operator()(
      const OneOf<op::Neg, op::Relu, op::Abs, op::Floor, op::Ceil, op::Round, op::Sign, op::Clip, op::ThresholdedRelu,
                  op::Cast, op::Min, op::Max, op::Choice, op::ReduceMax, op::ReduceMin> auto& op) const {
    return exact(op);
  }
  Centre operator()(const Comparison auto& op) const { return exact(op); }
  Centre operator()(const Selection auto& op) const { return exact(op); }

  Centre operator()(const op::ReduceSum& op) const {
    const GroupPlan plan = plan_groups(op, view_.input(0).shape);
    Centre centre = start();
    for (std::size_t g = 0; g < centre.error.size(); ++g) {
      set(centre, g, sum_of(view_.input(0).values.data() + plan.groups[g], plan.elements));
    }
    return centre;
  }

  Centre operator()(const op::Exp&) const { return function(enclosed_exp); }
  Centre operator()(const op::Tanh&) const { return function(enclosed_tanh); }
  Centre operator()(const op::Sigmoid&) const { return function(enclosed_sigmoid); }
  Centre operator()(const op::Softplus&) const { return function(enclosed_softplus); }
  Centre operator()(const op::Sin&) const { return function(enclosed_sin); }
  Centre operator()(const op::Cos&) const { return function(enclosed_cos); }
  Centre operator()(const op::Erf&) const { return function(enclosed_erf); }

  Centre operator()(const op::Elu& elu) const {
    return function([&](double x) {
      if (x >= 0.0) return Enclosed{x, 0.0};
      const Enclosed e = enclosed_expm1(x), y = product_of_numbers(elu.alpha, e.value);
      return Enclosed{y.value, (Magnitude(elu.alpha) * Magnitude(e.error) + Magnitude(y.error)).value()};
    });
  }

  Centre operator()(const op::Softmax& op) const {
    if (run_is_as_fine()) return enclosed_by_intervals();
    const ReductionPlan plan = plan_reduction(op, shape_);
    Centre centre = start();
    std::vector<double> row(static_cast<std::size_t>(plan.length)), error(row.size());
    for (std::int64_t o = 0; o < plan.outer; ++o) {
      for (std::int64_t i = 0; i < plan.inner; ++i) {
        for (std::size_t j = 0; j < row.size(); ++j) row[j] = view_.input(0).values[at(plan, o, j, i)];
        softmax_in_double(row, error);
        for (std::size_t j = 0; j < row.size(); ++j) set(centre, at(plan, o, j, i), {row[j], error[j]});
      }
    }
    return centre;
  }

  Centre operator()(const OneOf<op::Log, op::Tan, op::Atan, op::Sinh, op::Cosh, op::Pow> auto&) const {
    return enclosed_by_intervals();
  }
  Centre operator()(const Composite auto&) const { return enclosed_by_intervals(); }

  /// Evaluates any op in interval arithmetic. The centre is the midpoint and the error the half width.
  Centre enclosed_by_intervals() const {
    std::vector<Tensor<Interval>> operands;
    for (const Tensor<double>* input : view_.inputs) {
      operands.emplace_back(input->shape, std::vector<Interval>(input->values.begin(), input->values.end()));
    }
    std::vector<const Tensor<Interval>*> pointers;
    for (const Tensor<Interval>& operand : operands) pointers.push_back(&operand);
    Centre centre = centre_of(std::visit(scalar::OpEvaluator<Interval>(*view_.node, pointers, shape_), view_.node->op));
    if (std::holds_alternative<op::Sin>(view_.node->op) || std::holds_alternative<op::Cos>(view_.node->op))
      lose_where_infinite(centre);
    return centre;
  }

private:
  /// Sets the error to infinity where the argument of sin or cos is not finite: the interval [-1, 1] would hold for a
  /// finite unknown argument only.
  void lose_where_infinite(Centre& centre) const {
    for (std::size_t i = 0; i < centre.error.size(); ++i)
      if (!std::isfinite(view_.input(0).values[i])) centre.value.values[i] = 0.0, centre.error[i] = infinity;
  }

  Centre start() const {
    Centre centre;
    centre.value = Tensor<double>(shape_);
    centre.error.assign(centre.value.size(), 0.0);
    return centre;
  }

  static std::size_t at(const ReductionPlan& plan, std::int64_t o, std::size_t j, std::int64_t i) {
    return plan.index(o, static_cast<std::int64_t>(j), i);
  }

  template <class Op>
  Centre exact(const Op& op) const {
    Centre centre;
    centre.value = scalar::OpEvaluator<double>(*view_.node, view_.inputs, shape_)(op);
    centre.error.assign(centre.value.size(), 0.0);
    return centre;
  }

  /// Whether the run's accumulator is fp64. Errors of a few units in the last place then matter, and interval
  /// arithmetic, which loses at most one, is used.
  bool run_is_as_fine() const {
    const Format* accumulator = setting_.machine.accumulator;
    return accumulator != nullptr && accumulator->id == FormatId::fp64;
  }

  template <class F>
  Centre function(F f) const {
    return run_is_as_fine() ? enclosed_by_intervals() : elements(f);
  }

  template <class F>
  Centre elements(F f) const {
    Centre centre = start();
    for (std::size_t i = 0; i < centre.error.size(); ++i) set(centre, i, f(view_.input(0).values[i]));
    return centre;
  }

  template <class F>
  Centre pairs(F f) const {
    const Tensor<double>&a = view_.input(0), &b = view_.input(1);
    const BroadcastIndex in_a(a.shape, shape_), in_b(b.shape, shape_);
    Centre centre = start();
    for (std::size_t i = 0; i < centre.error.size(); ++i) set(centre, i, f(a.values[in_a(i)], b.values[in_b(i)]));
    return centre;
  }

  /// Compensated summation: the rounding errors of the additions (two_sum) are added to the sum at the end.
  Enclosed sum_of(const double* x, const std::vector<std::size_t>& elements) const {
    const auto terms = static_cast<std::int64_t>(elements.size());
    double sum = 0.0, lost = 0.0, lost_magnitude = 0.0;
    for (const std::size_t element : elements) {
      const num::ErrorFree next = num::two_sum(sum, x[element]);
      sum = next.value;
      lost += next.error;
      lost_magnitude += std::abs(next.error);
    }
    if (lost_magnitude == 0.0) return {sum, 0.0};
    const Magnitude factor(static_cast<double>(terms) * unit);
    const Magnitude error = factor * Magnitude(theorems::outward(lost_magnitude, terms, 0));
    return {sum + lost, (Magnitude(sum_error(sum + lost)) + error).value()};
  }

  static void set(Centre& centre, std::size_t i, Enclosed y) {
    centre.value.values[i] = y.value;
    centre.error[i] = y.error;
  }

  /// Computes A B with T-10 and T-12 for k fused steps: |error| <= k w |A||B| + k 2^-1074. The factor 1 + 4w and one
  /// more 2^-1074 cover the roundings of the bound itself.
  Centre sums_of_products(const ProductPlan& plan) const {
    const std::vector<double>&a = view_.input(0).values, &b = view_.input(1).values;
    PackedMatrices<double> packed;
    pack_missing<double>(plan, b, packed);
    Centre centre;
    centre.value = Tensor<double>(shape_, multiply<double>(plan, a, packed, fused_chain, setting_.threads));
    centre.error = product_up(plan, magnitudes(a), magnitudes(b), setting_.threads);
    const double factor = static_cast<double>(plan.k) * unit * (1.0 + 4.0 * unit);
    const double lost = static_cast<double>(plan.k + 1) * smallest;
    for (double& sum : centre.error) sum = sum == 0.0 ? 0.0 : sum * factor + lost;
    if (run_is_as_fine()) sharpen(plan, centre);
    return centre;
  }

  /// Takes sums of products from a product of pairs (T-86) where its bound is smaller.
  void sharpen(const ProductPlan& plan, Centre& centre) const {
    const auto extent = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    const std::size_t size = extent(plan.m * plan.n);
    std::vector<double> high(size), low(size), radius(size);
    for (std::size_t batch = 0; batch < extent(plan.batches); ++batch) {
      const double* const a = view_.input(0).values.data() + plan.a_batch[batch];
      const double* const b = view_.input(1).values.data() + plan.b_batch[batch];
      const linalg::PairOperand left({a, nullptr, extent(plan.m), extent(plan.k), plan.a_row, plan.a_col},
                                     linalg::Side::left);
      const linalg::PairOperand right({b, nullptr, extent(plan.n), extent(plan.k), plan.b_col, plan.b_row},
                                      linalg::Side::right);
      linalg::pair_product(left, right, {high.data(), low.data(), radius.data()});
      for (std::size_t i = 0; i < size; ++i) {
        const double error = add_up(radius[i], std::abs(low[i]));
        if (error < centre.error[batch * size + i]) set(centre, batch * size + i, {high[i], error});
      }
    }
  }

  static void scale(Centre& centre, double alpha) {
    for (std::size_t i = 0; i < centre.error.size(); ++i) {
      const Enclosed scaled = product_of_numbers(alpha, centre.value.values[i]);
      const Magnitude error = Magnitude(alpha) * Magnitude(centre.error[i]) + Magnitude(scaled.error);
      set(centre, i, {scaled.value, error.value()});
    }
  }

  void add(Centre& centre, double beta, const Tensor<double>& addend) const {
    const BroadcastIndex index(addend.shape, shape_);
    for (std::size_t i = 0; i < centre.error.size(); ++i) {
      const Enclosed scaled = product_of_numbers(beta, addend.values[index(i)]);
      const Enclosed sum = sum_of_numbers(centre.value.values[i], scaled.value);
      set(centre, i, {sum.value, add_up(centre.error[i], add_up(scaled.error, sum.error))});
    }
  }

  const NodeView& view_;
  const Shape& shape_;
  const Setting& setting_;
};

}  // namespace

Centre centre_of_node(const NodeView& view, const Shape& shape, const Setting& setting) {
  const InDouble in_double(view, shape, setting);
  const bool is_product = product_of(view).has_value();
  const bool is_finite = std::all_of(view.inputs.begin(), view.inputs.end(),
                                     [](const Tensor<double>* input) { return all_finite(input->values); });
  if (!is_product && !is_finite) return in_double.enclosed_by_intervals();
  return checked(std::visit(in_double, view.node->op));
}

}  // namespace driftbound::bounds

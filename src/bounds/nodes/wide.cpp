#include "bounds/nodes/wide.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "bounds/nodes/product_node.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"

namespace driftbound::bounds {
namespace {

/// The number of sums that are computed at the same time.
template <class Number>
constexpr std::size_t columns_at_once = std::is_same_v<Number, double> ? 8 : 4;

/// One row of A: its values in the run, and their differences from the exact network.
struct WideRow {
  std::vector<Extended> run;
  std::vector<double> step;
};

WideRow row_of(const ProductPlan& plan, const ExtendedValue& a, std::int64_t batch, std::int64_t i) {
  WideRow row;
  for (std::int64_t k = 0; k < plan.k; ++k) {
    const std::size_t at = plan.a_index(batch, i, k);
    row.run.push_back(a.run.values[at]);
    row.step.push_back(static_cast<double>(a.step[at]));
  }
  return row;
}

/// Appends the elements j to j + count - 1 of the product of a row with B.
template <std::size_t count, class Number>
void multiply(const ProductPlan& plan, const std::vector<Number>& row, const std::vector<double>& b, std::int64_t batch,
              std::int64_t j, std::vector<Extended>& products) {
  std::array<Number, count> sum{};
  for (std::size_t k = 0; k < row.size(); ++k) {
    const double* const weights = &b[plan.b_index(batch, static_cast<std::int64_t>(k), j)];
    for (std::size_t c = 0; c < count; ++c)
      sum[c] += row[k] * static_cast<Number>(weights[static_cast<std::int64_t>(c) * plan.b_col]);
  }
  products.insert(products.end(), sum.begin(), sum.end());
}

template <class Number>
void multiply(const ProductPlan& plan, const std::vector<Number>& row, const std::vector<double>& b, std::int64_t batch,
              std::vector<Extended>& products) {
  constexpr std::size_t some = columns_at_once<Number>;
  for (std::int64_t j = 0; j < plan.n;) {
    const bool is_whole = plan.n - j >= static_cast<std::int64_t>(some);
    is_whole ? multiply<some>(plan, row, b, batch, j, products) : multiply<1>(plan, row, b, batch, j, products);
    j += is_whole ? static_cast<std::int64_t>(some) : 1;
  }
}

/// Appends A B for constant B: the change is the product of the step of A with B. The product for the run is computed
/// if `with_run` is set.
void add_product_of_first(const ProductPlan& plan, const ExtendedValue& a, const std::vector<double>& b, bool with_run,
                          ExtendedImage& y) {
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      const WideRow row = row_of(plan, a, batch, i);
      multiply(plan, row.step, b, batch, y.change);
      if (with_run) multiply(plan, row.run, b, batch, y.run.values);
    }
  }
}

/// The same for constant A.
void add_product_of_second(const ProductPlan& plan, const std::vector<double>& a, const ExtendedValue& b, bool with_run,
                           ExtendedImage& y) {
  std::vector<Extended> sum(static_cast<std::size_t>(plan.n));
  std::vector<double> change(sum.size());
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      std::fill(sum.begin(), sum.end(), Extended(0));
      std::fill(change.begin(), change.end(), 0.0);
      for (std::int64_t k = 0; k < plan.k; ++k) {
        const double w = a[plan.a_index(batch, i, k)];
        for (std::size_t j = 0; j < sum.size(); ++j) {
          const std::size_t at = plan.b_index(batch, k, static_cast<std::int64_t>(j));
          if (with_run) sum[j] += static_cast<Extended>(w) * b.run.values[at];
          change[j] += w * static_cast<double>(b.step[at]);
        }
      }
      if (with_run) y.run.values.insert(y.run.values.end(), sum.begin(), sum.end());
      y.change.insert(y.change.end(), change.begin(), change.end());
    }
  }
}

/// Returns the midpoints; empty if `balls` is null or a radius is infinite.
std::vector<Extended> midpoints(const Tensor<Ball>* balls) {
  std::vector<Extended> result;
  if (balls == nullptr || !std::all_of(balls->values.begin(), balls->values.end(),
                                       [](const Ball& ball) { return std::isfinite(ball.radius.value()); }))
    return result;
  for (const Ball& ball : balls->values)
    result.push_back(static_cast<Extended>(ball.hi) + static_cast<Extended>(ball.lo));
  return result;
}

bool varies(const ExtendedValue* value) {
  return value != nullptr && !value->step.empty();
}

/// Evaluates alpha A B + beta C if only one of A and B differs between the run and the exact network; else empty.
std::optional<ExtendedImage> product_with_constants(const ExtendedView& view, const NodeView& shadow,
                                                    const Shape& shape, const Tensor<Ball>* exact_run) {
  const std::optional<Product> product = product_of(shadow);
  if (!product || varies(view.inputs[0]) == varies(view.inputs[1])) return std::nullopt;
  if (product->has_addend && varies(view.inputs[2])) return std::nullopt;
  ExtendedImage y;
  y.run.shape = shape;
  std::vector<Extended> known = midpoints(exact_run);
  if (varies(view.inputs[0])) {
    add_product_of_first(product->plan, *view.inputs[0], shadow.input(1).values, known.empty(), y);
  } else {
    add_product_of_second(product->plan, shadow.input(0).values, *view.inputs[1], known.empty(), y);
  }
  const auto alpha = static_cast<Extended>(product->alpha), beta = static_cast<Extended>(product->beta);
  for (Extended& change : y.change) change *= alpha;
  if (!known.empty()) {
    y.run.values = std::move(known);
    return y;
  }
  for (Extended& run : y.run.values) run *= alpha;
  if (!product->has_addend) return y;
  const BroadcastIndex index(shadow.input(2).shape, shape);
  for (std::size_t i = 0; i < y.change.size(); ++i)
    y.run.values[i] += beta * static_cast<Extended>(shadow.input(2).values[index(i)]);
  return y;
}

}  // namespace

Tensor<Extended> widened(const Tensor<double>& values) {
  Tensor<Extended> result(values.shape);
  std::copy(values.values.begin(), values.values.end(), result.values.begin());
  return result;
}

Tensor<Extended> ExtendedValue::exact() const {
  Tensor<Extended> result = run;
  for (std::size_t i = 0; i < step.size(); ++i) result.values[i] -= step[i];
  return result;
}

Tensor<Extended> extended_value(const Node& node, std::vector<const Tensor<Extended>*> operands, const Shape& shape) {
  return std::visit(scalar::OpEvaluator<Extended>(node, std::move(operands), shape), node.op);
}

ExtendedImage approx_image(const ExtendedView& view, const NodeView& shadow, const Shape& shape,
                           const Tensor<Ball>* known) {
  if (std::optional<ExtendedImage> product = product_with_constants(view, shadow, shape, known))
    return std::move(*product);

  std::vector<Tensor<Extended>> constants(view.inputs.size()), exact(view.inputs.size());
  std::vector<const Tensor<Extended>*> of_run, of_exact;
  bool any_varies = false;
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    const ExtendedValue* input = view.inputs[slot];
    if (input == nullptr) constants[slot] = widened(shadow.input(slot));
    of_run.push_back(input == nullptr ? &constants[slot] : &input->run);
    of_exact.push_back(of_run.back());
    if (!varies(input)) continue;
    any_varies = true;
    exact[slot] = input->exact();
    of_exact.back() = &exact[slot];
  }
  ExtendedImage image{extended_value(*view.node, of_run, shape), {}};
  if (!any_varies) return image;
  const Tensor<Extended> there = extended_value(*view.node, of_exact, shape);
  for (std::size_t i = 0; i < there.size(); ++i) image.change.push_back(image.run.values[i] - there.values[i]);
  return image;
}

}  // namespace driftbound::bounds

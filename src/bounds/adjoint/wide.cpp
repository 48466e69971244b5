#include "bounds/adjoint/wide.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "bounds/product_node.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t columns_at_once = 4;

/// Row i of A on both trajectories.
struct WideRow {
  std::vector<Wide> run;
  std::vector<double> step;
};

WideRow row_of(const ProductPlan& plan, const WideValue& a, std::int64_t batch, std::int64_t i) {
  WideRow row;
  for (std::int64_t k = 0; k < plan.k; ++k) {
    const std::size_t at = plan.a_index(batch, i, k);
    row.run.push_back(a.run.values[at]);
    row.step.push_back(static_cast<double>(a.step[at]));
  }
  return row;
}

/// Elements j to j + count - 1 of a row's product with B.
template <std::size_t count>
void multiply(const ProductPlan& plan, const WideRow& row, const double* b, WideImage& y) {
  std::array<Wide, count> sum{};
  std::array<double, count> change{};
  for (std::size_t k = 0; k < row.run.size(); ++k, b += plan.b_row) {
    for (std::size_t j = 0; j < count; ++j) {
      const double w = b[static_cast<std::int64_t>(j) * plan.b_col];
      sum[j] += row.run[k] * static_cast<Wide>(w);
      change[j] += row.step[k] * w;
    }
  }
  y.run.values.insert(y.run.values.end(), sum.begin(), sum.end());
  y.change.insert(y.change.end(), change.begin(), change.end());
}

/// alpha A B + beta C of which A alone varies: the change is the product of the step.
WideImage product_with_constants(const Product& product, const WideValue& a, const NodeView& shadow,
                                 const Shape& shape) {
  const ProductPlan& plan = product.plan;
  WideImage y;
  y.run.shape = shape;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      const WideRow row = row_of(plan, a, batch, i);
      for (std::int64_t j = 0; j < plan.n;) {
        const double* b = &shadow.input(1).values[plan.b_index(batch, 0, j)];
        const bool is_whole = plan.n - j >= static_cast<std::int64_t>(columns_at_once);
        is_whole ? multiply<columns_at_once>(plan, row, b, y) : multiply<1>(plan, row, b, y);
        j += is_whole ? static_cast<std::int64_t>(columns_at_once) : 1;
      }
    }
  }
  const auto alpha = static_cast<Wide>(product.alpha), beta = static_cast<Wide>(product.beta);
  for (std::size_t i = 0; i < y.change.size(); ++i) {
    y.run.values[i] *= alpha;
    y.change[i] *= alpha;
  }
  if (!product.has_addend) return y;
  const BroadcastIndex index(shadow.input(2).shape, shape);
  for (std::size_t i = 0; i < y.change.size(); ++i)
    y.run.values[i] += beta * static_cast<Wide>(shadow.input(2).values[index(i)]);
  return y;
}

/// The first operand varies and no other one.
bool is_linear_in_first(const WideView& view) {
  const auto varies = [](const WideValue* value) { return value != nullptr && !value->step.empty(); };
  return varies(view.inputs[0]) && std::none_of(view.inputs.begin() + 1, view.inputs.end(), varies);
}

}  // namespace

Tensor<Wide> widened(const Tensor<double>& values) {
  Tensor<Wide> result(values.shape);
  std::copy(values.values.begin(), values.values.end(), result.values.begin());
  return result;
}

Tensor<Wide> WideValue::exact() const {
  Tensor<Wide> result = run;
  for (std::size_t i = 0; i < step.size(); ++i) result.values[i] -= step[i];
  return result;
}

Tensor<Wide> wide_value(const Node& node, std::vector<const Tensor<Wide>*> operands, const Shape& shape) {
  return std::visit(scalar::OpEvaluator<Wide>(node, std::move(operands), shape), node.op);
}

WideImage approx_image(const WideView& view, const NodeView& shadow, const Shape& shape) {
  const std::optional<Product> product = product_of(shadow);
  if (product && is_linear_in_first(view)) return product_with_constants(*product, *view.inputs[0], shadow, shape);

  std::vector<Tensor<Wide>> constants(view.inputs.size()), exact(view.inputs.size());
  std::vector<const Tensor<Wide>*> of_run, of_exact;
  bool varies = false;
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    const WideValue* input = view.inputs[slot];
    if (input == nullptr) constants[slot] = widened(shadow.input(slot));
    of_run.push_back(input == nullptr ? &constants[slot] : &input->run);
    of_exact.push_back(of_run.back());
    if (input == nullptr || input->step.empty()) continue;
    varies = true;
    exact[slot] = input->exact();
    of_exact.back() = &exact[slot];
  }
  WideImage image{wide_value(*view.node, of_run, shape), {}};
  if (!varies) return image;
  const Tensor<Wide> there = wide_value(*view.node, of_exact, shape);
  for (std::size_t i = 0; i < there.size(); ++i) image.change.push_back(image.run.values[i] - there.values[i]);
  return image;
}

}  // namespace driftbound::bounds

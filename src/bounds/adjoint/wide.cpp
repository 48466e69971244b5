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
void multiply(const ProductPlan& plan, const WideRow& row, const std::vector<double>& b, std::int64_t batch,
              std::int64_t j, WideImage& y) {
  std::array<Wide, count> sum{};
  std::array<double, count> change{};
  for (std::size_t k = 0; k < row.run.size(); ++k) {
    const double* const weights = &b[plan.b_index(batch, static_cast<std::int64_t>(k), j)];
    for (std::size_t c = 0; c < count; ++c) {
      const double w = weights[static_cast<std::int64_t>(c) * plan.b_col];
      sum[c] += row.run[k] * static_cast<Wide>(w);
      change[c] += row.step[k] * w;
    }
  }
  y.run.values.insert(y.run.values.end(), sum.begin(), sum.end());
  y.change.insert(y.change.end(), change.begin(), change.end());
}

/// A B of which A alone varies: the change is the product of the step.
void add_product_of_first(const ProductPlan& plan, const WideValue& a, const std::vector<double>& b, WideImage& y) {
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      const WideRow row = row_of(plan, a, batch, i);
      for (std::int64_t j = 0; j < plan.n;) {
        const bool is_whole = plan.n - j >= static_cast<std::int64_t>(columns_at_once);
        is_whole ? multiply<columns_at_once>(plan, row, b, batch, j, y) : multiply<1>(plan, row, b, batch, j, y);
        j += is_whole ? static_cast<std::int64_t>(columns_at_once) : 1;
      }
    }
  }
}

/// The same where B alone varies.
void add_product_of_second(const ProductPlan& plan, const std::vector<double>& a, const WideValue& b, WideImage& y) {
  std::vector<Wide> sum(static_cast<std::size_t>(plan.n));
  std::vector<double> change(sum.size());
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      std::fill(sum.begin(), sum.end(), Wide(0));
      std::fill(change.begin(), change.end(), 0.0);
      for (std::int64_t k = 0; k < plan.k; ++k) {
        const double w = a[plan.a_index(batch, i, k)];
        for (std::size_t j = 0; j < sum.size(); ++j) {
          const std::size_t at = plan.b_index(batch, k, static_cast<std::int64_t>(j));
          sum[j] += static_cast<Wide>(w) * b.run.values[at];
          change[j] += w * static_cast<double>(b.step[at]);
        }
      }
      y.run.values.insert(y.run.values.end(), sum.begin(), sum.end());
      y.change.insert(y.change.end(), change.begin(), change.end());
    }
  }
}

bool varies(const WideValue* value) {
  return value != nullptr && !value->step.empty();
}

/// alpha A B + beta C of which one factor alone varies.
std::optional<WideImage> product_with_constants(const WideView& view, const NodeView& shadow, const Shape& shape) {
  const std::optional<Product> product = product_of(shadow);
  if (!product || varies(view.inputs[0]) == varies(view.inputs[1])) return std::nullopt;
  if (product->has_addend && varies(view.inputs[2])) return std::nullopt;
  WideImage y;
  y.run.shape = shape;
  if (varies(view.inputs[0])) {
    add_product_of_first(product->plan, *view.inputs[0], shadow.input(1).values, y);
  } else {
    add_product_of_second(product->plan, shadow.input(0).values, *view.inputs[1], y);
  }
  const auto alpha = static_cast<Wide>(product->alpha), beta = static_cast<Wide>(product->beta);
  for (std::size_t i = 0; i < y.change.size(); ++i) {
    y.run.values[i] *= alpha;
    y.change[i] *= alpha;
  }
  if (!product->has_addend) return y;
  const BroadcastIndex index(shadow.input(2).shape, shape);
  for (std::size_t i = 0; i < y.change.size(); ++i)
    y.run.values[i] += beta * static_cast<Wide>(shadow.input(2).values[index(i)]);
  return y;
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
  if (std::optional<WideImage> product = product_with_constants(view, shadow, shape)) return std::move(*product);

  std::vector<Tensor<Wide>> constants(view.inputs.size()), exact(view.inputs.size());
  std::vector<const Tensor<Wide>*> of_run, of_exact;
  bool any_varies = false;
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    const WideValue* input = view.inputs[slot];
    if (input == nullptr) constants[slot] = widened(shadow.input(slot));
    of_run.push_back(input == nullptr ? &constants[slot] : &input->run);
    of_exact.push_back(of_run.back());
    if (!varies(input)) continue;
    any_varies = true;
    exact[slot] = input->exact();
    of_exact.back() = &exact[slot];
  }
  WideImage image{wide_value(*view.node, of_run, shape), {}};
  if (!any_varies) return image;
  const Tensor<Wide> there = wide_value(*view.node, of_exact, shape);
  for (std::size_t i = 0; i < there.size(); ++i) image.change.push_back(image.run.values[i] - there.values[i]);
  return image;
}

}  // namespace driftbound::bounds

#include "implicit/float_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "implicit/block_steps.hpp"

namespace driftbound::implicit {

namespace {

constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

bool is_in_range(double x) {
  return std::fabs(x) <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace

std::unique_ptr<const FloatNetwork> FloatNetwork::of(const Graph& graph, const Box& box,
                                                     const FloatBlockKernels& kernels) {
  if (!std::all_of(box.lower.begin(), box.lower.end(), is_in_range) ||
      !std::all_of(box.upper.begin(), box.upper.end(), is_in_range))
    return nullptr;
  std::optional<PackedSteps<float>> packed = packed_steps<float>(graph, BlockSteps<float>(kernels));
  if (!packed) return nullptr;
  return std::unique_ptr<const FloatNetwork>(new FloatNetwork(std::move(*packed), box));
}

ArithmeticModel FloatNetwork::arithmetic(const FloatBlockKernels& kernels) {
  // A computed |y| of T-113 is a little more than |f|.
  constexpr double slack = 1.0 + 0x1p-10;
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::blocked, chain_products, kernels.fuses});
  arithmetic.name = "float32 in blocks";
  arithmetic.functions.clear();
  const auto add = [&](const char* function, double units, double absolute_units) {
    arithmetic.functions.push_back(
        {function, units * slack, Evidence::documented, "docs/theory.md T-113", absolute_units});
  };
  add("expm1", 0.0, 5.0);
  add("tanh", 0.0, 6.0);
  add("sigmoid", 0.0, 3.0);
  add("softplus", 1.0, 8.1);
  add("sin", 0.0, 6.0);
  add("cos", 0.0, 6.0);
  return arithmetic;
}

/// A row outside the box is read as a point of it, and marked.
void FloatNetwork::read(std::span<const double> points, std::size_t rows, float* x, float* check) const {
  const std::size_t dimension = network_.dimension;
  for (std::size_t c = 0; c < dimension; ++c) {
    const double lower = box_.lower[c], upper = box_.upper[c];
    float* const column = x + c * block_rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const double at = points[row * dimension + c];
      const double inside = at < lower ? lower : (at > upper ? upper : at);
      column[row] = static_cast<float>(inside);
      check[row] = inside == at ? check[row] : unknown;
    }
    std::fill(column + rows, column + block_rows, column[0]);
  }
}

void FloatNetwork::evaluate(std::span<const double> points, FloatWorkspace& workspace, std::span<float> values) const {
  float check[block_rows] = {};
  read(points, values.size(), workspace.data(), check);
  bool is_known = true;
  for (const std::unique_ptr<const PackedStep<float>>& step : network_.steps)
    is_known = step->run(workspace.data(), block_rows, check) && is_known;
  const float* const y = workspace.data() + network_.output * block_rows;
  for (std::size_t row = 0; row < values.size(); ++row) values[row] = is_known ? y[row] + check[row] : unknown;
}

}  // namespace driftbound::implicit

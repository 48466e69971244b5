#include "implicit/packed_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "implicit/block_steps.hpp"

namespace driftbound::implicit {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
/// So many points cost less one by one than as a block.
constexpr std::size_t few_rows = 8;

}  // namespace

std::unique_ptr<const PackedNetwork> PackedNetwork::of(const Graph& graph, const BlockKernels& kernels) {
  std::optional<PackedSteps<double>> packed = packed_steps<double>(graph, BlockSteps<double>(kernels));
  if (!packed) return nullptr;
  return std::unique_ptr<const PackedNetwork>(new PackedNetwork(std::move(*packed)));
}

ArithmeticModel PackedNetwork::arithmetic() {
  // T-80 bounds errors by multiples of w |computed|: a little more of w |f|.
  constexpr double slack = 1.0 + 0x1p-40;
  ArithmeticModel arithmetic = cpu_arithmetic("fp64", {SummationOrder::Kind::unknown, 0, false});
  arithmetic.name = "float64 in blocks";
  arithmetic.functions.clear();
  const auto add = [&](const char* function, double units, double absolute_units) {
    arithmetic.functions.push_back(
        {function, units * slack, Evidence::documented, "docs/theory.md T-80, T-113", absolute_units});
  };
  add("exp", 2.0, 0.0);
  add("expm1", 8.0, 0.0);
  add("tanh", 0.0, 8.0);
  add("sigmoid", 4.0, 0.0);
  add("softplus", 9.0, 0.0);
  add("sin", 0.0, 8.0);
  add("cos", 0.0, 8.0);
  add("erf", 1.0, 0.0);
  add("sqrt", 1.0, 0.0);
  add("atan", 2.0, 0.0);
  return arithmetic;
}

bool PackedNetwork::run(double* workspace, std::size_t rows, double* check) const {
  bool is_known = true;
  for (const std::unique_ptr<const PackedStep<double>>& step : network_.steps)
    is_known = step->run(workspace, rows, check) && is_known;
  return is_known;
}

void PackedNetwork::evaluate(std::span<const double> points, Workspace& workspace, std::span<double> values) const {
  if (values.size() <= few_rows) {
    for (std::size_t row = 0; row < values.size(); ++row)
      values[row] = evaluate(points.subspan(row * network_.dimension, network_.dimension), workspace.data());
    return;
  }
  double* const x = workspace.data();
  for (std::size_t c = 0; c < network_.dimension; ++c) {
    double* const column = x + c * block_rows;
    for (std::size_t row = 0; row < values.size(); ++row) column[row] = points[row * network_.dimension + c];
    std::fill(column + values.size(), column + block_rows, points[c]);
  }
  double check[block_rows] = {};
  const bool is_known = run(workspace.data(), block_rows, check);
  const double* const y = workspace.data() + network_.output * block_rows;
  for (std::size_t row = 0; row < values.size(); ++row) values[row] = is_known ? y[row] + check[row] : unknown;
}

double PackedNetwork::evaluate(std::span<const double> point, double* workspace) const {
  std::copy(point.begin(), point.end(), workspace);
  double check = 0.0;
  const bool is_known = run(workspace, 1, &check);
  return is_known ? workspace[network_.output] + check : unknown;
}

double PackedNetwork::evaluate(std::span<const double> point) const {
  thread_local std::vector<double> workspace;
  if (workspace.size() < network_.size) workspace.resize(network_.size);
  return evaluate(point, workspace.data());
}

}  // namespace driftbound::implicit

#include "implicit/packed_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "num/double_double.hpp"

namespace driftbound::implicit {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
/// So many points cost less one by one than as a block.
constexpr std::size_t few_rows = 8;

/// The numbers of a constant, one a feature.
AlignedDoubles aligned(const std::vector<double>& values) {
  AlignedDoubles copy(values.size());
  std::copy(values.begin(), values.end(), copy.data());
  return copy;
}

class DenseStep final : public DenseLayer {
public:
  DenseStep(const BlockKernels& kernels, std::size_t inputs, std::size_t outputs)
      : kernels_(kernels),
        inputs_(inputs),
        weights_(inputs * packed_outputs(outputs) + tile_outputs),
        bias_(packed_outputs(outputs)) {
    features = packed_outputs(outputs);
  }

  void set_weight(std::size_t k, std::size_t j, double value) override {
    const std::size_t tile = j / tile_outputs * tile_outputs;
    const std::size_t width = std::min(tile_outputs, features - tile);
    weights_[tile * inputs_ + k * width + j - tile] = value;
  }
  void set_bias(std::size_t j, double value) override { bias_[j] = value; }

  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(kernels_.dense, rows)(weights_.data(), bias_.data(), operand(workspace, 0, rows), result(workspace, rows),
                                   inputs_, features, rectified_, check);
    return true;
  }

private:
  const BlockKernels& kernels_;
  std::size_t inputs_;
  AlignedDoubles weights_, bias_;
};

class FunctionStep final : public PackedStep {
public:
  FunctionStep(BlockKernels::Function f, std::size_t size) : f_(f) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double*) const override {
    return f_(operand(workspace, 0, rows), result(workspace, rows), features * rows);
  }

private:
  BlockKernels::Function f_;
};

/// f(factor x)
class FunctionOfMultipleStep final : public PackedStep {
public:
  FunctionOfMultipleStep(BlockKernels::FunctionOfMultiple f, double factor, std::size_t size) : f_(f), factor_(factor) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double*) const override {
    return f_(operand(workspace, 0, rows), factor_, result(workspace, rows), features * rows);
  }

private:
  BlockKernels::FunctionOfMultiple f_;
  double factor_;
};

class RectifyStep final : public PackedStep {
public:
  RectifyStep(const BlockKernels& kernels, std::size_t size) : kernels_(kernels) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double*) const override {
    kernels_.rectify(operand(workspace, 0, rows), result(workspace, rows), features * rows);
    return true;
  }

private:
  const BlockKernels& kernels_;
};

/// x for x >= 0, alpha (e^x - 1) below; without the exponential alpha x.
class BentStep final : public PackedStep {
public:
  BentStep(const BlockKernels& kernels, BlockKernels::Function expm1, double alpha, std::size_t size)
      : kernels_(kernels), expm1_(expm1), alpha_(alpha) {
    features = size;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    const double* const x = operand(workspace, 0, rows);
    double* const y = result(workspace, rows);
    kernels_.negative_part(x, y, features * rows);
    if (expm1_ != nullptr && !expm1_(y, y, features * rows)) return false;
    loop_for(kernels_.join, rows)(x, alpha_, y, features, check);
    return true;
  }

private:
  const BlockKernels& kernels_;
  BlockKernels::Function expm1_;
  double alpha_;
};

using PairKernel = BlockKernels::Both<BlockKernels::Pair>;

class PairStep final : public PackedStep {
public:
  PairStep(PairKernel f, std::size_t size) : f_(f) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(f_, rows)(operand(workspace, 0, rows), operand(workspace, 1, rows), result(workspace, rows), features,
                       check);
    return true;
  }

private:
  PairKernel f_;
};

class ConstantStep final : public PackedStep {
public:
  ConstantStep(PairKernel f, const std::vector<double>& constants) : f_(f), constants_(aligned(constants)) {
    features = constants.size();
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t rows, double* check) const override {
    loop_for(f_, rows)(operand(workspace, 0, rows), constants_.data(), result(workspace, rows), features, check);
    return true;
  }

private:
  PairKernel f_;
  AlignedDoubles constants_;
};

/// The high parts of erf in double-double.
bool erf(const double* x, double* y, std::size_t n) {
  constexpr std::size_t at_once = block_rows;
  constexpr double zeros[at_once] = {};
  const auto function =
      num::fastest_double_double_kernels().loops[static_cast<std::size_t>(num::DoubleDoubleFunction::erf)];
  double low[at_once];
  bool is_known = true;
  for (std::size_t i = 0; i < n; i += at_once) {
    const std::size_t count = std::min(at_once, n - i);
    function(x + i, zeros, count, y + i, low);
    for (std::size_t j = i; j < i + count; ++j) is_known = is_known && std::isfinite(y[j]);
  }
  return is_known;
}

class MoveStep final : public PackedStep {
public:
  explicit MoveStep(std::size_t size) { features = size; }
  bool run(double* workspace, std::size_t rows, double*) const override {
    double* const y = result(workspace, rows);
    for (std::size_t f = 0; f < features; ++f) std::copy_n(operand(workspace, f, rows), rows, y + f * rows);
    return true;
  }
};

class DoubleSteps final : public StepMaker {
public:
  explicit DoubleSteps(const BlockKernels& kernels) : kernels_(kernels) {}

  bool rounds_constants() const override { return true; }
  std::unique_ptr<DenseLayer> dense(std::size_t inputs, std::size_t outputs) const override {
    return std::make_unique<DenseStep>(kernels_, inputs, outputs);
  }
  std::unique_ptr<PackedStep> function(PackedFunction f, std::size_t size) const override {
    return std::make_unique<FunctionStep>(function_of(f), size);
  }
  std::unique_ptr<PackedStep> function_of_multiple(PackedFunction f, double factor, std::size_t size) const override {
    if (f != PackedFunction::sin && f != PackedFunction::cos) return nullptr;
    const auto loop = f == PackedFunction::sin ? kernels_.sin_of_multiple : kernels_.cos_of_multiple;
    return std::make_unique<FunctionOfMultipleStep>(loop, factor, size);
  }
  std::unique_ptr<PackedStep> rectified(std::size_t size) const override {
    return std::make_unique<RectifyStep>(kernels_, size);
  }
  std::unique_ptr<PackedStep> bent(bool exponential, double alpha, std::size_t size) const override {
    return std::make_unique<BentStep>(kernels_, exponential ? kernels_.expm1 : nullptr, alpha, size);
  }
  std::unique_ptr<PackedStep> of_values(PackedOperation operation, std::size_t size) const override {
    const PairKernel loops[] = {kernels_.add,    kernels_.subtract, kernels_.multiply,
                                kernels_.divide, kernels_.maximum,  kernels_.minimum};
    return std::make_unique<PairStep>(loops[static_cast<std::size_t>(operation)], size);
  }
  std::unique_ptr<PackedStep> with_constants(PackedOperation operation,
                                             const std::vector<double>& constants) const override {
    const PairKernel loops[] = {kernels_.shift,  {}, kernels_.scale, kernels_.divide_by, kernels_.at_least,
                                kernels_.at_most};
    return std::make_unique<ConstantStep>(loops[static_cast<std::size_t>(operation)], constants);
  }
  std::unique_ptr<PackedStep> moved(std::size_t size) const override { return std::make_unique<MoveStep>(size); }

private:
  BlockKernels::Function function_of(PackedFunction f) const {
    switch (f) {
      case PackedFunction::exp:
        return kernels_.exp;
      case PackedFunction::tanh:
        return kernels_.tanh;
      case PackedFunction::sigmoid:
        return kernels_.sigmoid;
      case PackedFunction::softplus:
        return kernels_.softplus;
      case PackedFunction::sin:
        return kernels_.sin;
      case PackedFunction::cos:
        return kernels_.cos;
      case PackedFunction::erf:
        return &erf;
    }
    return nullptr;
  }

  const BlockKernels& kernels_;
};

}  // namespace

std::unique_ptr<const PackedNetwork> PackedNetwork::of(const Graph& graph, const BlockKernels& kernels) {
  std::optional<PackedSteps> packed = packed_steps(graph, DoubleSteps(kernels));
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
  for (const std::unique_ptr<const PackedStep>& step : network_.steps)
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

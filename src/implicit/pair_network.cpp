#include "implicit/pair_network.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "num/double_double.hpp"

namespace driftbound::implicit {
namespace {

using num::DoubleDoubleFunction;

constexpr std::size_t doubles = 2 * pair_rows;  ///< of a feature
/// Layers from this on take no less time than in balls. T-114 allows 2^20 terms a sum.
constexpr std::size_t most_weights = std::size_t{256} * 256;

class DenseStep final : public DenseLayer<double> {
public:
  DenseStep(const PairBlockKernels& kernels, std::size_t inputs, std::size_t outputs)
      : kernels_(kernels), inputs_(inputs), outputs_(outputs) {
    features = (outputs + pair_outputs - 1) / pair_outputs * pair_outputs;
    weights_ = AlignedDoubles(inputs * features);
    bias_ = AlignedDoubles(features);
  }

  void set_weight(std::size_t k, std::size_t j, double value) override {
    const std::size_t tile = j / pair_outputs * pair_outputs;
    weights_[tile * inputs_ + k * pair_outputs + j - tile] = value;
  }
  void set_bias(std::size_t j, double value) override { bias_[j] = value; }

  bool run(double* workspace, std::size_t, double* check) const override {
    kernels_.dense(weights_.data(), bias_.data(), operand(workspace, 0, doubles), result(workspace, doubles), inputs_,
                   outputs_, rectified_, check);
    return true;
  }

private:
  const PairBlockKernels& kernels_;
  std::size_t inputs_, outputs_;
  AlignedDoubles weights_, bias_;
};

/// y = f(x), NaN where the theorem of f does not say what it is.
void apply(DoubleDoubleFunction f, const double* x, double* y, std::size_t features, double* check) {
  const auto loop = num::fastest_double_double_kernels().loops[static_cast<std::size_t>(f)];
  for (std::size_t feature = 0; feature < features; ++feature, x += doubles, y += doubles) {
    loop(x, x + pair_rows, pair_rows, y, y + pair_rows);
    for (std::size_t row = 0; row < pair_rows; ++row) check[row] += 0.0 * y[row];
  }
}

class FunctionStep final : public PackedStep<double> {
public:
  FunctionStep(DoubleDoubleFunction f, std::size_t size) : f_(f) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t, double* check) const override {
    apply(f_, operand(workspace, 0, doubles), result(workspace, doubles), features, check);
    return true;
  }

private:
  DoubleDoubleFunction f_;
};

class RectifyStep final : public PackedStep<double> {
public:
  RectifyStep(const PairBlockKernels& kernels, std::size_t size) : kernels_(kernels) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t, double*) const override {
    kernels_.rectify(operand(workspace, 0, doubles), result(workspace, doubles), features);
    return true;
  }

private:
  const PairBlockKernels& kernels_;
};

class BentStep final : public PackedStep<double> {
public:
  BentStep(const PairBlockKernels& kernels, bool exponential, double alpha, std::size_t size)
      : kernels_(kernels), exponential_(exponential), alpha_(alpha) {
    features = size;
  }
  bool run(double* workspace, std::size_t, double* check) const override {
    const double* const x = operand(workspace, 0, doubles);
    double* const y = result(workspace, doubles);
    kernels_.negative_part(x, y, features);
    if (exponential_) apply(DoubleDoubleFunction::expm1, y, y, features, check);
    kernels_.join(x, alpha_, y, features, check);
    return true;
  }

private:
  const PairBlockKernels& kernels_;
  bool exponential_;
  double alpha_;
};

class OperationStep final : public PackedStep<double> {
public:
  OperationStep(PairBlockKernels::Operation operation, std::size_t size) : operation_(operation) {
    features = size;
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t, double* check) const override {
    operation_(operand(workspace, 0, doubles), operand(workspace, 1, doubles), result(workspace, doubles), features,
               check);
    return true;
  }

private:
  PairBlockKernels::Operation operation_;
};

class ConstantStep final : public PackedStep<double> {
public:
  ConstantStep(PairBlockKernels::Operation operation, std::vector<double> constants)
      : operation_(operation), constants_(std::move(constants)) {
    features = constants_.size();
    may_overwrite = true;
  }
  bool run(double* workspace, std::size_t, double* check) const override {
    operation_(operand(workspace, 0, doubles), constants_.data(), result(workspace, doubles), features, check);
    return true;
  }

private:
  PairBlockKernels::Operation operation_;
  std::vector<double> constants_;
};

class MoveStep final : public PackedStep<double> {
public:
  explicit MoveStep(std::size_t size) { features = size; }
  bool run(double* workspace, std::size_t, double*) const override {
    double* const y = result(workspace, doubles);
    for (std::size_t f = 0; f < features; ++f) std::copy_n(operand(workspace, f, doubles), doubles, y + f * doubles);
    return true;
  }
};

class PairSteps final : public StepMaker<double> {
public:
  explicit PairSteps(const PairBlockKernels& kernels) : kernels_(kernels) {}

  bool rounds_constants() const override { return false; }
  std::unique_ptr<DenseLayer<double>> dense(std::size_t inputs, std::size_t outputs) const override {
    if (inputs * outputs >= most_weights) return nullptr;
    return std::make_unique<DenseStep>(kernels_, inputs, outputs);
  }
  std::unique_ptr<Step> function(PackedFunction f, std::size_t size) const override {
    return std::make_unique<FunctionStep>(function_of(f), size);
  }
  std::unique_ptr<Step> rectified(std::size_t size) const override {
    return std::make_unique<RectifyStep>(kernels_, size);
  }
  std::unique_ptr<Step> bent(bool exponential, double alpha, std::size_t size) const override {
    return std::make_unique<BentStep>(kernels_, exponential, alpha, size);
  }
  std::unique_ptr<Step> of_values(PackedOperation operation, std::size_t size) const override {
    return std::make_unique<OperationStep>(kernels_.of_values[static_cast<std::size_t>(operation)], size);
  }
  std::unique_ptr<Step> with_constants(PackedOperation operation, const std::vector<double>& constants) const override {
    return std::make_unique<ConstantStep>(kernels_.with_constants[static_cast<std::size_t>(operation)], constants);
  }
  std::unique_ptr<Step> moved(std::size_t size) const override { return std::make_unique<MoveStep>(size); }

private:
  static DoubleDoubleFunction function_of(PackedFunction f) {
    switch (f) {
      case PackedFunction::exp:
        return DoubleDoubleFunction::exp;
      case PackedFunction::tanh:
        return DoubleDoubleFunction::tanh;
      case PackedFunction::sigmoid:
        return DoubleDoubleFunction::sigmoid;
      case PackedFunction::softplus:
        return DoubleDoubleFunction::softplus;
      case PackedFunction::sin:
        return DoubleDoubleFunction::sin;
      case PackedFunction::cos:
        return DoubleDoubleFunction::cos;
      case PackedFunction::erf:
        break;
    }
    return DoubleDoubleFunction::erf;
  }

  const PairBlockKernels& kernels_;
};

}  // namespace

std::unique_ptr<const PairNetwork> PairNetwork::of(const Graph& graph, const PairBlockKernels& kernels) {
  std::optional<PackedSteps<double>> packed = packed_steps<double>(graph, PairSteps(kernels));
  if (!packed) return nullptr;
  return std::unique_ptr<const PairNetwork>(new PairNetwork(std::move(*packed)));
}

PairNetwork::PairNetwork(PackedSteps<double> network)
    : network_(std::move(network)), workspaces_(network_.size * doubles) {}

void PairNetwork::evaluate(std::span<const double> points, Workspace& workspace, std::span<double> high,
                           std::span<double> low) const {
  double* const x = workspace.data();
  for (std::size_t c = 0; c < network_.dimension; ++c)
    for (std::size_t row = 0; row < pair_rows; ++row) {
      x[c * doubles + row] = points[(row < high.size() ? row * network_.dimension : 0) + c];
      x[c * doubles + pair_rows + row] = 0.0;
    }
  double check[pair_rows] = {};
  for (const std::unique_ptr<const PackedStep<double>>& step : network_.steps) step->run(x, pair_rows, check);
  const double* const y = x + network_.output * doubles;
  for (std::size_t row = 0; row < high.size(); ++row) {
    high[row] = y[row] + check[row];
    low[row] = y[pair_rows + row];
  }
}

}  // namespace driftbound::implicit

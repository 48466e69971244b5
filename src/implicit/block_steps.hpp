#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "implicit/kernels/blocks.hpp"
#include "implicit/packer.hpp"
#include "implicit/workspace.hpp"
#include "num/double_double.hpp"

namespace driftbound::implicit {

// The steps of networks that go over blocks of points in float64 or float32.

template <class Real>
using FunctionLoop = typename BlockKernelsOf<Real>::Function;
template <class Real>
using MultipleLoop = typename BlockKernelsOf<Real>::FunctionOfMultiple;
template <class Real>
using PairLoops = typename BlockKernelsOf<Real>::template Both<typename BlockKernelsOf<Real>::Pair>;

template <class Both>
auto loop_for(const Both& both, std::size_t rows) {
  return rows == 1 ? both.point : both.block;
}

/// The numbers of a constant, one a feature.
template <class Real>
Aligned<Real> aligned(const std::vector<double>& values) {
  Aligned<Real> copy(values.size());
  std::transform(values.begin(), values.end(), copy.data(), [](double x) { return static_cast<Real>(x); });
  return copy;
}

template <class Real>
class DenseStep final : public DenseLayer<Real> {
public:
  DenseStep(const BlockKernelsOf<Real>& kernels, std::size_t inputs, std::size_t outputs)
      : kernels_(kernels),
        inputs_(inputs),
        weights_(inputs * packed_outputs(outputs) + tile_outputs),
        bias_(packed_outputs(outputs)) {
    this->features = packed_outputs(outputs);
  }

  void set_weight(std::size_t k, std::size_t j, double value) override {
    const std::size_t tile = j / tile_outputs * tile_outputs;
    const std::size_t width = std::min(tile_outputs, this->features - tile);
    weights_[tile * inputs_ + k * width + j - tile] = static_cast<Real>(value);
  }
  void set_bias(std::size_t j, double value) override { bias_[j] = static_cast<Real>(value); }

  bool run(Real* workspace, std::size_t rows, Real* check) const override {
    loop_for(kernels_.dense, rows)(weights_.data(), bias_.data(), this->operand(workspace, 0, rows),
                                   this->result(workspace, rows), inputs_, this->features, this->rectified_, check);
    return true;
  }

private:
  const BlockKernelsOf<Real>& kernels_;
  std::size_t inputs_;
  Aligned<Real> weights_, bias_;
};

template <class Real>
class FunctionStep final : public PackedStep<Real> {
public:
  FunctionStep(FunctionLoop<Real> f, std::size_t size) : f_(f) {
    this->features = size;
    this->may_overwrite = true;
  }
  bool run(Real* workspace, std::size_t rows, Real*) const override {
    return f_(this->operand(workspace, 0, rows), this->result(workspace, rows), this->features * rows);
  }

private:
  FunctionLoop<Real> f_;
};

/// f(factor x)
template <class Real>
class FunctionOfMultipleStep final : public PackedStep<Real> {
public:
  FunctionOfMultipleStep(MultipleLoop<Real> f, double factor, std::size_t size)
      : f_(f), factor_(static_cast<Real>(factor)) {
    this->features = size;
    this->may_overwrite = true;
  }
  bool run(Real* workspace, std::size_t rows, Real*) const override {
    return f_(this->operand(workspace, 0, rows), factor_, this->result(workspace, rows), this->features * rows);
  }

private:
  MultipleLoop<Real> f_;
  Real factor_;
};

template <class Real>
class RectifyStep final : public PackedStep<Real> {
public:
  RectifyStep(const BlockKernelsOf<Real>& kernels, std::size_t size) : kernels_(kernels) {
    this->features = size;
    this->may_overwrite = true;
  }
  bool run(Real* workspace, std::size_t rows, Real*) const override {
    kernels_.rectify(this->operand(workspace, 0, rows), this->result(workspace, rows), this->features * rows);
    return true;
  }

private:
  const BlockKernelsOf<Real>& kernels_;
};

/// x for x >= 0, alpha (e^x - 1) below; without the exponential alpha x.
template <class Real>
class BentStep final : public PackedStep<Real> {
public:
  BentStep(const BlockKernelsOf<Real>& kernels, FunctionLoop<Real> expm1, double alpha, std::size_t size)
      : kernels_(kernels), expm1_(expm1), alpha_(static_cast<Real>(alpha)) {
    this->features = size;
  }
  bool run(Real* workspace, std::size_t rows, Real* check) const override {
    const Real* const x = this->operand(workspace, 0, rows);
    Real* const y = this->result(workspace, rows);
    kernels_.negative_part(x, y, this->features * rows);
    if (expm1_ != nullptr && !expm1_(y, y, this->features * rows)) return false;
    loop_for(kernels_.join, rows)(x, alpha_, y, this->features, check);
    return true;
  }

private:
  const BlockKernelsOf<Real>& kernels_;
  FunctionLoop<Real> expm1_;
  Real alpha_;
};

template <class Real>
class PairStep final : public PackedStep<Real> {
public:
  PairStep(PairLoops<Real> f, std::size_t size) : f_(f) {
    this->features = size;
    this->may_overwrite = true;
  }
  bool run(Real* workspace, std::size_t rows, Real* check) const override {
    loop_for(f_, rows)(this->operand(workspace, 0, rows), this->operand(workspace, 1, rows),
                       this->result(workspace, rows), this->features, check);
    return true;
  }

private:
  PairLoops<Real> f_;
};

template <class Real>
class ConstantStep final : public PackedStep<Real> {
public:
  ConstantStep(PairLoops<Real> f, const std::vector<double>& constants) : f_(f), constants_(aligned<Real>(constants)) {
    this->features = constants.size();
    this->may_overwrite = true;
  }
  bool run(Real* workspace, std::size_t rows, Real* check) const override {
    loop_for(f_, rows)(this->operand(workspace, 0, rows), constants_.data(), this->result(workspace, rows),
                       this->features, check);
    return true;
  }

private:
  PairLoops<Real> f_;
  Aligned<Real> constants_;
};

/// The high parts of erf in double-double.
inline bool erf(const double* x, double* y, std::size_t n) {
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

template <class Real>
class MoveStep final : public PackedStep<Real> {
public:
  explicit MoveStep(std::size_t size) { this->features = size; }
  bool run(Real* workspace, std::size_t rows, Real*) const override {
    Real* const y = this->result(workspace, rows);
    for (std::size_t f = 0; f < this->features; ++f) std::copy_n(this->operand(workspace, f, rows), rows, y + f * rows);
    return true;
  }
};

/// What no input reaches is rounded in float64 alone: there the constants of a network need not be exact.
template <class Real>
class BlockSteps final : public StepMaker<Real> {
public:
  using Step = PackedStep<Real>;

  explicit BlockSteps(const BlockKernelsOf<Real>& kernels) : kernels_(kernels) {}

  bool rounds_constants() const override { return is_double; }
  std::unique_ptr<DenseLayer<Real>> dense(std::size_t inputs, std::size_t outputs) const override {
    return std::make_unique<DenseStep<Real>>(kernels_, inputs, outputs);
  }
  std::unique_ptr<Step> function(PackedFunction f, std::size_t size) const override {
    const FunctionLoop<Real> loop = function_of(f);
    return loop != nullptr ? std::make_unique<FunctionStep<Real>>(loop, size) : nullptr;
  }
  std::unique_ptr<Step> function_of_multiple(PackedFunction f, double factor, std::size_t size) const override {
    if (f != PackedFunction::sin && f != PackedFunction::cos) return nullptr;
    const auto loop = f == PackedFunction::sin ? kernels_.sin_of_multiple : kernels_.cos_of_multiple;
    return std::make_unique<FunctionOfMultipleStep<Real>>(loop, factor, size);
  }
  std::unique_ptr<Step> rectified(std::size_t size) const override {
    return std::make_unique<RectifyStep<Real>>(kernels_, size);
  }
  std::unique_ptr<Step> bent(bool exponential, double alpha, std::size_t size) const override {
    return std::make_unique<BentStep<Real>>(kernels_, exponential ? kernels_.expm1 : nullptr, alpha, size);
  }
  std::unique_ptr<Step> of_values(PackedOperation operation, std::size_t size) const override {
    const PairLoops<Real> loops[] = {kernels_.add,    kernels_.subtract, kernels_.multiply,
                                     kernels_.divide, kernels_.maximum,  kernels_.minimum};
    return std::make_unique<PairStep<Real>>(loops[static_cast<std::size_t>(operation)], size);
  }
  std::unique_ptr<Step> with_constants(PackedOperation operation, const std::vector<double>& constants) const override {
    const PairLoops<Real> loops[] = {kernels_.shift,  {}, kernels_.scale, kernels_.divide_by, kernels_.at_least,
                                     kernels_.at_most};
    return std::make_unique<ConstantStep<Real>>(loops[static_cast<std::size_t>(operation)], constants);
  }
  std::unique_ptr<Step> moved(std::size_t size) const override { return std::make_unique<MoveStep<Real>>(size); }

private:
  static constexpr bool is_double = std::is_same_v<Real, double>;

  FunctionLoop<Real> function_of(PackedFunction f) const {
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
        if constexpr (is_double) return &erf;
        break;
    }
    return nullptr;
  }

  const BlockKernelsOf<Real>& kernels_;
};

}  // namespace driftbound::implicit

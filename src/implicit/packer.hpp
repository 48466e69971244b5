#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "implicit/packed_step.hpp"

namespace driftbound::implicit {

enum class PackedFunction { exp, tanh, sigmoid, softplus, sin, cos, erf };
enum class PackedOperation { add, subtract, multiply, divide, maximum, minimum };

/// Makes the steps of one arithmetic, from constants that are numbers of the format. Null: it has no such step.
template <class Real>
class StepMaker {
public:
  using Step = PackedStep<Real>;

  virtual ~StepMaker() = default;
  /// Whether what no input reaches may be rounded, once an element.
  virtual bool rounds_constants() const = 0;
  virtual std::unique_ptr<DenseLayer<Real>> dense(std::size_t inputs, std::size_t outputs) const = 0;
  virtual std::unique_ptr<Step> function(PackedFunction f, std::size_t size) const = 0;
  /// Whether every Gelu is asked for as one step by gelu(), and not as its body.
  virtual bool has_gelu() const { return false; }
  virtual std::unique_ptr<Step> gelu(bool /*tanh_form*/, std::size_t) const { return nullptr; }
  /// f(factor x), the product rounded, in one step.
  virtual std::unique_ptr<Step> function_of_multiple(PackedFunction, double /*factor*/, std::size_t) const {
    return nullptr;
  }
  virtual std::unique_ptr<Step> rectified(std::size_t size) const = 0;
  /// x for x >= 0, alpha (e^x - 1) below; without the exponential alpha x.
  virtual std::unique_ptr<Step> bent(bool exponential, double alpha, std::size_t size) const = 0;
  virtual std::unique_ptr<Step> of_values(PackedOperation operation, std::size_t size) const = 0;
  /// One number a feature; no difference is asked for.
  virtual std::unique_ptr<Step> with_constants(PackedOperation operation,
                                               const std::vector<double>& constants) const = 0;
  /// Features copied one by one.
  virtual std::unique_ptr<Step> moved(std::size_t size) const = 0;
};

/// A network written out as steps; sizes and places in features, the input at 0.
template <class Real>
struct PackedSteps {
  std::size_t dimension = 0, size = 0, output = 0;
  PackedPlace result;  ///< the buffer of the output, which is buffer 0 where it is the input
  std::vector<std::unique_ptr<const PackedStep<Real>>> steps;
};

/// Of a graph with one input and one output element a sample. Empty where it has other ops than there are steps, takes one
/// sample at a time, or has a constant that is no Real.
/// `refused`: if not null, is set to the name of the node without a step and its op, where that is the reason
template <class Real>
std::optional<PackedSteps<Real>> packed_steps(const Graph& graph, const StepMaker<Real>& maker,
                                              std::string* refused = nullptr);

}  // namespace driftbound::implicit

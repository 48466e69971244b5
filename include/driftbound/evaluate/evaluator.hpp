#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

struct RunOptions {
  std::int64_t batch = 0;  ///< samples evaluated together; 0: all (batched models only)
  int threads = 1;
  /// Samples to record, ascending and distinct; empty: all. All samples are evaluated in their batches; the trace
  /// holds inputs and layers of these alone.
  std::vector<std::int64_t> rows;
  /// Whether a run on a device is repeated without capture and the outputs are compared bit for bit
  /// (Provenance::observer_effect). Both runs evaluate all samples; the samples compared are those that `rows` records,
  /// so that ObserverEffect::none says nothing of the others. Where there is nothing to compare it is not_checked: no
  /// output depends on an input, or the evaluator is the CPU's, which keeps every layer in any case.
  bool check_observer_effect = true;
  /// Called between batches with samples done and in all; returning false stops the run (Interrupted).
  std::function<bool(std::int64_t, std::int64_t)> progress;
};

/// Thrown by long calls whose progress callback returned false.
class Interrupted : public Error {
public:
  using Error::Error;
};

/// Something that runs a graph and records every layer. Cheap to copy, thread-safe.
class Evaluator {
public:
  class Implementation {
  public:
    virtual ~Implementation() = default;
    virtual ArithmeticModel arithmetic() const = 0;
    virtual Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options) const = 0;
  };

  explicit Evaluator(std::shared_ptr<const Implementation> implementation)
      : implementation_(std::move(implementation)) {}
  ArithmeticModel arithmetic() const { return implementation_->arithmetic(); }
  Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options = {}) const {
    return implementation_->run(graph, inputs, options);
  }

private:
  std::shared_ptr<const Implementation> implementation_;
};

/// Evaluates on the CPU in exactly the arithmetic named (trace/arithmetic.hpp: cpu_arithmetic), in its
/// declared summation order; with a matrix unit, in the steps of exactly that unit (trace/product_kernel.hpp: kernel_of;
/// trace/matrix_units.hpp). The same graph, inputs and arithmetic give the same bits on every machine, with every number
/// of threads and every batch size.
/// `kernels`: of the graphs that it runs. The products of a node with a kernel, a Gemm, a MatMul or a Conv whose terms come
/// channel after channel, are computed by it, whatever the arithmetic says of products.
/// Throws:    Unsupported where the order is `unknown`, and for kernels of other ops, of sums in other than float32, or of
///            convolutions in another order; InvalidArgument for numbers of a unit out of range, and when run for kernels of
///            another number of nodes; UnsoundEnvironment when run
Evaluator cpu_evaluator(const ArithmeticModel& arithmetic, const KernelsByNode& kernels = {});

}  // namespace driftbound

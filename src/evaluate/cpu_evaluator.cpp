#include <algorithm>
#include <optional>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "evaluate/batch_program.hpp"
#include "evaluate/batches.hpp"
#include "evaluate/node_evaluator.hpp"
#include "evaluate/provenance.hpp"
#include "evaluate/recorder.hpp"
#include "program/walk.hpp"

namespace driftbound {
namespace {

/// One run of a graph: what is the same for every sample once a program, the rest batch after batch.
template <class Real>
class CpuRun {
public:
  CpuRun(const Graph& graph, const Batches& batches, const ArithmeticModel& arithmetic, const KernelsByNode& kernels,
         int threads)
      : batches_(batches),
        arithmetic_(arithmetic),
        kernels_(kernels),
        threads_(threads),
        program_(graph, batches),
        recorder_(graph, batches) {}

  std::vector<LayerTrace> layers() {
    batches_.for_each([&](const Inputs& batch, std::int64_t first, std::int64_t count) {
      if (program_.compile(batch, count)) start_program();
      values_->start_batch(batch);
      recorder_.start_batch(first, count);
      walk(program(), true, *this);
    });
    return recorder_.take(arithmetic_);
  }

  /// Computes a node of the program and records it, if it is a layer.
  void forward(std::size_t node) {
    const ValueId id = program().nodes()[node].output;
    const std::optional<std::size_t> layer = layer_of(program(), node);
    Tensor<Real> y = evaluate_node(program(), node, arithmetic_, kernel_of_node(node), threads_, *values_);
    if (layer) y = rounded<Real>(std::move(y), stored_format(arithmetic_, program().flat().graph.value(id).type));
    values_->set(id, std::move(y));
    if (layer) record(*layer, id);
  }

  void release(ValueId id) { values_->release(id); }

private:
  const Program& program() const { return *program_; }

  /// Null: the arithmetic says how it is computed.
  const ProductKernel* kernel_of_node(std::size_t node) const {
    if (kernels_.empty() || !multiplies_matrices(program().nodes()[node].op)) return nullptr;
    const std::optional<ProductKernel>& kernel = kernels_[program().flat().of_node[node]];
    return kernel ? &*kernel : nullptr;
  }

  void start_program() {
    values_.emplace(program(), arithmetic_.accumulator);
    walk(program(), false, *this);
    is_first_ = false;
  }

  void record(std::size_t layer, ValueId id) {
    const Tensor<Real>& y = values_->operand(id);
    const auto copy = [&](std::int64_t first, std::int64_t count, Real* to) {
      std::copy_n(y.values.begin() + first, count, to);
    };
    if (program().varies(id)) {
      recorder_.append(layer, y.shape, copy);
    } else if (is_first_) {
      recorder_.record_once(layer, y.shape, copy);
    }
  }

  const Batches& batches_;
  const ArithmeticModel& arithmetic_;
  const KernelsByNode& kernels_;
  const int threads_;
  BatchProgram program_;
  Recorder<Real> recorder_;
  std::optional<Values<Real>> values_;  ///< of the present program
  bool is_first_ = true;                ///< whether the first program is being started
};

class CpuEvaluator final : public Evaluator::Implementation {
public:
  CpuEvaluator(ArithmeticModel arithmetic, KernelsByNode kernels)
      : arithmetic_(std::move(arithmetic)), kernels_(std::move(kernels)) {}

  ArithmeticModel arithmetic() const override { return arithmetic_; }

  Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options) const override {
    require_sound_environment();
    require_fitting(graph);
    const Batches batches(graph, inputs, options);
    Trace trace;
    trace.arithmetic = arithmetic_;
    trace.provenance = cpu_provenance();
    if (arithmetic_.tensor_core) {
      trace.provenance.backend = "sim";
      trace.provenance.details["gemm"] = "simulated matrix unit";
      trace.provenance.details["simulated"] = arithmetic_.source;
    }
    describe_batches(batches, trace.provenance);
    trace.inputs = batches.recorded_inputs();
    trace.samples = batches.recorded_samples();
    const bool single = arithmetic_.accumulator == FormatId::fp32;
    trace.layers = single ? CpuRun<float>(graph, batches, arithmetic_, kernels_, options.threads).layers()
                          : CpuRun<double>(graph, batches, arithmetic_, kernels_, options.threads).layers();
    return trace;
  }

private:
  void require_fitting(const Graph& graph) const {
    if (kernels_.empty()) return;
    if (kernels_.size() != graph.nodes.size())
      throw InvalidArgument("the CPU evaluator was given kernels for " + std::to_string(kernels_.size()) +
                            " nodes, and the graph has " + std::to_string(graph.nodes.size()));
    for (std::size_t node = 0; node < kernels_.size(); ++node) {
      const Op& op = graph.nodes[node].op;
      if (kernels_[node] && !multiplies_matrices(op) && !std::holds_alternative<op::Conv>(op))
        throw Unsupported("the CPU evaluator takes kernels of Gemm, MatMul and Conv, not of " +
                          std::string(name_of(op)) + " '" + graph.nodes[node].name + "'");
    }
  }

  ArithmeticModel arithmetic_;
  KernelsByNode kernels_;
};

std::string in_message(const ArithmeticModel& arithmetic) {
  return "the CPU evaluator cannot run arithmetic '" + arithmetic.name + "': ";
}

void require_runnable_unit(const ArithmeticModel& arithmetic) {
  const TensorCore& unit = *arithmetic.tensor_core;
  if (arithmetic.accumulator != FormatId::fp32 || arithmetic.input == FormatId::fp32)
    throw Unsupported(in_message(arithmetic) + "a matrix unit takes operands of a narrow format and has float32 sums");
  if (unit.fraction_bits < 1 || unit.fraction_bits > 40 || unit.block < 1 || unit.block > 64 || unit.sum_bits < 1 ||
      unit.sum_bits > 23 || unit.promotion < 0 || (unit.promotion > 0 && unit.promotion < unit.block))
    throw InvalidArgument(in_message(arithmetic) +
                          "a matrix unit has 1 to 40 fraction bits, 1 to 64 products a step, 1 to 23 sum bits, and no "
                          "promotion or one after a block or more");
  kernel_of(arithmetic, unit.block);  // refuses other orders
}

void require_runnable(const ArithmeticModel& arithmetic) {
  const Format& accumulator = format(arithmetic.accumulator);
  const Format& input = format(arithmetic.input);
  if (arithmetic.order.kind == SummationOrder::Kind::unknown) {
    throw Unsupported(in_message(arithmetic) +
                      "its order of summation is unknown; name one, for example blocked:8+fma");
  }
  if (arithmetic.order.kind == SummationOrder::Kind::height) {
    throw Unsupported(in_message(arithmetic) + "its order of summation, " + to_string(arithmetic.order) +
                      ", says how high a tree of additions is, not which one it is; name one, for example "
                      "blocked:8+fma");
  }
  const bool counted =
      arithmetic.order.kind == SummationOrder::Kind::blocked || arithmetic.order.kind == SummationOrder::Kind::split_k;
  if (counted && arithmetic.order.parameter < 1) {
    throw InvalidArgument(in_message(arithmetic) + "the order " + to_string(arithmetic.order) +
                          " needs a number of at least 1");
  }
  if (accumulator.id != FormatId::fp32 && accumulator.id != FormatId::fp64) {
    throw Unsupported(in_message(arithmetic) + "it accumulates in " + std::string(accumulator.name) +
                      ", not in fp32 or fp64");
  }
  if (!holds_all_of(accumulator, format(arithmetic.output))) {
    throw Unsupported(in_message(arithmetic) + "it stores results in a wider format than it accumulates in");
  }
  if (input.precision > accumulator.precision) {
    throw Unsupported(in_message(arithmetic) + "its operands are wider than its accumulator");
  }
  if (arithmetic.reduced_reduction && !arithmetic.tensor_core) {
    throw Unsupported(in_message(arithmetic) + "it rounds parts of sums; leave out reduced_reduction");
  }
  if (arithmetic.tensor_core) require_runnable_unit(arithmetic);
  if (arithmetic.rounding != Rounding::nearest_even || arithmetic.flushes_subnormals || arithmetic.products_may_flush) {
    throw Unsupported(in_message(arithmetic) + "it must round to nearest even and keep subnormal numbers");
  }
}

void require_runnable(const ArithmeticModel& arithmetic, const KernelsByNode& kernels) {
  for (const std::optional<ProductKernel>& kernel : kernels) {
    if (!kernel) continue;
    if (!kernel->of_products || kernel->row || kernel->channels_together > 1)
      throw Unsupported(in_message(arithmetic) +
                        "a kernel is that of other sums than products, or of a convolution whose terms do not come "
                        "channel after channel");
    const bool is_double = arithmetic.accumulator == FormatId::fp64, reads_doubles = kernel->operands == FormatId::fp64;
    if (is_double != reads_doubles || (is_double && kernel->matrix_unit))
      throw Unsupported(in_message(arithmetic) + "a kernel has sums of another format than the arithmetic");
  }
}

}  // namespace

Evaluator cpu_evaluator(const ArithmeticModel& arithmetic, const KernelsByNode& kernels) {
  require_runnable(arithmetic);
  require_runnable(arithmetic, kernels);
  return Evaluator(std::make_shared<const CpuEvaluator>(arithmetic, kernels));
}

}  // namespace driftbound

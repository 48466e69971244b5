#include <algorithm>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/environment.hpp"
#include "evaluate/batches.hpp"
#include "evaluate/node_evaluator.hpp"
#include "evaluate/provenance.hpp"
#include "evaluate/recorder.hpp"

namespace driftbound {
namespace {

template <class Real>
std::vector<LayerTrace> layers_of(const Graph& graph, const Batches& batches, const ArithmeticModel& arithmetic,
                                  int threads) {
  Recorder<Real> recorder(graph, batches);
  Values<Real> values(graph, arithmetic);
  const auto evaluate = [&](std::size_t node) {
    const ValueId id = graph.nodes[node].output;
    Tensor<Real> y = evaluate_node(graph, node, arithmetic, threads, values);
    values.set(id, rounded<Real>(std::move(y), stored_format(arithmetic, graph.value(id).type)));
  };
  const auto output = [&](std::size_t node) -> const Tensor<Real>& { return values.operand(graph.nodes[node].output); };
  const auto copy_of = [&](std::size_t node) {
    return [&from = output(node).values](std::int64_t first, std::int64_t count, Real* to) {
      std::copy_n(from.begin() + first, count, to);
    };
  };
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (values.depends_on_input(graph.nodes[node].output)) continue;
    evaluate(node);
    recorder.record_once(node, output(node).shape, copy_of(node));
  }
  batches.for_each([&](const Inputs& batch, std::int64_t first, std::int64_t count) {
    values.start_batch(batch);
    recorder.start_batch(first, count);
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (!values.depends_on_input(graph.nodes[node].output)) continue;
      evaluate(node);
      recorder.append(node, output(node).shape, copy_of(node));
    }
  });
  return recorder.take(arithmetic);
}

class CpuEvaluator final : public Evaluator::Implementation {
public:
  explicit CpuEvaluator(ArithmeticModel arithmetic) : arithmetic_(std::move(arithmetic)) {}

  ArithmeticModel arithmetic() const override { return arithmetic_; }

  Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options) const override {
    require_sound_environment();
    const Batches batches(graph, inputs, options);
    Trace trace;
    trace.arithmetic = arithmetic_;
    trace.provenance = cpu_provenance();
    describe_batches(batches, trace.provenance);
    trace.inputs = batches.recorded_inputs();
    trace.samples = batches.recorded_samples();
    const bool single = arithmetic_.accumulator == FormatId::fp32;
    trace.layers = single ? layers_of<float>(graph, batches, arithmetic_, options.threads)
                          : layers_of<double>(graph, batches, arithmetic_, options.threads);
    return trace;
  }

private:
  ArithmeticModel arithmetic_;
};

std::string in_message(const ArithmeticModel& arithmetic) {
  return "the CPU evaluator cannot run arithmetic '" + arithmetic.name + "': ";
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
  if (arithmetic.reduced_reduction) {
    throw Unsupported(in_message(arithmetic) + "it rounds parts of sums; leave out reduced_reduction");
  }
  if (arithmetic.tensor_core) {
    throw Unsupported(in_message(arithmetic) + "it adds products in a matrix unit; leave out tensor_core");
  }
  if (arithmetic.rounding != Rounding::nearest_even || arithmetic.flushes_subnormals || arithmetic.products_may_flush) {
    throw Unsupported(in_message(arithmetic) + "it must round to nearest even and keep subnormal numbers");
  }
}

}  // namespace

Evaluator cpu_evaluator(const ArithmeticModel& arithmetic) {
  require_runnable(arithmetic);
  return Evaluator(std::make_shared<const CpuEvaluator>(arithmetic));
}

}  // namespace driftbound

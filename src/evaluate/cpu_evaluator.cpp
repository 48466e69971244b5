#include <algorithm>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/environment.hpp"
#include "evaluate/node_evaluator.hpp"
#include "evaluate/provenance.hpp"

namespace driftbound {
namespace {

/// The outputs of all nodes, batch after batch.
template <class Real>
class Recorder {
public:
  Recorder(const Graph& graph, const BatchLayout& layout, std::int64_t samples)
      : graph_(graph), layout_(layout), samples_(samples), outputs_(graph.nodes.size()) {}

  void record_once(std::size_t node, const Tensor<Real>& output) { outputs_[node] = output; }

  void append(std::size_t node, const Tensor<Real>& output) {
    Tensor<Real>& all = outputs_[node];
    if (all.values.empty()) {
      all.shape = output.shape;
      if (!layout_.batched) all.shape.insert(all.shape.begin(), samples_);
      all.shape[0] = samples_;
      all.values.reserve(static_cast<std::size_t>(element_count(all.shape)));
    }
    all.values.insert(all.values.end(), output.values.begin(), output.values.end());
  }

  std::vector<LayerTrace> take() {
    std::vector<LayerTrace> layers;
    for (std::size_t node = 0; node < outputs_.size(); ++node) {
      layers.push_back({graph_.nodes[node].name, StoredTensor::from(outputs_[node])});
      outputs_[node] = {};
    }
    return layers;
  }

private:
  const Graph& graph_;
  const BatchLayout& layout_;
  std::int64_t samples_;
  std::vector<Tensor<Real>> outputs_;
};

std::int64_t samples_at_a_time(const BatchLayout& layout, const RunOptions& options, std::int64_t samples) {
  if (!layout.batched) return 1;
  return options.batch == 0 ? samples : std::min(options.batch, samples);
}

/// Fails early, with the node's name, where shapes do not fit.
void check_shapes(const Graph& graph, const BatchLayout& layout, const Inputs& inputs) {
  const std::int64_t count = layout.batched ? sample_count(graph, layout, inputs) : 1;
  const Inputs first = slice(graph, layout, inputs, 0, count);
  std::vector<Shape> shapes;
  for (const ValueId id : graph.inputs) shapes.push_back(first.at(graph.value(id).name).shape());
  infer_shapes(graph, shapes);
}

template <class Real>
std::vector<LayerTrace> layers_of(const Graph& graph, const BatchLayout& layout, const Trace& trace,
                                  const RunOptions& options) {
  const Inputs inputs = used_inputs(graph, trace);
  check_shapes(graph, layout, inputs);
  Recorder<Real> recorder(graph, layout, trace.samples);
  Values<Real> values(graph, trace.arithmetic);
  const auto evaluate = [&](std::size_t node) {
    return evaluate_node(graph, node, trace.arithmetic, options.threads, values);
  };
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const ValueId output = graph.nodes[node].output;
    if (values.depends_on_input(output)) continue;
    values.set(output, evaluate(node));
    recorder.record_once(node, values.operand(output));
  }
  const std::int64_t step = samples_at_a_time(layout, options, trace.samples);
  for (std::int64_t first = 0, last = 0; first < trace.samples; first = last) {
    last = std::min(first + step, trace.samples);
    const Inputs batch = slice(graph, layout, inputs, first, last - first);
    values.start_batch(batch);
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      const ValueId output = graph.nodes[node].output;
      if (!values.depends_on_input(output)) continue;
      values.set(output, evaluate(node));
      recorder.append(node, values.operand(output));
    }
    if (options.progress && !options.progress(last, trace.samples)) {
      throw Interrupted("the run was stopped after " + std::to_string(last) + " of " + std::to_string(trace.samples) +
                        " samples");
    }
  }
  return recorder.take();
}

class CpuEvaluator final : public Evaluator::Implementation {
public:
  explicit CpuEvaluator(ArithmeticModel arithmetic) : arithmetic_(std::move(arithmetic)) {}

  ArithmeticModel arithmetic() const override { return arithmetic_; }

  Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options) const override {
    require_sound_environment();
    if (options.threads < 1) throw InvalidArgument("a run needs at least one thread");
    if (options.batch < 0) throw InvalidArgument("a run needs at least one sample a batch (0: all)");
    validate(graph);
    const BatchLayout layout = batch_layout(graph);
    Trace trace;
    trace.arithmetic = arithmetic_;
    trace.provenance = cpu_provenance();
    trace.inputs = inputs;
    trace.samples = sample_count(graph, layout, inputs);
    const bool single = arithmetic_.accumulator == FormatId::fp32;
    trace.layers =
        single ? layers_of<float>(graph, layout, trace, options) : layers_of<double>(graph, layout, trace, options);
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
  if (arithmetic.output != arithmetic.accumulator) {
    throw Unsupported(in_message(arithmetic) + "it stores results in another format than it accumulates in");
  }
  if (input.precision > accumulator.precision) {
    throw Unsupported(in_message(arithmetic) + "its operands are wider than its accumulator");
  }
  if (arithmetic.rounding != Rounding::nearest_even || arithmetic.flushes_subnormals) {
    throw Unsupported(in_message(arithmetic) + "it must round to nearest even and keep subnormal numbers");
  }
}

}  // namespace

Evaluator cpu_evaluator(const ArithmeticModel& arithmetic) {
  require_runnable(arithmetic);
  return Evaluator(std::make_shared<const CpuEvaluator>(arithmetic));
}

}  // namespace driftbound

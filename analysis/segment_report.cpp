#include "analysis/segment_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

/// Points as the model's one input takes them.
Inputs inputs_of(const Graph& graph, const BatchLayout& layout, std::vector<double> coordinates, std::int64_t count) {
  Shape shape = layout.sample_shapes.front();
  if (layout.batched) {
    shape.front() = count;
  } else {
    shape.insert(shape.begin(), count);
  }
  Inputs inputs;
  inputs.tensors.emplace_back(graph.value(graph.inputs.front()).name,
                              StoredTensor::from(Tensor<double>(std::move(shape), std::move(coordinates))));
  return inputs;
}

/// The output as a trace has it.
std::vector<double> output_of(const Graph& graph, const Trace& trace, std::size_t output) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].output == graph.outputs[output]) return trace.layers[i].output.to_double().values;
  throw Unsupported(fmt::format("output '{}' is computed by no layer", graph.value(graph.outputs[output]).name));
}

/// Adds or subtracts an element of every sample.
void accumulate(std::vector<double>& values, const std::vector<double>& output, std::int64_t element, double factor) {
  const std::size_t width = output.size() / values.size();
  for (std::size_t row = 0; row < values.size(); ++row)
    values[row] += factor * output[row * width + static_cast<std::size_t>(element)];
}

}  // namespace

std::vector<double> computed_values(const Graph& graph, const Target& target, double iso, const Evaluator& evaluator,
                                    const PointSource& points, int threads, const GoOn& go_on) {
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t coordinates = coordinates_of(graph);
  RunOptions options;
  options.threads = threads;
  options.check_observer_effect = false;
  std::vector<double> values;
  for (std::int64_t first = 0; first < points.size(); first += PointSource::granule) {
    const std::int64_t count = std::min(PointSource::granule, points.size() - first);
    std::vector<double> block(static_cast<std::size_t>(count * coordinates));
    points.read(first, count, block);
    options.progress = [&](std::int64_t done, std::int64_t) { return !go_on || go_on(first + done); };
    const Trace trace = evaluator.run(graph, inputs_of(graph, layout, std::move(block), count), options);
    std::vector<double> part(static_cast<std::size_t>(count), 0.0);
    accumulate(part, output_of(graph, trace, target.positive.output), target.positive.element, 1.0);
    if (target.negative)
      accumulate(part, output_of(graph, trace, target.negative->output), target.negative->element, -1.0);
    for (const double value : part) values.push_back(value - iso);
  }
  return values;
}

SegmentReport report_segment(const SignField& field, const std::vector<double>& a, const std::vector<double>& b,
                             const std::vector<double>& values, double within, const GoOn& go_on) {
  SegmentReport report;
  report.a = a;
  report.b = b;
  report.within = within;
  SegmentOptions options;
  options.progress = go_on;
  report.zeros = zeros_on_segment(field, a, b, options);
  std::vector<double> t(values.size());
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<double>(i) / static_cast<double>(t.size() - 1);
  report.sampled = compare_with_sampled(report.zeros, t, values, within);
  return report;
}

}  // namespace driftbound::analysis

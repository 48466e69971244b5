#include "analysis/segment_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/text.hpp"
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

std::string unresolved_text(const SegmentZeros& zeros) {
  std::string text;
  for (const Interval& stretch : zeros.stretches)
    text += fmt::format(" f is exactly 0 for t from {} to {}.", stretch.lower(), stretch.upper());
  if (!zeros.unresolved.empty())
    text += fmt::format(" Not resolved: {} piece{}, the first with t from {} to {}.", zeros.unresolved.size(),
                        zeros.unresolved.size() == 1 ? "" : "s", zeros.unresolved.front().t.lower(),
                        zeros.unresolved.front().t.upper());
  return text;
}

/// "(-0.187, 0.3, -0.187)": six coordinates at most.
std::string point_at(const SegmentReport& report, double t) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, report.a.size()); ++c)
    text += fmt::format("{}{:.9g}", c == 0 ? "(" : ", ", report.a[c] + t * (report.b[c] - report.a[c]));
  return text + (report.a.size() > most ? ", …)" : ")");
}

/// Where the first zeros are, a line each, rounded.
std::string zero_rows(const SegmentReport& report) {
  constexpr std::size_t most = 10;
  const std::vector<SegmentZero>& zeros = report.zeros.zeros;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, zeros.size()); ++i) {
    const double t = zeros[i].t.lower() + (zeros[i].t.upper() - zeros[i].t.lower()) / 2.0;
    text += fmt::format("  t = {:<18.12g} {:<8} at {}\n", t, name_of(zeros[i].crossing), point_at(report, t));
  }
  if (zeros.size() > most) text += fmt::format("  and {} more in --json\n", zeros.size() - most);
  return text;
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

std::string to_text(const SegmentReport& report) {
  const SegmentZeros& zeros = report.zeros;
  const SampledZeros& sampled = report.sampled;
  std::string text = fmt::format("Zeros on the segment: {}, certified{}.{}", zeros.zeros.size(),
                                 zeros.is_complete() ? ", and there are no others" : "", unresolved_text(zeros));
  text += fmt::format(" Samples in {} show {}: {} true, {} false", report.arithmetic, sampled.computed, sampled.matched,
                      sampled.spurious);
  if (sampled.undecidable > 0) text += fmt::format(", {} undecidable", sampled.undecidable);
  return wrap(text + fmt::format("; {} missed.", sampled.missed), 100) + "\n" + zero_rows(report);
}

}  // namespace driftbound::analysis

// The recorded count of zeros on the line of the oscillating classifiers: docs/campaigns.md. All zeros of the exact
// F1 - F0, certified, against what samples in the arithmetics named show, at points of the line that are float32
// numbers. Exit status 1 where the certified list is not complete.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/segment.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"

namespace {

using namespace driftbound;

constexpr std::int64_t at_once = 500;
/// In units of t; two zeros of the oscillation are 0.055 apart.
constexpr double displaced = 1e-3;
const std::vector<std::string> arithmetics = {"fp32", "tf32"};
const Target class_1_against_0{{0, 1}, OutputElement{0, 0}};
const std::vector<double> a = {-0.2F, 0.3F, -0.2F}, b = {0.2F, 0.3F, -0.2F};

struct Samples {
  std::vector<double> t;  ///< exactly where the points lie
  std::vector<double> values;
};

Inputs points(const Graph& graph, std::int64_t count) {
  InputGenerator generator;
  generator.distribution = InputDistribution::segment;
  generator.samples = count;
  generator.domain.clear();
  for (std::size_t i = 0; i < a.size(); ++i) generator.domain.emplace_back(a[i], b[i]);
  return generate_inputs(graph, generator);
}

/// F1 - F0 of the two logits as computed.
Samples sample(const Graph& graph, const std::string& arithmetic, std::int64_t count) {
  const Inputs inputs = points(graph, count);
  const BatchLayout layout = batch_layout(graph);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order("sequential+fma")));
  Samples samples;
  for (std::int64_t first = 0; first < count; first += at_once) {
    const Inputs part = slice(graph, layout, inputs, first, std::min(at_once, count - first));
    const Tensor<double> x = part.tensors.front().second.to_double();
    const Tensor<double> logits = evaluator.run(graph, part).layers.back().output.to_double();
    for (std::size_t row = 0; row < logits.size() / 2; ++row) {
      samples.t.push_back((x.values[3 * row] - a[0]) / (b[0] - a[0]));
      samples.values.push_back(logits.values[2 * row + 1] - logits.values[2 * row]);
    }
  }
  return samples;
}

/// Whether certified signs at the samples change where the zeros are, and nowhere else.
bool agrees_with_signs(const Graph& graph, const SegmentZeros& zeros, const Samples& samples, std::int64_t count) {
  const Tensor<double> x = points(graph, count).tensors.front().second.to_double();
  const SignField field(graph, class_1_against_0);
  std::vector<PointSign> signs(static_cast<std::size_t>(count));
  field.signs(x.values.data(), count, 3, 1, signs);
  std::vector<double> values;
  for (const PointSign& sign : signs) {
    if (sign.sign == Sign::undecided) return false;
    values.push_back(static_cast<double>(sign.sign));
  }
  const SampledZeros found = compare_with_sampled(zeros, samples.t, values);
  return found.spurious == 0 && found.missed == 0 && found.undecidable == 0;
}

std::string counts(const SegmentZeros& zeros, const Samples& samples, double within) {
  const SampledZeros found = compare_with_sampled(zeros, samples.t, samples.values, within);
  return fmt::format("{} | {} | {}", found.matched, found.spurious, found.missed);
}

/// The largest distance of a computed change of sign from the nearest exact zero.
double farthest(const SegmentZeros& zeros, const Samples& samples) {
  double largest = 0.0;
  for (std::size_t i = 0; i + 1 < samples.t.size(); ++i) {
    if ((samples.values[i] < 0.0) == (samples.values[i + 1] < 0.0)) continue;
    double nearest = 1.0;
    for (const SegmentZero& zero : zeros.zeros) nearest = std::min(nearest, std::abs(samples.t[i] - zero.t.midpoint()));
    largest = std::max(largest, nearest);
  }
  return largest;
}

bool report(const std::string& file, std::int64_t count) {
  const Graph graph = load_model(file);
  const auto start = std::chrono::steady_clock::now();
  const SegmentZeros zeros = zeros_on_segment(graph, class_1_against_0, a, b);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  double widest = 0.0;
  for (const SegmentZero& zero : zeros.zeros) widest = std::max(widest, zero.t.width().value());
  std::string row = fmt::format("| {} | {} | {:.1e} | {} | {:.2f} |", file.substr(file.rfind('/') + 1),
                                zeros.zeros.size(), widest, zeros.pieces, seconds.count());
  bool agrees = true;
  for (const std::string& arithmetic : arithmetics) {
    const Samples samples = sample(graph, arithmetic, count);
    if (arithmetic == arithmetics.front()) agrees = agrees_with_signs(graph, zeros, samples, count);
    const std::int64_t computed = compare_with_sampled(zeros, samples.t, samples.values).computed;
    row += fmt::format(" {} | {} | {} | {:.1e} |", computed, counts(zeros, samples, 0.0),
                       counts(zeros, samples, displaced), farthest(zeros, samples));
  }
  fmt::print("{}\n", row);
  std::fflush(stdout);
  if (!agrees) fmt::print(stderr, "{}: certified signs at the samples do not change where the zeros are\n", file);
  return zeros.is_complete() && agrees;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 0;
  if (count < 2 || argc < 3) {
    fmt::print(stderr, "usage: segment_zeros SAMPLES MODEL...\n");
    return 2;
  }
  std::string head = "| model | zeros | widest | pieces | s |", rule = "|---|--:|--:|--:|--:|";
  for (const std::string& arithmetic : arithmetics) {
    head += fmt::format(" {} computed | true | false | missed | true* | false* | missed* | farthest |", arithmetic);
    rule += "--:|--:|--:|--:|--:|--:|--:|--:|";
  }
  fmt::print("{}\n{}\n", head, rule);
  try {
    bool complete = true;
    for (int i = 2; i < argc; ++i) complete = report(argv[i], count) && complete;
    return complete ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}

#include "soundness/any_run_check.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "driftbound/model/inputs.hpp"

namespace driftbound::soundness {
namespace {

constexpr std::int64_t samples_at_once = 100;
constexpr std::int64_t most_elements = 8;

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

AnyRunCheck::AnyRunCheck(const Graph& graph, Inputs inputs) : graph_(graph), inputs_(std::move(inputs)) {
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t samples = sample_count(graph, layout, inputs_);
  samples_ = static_cast<std::size_t>(samples);
  for (const ValueId id : graph.outputs) node_of_output_.push_back(graph.producer(id).value());
  exact_.resize(graph.outputs.size());
  for (std::int64_t first = 0; first < samples; first += samples_at_once) {
    const Inputs part = slice(graph, layout, inputs_, first, std::min(samples_at_once, samples - first));
    const Reference reference = certified_reference(graph, part);
    for (std::size_t output = 0; output < exact_.size(); ++output) {
      const std::vector<Ball>& balls = reference.layers[node_of_output_[output]].values;
      exact_[output].values.insert(exact_[output].values.end(), balls.begin(), balls.end());
    }
  }
  const auto elements = static_cast<std::int64_t>(exact_.front().size()) / samples;
  for (std::int64_t i = 0; i < std::min(elements, most_elements); ++i) targets_.push_back({{0, i}, std::nullopt});
  if (elements > 1) targets_.push_back({{0, 1}, OutputElement{0, 0}});
}

RunBounds AnyRunCheck::bounds_of(const Trace& trace, const std::vector<BoundRequest>& requests) const {
  BoundOptions options;
  options.targets = targets_;
  options.requests = requests;
  const Bounder bounder(graph_, options);
  const BatchLayout layout = batch_layout(graph_);
  RunBounds result;
  for (std::int64_t first = 0; first < trace.samples; first += samples_at_once) {
    const Trace part = slice(graph_, layout, trace, first, std::min(samples_at_once, trace.samples - first));
    std::optional<Reference> coarse;  // for every other network, in double-double alone
    if (graph_.nodes.size() % 2 == 0) coarse = certified_reference(graph_, part.inputs, {.max_bits = 106});
    const Bounds bounds = bounder(part, {nullptr, coarse ? &coarse->layers : nullptr});
    for (std::size_t target = 0; target < targets_.size(); ++target) {
      for (const BoundResult& bound : bounds.targets[target].bounds) {
        std::vector<TargetBound>& of_kind = result[bound.kind];
        of_kind.resize(targets_.size());
        of_kind[target].gives_verdict =
            bound.guarantee == Guarantee::proven || bound.guarantee == Guarantee::conditional;
        append(of_kind[target].values, bound.values.values);
        append(of_kind[target].remainder, bound.remainder);
      }
    }
  }
  return result;
}

void AnyRunCheck::hold(const Trace& run, const std::vector<TargetBound>& bound, BoundTally& tally) const {
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    const std::vector<double>& largest = bound[target].values;
    const std::vector<Deviation> deviations = deviations_of(run, targets_[target]);
    tally.gives_verdict = tally.gives_verdict || bound[target].gives_verdict;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      if (deviations[sample].is_finite) {
        judge(0.0, deviations[sample].ball, largest.at(sample), true, tally);
        continue;
      }
      ++tally.checked;  // a finite bound says that no run overflows
      ++(std::isfinite(largest.at(sample)) ? tally.violations : tally.without_bound);
    }
  }
}

std::vector<double> AnyRunCheck::errors_of(const Trace& run, std::size_t target) const {
  std::vector<double> errors;
  for (const Deviation& deviation : deviations_of(run, targets_[target]))
    errors.push_back(approx_error_of(0.0, deviation.ball));
  return errors;
}

std::vector<AnyRunCheck::Deviation> AnyRunCheck::deviations_of(const Trace& run, const Target& target) const {
  std::vector<Deviation> result(samples_, {exact_ball(0.0), true});
  const auto add = [&](const OutputElement& element, bool is_negative) {
    const std::vector<double> computed = run.layers[node_of_output_[element.output]].output.to_double().values;
    const std::vector<Ball>& exact = exact_[element.output].values;
    const std::size_t size = computed.size() / samples_;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      const std::size_t i = sample * size + static_cast<std::size_t>(element.element);
      const Ball off = exact_ball(computed[i]) - exact[i];
      result[sample].ball = is_negative ? result[sample].ball - off : result[sample].ball + off;
      result[sample].is_finite = result[sample].is_finite && std::isfinite(computed[i]);
    }
  };
  add(target.positive, false);
  if (target.negative) add(*target.negative, true);
  return result;
}

}  // namespace driftbound::soundness

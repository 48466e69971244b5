#include "soundness/soundness_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <span>

#include "driftbound/num/ball.hpp"

namespace driftbound::soundness {
namespace {

constexpr std::int64_t block_size = 4;
constexpr std::size_t failures_kept = 10;
constexpr std::int64_t long_sum = 8;

/// One layer of one block in one scope.
struct Scope {
  const char* name;
  const Graph& graph;
  std::size_t node;
  std::int64_t fan_in;
  std::span<const double> computed;
  std::span<const Ball> exact;
};

std::string hexadecimal(double x) {
  return fmt::format("{:a}", x);
}

std::string report(const Scope& scope, const BoundResult& bound, std::size_t i) {
  const Ball& exact = scope.exact[i];
  const Node& node = scope.graph.nodes[scope.node];
  return fmt::format(
      "{} {} of layer '{}' ({}), element {}: computed {}, exact {} + {} within {}, error {:.6g}, bound {:.6g} ({})",
      scope.name, name_of(bound.kind), node.name, name_of(node.op), i, hexadecimal(scope.computed[i]),
      hexadecimal(exact.hi), hexadecimal(exact.lo), hexadecimal(exact.radius.value()),
      approx_error_of(scope.computed[i], exact), bound.values.values[i], hexadecimal(bound.values.values[i]));
}

double utilisation(double error, double bound) {
  return error == 0.0 ? 0.0 : error / bound;
}

void check_bound(const Scope& scope, const BoundResult& bound, std::vector<std::string>& failures, Tally& tally) {
  BoundTally& into = tally.bounds[fmt::format("{} {}", scope.name, name_of(bound.kind))];
  into.gives_verdict = bound.guarantee == Guarantee::proven || bound.guarantee == Guarantee::conditional;
  if (bound.values.size() != scope.computed.size()) {
    failures.push_back(fmt::format("{} {} of layer {} has {} values for {} outputs", scope.name, name_of(bound.kind),
                                   scope.node, bound.values.size(), scope.computed.size()));
    return;
  }
  for (std::size_t i = 0; i < scope.computed.size(); ++i) {
    if (!std::isfinite(scope.computed[i])) continue;
    if (!bound.elements.empty() && std::isinf(bound.values.values[i])) continue;  // of few elements of a large output
    const bool is_sum = scope.fan_in >= long_sum;
    const bool violated = judge(scope.computed[i], scope.exact[i], bound.values.values[i], is_sum, into);
    if (violated && into.gives_verdict && failures.size() < failures_kept) failures.push_back(report(scope, bound, i));
  }
}

void check_block(const Graph& graph, const Trace& block, const std::vector<bool>& count, const CheckOptions& options,
                 std::vector<std::string>& failures, Tally& tally) {
  const Reference accumulated = certified_reference(graph, block.inputs, options.precision, &block);
  const Reference local = local_reference(graph, block, options.precision);
  BoundOptions bound_options;
  bound_options.requests = options.requests;
  // Every other network is bounded with a reference in double-double alone, which is coarser than what it is judged by.
  std::optional<Reference> coarse;
  if (graph.nodes.size() % 2 == 0)
    coarse = certified_reference(graph, block.inputs, {.max_bits = 106, .threads = options.precision.threads});
  const Bounds bounds = Bounder(graph, bound_options)(block, {nullptr, coarse ? &coarse->layers : nullptr});
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (!count[node]) continue;
    const std::vector<double> computed = block.layers[node].output.to_double().values;
    const auto finite = std::count_if(computed.begin(), computed.end(), [](double x) { return std::isfinite(x); });
    tally.outputs += finite;
    tally.not_finite += static_cast<std::int64_t>(computed.size()) - finite;
    const std::int64_t fan_in = bounds.layers[node].fan_in;
    const Scope local_scope{"local", graph, node, fan_in, computed, local.layers[node].values};
    const Scope accumulated_scope{"accumulated", graph, node, fan_in, computed, accumulated.layers[node].values};
    for (const BoundResult& result : bounds.layers[node].local) check_bound(local_scope, result, failures, tally);
    for (const BoundResult& result : bounds.layers[node].accumulated)
      check_bound(accumulated_scope, result, failures, tally);
  }
}

}  // namespace

bool judge(double computed, const Ball& exact, double bound, bool is_sum, BoundTally& tally) {
  ++tally.checked;
  const Interval error = error_of(computed, exact);
  if (std::isnan(bound) || error.lower() > bound) {
    ++tally.violations;
    return true;
  }
  if (std::isinf(bound)) {
    ++tally.without_bound;
  } else if (!(error.upper() <= bound)) {
    ++tally.undecided;
  } else {
    const double used = utilisation(approx_error_of(computed, exact), bound);
    tally.max_utilisation = std::max(tally.max_utilisation, used);
    if (is_sum) tally.max_utilisation_of_sums = std::max(tally.max_utilisation_of_sums, used);
  }
  return false;
}

void BoundTally::merge(const BoundTally& other) {
  gives_verdict = gives_verdict || other.gives_verdict;
  checked += other.checked;
  violations += other.violations;
  undecided += other.undecided;
  without_bound += other.without_bound;
  max_utilisation = std::max(max_utilisation, other.max_utilisation);
  max_utilisation_of_sums = std::max(max_utilisation_of_sums, other.max_utilisation_of_sums);
}

void Tally::merge(const Tally& other) {
  cases += other.cases;
  outputs += other.outputs;
  not_finite += other.not_finite;
  for (const auto& [name, tally] : other.bounds) bounds[name].merge(tally);
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

namespace {

std::int64_t sum_of_verdicts(const Tally& tally, std::int64_t BoundTally::*count) {
  std::int64_t sum = 0;
  for (const auto& [name, bound] : tally.bounds)
    if (bound.gives_verdict) sum += bound.*count;
  return sum;
}

}  // namespace

std::int64_t Tally::violations() const {
  return sum_of_verdicts(*this, &BoundTally::violations);
}
std::int64_t Tally::undecided() const {
  return sum_of_verdicts(*this, &BoundTally::undecided);
}
std::int64_t Tally::without_bound() const {
  return sum_of_verdicts(*this, &BoundTally::without_bound);
}
std::int64_t Tally::checked() const {
  return sum_of_verdicts(*this, &BoundTally::checked);
}
std::int64_t Tally::judged_outputs() const {
  const auto found = bounds.find("local componentwise");
  return found == bounds.end() ? 0 : found->second.checked - found->second.without_bound;
}

void check_trace(const Graph& graph, const Trace& trace, const std::function<std::string()>& describe,
                 const CheckOptions& options, Tally& tally) {
  ++tally.cases;
  const BatchLayout layout = batch_layout(graph);
  const std::vector<bool> varies = depends_on_input(graph);
  std::vector<bool> count(graph.nodes.size(), true);
  std::vector<std::string> failures;
  const std::int64_t step = layout.batched ? block_size : 1;
  for (std::int64_t first = 0; first < trace.samples; first += step) {
    const Trace block = slice(graph, layout, trace, first, std::min(step, trace.samples - first));
    check_block(graph, block, count, options, failures, tally);
    for (std::size_t node = 0; node < count.size(); ++node) count[node] = varies[graph.nodes[node].output];
  }
  if (!failures.empty()) tally.failures.push_back(fmt::format("{}\n{}", fmt::join(failures, "\n"), describe()));
}

void check_run(const Graph& graph, const std::function<Trace()>& run, const std::function<std::string()>& describe,
               const CheckOptions& options, Tally& tally) {
  try {
    check_trace(graph, run(), describe, options, tally);
  } catch (const std::exception& error) {
    tally.failures.push_back(fmt::format("exception: {}\n{}", error.what(), describe()));
  }
}

std::string table_heading() {
  return "| family | cases | layer outputs | not finite | numbers judged | violations | undecided | no bound | "
         "componentwise | "
         "order-aware | forward |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
}

std::string table_row(const std::string& name, const Tally& tally, double BoundTally::*utilisation) {
  const auto used = [&](const char* bound) {
    const auto found = tally.bounds.find(bound);
    return found == tally.bounds.end() ? 0.0 : found->second.*utilisation;
  };
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} |\n", name, tally.cases,
                     tally.outputs, tally.not_finite, tally.checked(), tally.violations(), tally.undecided(),
                     tally.without_bound(), used("local componentwise"), used("local order-aware"),
                     used("accumulated forward"));
}

std::string bound_table(const Tally& tally) {
  std::string text =
      "| bound | gives a verdict | checked | violations | undecided | no bound | largest utilisation | … in sums |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& [name, bound] : tally.bounds)
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {:.3f} | {:.3f} |\n", name, bound.gives_verdict ? "yes" : "no",
                        bound.checked, bound.violations, bound.undecided, bound.without_bound, bound.max_utilisation,
                        bound.max_utilisation_of_sums);
  return text;
}

}  // namespace driftbound::soundness

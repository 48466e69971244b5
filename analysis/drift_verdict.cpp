#include "analysis/drift_verdict.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// "error 1.2e-3 against 2.3e-6": where a layer is beyond a bound of that kind; empty: nowhere.
std::string excess_of(const LayerSummary& layer, bool is_proven) {
  for (const ScopeSummary* scope : {&layer.local, &layer.accumulated})
    for (const BoundSummary& bound : scope->bounds)
      if (bound.worst && bound.violations > 0 && (is_proven ? bound.gives_verdict() : bound.is_improbable()))
        return fmt::format("error {}", excess_text(bound.worst->error, bound.worst->bound));
  return "";
}

std::string reading_of(const LayerSummary& layer) {
  const bool is_decisive = layer.nearest_reading && layer.nearest_reading->is_decisive;
  return is_decisive ? describe(*layer.nearest_reading) : "";
}

}  // namespace

std::string complaint_of(const LayerSummary& layer) {
  if (!layer.wrong_choice.empty()) return layer.wrong_choice;
  const std::string excess = excess_of(layer, layer.status == Status::violated), reading = reading_of(layer);
  if (excess.empty()) return reading;
  return excess + (reading.empty() ? "" : "; " + reading);
}

bool is_within_errors(const RunDifference& difference, double error_a, double error_b) {
  constexpr double slack = 1.001;  // of measured errors
  return difference.largest <= slack * (error_a + error_b);
}

bool adds_and_multiplies(std::string_view kind) {
  static const std::set<std::string_view> plain = {"product", "product+Add", "Gemm", "MatMul", "Conv",
                                                   "Einsum",  "Add",         "Sub",  "Mul",    "ReduceSum"};
  return plain.count(kind) != 0;
}

void add_op(DriftOp op, const std::vector<const RunDifference*>& operands, RunsDrift& drift) {
  const std::size_t place = drift.ops.size();
  if (op.difference) {
    if (!drift.first && !op.difference->is_zero()) drift.first = place;
    double largest = 0.0;
    for (const RunDifference* operand : operands) largest = std::max(largest, operand->relative());
    const double growth = largest > 0.0 ? op.difference->relative() / largest : 0.0;
    if (std::isfinite(growth) && growth > drift.amplification) {
      drift.amplification = growth;
      drift.amplifies = place;
    }
  }
  drift.ops.push_back(std::move(op));
}

namespace {

/// "fp32, in one chain"; where it takes several kernels to give all bits, in alphabetical order: "… in some elements, and …
/// in others".
std::string kernel_of(const LayerSummary* layer) {
  if (layer == nullptr || !layer->kernel || !layer->kernel->tells()) return "";
  const KernelFinding& finding = *layer->kernel;
  std::set<std::string> texts = {describe(*finding.kernel, finding.k)};
  for (const KernelShare& other : finding.others) texts.insert(describe(other.kernel, finding.k));
  std::string text = *texts.begin();
  for (auto other = std::next(texts.begin()); other != texts.end(); ++other)
    text += fmt::format("{}, and {} in others", other == std::next(texts.begin()) ? " in some elements" : "", *other);
  return text;
}

bool has_several_kernels(const LayerSummary* layer) {
  return layer != nullptr && layer->kernel && !layer->kernel->others.empty();
}

/// Whether one kernel gives every number of a result.
bool has_one_kernel(const LayerSummary* layer) {
  return !kernel_of(layer).empty() && layer->kernel->others.empty() && layer->non_finite == 0 &&
         layer->kernel->compared == layer->compared;
}

/// "; the bits are those of this kernel in the first run: …, and of this one in the second: …"
std::string kernels_text(const DriftOp& op) {
  if (op.kernel_a.empty() || op.kernel_b.empty()) return "";
  if (op.kernel_a == op.kernel_b && op.has_several_kernels)
    return fmt::format(
        "; all bits of both runs are those of the same kernels, not of the same elements in each run: {}", op.kernel_a);
  if (op.kernel_a == op.kernel_b)
    return fmt::format("; all bits of both runs are those of one kernel: {}", op.kernel_a);
  return fmt::format("; {} kernels: all bits are those of {} in the first run, and of {} in the second{}",
                     op.has_same_operands ? "the difference is that of two" : "two", op.kernel_a, op.kernel_b,
                     op.is_predicted()
                         ? ", so that the second kernel gives the second run's numbers from the first run's "
                           "operands: the difference is predicted, bit for bit"
                         : "");
}

}  // namespace

std::vector<std::string> undeclared_of(std::string of_a, std::string of_b) {
  if (of_a == of_b) return of_a.empty() ? std::vector<std::string>() : std::vector{"In both runs: " + of_a};
  std::vector<std::string> texts;
  if (!of_a.empty()) texts.push_back("In the first run: " + of_a);
  if (!of_b.empty()) texts.push_back("In the second run: " + of_b);
  return texts;
}

void take_reports(DriftOp& op, const LayerSummary* a, const LayerSummary* b) {
  op.kernel_a = kernel_of(a);
  op.kernel_b = kernel_of(b);
  op.have_one_kernel_each = has_one_kernel(a) && has_one_kernel(b);
  op.has_several_kernels = has_several_kernels(a) || has_several_kernels(b);
  const auto take = [](const LayerSummary* layer, Status& status, double& error, std::optional<double>& from_input) {
    if (layer == nullptr) return;
    status = layer->status;
    error = layer->local.max_error;
    if (layer->accumulated.elements > 0) from_input = layer->accumulated.max_error;
  };
  take(a, op.a, op.error_a, op.from_input_a);
  take(b, op.b, op.error_b, op.from_input_b);
}

namespace {

/// The largest of the bounds of this kind; empty: they do not bound every element.
std::optional<double> largest_bound(const ScopeSummary& scope, BoundKind kind) {
  const BoundSummary* bound = find_bound(scope, kind);
  const bool is_of_all = bound != nullptr && bound->checked > 0 && bound->infinite == 0 &&
                         bound->without_statement == 0 && !bound->follows_largest && bound->not_applicable.empty();
  return is_of_all ? std::optional(bound->max_bound) : std::nullopt;
}

/// What any two runs of an op in the arithmetics of both differ by at most on the same operands.
std::optional<double> any_results_apart(const LayerSummary* a, const LayerSummary* b) {
  if (a == nullptr || b == nullptr) return std::nullopt;
  const auto of_any_order = [](const LayerSummary& layer) {
    const std::optional<double> by_sums = largest_bound(layer.local, BoundKind::partial_sums);
    return by_sums ? by_sums : largest_bound(layer.local, BoundKind::componentwise);
  };
  const std::optional<double> of_a = of_any_order(*a), of_b = of_any_order(*b);
  return of_a && of_b ? std::optional(*of_a + *of_b) : std::nullopt;
}

}  // namespace

std::optional<double> any_runs_apart(const Comparison& a, const std::string& name_a, const Comparison& b,
                                     const std::string& name_b, BoundKind kind) {
  const auto of_any_run = [&](const Comparison& run, const std::string& name) -> std::optional<double> {
    for (const OutputSummary& output : run.outputs)
      if (output.name == name)
        if (const std::optional<double> bound = largest_bound(output.scope, kind)) return bound;
    return std::nullopt;
  };
  const std::optional<double> of_a = of_any_run(a, name_a), of_b = of_any_run(b, name_b);
  return of_a && of_b ? std::optional(*of_a + *of_b) : std::nullopt;
}

namespace {

std::string violation_of(const LayerSummary* layer, std::string_view run) {
  if (layer == nullptr || layer->status != Status::violated) return "";
  if (!layer->wrong_choice.empty()) return fmt::format("in the {} run {}", run, layer->wrong_choice);
  return fmt::format("the {} run exceeds its own bound: {}", run, complaint_of(*layer));
}

std::string numbers_of_the_other(const OpEvidence& evidence) {
  return fmt::format("the {} run's numbers ", evidence.is_as_a ? "second" : "first");
}

std::string bug_of(const DriftOp& op, const OpEvidence& evidence) {
  if (evidence.reads_not_finite) return evidence.other_numbers;
  if (op.difference && !op.difference->is_finite_in_both()) {
    const auto [in_a, in_b] = std::pair(op.difference->not_finite_a, op.difference->not_finite_b);
    return fmt::format("{} elements are not finite in the {} run alone", std::max(in_a, in_b),
                       in_b > in_a ? "second" : "first");
  }
  for (const std::string& text : {violation_of(evidence.a, "first"), violation_of(evidence.b, "second")})
    if (!text.empty()) return text;
  if (!evidence.other_numbers.empty()) return evidence.other_numbers;
  const bool differs = !op.difference || !op.difference->is_zero();
  if (!evidence.other_function.empty() && differs) return evidence.other_function;
  if (op.as_b == Status::violated && evidence.rounded_numbers.empty())
    return numbers_of_the_other(evidence) + "are not those of the " + (evidence.is_as_a ? "first" : "second") +
           " run's function: " + evidence.complaint_as_b +
           (evidence.mixes_rows.empty() ? ""
                                        : fmt::format("; rows answer to other rows by way of '{}', which has no rows "
                                                      "and is made of all of them",
                                                      evidence.mixes_rows));
  return evidence.answers_to_rows;
}

std::string improbability_of(const LayerSummary* layer, std::string_view run) {
  if (layer == nullptr || layer->status != Status::improbable) return "";
  return fmt::format("the {} run is not rounding as modelled: {}", run, complaint_of(*layer));
}

/// How many standard errors a mean is from 0 at most, by chance, in the `ops` that are compared.
double standard_errors_for(std::size_t ops) {
  return std::max(4.0, std::sqrt(2.0 * std::log(1e4 * static_cast<double>(ops))));
}

/// By another epsilon all rows of a norm are larger or smaller by a factor. Rounding makes a factor of its own in each row.
std::string factor_of_norm(const DriftOp& op, std::size_t ops) {
  constexpr double least_in_units = 16.0, standard_errors_of_few_rows = 16.0;
  constexpr std::int64_t many_rows = 32;
  const RunDifference& difference = *op.difference;
  if (!(difference.factor_error > 0.0) || !op.unit) return "";
  if (!(std::abs(difference.factor) > least_in_units * *op.unit)) return "";
  const double most = difference.rows < many_rows ? std::max(standard_errors_of_few_rows, standard_errors_for(ops))
                                                  : standard_errors_for(ops);
  if (!(std::abs(difference.factor) > most * difference.factor_error)) return "";
  return fmt::format(
      "on the same operands the second run's rows are 1 {} {} times the first run's, {:.0f} standard errors "
      "from 1: another epsilon, or another scale",
      difference.factor < 0.0 ? '-' : '+', error_text(std::abs(difference.factor)),
      std::abs(difference.factor) / difference.factor_error);
}

std::string oddity_of(const DriftOp& op, const OpEvidence& evidence, std::size_t ops) {
  for (const std::string& text : {improbability_of(evidence.a, "first"), improbability_of(evidence.b, "second")})
    if (!text.empty()) return text;
  if (!evidence.rounded_numbers.empty()) return evidence.rounded_numbers;
  if (op.as_b == Status::improbable)
    return numbers_of_the_other(evidence) + "are hardly those of the " + (evidence.is_as_a ? "first" : "second") +
           " run's function: " + evidence.complaint_as_b;
  if (!evidence.answers_to_positions.empty()) return evidence.answers_to_positions;
  if (!op.has_same_operands || !op.difference) return "";
  if (evidence.is_norm) return factor_of_norm(op, ops);
  if (!evidence.adds_and_multiplies) return "";
  constexpr double least_share = 0.125;
  const RunDifference& difference = *op.difference;
  const double most = standard_errors_for(ops);
  if (!(difference.mean_error > 0.0) || !(std::abs(difference.mean) > most * difference.mean_error)) return "";
  if (!(std::abs(difference.mean) > least_share * difference.rms)) return "";
  return fmt::format("on the same operands the mean difference is {}, {:.0f} standard errors from 0",
                     error_text(difference.mean), std::abs(difference.mean) / difference.mean_error);
}

std::string open_of(Status status, std::string_view run) {
  if (status == Status::not_checked) return fmt::format("the {} run's op is not judged", run);
  if (status == Status::undecided) return fmt::format("no bound decides the {} run's op", run);
  if (status == Status::invalid) return fmt::format("the {} run has values that are not finite", run);
  return "";
}

/// What leaves open whether both runs compute the same function within their bounds.
std::string what_is_open(const DriftOp& op, const OpEvidence& evidence) {
  for (const std::string& text : {open_of(op.a, "first"), open_of(op.b, "second")})
    if (!text.empty()) return text;
  const bool holds_as_b = op.as_b == Status::holds || op.as_b == Status::approaches;
  const bool are_far = op.difference && op.from_input_a && op.from_input_b &&
                       !is_within_errors(*op.difference, *op.from_input_a, *op.from_input_b);
  const bool are_near_exact =
      op.difference && op.from_input_a && op.from_input_b && !are_far && evidence.unmatched_source.empty();
  const bool are_exact_ops = evidence.a != nullptr && evidence.b != nullptr && op.error_a == 0.0 && op.error_b == 0.0;
  const std::string open_source = fmt::format(
      "it follows from the numbers '{}', which come from outside in one run alone", evidence.unmatched_source);
  if (are_far && !evidence.are_other_steps && !evidence.unmatched_source.empty() && evidence.reads_the_same_sources)
    return fmt::format("{} apart, and the runs are within {} and {} of the exact values of their networks: {}",
                       error_text(op.difference->largest), error_text(*op.from_input_a), error_text(*op.from_input_b),
                       open_source);
  if (holds_as_b || (evidence.are_other_steps && (are_near_exact || are_exact_ops))) return "";
  if (evidence.are_other_steps && !evidence.unmatched_source.empty())
    return open_source + ": a weight that the other run lacks, or a cache that is written through slices";
  if (evidence.masks_what_differs) return "";
  if (!evidence.unknown_numbers.empty()) return evidence.unknown_numbers;
  if (evidence.are_other_steps && are_far && !evidence.follows_other_function)
    return fmt::format(
        "{} apart, and the runs are within {} and {} of the exact values of their networks; numbers from outside "
        "that are not compared keep open whether these are the same",
        error_text(op.difference->largest), error_text(*op.from_input_a), error_text(*op.from_input_b));
  if (evidence.are_other_steps && op.difference && !evidence.follows_other_function) {
    const bool is_explained = op.has_same_operands && is_within_errors(*op.difference, op.error_a, op.error_b);
    return is_explained ? ""
                        : "the errors of both runs from the input on are not known, and in other steps nothing else "
                          "tells whether rounding explains the difference (docs/drift.md, Trainer and sampler)";
  }
  if (evidence.is_same_op) return "";
  // Rounded weights change a result by some units of their type, parts in another order by its size.
  constexpr double most_units = 16.0;
  if (evidence.reads_rounded_parts && op.difference && op.unit && op.difference->relative() <= most_units * *op.unit)
    return "";
  return "the runs compute it by other ops, and the first run's numbers could not be held against the second run's";
}

std::string masks_text(const RunDifference& difference) {
  return difference.masked == 0 ? ""
                                : fmt::format(
                                      "; {} elements are masked by other large numbers, and each softmax that "
                                      "reads them is compared",
                                      difference.masked);
}

std::string explanation_of(const DriftOp& op, const OpEvidence& evidence) {
  if (!op.difference) return "each run is within its own bounds; its numbers are not compared";
  std::string text = fmt::format("{} apart; ", error_text(op.difference->largest));
  if (op.from_input_a && op.from_input_b) {
    text += fmt::format("the runs are within {} and {} of the exact value", error_text(*op.from_input_a),
                        error_text(*op.from_input_b));
  } else {
    text += fmt::format("on their own operands the runs are within {} and {} of the exact op", error_text(op.error_a),
                        error_text(op.error_b));
  }
  const std::string kernels = kernels_text(op);
  if (kernels.empty() && evidence.adds_and_multiplies && op.has_same_operands)
    text += ", which sums in another order explain";
  const std::optional<double> apart = op.has_same_operands ? any_results_apart(evidence.a, evidence.b) : std::nullopt;
  if (op.apart_at_most)
    text += fmt::format("; any two such runs are within {}", bound_text(*op.apart_at_most));
  else if (apart)
    text += fmt::format("; any two such runs on the same operands are within {}", bound_text(*apart));
  text += kernels;
  if (!evidence.declared_rounding.empty()) text += "; " + evidence.declared_rounding + ", as its type says";
  return text + masks_text(*op.difference);
}

}  // namespace

void settle(DriftOp& op, const OpEvidence& evidence, std::size_t ops) {
  const auto is = [&](DriftVerdict verdict, std::string reason) {
    op.verdict = verdict;
    op.reason = std::move(reason);
  };
  if (const std::string bug = bug_of(op, evidence); !bug.empty()) return is(DriftVerdict::bug, bug);
  if (const std::string odd = oddity_of(op, evidence, ops); !odd.empty()) return is(DriftVerdict::suspicious, odd);
  if (evidence.is_drawn && evidence.is_choice && op.difference)
    return is(DriftVerdict::expected, fmt::format("{} of {} choices differ: they are drawn at random",
                                                  op.difference->differing, op.difference->elements));
  if (evidence.is_drawn && evidence.is_for_choices)
    return is(DriftVerdict::expected, "not compared: it is drawn at random, or made of such numbers, for a choice");
  if (evidence.is_drawn)
    return is(DriftVerdict::undecided,
              "it is drawn at random, or made of such numbers, and not for a choice alone: record both runs with the "
              "same random numbers");
  if (evidence.follows_choice)
    return is(DriftVerdict::expected, "not compared: what it reads follows from another choice in the second run");
  for (const auto& [status, run] : {std::pair(op.a, "first"), std::pair(op.b, "second")})
    if (status == Status::invalid) return is(DriftVerdict::undecided, open_of(status, run));
  if (op.difference && op.difference->nan_in_both > 0)
    return is(DriftVerdict::undecided, fmt::format("{} elements are NaN in both runs", op.difference->nan_in_both));
  if (op.difference && op.difference->is_zero())
    return is(DriftVerdict::expected, "the same numbers" + masks_text(*op.difference));
  if (evidence.is_unrelated && op.as_b != Status::holds && op.as_b != Status::approaches)
    return is(
        DriftVerdict::undecided,
        "no rows of the first run's numbers are near those of the second: they lie otherwise, or have nothing to do "
        "with each other");
  if (op.difference && evidence.is_choice) {
    const std::string count = fmt::format("{} of {} {} differ", op.difference->differing, op.difference->elements,
                                          evidence.is_of_truths ? "truth values" : "choices");
    if (op.has_same_operands && evidence.is_of_truths)
      return is(DriftVerdict::bug, count + ", and both are made of the same numbers: the runs make another mask");
    if (op.has_same_operands)
      return is(DriftVerdict::bug, count + " on the same numbers: the runs decide by another rule between equal ones");
    if (evidence.reads_alone)
      return is(DriftVerdict::undecided, count + ", and one run makes them of numbers that it alone has");
    return is(DriftVerdict::expected, count + ", as the numbers that they are made of do");
  }
  if (evidence.are_other_steps && evidence.is_choice && !op.difference)
    return is(DriftVerdict::expected, "not compared: masks and positions of other steps; what reads them is compared");
  if (const std::string open = what_is_open(op, evidence); !open.empty()) return is(DriftVerdict::undecided, open);
  is(DriftVerdict::expected, explanation_of(op, evidence));
}

void add_rows(const std::string& name, const AlignedNumbers& numbers, const KnownNumbers* a, const KnownNumbers* b,
              const AskedDecisions& asked, RunsDrift& drift) {
  drift.decisions.push_back(decisions_of(name, numbers, a, b, asked));
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  const auto add_noise = [&](const std::string& cast, const auto& read) {
    std::vector<double> first(x.size()), second(x.size());
    std::transform(x.begin(), x.end(), first.begin(), read);
    std::transform(y.begin(), y.end(), second.begin(), read);
    if (const auto structure = estimate_noise_structure(first, second, numbers.b.shape().back()))
      drift.noise.push_back({name, cast, *structure});
  };
  add_noise("", [](double number) { return number; });
  const auto is_wide = [](ElementType type) { return type == ElementType::f32 || type == ElementType::f64; };
  const Format& narrow = format(FormatId::bf16);
  if (is_wide(numbers.a.type()) && is_wide(numbers.b.type()))
    add_noise(std::string(narrow.name),
              [&](double number) { return round_to(number, narrow, Rounding::nearest_even); });
}

namespace {

bool multiplies_matrices(const Op& op) {
  return std::holds_alternative<op::Gemm>(op) || std::holds_alternative<op::MatMul>(op) ||
         std::holds_alternative<op::Conv>(op) || std::holds_alternative<op::Attention>(op) ||
         std::holds_alternative<op::Segment>(op);
}

/// Numbers of one sample of a value.
double size_of(const Graph& graph, const Trace& trace, ValueId id) {
  if (graph.is_constant(id)) return static_cast<double>(graph.value(id).constant.size());
  const std::optional<std::size_t> node = graph.producer(id);
  const StoredTensor& tensor = node ? trace.layers[*node].output : trace.inputs.at(graph.value(id).name);
  return static_cast<double>(tensor.size()) / static_cast<double>(std::max<std::int64_t>(trace.samples, 1));
}

}  // namespace

SampleWork work_of(const Graph& graph, const Trace& trace) {
  SampleWork work;
  for (std::size_t i = 0; i < graph.nodes.size() && i < trace.layers.size(); ++i) {
    const Node& node = graph.nodes[i];
    double all = size_of(graph, trace, node.output), product = all;
    for (const ValueId id : node.inputs) {
      all += size_of(graph, trace, id);
      product *= size_of(graph, trace, id);
    }
    // A product of m x k and k x n numbers takes m k n steps, which is the root of what their sizes and that of the result
    // come to.
    const bool multiplies = node.inputs.size() >= 2 && multiplies_matrices(node.op);
    work.steps += multiplies ? std::max(all, std::sqrt(product)) : all;
    work.numbers += size_of(graph, trace, node.output);
  }
  return work;
}

std::int64_t most_bounded_elements(const Graph& graph, const Trace& trace, bool asks_for_all) {
  constexpr double most_steps = 0x1p27, most_numbers = 0x1p25, most_numbers_asked = 0x1p29;
  constexpr std::int64_t most = 4096, block = 64;
  const std::int64_t few = followed_of_each_output(graph);
  const bool is_batched = batch_layout(graph).batched;
  const double samples = static_cast<double>(std::max<std::int64_t>(trace.samples, 1));
  const auto [steps, numbers] = work_of(graph, trace);
  double elements = 1.0, of_all = 0.0;  // of a sample
  for (const ValueId output : graph.outputs)
    if (graph.producer(output)) {
      elements = std::max(elements, size_of(graph, trace, output));
      of_all += size_of(graph, trace, output);
    }
  const double together = is_batched ? std::min(samples, static_cast<double>(block)) : 1.0;
  const bool fits = elements <= static_cast<double>(most) &&
                    of_all * numbers * together <= (asks_for_all ? most_numbers_asked : most_numbers) &&
                    (asks_for_all || of_all * steps * together <= most_steps);
  return fits ? std::max(static_cast<std::int64_t>(elements), few) : few;
}

namespace {

DriftVerdict verdict_of(const DriftAlone& one) {
  if (one.status == Status::violated) return DriftVerdict::bug;
  if (one.status == Status::improbable) return DriftVerdict::suspicious;
  return one.is_result || one.follows_unknown ? DriftVerdict::undecided : DriftVerdict::expected;
}

}  // namespace

void find_culprit(RunsDrift& drift) {
  for (const DriftOp& op : drift.ops) drift.verdict = std::max(drift.verdict, op.verdict);
  for (std::vector<DriftAlone>* side : {&drift.only_a, &drift.only_b})
    for (DriftAlone& one : *side) {
      drift.verdict = std::max(drift.verdict, verdict_of(one));
      if (one.is_result && one.reason.empty())
        one.reason = "it is a result of the run, and the other run has none to compare it with";
    }
  if (drift.verdict == DriftVerdict::expected) return;
  for (std::size_t i = 0; i < drift.ops.size() && !drift.culprit; ++i)
    if (drift.ops[i].verdict == drift.verdict) drift.culprit = i;
  for (const std::vector<DriftAlone>* side : {&drift.only_a, &drift.only_b})
    for (const DriftAlone& one : *side)
      if (!drift.culprit && !drift.alone && verdict_of(one) == drift.verdict) drift.alone = one;
}

}  // namespace driftbound::analysis

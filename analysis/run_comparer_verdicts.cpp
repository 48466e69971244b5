#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "analysis/run_comparer.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// Numbers by which programs pack batches, as opposed to those that say what is computed.
bool is_of_rows(const Attribute& a, const Attribute& b, const AlignedRows& rows) {
  const auto* x = std::get_if<std::int64_t>(&a.value);
  const auto* y = std::get_if<std::int64_t>(&b.value);
  return x != nullptr && y != nullptr && *x % rows.a == 0 && *y % rows.b == 0 && *x / rows.a == *y / rows.b;
}

std::string text_of(const Attribute& attribute) {
  if (const auto* truth = std::get_if<bool>(&attribute.value)) return *truth ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&attribute.value)) return fmt::format("{}", *real);
  if (const auto* text = std::get_if<std::string>(&attribute.value)) return *text;
  return attribute.is_none() ? "none" : "a list";
}

bool are_alike(const Attribute& a, const Attribute& b, const std::optional<AlignedRows>& rows) {
  if (a.value.index() != b.value.index()) return false;
  if (const auto* x = std::get_if<Attribute::List>(&a.value)) {
    const auto& y = std::get<Attribute::List>(b.value);
    return x->size() == y.size() &&
           std::equal(x->begin(), x->end(), y.begin(),
                      [&](const auto& one, const auto& other) { return are_alike(one, other, rows); });
  }
  const bool is_equal = std::visit(
      [&]<class T>(const T& x) {
        if constexpr (std::is_same_v<T, Attribute::List> || std::is_same_v<T, std::monostate>)
          return true;
        else
          return x == std::get<T>(b.value);
      },
      a.value);
  return is_equal || (rows && is_of_rows(a, b, *rows));
}

std::vector<double> distances(const StoredTensor& exact, const StoredTensor& numbers) {
  std::vector<double> distances = exact.to_double().values;
  const std::vector<double> computed = numbers.to_double().values;
  std::transform(distances.begin(), distances.end(), computed.begin(), distances.begin(),
                 [](double x, double y) { return std::abs(x - y); });
  return distances;
}

/// Numbers by which programs mask scores: which of them makes no difference where the softmax that reads them is compared.
bool are_masks(const Attribute& a, const Attribute& b) {
  const auto masks = [](const Attribute& attribute) { return attribute.number().value_or(0.0) <= least_mask; };
  return masks(a) && masks(b);
}

/// "eps is 1e-06, and 1e-05 in the first run"; empty where the arguments are alike.
/// `are_other_steps`: the runs compute the same positions in different steps. A step of one query sees all keys that there
/// are, and needs no causal mask. `are_scores`: nothing but softmax and attention reads the result.
std::string other_argument(const Record& a, const Record& b, const std::optional<AlignedRows>& rows,
                           bool are_other_steps, bool are_scores) {
  if (a.op != b.op) return "";
  for (const auto& [name, of_b] : b.attributes) {
    const auto found = a.attributes.find(name);
    if (name == "generator") continue;  // its state is not recorded
    if (name == "is_causal" && are_other_steps) continue;
    if (name == "value" && are_scores && found != a.attributes.end() && are_masks(found->second, of_b)) continue;
    if (found != a.attributes.end() && !are_alike(found->second, of_b, rows))
      return fmt::format("{} is {}, and {} in the first run", name, text_of(of_b), text_of(found->second));
  }
  return "";
}

}  // namespace

void RunComparer::settle_op(std::size_t i) {
  const AlignedResult& one = alignment_.results[i];
  const Record &record_a = run_a_.records()[one.a.record], &record_b = run_b_.records()[one.b.record];
  OpEvidence evidence;
  evidence.a = layers_a_.at(one.a);
  evidence.b = layers_b_.at(one.b);
  evidence.other_numbers = other_source_of(one);
  const auto is_not_finite = [](const DriftSource& source) { return !source.difference->is_finite_in_both(); };
  evidence.reads_not_finite = differing_source_of(one, is_not_finite) != nullptr;
  evidence.rounded_numbers = rounded_source_of(one, false);
  evidence.declared_rounding = rounded_source_of(one, true);
  const bool reads_parts =
      from_rounded_a_.count(id_of(run_a_, one.a)) != 0 || from_rounded_b_.count(id_of(run_b_, one.b)) != 0;
  evidence.reads_rounded_parts = reads_parts && unmatched_source_of(one).empty();
  if (evidence.reads_rounded_parts && evidence.declared_rounding.empty())
    evidence.declared_rounding = "one run reads parts of weights of the other one, rounded to a narrower type";
  evidence.unknown_numbers = unknown_source_of(one);
  evidence.are_other_steps = !alignment_.steps.empty();
  evidence.unmatched_source = unmatched_source_of(one);
  evidence.reads_the_same_sources = drift_.sources.empty() && unknown_sources_.empty() && !alignment_.rows &&
                                    drawn_.count(i) == 0 && follow_choice_.count(i) == 0;
  if (one.operands == OperandsAre::other && !evidence.are_other_steps && !alignment_.has_other_texts) {
    evidence.other_function = fmt::format("its operand {} is another value in the second run", one.other_slot);
  } else if (const std::string argument = other_argument(record_a, record_b, alignment_.rows_of(one),
                                                         !alignment_.steps.empty(), scores_.count(i) != 0);
             !argument.empty() && !(evidence.are_other_steps && !is_float(run_b_.type_of(id_of(run_b_, one.b))))) {
    // Positions of a step are counted from where it begins.
    evidence.other_function = "the runs compute other functions: " + argument;
  }
  if (const auto found = complaints_.find(i); found != complaints_.end()) evidence.complaint_as_b = found->second;
  evidence.is_choice = !is_float(run_b_.type_of(id_of(run_b_, one.b)));
  evidence.reads_alone = one.operands == OperandsAre::open && !reads_integers_alone(run_b_, record_b);
  evidence.is_of_truths = run_b_.type_of(id_of(run_b_, one.b)) == ElementType::boolean;
  evidence.mixes_rows = what_mixes_rows(i);
  evidence.is_same_op = is_same_op(i);
  evidence.is_norm = one.kind.find("Normalization") != std::string::npos;
  evidence.adds_and_multiplies = adds_and_multiplies(one.kind);
  evidence.follows_choice = follow_choice_.count(i) != 0 && !(evidence.is_choice && drift_.ops[i].difference);
  evidence.is_drawn = drawn_.count(i) != 0;
  evidence.is_for_choices = for_choices_.count(i) != 0;
  evidence.is_as_a = drift_.ops[i].is_as_a;
  evidence.is_unrelated = unrelated_.count(i) != 0;
  // One run's operand is another one, or is rounded.
  if (reads_drifted(one) || follow_choice_.count(i) != 0 || drawn_.count(i) != 0 || one.casts_otherwise ||
      !evidence.declared_rounding.empty())
    drift_.ops[i].as_b = Status::not_checked;
  evidence.masks_what_differs = masks_what_differs(i);
  evidence.is_same_function = is_same_function(i);
  if (evidence.is_same_function) {
    drift_.ops[i].as_b = Status::holds;
    evidence.other_function.clear();
    evidence.unknown_numbers.clear();
    evidence.unmatched_source.clear();
  }
  if (const std::string text = answers_to_others(i, evidence); !text.empty()) {
    const std::optional<AlignedRows> rows = alignment_.rows_of(one);
    const bool may_look_ahead = rows && rows->positions && !evidence.are_other_steps;
    (may_look_ahead ? evidence.answers_to_positions : evidence.answers_to_rows) = text;
  }
  evidence.follows_other_function = answers_.count(i) != 0;
  settle(drift_.ops[i], evidence, drift_.ops.size());
}

bool RunComparer::is_same_function(std::size_t i) const {
  const AlignedResult& one = alignment_.results[i];
  const auto a = a_.exact.find(one.a);
  const auto b = b_.exact.find(one.b);
  if (a == a_.exact.end() || b == b_.exact.end() || follow_choice_.count(i) != 0) return false;
  // The exact values say nothing of numbers that follow from an op which no bound decides.
  if (follows_open(one)) return false;
  const std::string id_a = id_of(run_a_, one.a), id_b = id_of(run_b_, one.b);
  const std::optional<AlignedRows> rows = alignment_.rows_of(one);
  const std::optional<AlignedNumbers> exact = aligned_numbers(a->second, b->second, rows);
  const std::optional<AlignedNumbers> numbers = numbers_of_both(run_a_, id_a, run_b_, id_b, rows);
  if (!exact || !numbers || exact->a.size() != numbers->a.size()) return false;
  SameFunction same{scores_.count(i) != 0, rounded_constants_of(run_a_.type_of(id_a), run_b_.type_of(id_b)),
                    distances(exact->a, numbers->a)};
  const std::vector<double> of_b = distances(exact->b, numbers->b);
  std::transform(of_b.begin(), of_b.end(), same.errors.begin(), same.errors.begin(), std::plus<>());
  return are_same_function(exact->a, exact->b, same);
}

std::string RunComparer::answers_to_others(std::size_t i, const OpEvidence& evidence) {
  const AlignedResult& one = alignment_.results[i];
  const DriftOp& op = drift_.ops[i];
  const bool reads_others = std::any_of(one.reads.begin(), one.reads.end(),
                                        [&](std::size_t operand) { return answers_.count(operand) != 0; });
  if (reads_others) answers_.insert(i);
  // Their exact networks read other numbers.
  if (!unmatched_source_of(one).empty() || evidence.is_same_function) return "";
  const std::optional<AlignedRows> rows = alignment_.rows_of(one);
  const bool is_known = drift_.sources.empty() && unknown_sources_.empty() && parted_sources_.empty() &&
                        op.difference && op.difference->is_finite_in_both() && !evidence.is_choice &&
                        options_.audit.draws == 0 && evidence.other_function.empty();
  if (!is_known || reads_others) return "";
  const bool are_both_judged = evidence.a != nullptr && evidence.b != nullptr;
  const bool has_inputs = op.from_input_a && op.from_input_b && !follows_unjudged(one);
  const bool prefers_inputs = !alignment_.steps.empty() && has_inputs;
  const bool has_operands = rows && op.has_same_operands && evidence.is_same_op && are_both_judged && !prefers_inputs;
  if (!has_inputs && !has_operands) return "";
  if (!rows && (drawn_.count(i) != 0 || follow_choice_.count(i) != 0)) return "";
  const double a = has_operands ? op.error_a : *op.from_input_a, b = has_operands ? op.error_b : *op.from_input_b;
  const double constants =
      rows ? 0.0 : rounded_constants * std::max(std::abs(op.difference->worst_a), op.difference->scale);
  if (is_within_errors(*op.difference, a + constants, b)) return "";
  answers_.insert(i);
  const std::string text = fmt::format("{} apart, and the runs are within {} and {} of the exact value: ",
                                       error_text(op.difference->largest), error_text(a), error_text(b));
  if (!rows && alignment_.steps.empty()) return text + "from the same inputs the runs compute other functions";
  if (!alignment_.steps.empty())
    return text +
           "at the same positions of the same text the runs compute other functions: keys of a cache that are "
           "stale or missing, another mask, or other positions";
  return text + (rows->positions
                     ? "positions that both runs have answer to what follows them, or to padding, which a causal mask "
                       "or a padding mask excludes"
                     : "rows that both runs have answer to other rows, or the runs compute other functions");
}

std::string RunComparer::what_mixes_rows(std::size_t i) const {
  if (!drift_.rows || drift_.rows->positions) return "";
  const auto has_rows = [&](const AlignedResult& one) {
    const Shape &a = run_a_.shape_of(id_of(run_a_, one.a)), &b = run_b_.shape_of(id_of(run_b_, one.b));
    return may_have_rows_in_common(a, b, *drift_.rows);
  };
  const auto adds_up = [](const AlignedResult& one) {
    return one.kind.starts_with("Reduce") || one.kind.starts_with("product");
  };
  if (!has_rows(alignment_.results[i])) return adds_up(alignment_.results[i]) ? drift_.ops[i].name : "";
  std::string name;
  std::set<std::size_t> open = {i};  // results that lead to it and are compared nowhere
  for (std::size_t place = i + 1; place-- > 0;) {
    if (open.count(place) == 0) continue;
    for (const std::size_t operand : alignment_.results[place].reads) {
      const AlignedResult& read = alignment_.results[operand];
      if (operand >= place || drift_.ops[operand].difference || !is_float(run_a_.type_of(id_of(run_a_, read.a))))
        continue;
      open.insert(operand);
      if (adds_up(read)) name = drift_.ops[operand].name;
    }
  }
  return name;
}

bool RunComparer::reads_drifted(const AlignedResult& one) const {
  return std::any_of(one.reads_sources.begin(), one.reads_sources.end(), [&](std::size_t i) {
    const auto found = other_sources_.find(i);
    return found != other_sources_.end() && drift_.sources[found->second].is_drifted;
  });
}

std::string RunComparer::unmatched_source_of(const AlignedResult& one) const {
  if (const auto found = from_unmatched_a_.find(id_of(run_a_, one.a)); found != from_unmatched_a_.end())
    return run_a_.called(found->second);
  const auto found = from_unmatched_b_.find(id_of(run_b_, one.b));
  return found == from_unmatched_b_.end() ? "" : run_b_.called(found->second);
}

std::vector<std::string> RunComparer::open_results(const RecordedRun& run, const LayersOf& layers) {
  std::vector<std::string> ids;
  for (std::size_t record = 0; record < run.records().size(); ++record)
    for (std::size_t result = 0; result < run.records()[record].results.size(); ++result) {
      if (!run.records()[record].results[result]) continue;
      const LayerSummary* layer = layers.at({record, result});
      if (layer != nullptr && layer->status == Status::undecided) ids.push_back(id_of(run, {record, result}));
    }
  return ids;
}

bool RunComparer::follows_open(const AlignedResult& one) const {
  return from_open_a_.count(id_of(run_a_, one.a)) != 0 || from_open_b_.count(id_of(run_b_, one.b)) != 0;
}

void RunComparer::note_unjudged() {
  std::vector<std::string> of_a, of_b;
  const auto add = [](const RecordedRun& run, RecordedResult at, std::vector<std::string>& ids) {
    if (!reads_integers_alone(run, run.records()[at.record])) ids.push_back(id_of(run, at));
  };
  for (std::size_t i = 0; i < drift_.ops.size(); ++i) {
    const DriftOp& op = drift_.ops[i];
    if (op.difference && op.difference->is_zero() && op.difference->masked == 0) continue;
    if (op.a == Status::not_checked) add(run_a_, alignment_.results[i].a, of_a);
    if (op.b == Status::not_checked) add(run_b_, alignment_.results[i].b, of_b);
  }
  const auto add_alone = [&](const RecordedRun& run, const LayersOf& layers, const std::vector<RecordedResult>& alone,
                             std::vector<std::string>& ids) {
    for (const RecordedResult& at : alone) {
      const LayerSummary* layer = layers.at(at);
      if (layer == nullptr || layer->status == Status::not_checked) add(run, at, ids);
    }
  };
  add_alone(run_a_, layers_a_, alignment_.only_a, of_a);
  add_alone(run_b_, layers_b_, alignment_.only_b, of_b);
  from_unjudged_a_ = following_from(run_a_, of_a);
  from_unjudged_b_ = following_from(run_b_, of_b);
}

bool RunComparer::follows_unjudged(const AlignedResult& one) const {
  return from_unjudged_a_.count(id_of(run_a_, one.a)) != 0 || from_unjudged_b_.count(id_of(run_b_, one.b)) != 0;
}

const DriftSource* RunComparer::differing_source_of(const AlignedResult& one,
                                                    const std::function<bool(const DriftSource&)>& is) const {
  for (const std::size_t i : one.reads_sources) {
    const auto found = other_sources_.find(i);
    if (found == other_sources_.end()) continue;
    const DriftSource& source = drift_.sources[found->second];
    if (!source.is_drifted && is(source)) return &source;
  }
  return nullptr;
}

std::string RunComparer::other_source_of(const AlignedResult& one) const {
  const auto* source =
      differing_source_of(one, [](const DriftSource& each) { return !each.difference->is_finite_in_both(); });
  if (source == nullptr)
    source = differing_source_of(one, [](const DriftSource& each) { return each.rounded_to.empty(); });
  if (source == nullptr) return "";
  const RunDifference& difference = *source->difference;
  if (!difference.is_finite_in_both())
    return fmt::format(
        "the {} run reads numbers that are not finite: {} of {} elements of '{}', which are finite in "
        "the other run",
        difference.not_finite_a > 0 ? "first" : "second", std::max(difference.not_finite_a, difference.not_finite_b),
        difference.elements, difference.not_finite_a > 0 ? source->called_a : source->called_b);
  if (!is_float(run_a_.type_of(source->a)))
    return fmt::format("the runs read other numbers: {} of {} elements of '{}' differ", difference.differing,
                       difference.elements, source->called_a);
  if (source->is_zero_in_one)
    return fmt::format("'{}' is 0 in one run alone, in all of {} elements", source->called_a, difference.elements);
  return fmt::format("the runs read other numbers: {} of {} elements of '{}' differ, by {} of its scale at most",
                     difference.differing, difference.elements, source->called_a,
                     error_text(difference.largest / difference.scale));
}

std::string RunComparer::rounded_source_of(const AlignedResult& one, bool is_declared) const {
  const auto* source = differing_source_of(
      one, [&](const DriftSource& each) { return !each.rounded_to.empty() && each.is_declared == is_declared; });
  if (source == nullptr) return "";
  return fmt::format("the {} run reads '{}' rounded to {}", source->is_first_rounded ? "first" : "second",
                     source->is_first_rounded ? source->called_a : source->called_b, source->rounded_to);
}

std::string RunComparer::unknown_source_of(const AlignedResult& one) const {
  for (const std::size_t i : one.reads_sources)
    if (unknown_sources_.count(i) != 0)
      return fmt::format("the runs did not record the same elements of '{}', which it reads",
                         run_a_.called(alignment_.sources[i].a));
  return "";
}

}  // namespace driftbound::analysis

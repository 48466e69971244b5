#include "analysis/run_comparer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/choices.hpp"
#include "analysis/report_parts.hpp"

namespace driftbound::analysis {

RunsDrift RunComparer::compare() && {
  for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
    positions_[0][alignment_.results[i].a] = i;
    positions_[1][alignment_.results[i].b] = i;
  }
  drift_.rows = alignment_.rows;
  drift_.pairs_of_steps = static_cast<std::int64_t>(alignment_.steps.size());
  note_unmatched();
  from_open_a_ = following_from(run_a_, open_results(run_a_, layers_a_));
  from_open_b_ = following_from(run_b_, open_results(run_b_, layers_b_));
  drift_.interrupted = a_.judgement.interrupted || b_.judgement.interrupted;
  const auto undeclared = [](const JudgedRun& run) {
    const Comparison& comparison = run.judgement.comparison;
    return undeclared_kernel(comparison, comparison.run->arithmetics);
  };
  drift_.undeclared = undeclared_of(undeclared(a_), undeclared(b_));
  require_common_positions();
  find_scores();
  find_parting();
  const bool parts_in_a_sequence = drift_.parting.has_value();
  compare_sources();
  parts_at_source_ = drift_.parting && !parts_in_a_sequence;
  compare_values();
  require_parting();
  find_numbers_for_choices();
  judge_in_network();
  compare_decisions();
  note_unjudged();
  for (std::size_t i = 0; i < drift_.ops.size(); ++i) settle_op(i);
  name_what_is_alone();
  find_culprit(drift_);
  add_others(a_, "first");
  add_others(b_, "second");
  return std::move(drift_);
}

void RunComparer::compare_values() {
  for (const AlignedResult& one : alignment_.results) {
    const Record &record_a = run_a_.records()[one.a.record], &record_b = run_b_.records()[one.b.record];
    DriftOp op;
    op.name = name_of_result(record_a, one.a);
    op.name_b = name_of_result(record_b, one.b);
    op.module = record_a.module;
    op.op = record_a.op;
    op.op_b = record_b.op;
    op.by = one.by;
    const std::size_t place = drift_.ops.size();
    const bool is_choice_of_both = is_choice(run_b_.type_of(id_of(run_b_, one.b)));
    const bool draws = draws_at_random(record_a.op) && draws_at_random(record_b.op);
    const bool is_drawn = reads_drawn(one);
    if (follows_choice(one)) {
      follow_choice_.insert(place);
    } else if (is_drawn && !is_choice_of_both) {
      drawn_.insert(place);
    } else if (const auto numbers = numbers_of_both(run_a_, id_of(run_a_, one.a), run_b_, id_of(run_b_, one.b),
                                                    alignment_.rows_of(one))) {
      op.difference = difference_of(*numbers, scores_.count(place) != 0);
      const bool differs = !op.difference->is_zero();
      if (differs && (draws || is_drawn)) drawn_.insert(place);
      if (differs && is_choice_of_both && !alignment_.steps.empty() && reads_integers_alone(run_a_, record_a)) {
        op.difference.reset();  // as positions in a window: what reads them is compared
      } else if (differs && is_choice_of_both) {
        if (parts_at_source_) drift_.parting.reset();  // which follows from this choice
        parts_at_source_ = false;
        note_parting(op.name, *numbers, draws || is_drawn);
        follow_choice_.insert(place);
      } else if (differs && draws) {
        op.difference.reset();
      }
    } else if (is_unrelated(one)) {
      unrelated_.insert(place);
    }
    op.has_same_operands = one.operands == OperandsAre::same && !one.casts_otherwise && reads_the_same(one) &&
                           (alignment_.steps.empty() || !alignment_.steps[one.in_step].leaves_some_out);
    take_reports(op, layers_a_.at(one.a), layers_b_.at(one.b));
    op.unit = unit_of(run_a_.type_of(id_of(run_a_, one.a)), run_b_.type_of(id_of(run_b_, one.b)));
    const bool reads_the_same_sources = drift_.sources.empty() && unknown_sources_.empty();
    if (reads_the_same_sources)
      op.apart_at_most = any_runs_apart(a_.judgement.comparison, op.name, b_.judgement.comparison, op.name_b);
    std::vector<const RunDifference*> operands;
    for (const std::size_t i : one.reads)
      if (i < drift_.ops.size() && drift_.ops[i].difference) operands.push_back(&*drift_.ops[i].difference);
    add_op(std::move(op), operands, drift_);
  }
}

bool RunComparer::is_unrelated(const AlignedResult& one) const {
  const std::string a = id_of(run_a_, one.a), b = id_of(run_b_, one.b);
  const bool are_known = run_a_.is_stored(a) && run_b_.is_stored(b) && !run_a_.part_of(a) && !run_b_.part_of(b);
  const std::optional<AlignedRows> rows = alignment_.rows_of(one);
  return are_known && rows && may_have_rows_in_common(run_a_.shape_of(a), run_b_.shape_of(b), *rows);
}

bool RunComparer::reads_the_same(const AlignedResult& one) const {
  const auto is_same_result = [&](std::size_t i) {
    return i < drift_.ops.size() && drift_.ops[i].difference && drift_.ops[i].difference->is_zero();
  };
  const auto is_same_source = [&](std::size_t i) {
    return other_sources_.count(i) == 0 && unknown_sources_.count(i) == 0 && parted_sources_.count(i) == 0;
  };
  return std::all_of(one.reads.begin(), one.reads.end(), is_same_result) &&
         std::all_of(one.reads_sources.begin(), one.reads_sources.end(), is_same_source);
}

void RunComparer::compare_decisions() {
  const ChosenFrom outputs_a(run_a_), outputs_b(run_b_);
  for (std::size_t i = 0; i < alignment_.results.size(); ++i) {
    const AlignedResult& one = alignment_.results[i];
    const std::string id = id_of(run_a_, one.a);
    const Shape& shape = run_a_.shape_of(id);
    if (!is_float(run_a_.type_of(id)) || shape.size() < 2 || shape.back() < 2) continue;
    if (!outputs_a.are_chosen_from(id) || !outputs_b.are_chosen_from(id_of(run_b_, one.b))) continue;
    if (follow_choice_.count(i) != 0 || drawn_.count(i) != 0) continue;
    const auto numbers = numbers_of_both(run_a_, id, run_b_, id_of(run_b_, one.b), alignment_.rows_of(one));
    if (!numbers || run_a_.part_of(id)) continue;
    const auto known = [&](const JudgedRun& run, RecordedResult at) -> const KnownNumbers* {
      const auto found = run.known.find(at);
      const bool are_found =
          !alignment_.rows_of(one) || !numbers->rows_of_a.empty();  // else it is not known which rows these are
      return !drift_.sources.empty() || !are_found || found == run.known.end() ? nullptr : &found->second;
    };
    const std::vector<std::int64_t> next = options_.chosen.empty() ? next_tokens(one, shape) : options_.chosen;
    add_rows(drift_.ops[i].name, *numbers, known(a_, one.a), known(b_, one.b),
             {options_.top, row_before_parting(one, shape), next}, drift_);
  }
}

std::vector<std::int64_t> RunComparer::next_tokens(const AlignedResult& one, const Shape& shape) const {
  if (alignment_.steps.empty()) return {};
  const AlignedStep& step = alignment_.steps[one.in_step];
  const std::int64_t texts = alignment_.texts.shape[0], positions = alignment_.texts.shape[1];
  const std::int64_t rows = element_count(shape) / shape.back(), count = rows / texts;
  const bool is_first = drift_.rows->positions->lie_first && shape.size() > 2;
  if (rows != texts * count || (step.rows && step.rows->positions && count != step.rows->positions->a)) return {};
  std::vector<std::int64_t> next;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t text = is_first ? row % texts : row / count;
    const std::int64_t position = step.first_a + (is_first ? row / texts : row % count) + 1;
    next.push_back(position < positions ? alignment_.texts.values[static_cast<std::size_t>(text * positions + position)]
                                        : -1);
  }
  const std::int64_t classes = shape.back();
  const bool are_classes = std::all_of(next.begin(), next.end(), [&](auto token) { return token < classes; });
  return are_classes ? next : std::vector<std::int64_t>();
}

std::optional<std::int64_t> RunComparer::row_before_parting(const AlignedResult& one, const Shape& shape) const {
  const std::optional<AlignedRows> of_value = alignment_.rows_of(one);
  if (!drift_.parting || !of_value || !of_value->positions) return std::nullopt;
  const AlignedPositions& positions = *of_value->positions;
  const std::int64_t rows = of_value->a, count = positions.a;
  const std::int64_t before = alignment_.steps.empty() ? 0 : alignment_.steps[one.in_step].first_a;
  const std::int64_t row = drift_.parting->row, position = drift_.parting->position - 1 - before;
  if (position < 0 || position >= count) return std::nullopt;
  const Shape first = positions.lie_first ? Shape{count, rows} : Shape{rows, count};
  const bool fits = (shape.size() > 2 && shape[0] == first[0] && shape[1] == first[1]) ||
                    (shape.size() == 2 && shape[0] == rows * count);
  if (!fits) return std::nullopt;
  return positions.lie_first ? position * rows + row : row * count + position;
}

void RunComparer::name_what_is_alone() {
  const auto name = [&](const RecordedRun& run, const LayersOf& layers, const std::vector<RecordedResult>& results,
                        const std::set<std::string>& of_both, const std::map<std::string, std::string>& from,
                        const std::map<std::string, std::string>& behind_end) {
    const std::set<std::string> leads = leading_to(run, of_both);
    std::set<std::string> computed = of_both;
    for (const RecordedResult& at : results) computed.insert(id_of(run, at));
    const std::set<std::string> read = read_in(run, computed), goes_on = made_of_more(run, behind_end, of_both);
    std::vector<DriftAlone> alone;
    for (const RecordedResult& at : results) {
      const Record& record = run.records()[at.record];
      DriftAlone one{name_of_result(record, at), record.op, Status::not_checked, ""};
      if (const LayerSummary* layer = layers.at(at)) {
        one.status = layer->status;
        one.reason = complaint_of(*layer);
      }
      const std::string& id = *record.results[at.result];
      const bool may_be_longer = is_of_longer_run(record) && (behind_end.count(id) == 0 || goes_on.count(id) != 0);
      one.is_result = at.result == 0 && is_float(run.type_of(id)) && read.count(id) == 0 && !may_be_longer;
      const auto source = from.find(id);
      one.follows_unknown = source != from.end() && leads.count(id) == 0 && !drift_.parting;
      if (one.follows_unknown && one.reason.empty())
        one.reason = "it follows from '" + run.called(source->second) +
                     "', which comes from outside and the other run has not, and is not compared";
      alone.push_back(std::move(one));
    }
    return alone;
  };
  std::set<std::string> of_a, of_b;
  for (const AlignedResult& one : alignment_.results) {
    of_a.insert(id_of(run_a_, one.a));
    of_b.insert(id_of(run_b_, one.b));
  }
  // What one run computes from numbers that the other one ends with, and from nothing else, is no later step.
  const auto read_by_floats = [](const RecordedRun& run, const std::set<std::string>& of_both,
                                 const std::vector<RecordedResult>& alone) {
    std::set<std::string> floats;
    const auto add = [&](const std::string& id) {
      if (is_float(run.type_of(id))) floats.insert(id);
    };
    std::for_each(of_both.begin(), of_both.end(), add);
    for (const RecordedResult& at : alone) add(id_of(run, at));
    return read_in(run, floats);
  };
  const std::set<std::string> read_a = read_by_floats(run_a_, of_a, alignment_.only_a);
  const std::set<std::string> read_b = read_by_floats(run_b_, of_b, alignment_.only_b);
  std::vector<std::string> ends_of_b, ends_of_a;  // by their names in the other run
  for (const AlignedResult& one : alignment_.results) {
    if (read_b.count(id_of(run_b_, one.b)) == 0) ends_of_b.push_back(id_of(run_a_, one.a));
    if (read_a.count(id_of(run_a_, one.a)) == 0) ends_of_a.push_back(id_of(run_b_, one.b));
  }
  drift_.only_a =
      name(run_a_, layers_a_, alignment_.only_a, of_a, from_unmatched_a_, following_from(run_a_, ends_of_b, true));
  drift_.only_b =
      name(run_b_, layers_b_, alignment_.only_b, of_b, from_unmatched_b_, following_from(run_b_, ends_of_a, true));
}

bool RunComparer::is_of_longer_run(const Record& record) const {
  if (alignment_.has_other_texts) return false;
  if (drift_.parting || (drift_.rows && drift_.rows->positions)) return true;
  return std::any_of(drift_.ops.begin(), drift_.ops.end(), [&](const DriftOp& op) {
    return op.module == record.module && (op.op == record.op || op.op_b == record.op);
  });
}

void RunComparer::add_others(const JudgedRun& run, std::string_view which) {
  const Comparison& comparison = run.judgement.comparison;
  const DriftVerdict own = comparison.verdict == Status::violated     ? DriftVerdict::bug
                           : comparison.verdict == Status::improbable ? DriftVerdict::suspicious
                                                                      : DriftVerdict::expected;
  if (own <= drift_.verdict) return;
  for (const LayerSummary& layer : comparison.layers) {
    if (layer.status != comparison.verdict) continue;
    drift_.verdict = own;
    drift_.culprit.reset();
    drift_.alone = DriftAlone{layer.name, layer.op, layer.status,
                              fmt::format("the {} run's own report: {}", which, complaint_of(layer))};
    return;
  }
}

}  // namespace driftbound::analysis

#include "analysis/drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "analysis/run_comparer.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {

std::string_view name_of(DriftVerdict verdict) {
  switch (verdict) {
    case DriftVerdict::expected:
      return "expected";
    case DriftVerdict::undecided:
      return "undecided";
    case DriftVerdict::suspicious:
      return "suspicious";
    case DriftVerdict::bug:
      return "bug";
  }
  return "";
}

Status status_of(DriftVerdict verdict) {
  switch (verdict) {
    case DriftVerdict::expected:
      return Status::holds;
    case DriftVerdict::undecided:
      return Status::undecided;
    case DriftVerdict::suspicious:
      return Status::improbable;
    case DriftVerdict::bug:
      return Status::violated;
  }
  return Status::undecided;
}

double DriftOp::introduced() const {
  return has_same_operands && difference ? difference->largest : error_a + error_b;
}

double DriftOp::propagated() const {
  return difference ? std::max(difference->largest - introduced(), 0.0) : 0.0;
}

namespace {

/// The first results of the same module and op, where there are such.
std::string why_nothing_in_common(const RecordedRun& a, const RecordedRun& b) {
  for (const Record& of_a : a.records())
    for (const Record& of_b : b.records()) {
      if (of_a.module != of_b.module || of_a.op != of_b.op || of_a.results.empty() || of_b.results.empty()) continue;
      if (!of_a.results[0] || !of_b.results[0]) continue;
      const Shape &in_a = a.shape_of(*of_a.results[0]), &in_b = b.shape_of(*of_b.results[0]);
      if (in_a != in_b)
        return fmt::format(
            "the runs are of different models, or of inputs of other shapes: the first result of both, that of '{}', "
            "is {} in the first run and {} in the second; record both runs with inputs that differ in rows or "
            "positions alone",
            of_a.name, driftbound::to_string(in_a), driftbound::to_string(in_b));
    }
  return "the runs are of different models: no op of one is an op of the other";
}

}  // namespace

RunAlignment aligned_runs(const RecordedRun& a, const RecordedRun& b) {
  RunAlignment alignment = align_runs(a, b);
  if (alignment.results.empty()) throw InvalidArgument(why_nothing_in_common(a, b));
  return alignment;
}

namespace {

void keep_exact(const RecordedRun& run, const RecordChain& chain, const Reference& reference,
                std::map<RecordedResult, StoredTensor>& exact) {
  std::size_t left = std::size_t{1} << 25;
  for (std::size_t i = 0; i < chain.results.size() && i < reference.layers.size(); ++i) {
    const Tensor<Ball>& values = reference.layers[i];
    if (!chain.results[i] || values.size() > left) continue;
    const Record& record = run.records()[chain.results[i]->record];
    const Shape& shape = run.shape_of(*record.results[chain.results[i]->result]);
    if (static_cast<std::size_t>(element_count(shape)) != values.size()) continue;  // of some samples
    left -= values.size();
    exact.emplace(*chain.results[i], nearest_numbers(values, shape));
  }
}

}  // namespace

JudgedRun judge_run_alone(const RecordedRun& run, const DriftOptions& options) {
  JudgedRun judged{&run, judge_records(run, options.judge, options.audit), std::nullopt, {}, {}};
  if (judged.judgement.interrupted || options.audit.draws > 0) return judged;
  const RecordChain chain = chain_records(run, options.most_numbers);
  if (chain.why_not.empty() && chain.no_arithmetic.empty()) judged.arithmetic = chain.trace.arithmetic;
  JudgeOptions from_input = options.judge;
  from_input.progress = {};
  from_input.most_output_elements = most_bounded_elements(chain.graph, chain.trace, options.bounds_outputs);
  from_input.keep_block = [&](const Reference& reference, const Bounds& bounds, std::int64_t first,
                              std::int64_t count) {
    for (std::size_t output = 0; output < chain.graph.outputs.size(); ++output) {
      const std::optional<std::size_t> node = chain.graph.producer(chain.graph.outputs[output]);
      if (!node || !chain.results[*node] || reference.layers[*node].size() > most_exact) continue;
      judged.known[*chain.results[*node]].add(chain.graph, chain.trace, output, reference, bounds, first, count,
                                              options.judge.precision.threads);
    }
    keep_exact(run, chain, reference, judged.exact);
  };
  judge_from_input(run, chain, from_input, judged.judgement);
  return judged;
}

namespace {

/// Pairs of results by which there is a bug, and which may be no pairs: the runs compute them by other ops, or from other
/// operands, as a scale that one run splits over both factors. What no other numbers are made of stays: the runs must
/// agree there in the end.
std::set<std::size_t> doubtful_pairs(const RunsDrift& drift, const RunAlignment& alignment, const RecordedRun& a) {
  std::set<std::size_t> doubtful;
  std::set<std::string> computed;
  const auto add = [&](RecordedResult at) {
    if (const std::string id = id_of(a, at); is_float(a.type_of(id))) computed.insert(id);
  };
  for (const AlignedResult& one : alignment.results) add(one.a);
  for (const RecordedResult& at : alignment.only_a) add(at);
  const std::set<std::string> read = read_in(a, computed);
  for (std::size_t i = 0; i < drift.ops.size(); ++i) {
    const AlignedResult& one = alignment.results[i];
    const DriftOp& op = drift.ops[i];
    const bool is_scale = one.kind == "Mul" || one.kind == "Div";
    const bool may_be_others = op.op != op.op_b || one.operands != OperandsAre::same || is_scale;
    const bool hold_alone = op.a != Status::violated && op.b != Status::violated;
    if (op.verdict == DriftVerdict::bug && may_be_others && hold_alone && read.count(id_of(a, one.a)) != 0)
      doubtful.insert(i);
  }
  return doubtful;
}

std::int64_t bugs_in(const RunsDrift& drift) {
  return std::count_if(drift.ops.begin(), drift.ops.end(),
                       [](const DriftOp& op) { return op.verdict == DriftVerdict::bug; });
}

/// Ops and results of one run alone of which it is not known whether they are expected.
std::size_t open_in(const RunsDrift& drift) {
  const auto ops = std::count_if(drift.ops.begin(), drift.ops.end(),
                                 [](const DriftOp& op) { return op.verdict == DriftVerdict::undecided; });
  std::size_t alone = 0;
  for (const std::vector<DriftAlone>* side : {&drift.only_a, &drift.only_b})
    for (const DriftAlone& one : *side) alone += one.is_result || one.follows_unknown ? 1 : 0;
  return static_cast<std::size_t>(ops) + alone;
}

}  // namespace

RunsDrift compare_runs(const JudgedRun& a, const JudgedRun& b, const DriftOptions& options,
                       std::optional<RunAlignment> alignment) {
  if (!alignment) alignment = aligned_runs(*a.run, *b.run);
  RunsDrift drift = RunComparer(a, b, options, *alignment).compare(), without = drift;
  if (!drift.not_as_b.empty() || !alignment->steps.empty()) return drift;
  // Where more is as expected without these pairs, by what the networks compute between the others, they are none.
  constexpr int most_rounds = 8, few_rounds = 2;  // what is behind such a pair may be none, too
  const std::size_t open = open_in(drift);
  bool leaves_out_open = false;  // results that no bound decides
  for (int round = 0; round < most_rounds; ++round) {
    const std::set<std::size_t> doubtful = doubtful_pairs(without, *alignment, *a.run);
    if (doubtful.empty()) break;
    leaves_out_open = leaves_out_open || std::any_of(doubtful.begin(), doubtful.end(), [&](std::size_t i) {
                        return without.ops[i].a == Status::undecided || without.ops[i].b == Status::undecided;
                      });
    alignment = without_pairs(*alignment, doubtful);
    without = RunComparer(a, b, options, *alignment).compare();
    // A fault beside such pairs is a bug at few ops.
    const bool names_it = round < few_rounds && 2 * bugs_in(without) < bugs_in(drift);
    const bool explains_more = without.verdict < DriftVerdict::bug || names_it;
    const bool leaves_open = leaves_out_open && without.verdict < DriftVerdict::bug;  // what follows is open, too
    if ((open_in(without) <= open || leaves_open) && explains_more) drift = without;
    if (without.verdict < DriftVerdict::bug) break;
  }
  return drift;
}

}  // namespace driftbound::analysis

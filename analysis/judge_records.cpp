#include "analysis/judge_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/record_parts.hpp"

namespace driftbound::analysis {
namespace {

/// The results of a run that may be judged.
std::int64_t count_of_results(const RecordedRun& run) {
  std::int64_t count = 0;
  for (const Record& record : run.records())
    for (const auto& id : record.results) count += id && run.has(*id) && run.is_stored(*id) ? 1 : 0;
  return std::max<std::int64_t>(count, 1);
}

/// What is collected of one result, part after part.
class ResultJudge {
public:
  ResultJudge(const JudgeOptions& options, double failure_probability)
      : options_(options), failure_probability_(failure_probability) {}

  void add(RecordPart&& part) {
    if (!comparer_) {
      graph_ = std::make_unique<const Graph>(part.graph);
      arithmetic_ = part.trace.arithmetic;
      comparer_ = std::make_unique<Comparer>(*graph_, std::vector<Scalar>(), options_.threshold);
    }
    JudgeOptions options = options_;
    options.failure_probability = failure_probability_ * part.share;
    add_layers_alone(part.graph, part.trace, options, samples_, *comparer_);
    samples_ += part.trace.samples;
    places_.insert(places_.end(), part.places.begin(), part.places.end());
    stride_ = part.stride;
  }

  const ArithmeticModel& arithmetic() const { return arithmetic_; }

  /// Empty where there was no part.
  std::optional<Comparison> finish() {
    if (!comparer_) return std::nullopt;
    Comparison comparison = comparer_->finish(failure_probability_);
    for (LayerSummary& layer : comparison.layers) {
      for (ScopeSummary* scope : {&layer.local, &layer.accumulated}) {
        for (std::optional<WorstCase>* worst : {&scope->worst, &scope->first_open}) place(*worst);
        for (BoundSummary& bound : scope->bounds) place(bound.worst);
      }
      if (layer.first_void) place(layer.first_void->sample, layer.first_void->element);
    }
    return comparison;
  }

private:
  /// Numbers of samples become numbers in the result.
  void place(std::int64_t& sample, std::int64_t& element) const {
    element = places_.at(static_cast<std::size_t>(sample)) + element * stride_;
    sample = 0;
  }
  void place(std::optional<WorstCase>& worst) const {
    if (worst) place(worst->sample, worst->element);
  }

  const JudgeOptions& options_;
  double failure_probability_;
  std::unique_ptr<const Graph> graph_;
  std::unique_ptr<Comparer> comparer_;
  ArithmeticModel arithmetic_;
  std::vector<std::int64_t> places_;
  std::int64_t samples_ = 0, stride_ = 1;
};

void append(Comparison& all, Comparison&& one, RecordSummary&& record) {
  for (LayerSummary& layer : one.layers) {
    layer.index = all.layers.size();
    layer.record = std::move(record);
    if (one.closest) {
      one.closest->layer = layer.name;
      if (!all.closest || one.closest->utilisation > all.closest->utilisation) all.closest = one.closest;
    }
    all.verdict = std::max(all.verdict, layer.status);
    all.layers.push_back(std::move(layer));
  }
  for (const auto& [bits, count] : one.rungs) all.rungs[bits] += count;
  all.reference_undecided += one.reference_undecided;
  all.reference_valueless += one.reference_valueless;
  all.reference_too_fine += one.reference_too_fine;
  all.reference_undefined += one.reference_undefined;
  all.max_bits = std::max(all.max_bits, one.max_bits);
  for (std::string& assumption : one.assumptions)
    if (std::find(all.assumptions.begin(), all.assumptions.end(), assumption) == all.assumptions.end())
      all.assumptions.push_back(std::move(assumption));
}

RecordSummary summary_of(const Record& record, const ResultCoverage& coverage, const ArithmeticModel& arithmetic) {
  RecordSummary summary;
  summary.op = record.op;
  summary.module = record.module;
  summary.device = record.device;
  summary.rank = record.rank;
  summary.result = static_cast<std::int64_t>(coverage.result);
  summary.arithmetic = arithmetic.name;
  summary.elements = coverage.elements;
  summary.judged = coverage.judged;
  summary.draws = coverage.draws;
  summary.infinite = coverage.infinite;
  summary.lacking = coverage.lacking;
  return summary;
}

void note_arithmetic(RunSummary& run, const ArithmeticModel& arithmetic) {
  const auto is_it = [&](const ArithmeticModel& known) { return known.name == arithmetic.name; };
  if (std::none_of(run.arithmetics.begin(), run.arithmetics.end(), is_it)) run.arithmetics.push_back(arithmetic);
}

void note_not_judged(RunSummary& run, const Record& record, const ResultCoverage& coverage) {
  ++run.not_judged;
  const std::string& why = coverage.why_not;
  const auto is_it = [&](const NotJudged& known) { return known.op == record.op && known.why == why; };
  const auto known = std::find_if(run.reasons.begin(), run.reasons.end(), is_it);
  if (known != run.reasons.end()) {
    ++known->count;
  } else {
    run.reasons.push_back({record.op, why, record.name, 1});
  }
}

}  // namespace

double share_missed_with(double probability, std::int64_t draws) {
  return draws < 1 ? 1.0 : -std::expm1(std::log(probability) / static_cast<double>(draws));
}

Judgement judge_records(const RecordedRun& run, const JudgeOptions& options, const AuditOptions& audit) {
  Judgement judgement;
  Comparison& all = judgement.comparison;
  all.threshold = options.threshold;
  all.failure_probability = options.failure_probability;
  all.samples = 1;
  RunSummary& summary = all.run.emplace();
  summary.problems = run.problems();
  summary.draws = audit.draws;
  const double failure_probability = options.failure_probability / static_cast<double>(count_of_results(run));
  const auto count = static_cast<std::int64_t>(run.records().size());
  for (std::int64_t i = 0; i < count; ++i) {
    const Record& record = run.records()[static_cast<std::size_t>(i)];
    std::map<std::size_t, ResultJudge> judges;
    const std::vector<ResultCoverage> covered =
        cut_record(run, static_cast<std::size_t>(i), {audit.draws, audit.seed}, [&](RecordPart&& part) {
          const std::size_t result = part.result;
          judges.try_emplace(result, options, failure_probability).first->second.add(std::move(part));
          return true;
        });
    ++summary.records;
    const bool has_several = judges.size() > 1;
    for (const ResultCoverage& coverage : covered) {
      const auto judge = judges.find(coverage.result);
      std::optional<Comparison> one = judge == judges.end() ? std::nullopt : judge->second.finish();
      summary.views += coverage.is_view ? 1 : 0;
      if (one) {
        if (has_several) one->layers.front().name += fmt::format("[{}]", coverage.result);
        note_arithmetic(summary, judge->second.arithmetic());
        append(all, std::move(*one), summary_of(record, coverage, judge->second.arithmetic()));
      }
      if (!coverage.why_not.empty()) note_not_judged(summary, record, coverage);
    }
    if (options.progress && !options.progress(i + 1, count) && i + 1 < count) {
      judgement.interrupted = true;
      break;
    }
  }
  const bool is_checked =
      std::any_of(all.layers.begin(), all.layers.end(), [](const LayerSummary& layer) { return layer.checked > 0; });
  if (all.layers.empty() && !judgement.interrupted) {
    std::string why = summary.records == 0 ? "it has no records" : "none of its records can be judged";
    for (const NotJudged& reason : summary.reasons) why += fmt::format("\n  {}: {}", reason.op, reason.why);
    for (const std::string& problem : summary.problems) why += "\n  " + problem;
    throw Unsupported("nothing to judge in this recording: " + why);
  }
  if (all.verdict <= Status::approaches && !is_checked) all.verdict = Status::undecided;
  return judgement;
}

}  // namespace driftbound::analysis

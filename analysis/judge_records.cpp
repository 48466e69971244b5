#include "analysis/judge_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "analysis/choices.hpp"
#include "driftbound/model/op_groups.hpp"
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
  /// Of all parts together, for readings: elements of a product, and rows of other ops.
  static constexpr std::int64_t enough_elements = 256, enough_rows = 64;

public:
  ResultJudge(const JudgeOptions& options, double failure_probability)
      : options_(options), failure_probability_(failure_probability) {}

  /// Searches the kernel of one part, before the first one is added.
  void search(const RecordPart& part) {
    start(part);
    if (!kernels_) kernels_.emplace(graph_->nodes.size(), options_, *comparer_);
    search_layers_alone(part.graph, part.trace, *kernels_);
  }

  void add(RecordPart&& part) {
    start(part);
    JudgeOptions options = options_;
    options.failure_probability = failure_probability_ * part.share;
    const bool is_product = multiplies_matrices(part.graph.nodes.front().op);
    options.tests_readings = comparer_->tested_computations() < (is_product ? enough_elements : enough_rows);
    const FoundArithmetics found = kernels_ ? kernels_->arithmetics(arithmetic_) : FoundArithmetics();
    add_layers_alone(part.graph, part.trace, options, samples_, found, *comparer_);
    first_samples_.push_back(samples_);
    first_numbers_.push_back(numbers_);
    const auto numbers = static_cast<std::int64_t>(part.trace.layers.front().output.size());
    row_lengths_.push_back(std::max<std::int64_t>(numbers / std::max<std::int64_t>(part.trace.samples, 1), 1));
    samples_ += part.trace.samples;
    numbers_ += numbers;
    part.graph = Graph();
    part.trace = Trace();
    parts_.push_back(std::move(part));  // where its elements lie
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
      if (layer.kernel && layer.kernel->nearest) place_number(layer.kernel->nearest->first);
    }
    return comparison;
  }

private:
  void start(const RecordPart& part) {
    if (comparer_) return;
    graph_ = std::make_unique<const Graph>(part.graph);
    arithmetic_ = part.trace.arithmetic;
    comparer_ = std::make_unique<Comparer>(*graph_, std::vector<Scalar>(), options_.threshold);
  }

  /// Numbers of samples become numbers in the result.
  void place(std::int64_t& sample, std::int64_t& element) const {
    const auto after = std::upper_bound(first_samples_.begin(), first_samples_.end(), sample);
    const auto part = static_cast<std::size_t>(after - first_samples_.begin()) - 1;
    element = parts_.at(part).place_of(sample - first_samples_[part], element);
    sample = 0;
  }
  void place(std::optional<WorstCase>& worst) const {
    if (worst) place(worst->sample, worst->element);
  }
  /// The same of a number among those of all parts, one part after the other.
  void place_number(std::int64_t& number) const {
    const auto after = std::upper_bound(first_numbers_.begin(), first_numbers_.end(), number);
    if (after == first_numbers_.begin()) return;  // -1
    const auto part = static_cast<std::size_t>(after - first_numbers_.begin()) - 1;
    const std::int64_t in_part = number - first_numbers_[part];
    number = parts_[part].place_of(in_part / row_lengths_[part], in_part % row_lengths_[part]);
  }

  const JudgeOptions& options_;
  double failure_probability_;
  std::unique_ptr<const Graph> graph_;
  std::unique_ptr<Comparer> comparer_;
  std::optional<FoundInParts> kernels_;
  ArithmeticModel arithmetic_;
  std::vector<RecordPart> parts_;
  std::vector<std::int64_t> first_samples_, first_numbers_, row_lengths_;  ///< by part
  std::int64_t samples_ = 0, numbers_ = 0;
};

RecordSummary summary_of(const Record& record, const ResultCoverage& coverage, const ArithmeticModel& arithmetic) {
  RecordSummary summary;
  summary.name = record.name;
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

namespace {

/// One record, judged.
struct JudgedRecord {
  std::vector<ResultCoverage> covered;
  std::map<std::size_t, ResultJudge> judges;  ///< by result
};

JudgedRecord judge_record(const RecordedRun& run, std::size_t record, const JudgeOptions& options,
                          double failure_probability, const AuditOptions& audit) {
  JudgedRecord judged;
  const CutOptions cut{audit.draws, audit.seed};
  judged.covered = cut_record(run, record, cut, [&](RecordPart&& part) {
    const std::size_t result = part.result;
    const auto [found, is_first] = judged.judges.try_emplace(result, options, failure_probability);
    ResultJudge& judge = found->second;
    if (is_first && options.kernel_searches != KernelSearches::none && has_kernels(part.graph.nodes.front().op)) {
      const auto search = [&](const RecordPart& other) {
        if (other.result == result) judge.search(other);
        return other.result <= result;
      };
      if (part.share < 1.0)  // a kernel that bounds take gives all parts
        cut_record(run, record, cut, search);
      else
        search(part);
    }
    judge.add(std::move(part));
    return true;
  });
  return judged;
}

void append(const Record& record, JudgedRecord&& judged, Comparison& all) {
  RunSummary& summary = *all.run;
  ++summary.records;
  const bool has_several = judged.judges.size() > 1;
  for (const ResultCoverage& coverage : judged.covered) {
    const auto judge = coverage.why_not.empty() ? judged.judges.find(coverage.result) : judged.judges.end();
    std::optional<Comparison> one = judge == judged.judges.end() ? std::nullopt : judge->second.finish();
    summary.views += coverage.is_view ? 1 : 0;
    if (one) {
      LayerSummary& layer = one->layers.front();
      if (has_several) layer.name += fmt::format("[{}]", coverage.result);
      if (layer.op == op::Segment::name) layer.op = record.op;
      note_arithmetic(summary, judge->second.arithmetic());
      one->layers.front().record = summary_of(record, coverage, judge->second.arithmetic());
      append(all, std::move(*one));
    }
    if (!coverage.why_not.empty()) note_not_judged(summary, record, coverage);
  }
}

/// Records [first, last), of which each thread takes the next one that is left.
template <class Judge>
std::vector<JudgedRecord> judge_together(std::size_t first, std::size_t last, int threads, const Judge& judge) {
  std::vector<JudgedRecord> judged(last - first);
  std::atomic<std::size_t> next = first;
  const auto work = [&] {
    for (std::size_t i = next++; i < last; i = next++) judged[i - first] = judge(i);
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(std::max(threads, 1)), last - first); ++i)
    others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  return judged;
}

/// Whether judging a record takes little enough memory for several to be judged at once.
bool is_small(const RecordedRun& run, const Record& record, const AuditOptions& audit) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 20;
  const auto is_in_part = [&](const std::optional<std::string>& id) {
    return !id || !run.has(*id) || !run.is_stored(*id) || run.part_of(*id);
  };
  if (audit.draws > 0 || std::all_of(record.results.begin(), record.results.end(), is_in_part)) return true;
  const auto is_small_value = [&](const std::optional<std::string>& id) {
    return !id || !run.has(*id) || run.part_of(*id) || element_count(run.shape_of(*id)) <= most_elements;
  };
  return std::all_of(record.operands.begin(), record.operands.end(), is_small_value) &&
         std::all_of(record.results.begin(), record.results.end(), is_small_value);
}

/// The layer of a recorded choice that is wrong. Only these are layers: right ones have no error.
LayerSummary layer_of(const Record& record, const WrongChoice& choice) {
  LayerSummary layer;
  const std::size_t result = record.results.size() > 1 ? 1 : 0;
  layer.name = result > 0 ? fmt::format("{}[{}]", record.name, result) : record.name;
  layer.op = record.op;
  layer.wrong_choice = choice.text();
  layer.outputs = layer.compared = layer.checked = choice.rows;
  layer.status = Status::violated;
  const double error =
      std::isnan(choice.number) ? std::numeric_limits<double>::infinity() : std::abs(choice.of_better - choice.number);
  ScopeSummary& local = layer.local;
  local.elements = local.decided = choice.rows;
  local.max_error = error;
  local.worst = WorstCase{0, choice.row, choice.number, choice.of_better, error, 0.0};
  BoundSummary bound;
  bound.theorem = "T-182";
  bound.violations = choice.wrong;
  bound.checked = choice.rows;
  bound.max_utilisation = std::numeric_limits<double>::infinity();
  bound.worst = local.worst;
  local.bounds = {bound};
  RecordSummary& summary = layer.record.emplace();
  summary.name = record.name;
  summary.op = record.op;
  summary.module = record.module;
  summary.device = record.device;
  summary.rank = record.rank;
  summary.result = static_cast<std::int64_t>(result);
  summary.elements = summary.judged = choice.rows;
  return layer;
}

void add_wrong_choices(const RecordedRun& run, Comparison& all) {
  for (std::size_t i = 0; i < run.records().size(); ++i) {
    const std::optional<WrongChoice> choice = wrong_choice(run, i);
    if (!choice) continue;
    Comparison one;
    one.layers.push_back(layer_of(run.records()[i], *choice));
    append(all, std::move(one));
  }
}

/// Kernels are searched for where that is cheap: also not of more records than these.
constexpr std::size_t most_searched = 2048;

JudgeOptions without_searches_beyond(JudgeOptions options, std::size_t records) {
  if (options.kernel_searches == KernelSearches::cheap && records > most_searched)
    options.kernel_searches = KernelSearches::none;
  return options;
}

}  // namespace

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
  const std::vector<Record>& records = run.records();
  for (std::size_t first = 0, last = 0; first < records.size() && !judgement.interrupted; first = last) {
    constexpr std::size_t most = 64;  // as progress is told, and interrupts are seen, in between
    while (last < records.size() && last - first < most && is_small(run, records[last], audit)) ++last;
    const bool is_large = last == first;
    if (is_large) ++last;
    JudgeOptions of_these = without_searches_beyond(options, last);
    if (!is_large) of_these.precision.threads = 1;  // of each: they are judged together
    std::vector<JudgedRecord> judged =
        judge_together(first, last, is_large ? 1 : options.precision.threads,
                       [&](std::size_t i) { return judge_record(run, i, of_these, failure_probability, audit); });
    for (std::size_t i = first; i < last; ++i) append(records[i], std::move(judged[i - first]), all);
    run.release_pages();
    const auto done = static_cast<std::int64_t>(last), count = static_cast<std::int64_t>(records.size());
    judgement.interrupted = options.progress && !options.progress(done, count) && done < count;
  }
  if (!judgement.interrupted) add_wrong_choices(run, all);
  if (all.layers.empty() && !judgement.interrupted) {
    std::string why = summary.records == 0 ? "it has no records" : "none of its records can be judged";
    for (const NotJudged& reason : summary.reasons) why += fmt::format("\n  {}: {}", reason.op, reason.why);
    for (const std::string& problem : summary.problems) why += "\n  " + problem;
    throw Unsupported("nothing to judge in this recording: " + why);
  }
  settle(all);
  return judgement;
}

namespace {

/// The parts of an error by results of records, in place of layers of a network. `layer_of`: by layer of the network.
void place_parts(std::optional<Breakdown>& breakdown, const std::vector<LayerSummary>& layers,
                 const std::vector<std::optional<std::size_t>>& layer_of) {
  if (!breakdown) return;
  std::vector<LayerPart> parts(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) parts[i].layer = layers[i].name;
  for (std::size_t i = 0; i < layer_of.size() && i < breakdown->layers.size(); ++i) {
    if (!layer_of[i]) continue;
    std::string name = std::move(parts[*layer_of[i]].layer);
    parts[*layer_of[i]] = std::move(breakdown->layers[i]);
    parts[*layer_of[i]].layer = std::move(name);
  }
  breakdown->layers = std::move(parts);
}

/// By layer of the network: the layer of the comparison that is the same result.
std::vector<std::optional<std::size_t>> matching_layers(const RecordedRun& run, const RecordChain& chain,
                                                        const Comparison& comparison) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> known;
  for (const LayerSummary& layer : comparison.layers)
    if (layer.record) known.emplace(std::pair(layer.record->name, layer.record->result), layer.index);
  std::vector<std::optional<std::size_t>> matching;
  for (const std::optional<RecordedResult>& result : chain.results) {
    matching.emplace_back();
    if (!result) continue;
    const auto found = known.find({run.records()[result->record].name, static_cast<std::int64_t>(result->result)});
    if (found != known.end()) matching.back() = found->second;
  }
  return matching;
}

}  // namespace

void judge_from_input(const RecordedRun& run, const RecordChain& chain, const JudgeOptions& options,
                      Judgement& judgement) {
  Comparison& all = judgement.comparison;
  RunSummary& summary = *all.run;
  summary.not_from_input = chain.why_not.empty() ? chain.no_arithmetic : chain.why_not;
  if (!chain.why_not.empty()) return;
  summary.given = chain.given;
  JudgeOptions fitting = without_searches_beyond(options, run.records().size());
  if (chain.may_round_numbers) fitting.without.emplace_back(BoundKind::rounded_shadow);
  if (!chain.no_arithmetic.empty()) {  // the shadow is the error itself, whatever made the run
    fitting.bounds = {BoundKind::shadow};
    fitting.tests_readings = false;
    fitting.kernel_searches = KernelSearches::none;
  }
  Judgement of_network;
  try {
    of_network = judge(chain.graph, chain.trace, fitting);
  } catch (const Unsupported& error) {  // a function without a stated accuracy: its record is not judged either
    summary.not_from_input = error.what();
    return;
  }
  Comparison& network = of_network.comparison;
  judgement.interrupted = judgement.interrupted || of_network.interrupted;
  judgement.left_out = std::move(of_network.left_out);
  judgement.memory_needed = of_network.memory_needed;
  const std::vector<std::optional<std::size_t>> layer_of = matching_layers(run, chain, all);
  for (std::size_t i = 0; i < layer_of.size(); ++i) {
    if (!layer_of[i]) continue;
    LayerSummary& layer = all.layers[*layer_of[i]];
    add_from_input(layer, std::move(network.layers[i]), options.threshold);
    all.verdict = std::max(all.verdict, layer.status);
    ++summary.from_input;
  }
  for (OutputSummary& output : network.outputs) {
    place_parts(output.breakdown, all.layers, layer_of);
    if (output.status != Status::undecided) all.verdict = std::max(all.verdict, output.status);
    all.outputs.push_back(std::move(output));
  }
  all.open_questions = std::move(network.open_questions);
  all.not_by_rows = std::move(network.not_by_rows);
  if (network.closest && (!all.closest || network.closest->utilisation > all.closest->utilisation))
    all.closest = network.closest;
  add_references(all, network);
}

}  // namespace driftbound::analysis

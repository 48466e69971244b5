#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/promotion.hpp"
#include "analysis/scalar.hpp"
#include "cli/drift_modes.hpp"
#include "cli/files.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

/// A run of the model, and what it is called.
struct NamedTrace {
  std::string name, sha256;
  Graph graph;
  Trace trace;
  std::optional<double> predicted_rms = std::nullopt;
  bool is_promoted = false;                ///< one layer is computed otherwise than the arithmetic says
  std::vector<std::string> problems = {};  ///< of the file, in words
  std::vector<std::string> lacks = {};     ///< outputs of the model that are not recorded
};

NamedTrace read_named(const LoadedModel& model, const std::string& file) {
  RecordedRunOfModel run = read_recorded(model.graph, model.sha256, file, model.inputs.value_or(Inputs()));
  require_finite_inputs(model.graph, run.trace.inputs, file);
  NamedTrace named{file, sha256_of_file(file), std::move(run.graph), std::move(run.trace)};
  named.lacks = std::move(run.outputs_left_out);
  if (!run.unplaced.empty())
    named.problems.push_back(fmt::format(
        "Not compared: {} that may be of no layer of the model, or of several (first '{}').",
        run.unplaced.size() == 1 ? "a record" : fmt::format("{} records", run.unplaced.size()), run.unplaced.front()));
  return named;
}

/// Throws:    InvalidArgument where one run lacks an output of the model that another one has
void require_same_outputs(const std::vector<std::shared_ptr<NamedTrace>>& runs) {
  for (const auto& run : runs)
    for (const std::string& output : run->lacks)
      for (const auto& other : runs)
        if (std::find(other->lacks.begin(), other->lacks.end(), output) == other->lacks.end())
          throw InvalidArgument(fmt::format("{}: the output '{}' is missing, which {} has; record it in both runs",
                                            run->name, output, other->name));
}

/// The run that the first one of each option describes.
RunSettings first_run(const DriftSettings& settings) {
  RunSettings run = settings.run;
  if (!settings.orders.empty()) run.order = settings.orders.front();
  if (!settings.arithmetics.empty()) run.arithmetic = settings.arithmetics.front();
  if (!settings.batches.empty()) run.batch = settings.batches.front();
  if (!settings.backends.empty()) run.backend = settings.backends.front();
  if (!settings.threads.empty()) run.threads = settings.threads.front();
  return run;
}

/// The runs that --orders, --arithmetics, --batches, --backends and --threads ask for: the first of each, and every other
/// one by itself.
std::vector<RunSettings> asked_runs(const DriftSettings& settings) {
  const RunSettings base = first_run(settings);
  std::vector<RunSettings> runs = {base};
  const auto add_others = [&](const auto& values, auto RunSettings::*field) {
    for (std::size_t i = 1; i < values.size(); ++i) {
      runs.push_back(base);
      runs.back().*field = values[i];
    }
  };
  add_others(settings.orders, &RunSettings::order);
  add_others(settings.arithmetics, &RunSettings::arithmetic);
  add_others(settings.batches, &RunSettings::batch);
  add_others(settings.backends, &RunSettings::backend);
  add_others(settings.threads, &RunSettings::threads);
  return runs;
}

/// "tf32, pairwise, batch 16"
std::string name_of_run(const RunSettings& run, const DriftSettings& settings) {
  std::string name = run.arithmetic.empty() ? "the model's type" : run.arithmetic;
  if (!run.order.empty()) name += ", " + run.order;
  if (run.batch > 0) name += ", batch " + std::to_string(run.batch);
  if (!settings.backends.empty()) name += ", " + run.backend + (run.device.name.empty() ? "" : " " + run.device.name);
  if (settings.threads.size() > 1) name += fmt::format(", {} thread{}", run.threads, run.threads == 1 ? "" : "s");
  return name;
}

/// Of the outputs of a run, bit for bit.
std::string fingerprint_of(const NamedTrace& run) {
  std::string all;
  for (const ValueId output : run.graph.outputs)
    if (const auto node = run.graph.producer(output)) all += sha256_of(run.trace.layers[*node].output.bytes());
  return all;
}

/// Compares every run with the first one.
class RunsOfModel {
public:
  RunsOfModel(DriftSettings settings, const analysis::DriftOptions& options, analysis::DriftReport& report,
              Tolerances& tolerances)
      : settings_(std::move(settings)), options_(options), report_(report), tolerances_(tolerances) {
    if (settings_.makes_runs())
      list_runs_to_make();
    else
      list_traces();
    if (!settings_.promote.empty()) aim();
  }

  /// Returns false where the work was interrupted.
  bool compare() && {
    for (std::size_t i = 0; i < makers_.size(); ++i) {
      const std::function<NamedTrace()> make = makers_[i];  // promotions are added on the way
      if (!add(make)) return false;
    }
    report_.classes = analysis::classes_of(fingerprints_);
    return true;
  }

private:
  void list_runs_to_make() {
    if (settings_.files.size() > 1) settings_.inputs.file = settings_.files[1];
    model_ = load_for_run(settings_.files.front(), &settings_.inputs);
    const std::vector<std::string>& backends = settings_.backends;
    if (settings_.run.device.is_given() && std::find(backends.begin(), backends.end(), "sim") == backends.end())
      throw InvalidArgument(
          "--device, --block, --promotion and --round-parts say what to simulate; add sim to --backends, or leave them "
          "out");
    for (RunSettings run : asked_runs(settings_)) {
      if (run.backend != "sim") run.device = {};
      run.check();
      makers_.push_back([this, run] {
        return NamedTrace{name_of_run(run, settings_), model_.sha256, model_.graph,
                          run_model(model_, settings_.inputs, run, settings_.outputs.quiet)};
      });
    }
    if (makers_.size() < 2 && settings_.promote.empty())
      throw InvalidArgument("drift: give two orders, arithmetics, batches, backends or numbers of threads, or more");
  }

  /// What integers make is computed when the model is loaded: those of the first trace.
  /// Throws:    InvalidArgument where another trace has others
  void require_same_integers() const {
    const Graph graph = describe_model(settings_.files.front()).graph;
    const Inputs first = read_given_inputs(graph, settings_.files[1]);
    for (std::size_t i = 2; i < settings_.files.size(); ++i) {
      const Inputs other = read_given_inputs(graph, settings_.files[i]);
      for (const auto& [name, tensor] : first.tensors)
        if (!is_float(tensor.type()) && !tensor.identical(other.at(name)))
          throw InvalidArgument(
              fmt::format("{}: the runs are of different inputs: '{}' differs from that of {}; record both runs with "
                          "the same inputs",
                          settings_.files[i], name, settings_.files[1]));
    }
  }

  void list_traces() {
    model_ = load_for_run(settings_.files.front(), &settings_.inputs, settings_.files[1]);
    if (model_.inputs) require_same_integers();
    std::vector<std::shared_ptr<NamedTrace>> runs;  // their numbers stay in the files until they are judged
    for (std::size_t i = 1; i < settings_.files.size(); ++i)
      runs.push_back(std::make_shared<NamedTrace>(read_named(model_, settings_.files[i])));
    require_same_outputs(runs);
    for (const auto& run : runs) makers_.push_back([run] { return std::move(*run); });
  }

  /// Finds out early what is wrong with --promote and --scalar.
  void aim() {
    for (const std::string& one : settings_.promote)
      if (one != "best") analysis::promotion_of(model_.graph, one);
    const std::string& output = model_.graph.value(model_.graph.outputs.front()).name;
    report_.target = analysis::parse_scalar(model_.graph, settings_.scalar.empty() ? output : settings_.scalar).text;
  }

  bool add(const std::function<NamedTrace()>& make) {
    std::chrono::duration<double> took{};
    NamedTrace made = timed(make, took);
    report_.runs.push_back({made.name, made.sha256, made.trace.provenance,
                            static_cast<std::int64_t>(made.trace.layers.size()), made.problems,
                            settings_.makes_runs() ? std::optional(took.count()) : std::nullopt});
    report_.runs.back().predicted_rms = made.predicted_rms;
    fingerprints_.push_back(fingerprint_of(made));
    analysis::TracedRun run = judged(std::move(made));
    if (run.judgement.interrupted) return false;
    const bool has_bounds =
        widen_by(run.graph, run.trace, run.judgement.comparison, report_.runs.back().file, settings_, tolerances_);
    if (!has_bounds) return false;
    if (first_) report_.drifts.push_back(analysis::compare_traces(*first_, run));
    report_.runs.back().rms = run.rms;
    if (first_) return true;
    first_ = std::move(run);
    for (const analysis::Promotion& promotion : asked_promotions()) promote(promotion);
    return true;
  }

  /// A short run is made several times: the first one finds caches cold.
  /// took:      by the fastest of them
  NamedTrace timed(const std::function<NamedTrace()>& make, std::chrono::duration<double>& took) const {
    constexpr int most_times = 5;
    constexpr std::chrono::duration<double> enough(0.2);
    NamedTrace made;
    std::chrono::duration<double> all{};
    for (int time = 0; time == 0 || (settings_.makes_runs() && time < most_times && all < enough); ++time) {
      const auto start = std::chrono::steady_clock::now();
      made = make();
      const std::chrono::duration<double> this_time = std::chrono::steady_clock::now() - start;
      took = time == 0 ? this_time : std::min(took, this_time);
      all += this_time;
    }
    return made;
  }

  analysis::TracedRun judged(NamedTrace made) const {
    analysis::Progress progress("judging " + made.name, !settings_.outputs.quiet);
    analysis::DriftOptions judging = options_;
    judging.judge.progress = shown_by(progress);
    judging.target = report_.target;
    judging.attributes = !first_;
    // One layer of a promoted run reads its operands otherwise than the others.
    judging.judge.tests_readings = judging.judge.tests_readings && !made.is_promoted;
    if (made.is_promoted) judging.judge.without.emplace_back(BoundKind::rounded_shadow);
    return analysis::judge_trace_alone(std::move(made.graph), std::move(made.trace), judging);
  }

  /// What --promote names, and for `best` the three most promising layers in float64.
  std::vector<analysis::Promotion> asked_promotions() const {
    constexpr std::size_t most = 3;
    std::vector<analysis::Promotion> promotions;
    for (const std::string& one : settings_.promote) {
      if (one != "best") {
        promotions.push_back(analysis::promotion_of(first_->graph, one));
        continue;
      }
      const std::vector<std::size_t> best = analysis::most_promising(*first_);
      if (best.empty())
        throw Unsupported(
            "drift: --promote best: no layer in float64 by itself is predicted to leave a smaller error; name a layer "
            "to "
            "measure what it leaves (--promote LAYER)");
      for (std::size_t i = 0; i < std::min(most, best.size()); ++i) promotions.push_back({best[i]});
    }
    return promotions;
  }

  void promote(const analysis::Promotion& promotion) {
    makers_.push_back([this, promotion] {
      const Graph& graph = first_->graph;
      const analysis::PromotedLayer layer = analysis::promoted_layer(graph, first_->trace, promotion);
      Trace trace = analysis::promoted_run(
          graph, first_->trace, promotion, layer.result,
          [this](const Graph& changed, const Inputs& inputs) { return run_as_first(changed, inputs); });
      trace.model_sha256 = model_.sha256;
      return NamedTrace{analysis::text_of(graph, promotion),
                        model_.sha256,
                        graph,
                        std::move(trace),
                        analysis::estimate_rms(*first_, promotion, layer.left),
                        true};
    });
  }

  Trace run_as_first(const Graph& graph, const Inputs& inputs) const {
    const RunSettings base = first_run(settings_);
    RunOptions how;
    how.batch = base.batch_for(first_->trace.samples);
    how.threads = base.thread_count();
    return base.evaluator_for(graph).run(graph, inputs, how);
  }

  DriftSettings settings_;
  const analysis::DriftOptions& options_;
  analysis::DriftReport& report_;
  Tolerances& tolerances_;
  LoadedModel model_;
  std::vector<std::function<NamedTrace()>> makers_;
  std::vector<std::string> fingerprints_;
  std::optional<analysis::TracedRun> first_;
};

}  // namespace

bool compare_runs_of_model(DriftSettings settings, const analysis::DriftOptions& options, analysis::DriftReport& report,
                           Tolerances& tolerances) {
  return RunsOfModel(std::move(settings), options, report, tolerances).compare();
}

}  // namespace driftbound::cli

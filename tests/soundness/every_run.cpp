#include "soundness/every_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "soundness/any_run_check.hpp"
#include "soundness/foreign_runs.hpp"

namespace driftbound::soundness {
namespace {

constexpr BoundKind any_order = BoundKind::adjoint_any_order, order_aware = BoundKind::adjoint_order_aware,
                    rounded = BoundKind::rounded_shadow, replay = BoundKind::replay;

const std::vector<std::string> orders = {"sequential", "sequential+fma", "pairwise",      "pairwise+fma",
                                         "blocked:3",  "blocked:8",      "blocked:8+fma", "blocked:32+fma",
                                         "split-k:4",  "split-k:2+fma"};

class EveryRun {
public:
  EveryRun(const Case& the_case, Random& random, const CheckOptions& options, Tally& tally)
      : case_(the_case), random_(random), options_(options), tally_(tally) {}

  void check() {
    ArithmeticModel arithmetic = case_.arithmetic;
    arithmetic.products_may_flush = random_.chance(0.25);
    std::vector<Trace> foreign;
    for (const ForeignRun& run : foreign_runs())
      foreign.push_back(foreign_run(case_.graph, case_.inputs, arithmetic, run));

    const AnyRunCheck targets(case_.graph, case_.inputs);
    Trace first = evaluate(case_);
    const RunBounds bounds = targets.bounds_of(first, {any_order, order_aware, rounded, replay});
    for (const BoundKind kind : {order_aware, replay}) hold(targets, in_order(case_.arithmetic.order, 2), bounds, kind);
    for (int i = 0; i < 3; ++i)
      hold_in_any_order(targets, in_order(parse_summation_order(random_.pick(orders)), random_.integer(0, 2)), bounds);
    check_trace(
        case_.graph, first, [&] { return describe(case_); }, options_, tally_);
    check_trace(
        case_.graph, foreign.back(), [&] { return describe(case_); }, options_, tally_);

    first.arithmetic.products_may_flush = arithmetic.products_may_flush;
    const RunBounds of_flushing =
        arithmetic.products_may_flush ? targets.bounds_of(first, {any_order, rounded}) : bounds;
    for (const Trace& run : foreign) hold_in_any_order(targets, run, of_flushing);
  }

private:
  std::vector<ForeignRun> foreign_runs() {
    std::vector<ForeignRun> runs;
    for (const ForeignProduct& product : library_products())
      runs.push_back({product, random_.integer(0, 2), random_.bits()});
    for (int i = 0; i < 2; ++i) runs.push_back({permuted_product(random_.bits()), 0, random_.bits()});
    return runs;
  }

  Trace in_order(const SummationOrder& order, std::int64_t batch) const {
    RunOptions options;
    options.batch = batch;
    ArithmeticModel arithmetic = case_.arithmetic;
    arithmetic.order = order;
    return cpu_evaluator(arithmetic).run(case_.graph, case_.inputs, options);
  }

  /// Against the rounded shadow too, where there is one.
  void hold_in_any_order(const AnyRunCheck& targets, const Trace& run, const RunBounds& bounds) {
    hold(targets, run, bounds, any_order);
    if (bounds.contains(rounded)) hold(targets, run, bounds, rounded);
  }

  void hold(const AnyRunCheck& targets, const Trace& run, const RunBounds& bounds, BoundKind kind) {
    BoundTally& into = tally_.bounds[fmt::format("every run {}", name_of(kind))];
    const std::int64_t before = into.violations;
    targets.hold(run, bounds.at(kind), into);
    if (into.violations > before)
      tally_.failures.push_back(fmt::format("a run ({} {}) beyond {} of another\n{}", run.provenance.program,
                                            to_string(run.arithmetic.order), name_of(kind), describe(case_)));
  }

  const Case& case_;
  Random& random_;
  const CheckOptions& options_;
  Tally& tally_;
};

}  // namespace

bool has_foreign_runs(const Case& the_case) {
  const Graph& graph = the_case.graph;
  const std::vector<bool> varies = depends_on_input(graph);
  const bool all_vary =
      std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return varies[node.output]; });
  return all_vary && batch_layout(graph).batched && the_case.arithmetic.accumulator == FormatId::fp32;
}

void check_every_run(const Case& the_case, Random& random, const CheckOptions& options, Tally& tally) {
  if (!has_foreign_runs(the_case)) return;
  try {
    EveryRun(the_case, random, options, tally).check();
  } catch (const std::exception& error) {
    tally.failures.push_back(fmt::format("exception: {}\n{}", error.what(), describe(the_case)));
  }
}

}  // namespace driftbound::soundness

// Traces that lack layers: what is left is judged over segments.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/recorded_graph.hpp"
#include "soundness/every_run.hpp"
#include "soundness/foreign_products.hpp"
#include "soundness/foreign_runs.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/random_ops.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound {
namespace {

using namespace soundness;

constexpr std::uint64_t seed_of_gaps = 20261128;

std::vector<std::size_t> random_layers(Random& random, const Graph& graph) {
  std::vector<std::size_t> recorded;
  const double share = random.pick(std::vector<double>{0.0, 0.2, 0.5, 0.8});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (random.chance(share)) recorded.push_back(i);
  if (recorded.empty())
    recorded.push_back(static_cast<std::size_t>(
        random.chance(0.5) ? static_cast<std::int64_t>(graph.nodes.size()) - 1
                           : random.integer(0, static_cast<std::int64_t>(graph.nodes.size()) - 1)));
  return recorded;
}

Trace only_layers(const Graph& model, const Trace& trace, const std::vector<std::size_t>& recorded,
                  const RecordedGraph& graph) {
  Trace part = trace;
  part.layers.clear();
  for (const std::size_t node : recorded) part.layers.push_back(trace.layers[node]);
  fit_samples(model, graph, part);
  return part;
}

/// Judges a trace from which layers are taken away. Returns whether it could be.
bool check_gaps(const Case& the_case, const Trace& trace, Random& random, Tally& tally) {
  const std::vector<std::size_t> recorded = random_layers(random, the_case.graph);
  std::optional<RecordedGraph> part;
  try {
    part = recorded_graph(the_case.graph, recorded, trace.arithmetic);
  } catch (const Unsupported&) {
    return false;  // stores results in a format that no type has
  }
  REQUIRE(part->graph.nodes.size() == recorded.size());
  validate(part->graph);
  check_run(
      part->graph, [&] { return only_layers(the_case.graph, trace, recorded, *part); },
      [&] {
        std::string text = describe(the_case) + "\nrecorded:";
        for (const std::size_t node : recorded) text += " " + the_case.graph.nodes[node].name;
        return text;
      },
      {}, tally);
  return true;
}

void require_sound(const Tally& tally) {
  for (const std::string& failure : tally.failures) FAIL_CHECK(failure);
  CHECK(tally.violations() == 0);
  CHECK(tally.bounds.at("local componentwise").checked > 0);
  MESSAGE(table_heading() << table_row("all", tally));
}

}  // namespace

TEST_CASE("runs of random networks from which layers are taken away keep every bound of the segments") {
  Tally tally;
  Random random(seed_of_gaps);
  std::int64_t judged = 0;
  while (tally.outputs < 30'000 && tally.failures.empty())
    for (const Family family : all_families()) {
      const Case the_case = random_case(family, random.bits());
      judged += check_gaps(the_case, evaluate(the_case), random, tally) ? 1 : 0;
    }
  require_sound(tally);
  CHECK(judged > 100);
}

TEST_CASE("runs of ops of every family from which layers are taken away keep every bound of the segments") {
  Tally tally;
  Random random(seed_of_gaps + 1);
  while (tally.outputs < 30'000 && tally.failures.empty())
    for (const OpFamily family : all_op_families()) {
      const Case the_case = random_op_case(family, random.bits());
      check_gaps(the_case, evaluate(the_case), random, tally);
    }
  require_sound(tally);
}

TEST_CASE("runs of other programs, in orders of their own, keep every bound of the segments") {
  Tally tally;
  Random random(seed_of_gaps + 2);
  while (tally.outputs < 20'000 && tally.failures.empty())
    for (const Family family : all_families()) {
      const Case the_case = random_case(family, random.bits());
      if (!has_foreign_runs(the_case)) continue;
      const bool is_by_sign = random.chance(0.5);
      const ForeignRun run{is_by_sign ? random.pick(products_by_sign()) : permuted_product(random.bits()), 0,
                           random.bits()};
      try {
        check_gaps(the_case, foreign_run(the_case.graph, the_case.inputs, the_case.arithmetic, run), random, tally);
      } catch (const NotAvailable&) {
      }
    }
  require_sound(tally);
}

}  // namespace driftbound

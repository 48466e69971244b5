#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "driftbound/evaluate/evaluator.hpp"
#include "soundness/box_check.hpp"
#include "soundness/bundled.hpp"
#include "soundness/foreign_sums.hpp"
#include "soundness/hill_climb.hpp"
#include "soundness/matrix_unit_networks.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/random_ops.hpp"
#include "soundness/soundness_check.hpp"
#include "support/approach.hpp"

namespace driftbound {
namespace {

using namespace soundness;

constexpr std::uint64_t default_seed = 20261121;

double multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1.0 : std::atof(text);
}

std::int64_t scaled(std::int64_t count) {
  return std::lround(static_cast<double>(count) * multiplier());
}

void require_no_violation(const Tally& tally) {
  for (const std::string& failure : tally.failures) FAIL_CHECK(failure);
  CHECK(tally.violations() == 0);
  MESSAGE(table_heading() << table_row("all", tally));
}

}  // namespace

TEST_CASE("no bound that gives a verdict is exceeded on random networks") {
  Tally tally;
  Random seeds(default_seed);
  while (tally.outputs < scaled(500'000) && tally.failures.empty()) {
    for (const Family family : all_families()) {
      const Case the_case = random_case(family, seeds.bits());
      check_run(
          the_case.graph, [&] { return evaluate(the_case); }, [&] { return describe(the_case); }, {}, tally);
    }
  }

  require_no_violation(tally);
}

TEST_CASE("ops of every family stay within their bounds, whatever their attributes and data") {
  Random seeds(default_seed);
  for (const OpFamily family : all_op_families()) {
    CAPTURE(family_name(family));
    Tally tally;
    while (tally.judged_outputs() < scaled(10'000) && tally.failures.empty()) {
      const Case the_case = random_op_case(family, seeds.bits());
      check_run(
          the_case.graph, [&] { return evaluate(the_case); }, [&] { return describe(the_case); }, {}, tally);
    }
    require_no_violation(tally);
    CHECK(tally.bounds["accumulated forward"].checked > 0);
  }
}

TEST_CASE("one bound for a box holds at points of it, and signs there are right, whatever the ops and the data") {
  Tally tally;
  Random seeds(default_seed + 2);
  while (tally.outputs < scaled(40'000) && tally.failures.empty()) {
    for (const OpFamily family : all_op_families()) {
      const Case of_ops = random_op_case(family, seeds.bits());
      const Family data = seeds.pick(all_families());
      const Case network = random_case(data, seeds.bits());
      for (const Case* the_case : {&of_ops, &network}) {
        check_box(*the_case, seeds.bits(), tally);
        check_signs(*the_case, seeds.bits(), tally);
      }
    }
  }

  require_no_violation(tally);
  for (const char* name : {"box error", "box range", "sign", "sign value"}) {
    CAPTURE(name);
    const BoundTally& held = tally.bounds[name];
    CHECK(held.checked - held.without_bound > held.checked / 4);
  }
}

TEST_CASE("sums computed elsewhere in any order stay within the bounds for an unknown order") {
  Tally tally;
  Random seeds(default_seed);
  while (tally.outputs < scaled(50'000) && tally.failures.empty()) {
    const ForeignSum sum = random_foreign_sum(seeds.bits());
    check_run(
        sum.graph, [&] { return sum.trace; }, [&] { return sum.description; }, {}, tally);
  }

  require_no_violation(tally);
  CHECK(tally.bounds["local componentwise"].checked > 0);
}

TEST_CASE("networks whose products a matrix unit adds up stay within the bounds of what is declared of it") {
  Tally tally;
  Random seeds(default_seed);
  CheckOptions options;
  options.requests = {BoundKind::componentwise, BoundKind::forward, BoundKind::shadow, BoundKind::adjoint_any_order,
                      BoundKind::rounded_shadow};
  while (tally.outputs < scaled(200'000) && tally.failures.empty())
    check_unit_network(random_unit_network(seeds.bits()), options, tally);

  require_no_violation(tally);
  CHECK(tally.bounds["local componentwise"].checked > 0);
  CHECK(tally.bounds["accumulated forward"].checked > 0);
  CHECK(tally.bounds["accumulated rounded-shadow"].checked > 0);
}

TEST_CASE("the bundled networks stay within every bound, and at most 0.1 % is undecided") {
  Tally tally;
  Random random(default_seed);
  const std::filesystem::path folder = std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models";
  for (const auto& file : models_in(folder)) {
    if (std::filesystem::file_size(file) > 60'000) continue;  // the campaign takes them all
    for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
      ArithmeticModel model = random_arithmetic(random);
      model = cpu_arithmetic(arithmetic, model.order);
      check_model(file, model, scaled(2), random.bits(), {}, tally);
    }
  }

  require_no_violation(tally);
  CHECK(tally.undecided() + tally.without_bound() <= tally.checked() / 1000);
}

TEST_CASE("a stagnating sum uses most of both bounds") {
  for (const std::int64_t n : {4, 8, 64}) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {n, ""}});
    std::vector<double> ones(static_cast<std::size_t>(n), 1.0), tiny(static_cast<std::size_t>(n), 0x1p-24);
    tiny[0] = 1.0;
    const ValueId w = graph.add_constant("w", store(ElementType::f32, {n, 1}, ones));
    graph.outputs.push_back(graph.add_node("dot", op::MatMul{}, {x, w}));
    Inputs inputs;
    inputs.tensors.emplace_back("x", store(ElementType::f32, {1, n}, tiny));

    Tally tally;
    const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
    check_trace(
        graph, trace, [] { return std::string("stagnation"); }, {}, tally);

    INFO("n = " << n);
    CHECK(trace.layers[0].output.to_double().values[0] == 1.0);
    const double all_but_one = static_cast<double>(n - 1) / static_cast<double>(n);
    CHECK_APPROACH("T-10", tally.bounds["local componentwise"].max_utilisation, all_but_one);
    CHECK_APPROACH("T-11", tally.bounds["local order-aware"].max_utilisation, all_but_one);
    CHECK(tally.violations() == 0);
  }
}

TEST_CASE("a search over the data of one short sum comes close to both bounds in every arithmetic") {
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::order_aware}) {
    for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
      for (const char* order : {"sequential", "pairwise", "split-k:2+fma"}) {
        Tally tally;
        const ArithmeticModel model = cpu_arithmetic(arithmetic, parse_summation_order(order));
        const Approach found = hill_climb(model, 4, kind, default_seed, 30, {}, tally);
        INFO(name_of(kind) << ", " << arithmetic << " " << order << ": " << to_string(found));
        CHECK(found.utilisation >= 0.3);
        CHECK(tally.violations() == 0);
      }
    }
  }
}

TEST_CASE("(1, 2^-24, -1) (1, 1, 1) exceeds seed-gamma and stays within componentwise") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}});
  const ValueId w = graph.add_constant("w", store(ElementType::f32, {3, 1}, {1.0, 1.0, 1.0}));
  graph.outputs.push_back(graph.add_node("dot", op::MatMul{}, {x, w}));
  Inputs inputs;
  inputs.tensors.emplace_back("x", store(ElementType::f32, {1, 3}, {1.0, 0x1p-24, -1.0}));

  Tally tally;
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  check_trace(
      graph, trace, [] { return std::string("counterexample"); }, {}, tally);

  CHECK(trace.layers[0].output.to_double().values[0] == 0.0);
  CHECK(tally.bounds["local seed-gamma"].violations == 1);
  CHECK_FALSE(tally.bounds["local seed-gamma"].gives_verdict);
  CHECK(tally.bounds["local componentwise"].checked == 1);
  CHECK(tally.violations() == 0);
}

}  // namespace driftbound

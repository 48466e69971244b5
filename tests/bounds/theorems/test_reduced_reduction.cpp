#include <doctest/doctest.h>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/environment.hpp"
#include "support/reduced_reduction.hpp"
#include "support/theorems.hpp"

// T-23: sums whose parts are rounded to 16 bits, against their exact values.

using namespace checks;

TEST_CASE("sums whose parts are rounded to 16 bits stay within componentwise" * doctest::test_suite("campaign")) {
  Generator generator(70);
  Tallies tallies;
  for (int i = 0; i < 5000 * test_multiplier(); ++i) check_reduced_sum(draw_reduced_sum(generator), generator, tallies);
  INFO(tallies.first_violation());
  CHECK(tallies.violations() == 0);
  CHECK(tallies.componentwise.checked >= 4000);
  CHECK(tallies.order_aware.checked == 0);
  CHECK(tallies.partial_sums.checked == 0);
}

TEST_CASE("the bound of rounded parts is approached") {
  Generator generator(72);
  Tallies tallies;
  check_reduced_sum(hardest_reduced_sum(), generator, tallies);
  CHECK(tallies.violations() == 0);
  CHECK_APPROACH("T-23", tallies.componentwise.utilisation, 1.0);
  CHECK(tallies.componentwise.utilisation >= 0.95);
}

TEST_CASE("without the statement the same runs violate componentwise") {
  ReducedSum sum = hardest_reduced_sum();
  Generator generator(73);
  const float y = computed_sum(sum, generator);
  sum.reduction.parts = 0;
  OneNode one = one_node(op::Gemm{},
                         {{{1, 2}, {1.0, 1.0}},
                          {{2, 1}, {static_cast<double>(sum.b[0]), static_cast<double>(sum.b[1])}},
                          {{1, 1}, {static_cast<double>(*sum.addend)}}},
                         {{1, 1}, {static_cast<double>(y)}}, cpu_arithmetic("fp32", {}));
  Tallies tallies;
  tallies.add(bounds_of(one), 0, static_cast<double>(y), exact_value(sum));
  CHECK(tallies.violations() > 0);
}

TEST_CASE("a sum that parts in float16 cannot hold has no bound for any run") {
  ReducedSum sum;
  sum.a = {300.0f, 300.0f};
  sum.b = {300.0f, -300.0f};
  sum.reduction = {FormatId::fp16, 2};
  const LayerBounds layer = bounds_of_reduced(sum, 0.0f);
  const BoundResult* any_run = find_bound(layer.accumulated, BoundKind::adjoint_any_order);
  REQUIRE(any_run != nullptr);
  CHECK(std::isinf(any_run->values.values[0]));
}

TEST_CASE("a product whose operands E4M3 cannot hold has no bound for any run") {
  const ArithmeticModel arithmetic = cpu_arithmetic("fp8_e4m3", parse_summation_order("sequential"));
  const OneNode one =
      one_node(op::MatMul{}, {{{1, 2}, {400.0, 1.0}}, {{2, 1}, {1.0, 470.0}}}, {{1, 1}, {0.0}}, arithmetic);
  const LayerBounds layer = bounds_of(one);
  for (const BoundKind kind : {BoundKind::adjoint_any_order, BoundKind::adjoint_order_aware})
    CHECK(std::isinf(find_bound(layer.accumulated, kind)->values.values[0]));
  CHECK(std::isinf(find_bound(layer.local, BoundKind::componentwise)->values.values[0]));
}

TEST_CASE("the CPU evaluator does not round parts of sums, and says so") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("split-k:2"));
  arithmetic.reduced_reduction = ReducedReduction{};
  CHECK_THROWS_WITH_AS(cpu_evaluator(arithmetic), doctest::Contains("reduced_reduction"), Unsupported);
}

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <boost/multiprecision/mpfr.hpp>
#include <cstdlib>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/reference/reference.hpp"
#include "soundness/random_networks.hpp"

namespace driftbound {
namespace {

using namespace soundness;
using Real =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<300>, boost::multiprecision::et_off>;

double multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1.0 : std::atof(text);
}

/// Balls of at most 512 bits are far wider than what 300 digits (999 bits) lose; from 1,024 bits on MPFR 4.2.0 aborts in the erf of numbers whose square is nearly 3.
bool contains(const Ball& ball, const Real& exact) {
  if (!ball.is_finite()) return true;
  if (!(boost::multiprecision::isfinite)(exact)) return false;
  return abs(exact - Real(ball.hi) - Real(ball.lo)) <= Real(ball.radius.value()) + abs(exact) * Real("1e-280");
}

struct Count {
  std::int64_t balls = 0;
  std::int64_t infinite = 0;
};

void check_evaluation(const Case& the_case, const Inputs& inputs, const PrecisionPolicy& policy, Count& count) {
  const Graph& graph = the_case.graph;
  const Reference reference = certified_reference(graph, inputs, policy);
  const std::vector<Tensor<Real>> exact = evaluate_as<Real>(graph, inputs);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::vector<Ball>& balls = reference.layers[node].values;
    REQUIRE(balls.size() == exact[node].values.size());
    for (std::size_t i = 0; i < balls.size(); ++i) {
      ++count.balls;
      if (!balls[i].is_finite()) ++count.infinite;
      if (contains(balls[i], exact[node].values[i])) continue;
      FAIL_CHECK(fmt::format("layer '{}', element {}: {:a} + {:a} within {:a} does not hold {}\n{}",
                             graph.nodes[node].name, i, balls[i].hi, balls[i].lo, balls[i].radius.value(),
                             exact[node].values[i].str(60), describe(the_case)));
      return;
    }
  }
}

}  // namespace

TEST_CASE("the reference's balls hold what an evaluation with 300 digits gives, on random networks") {
  Random seeds(20261122);
  Count count;
  while (static_cast<double>(count.balls) < 100'000 * multiplier()) {
    for (const Family family : all_families()) {
      const Case the_case = random_case(family, seeds.bits());
      PrecisionPolicy policy;
      policy.initial_bits = seeds.pick(std::vector<int>{0, 64, 80, 200});
      policy.max_bits = seeds.pick(std::vector<int>{policy.initial_bits == 0 ? 512 : policy.initial_bits, 512});
      const BatchLayout layout = batch_layout(the_case.graph);
      const Inputs evaluation =
          slice(the_case.graph, layout, the_case.inputs, 0, layout.batched ? the_case.samples : 1);
      check_evaluation(the_case, evaluation, policy, count);
    }
  }

  MESSAGE("balls " << count.balls << ", of which the whole line " << count.infinite);
  CHECK(count.infinite < count.balls / 5);
}

}  // namespace driftbound

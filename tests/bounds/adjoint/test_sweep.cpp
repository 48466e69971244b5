#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/trajectory_checks.hpp"

using namespace checks;

TEST_CASE("every op moves its values within their radii and its outputs within their certificates (T-60, T-62)") {
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    const HeldTallies tallies = check_held({.blocks = {"gemm", block, "gemm"}, .repetitions = 4 * test_multiplier()});
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK(tallies.certificates.checked > 0);
    CHECK_APPROACH("T-62", tallies.radii.utilisation, 1.0);
    CHECK_APPROACH("T-62", tallies.norms.utilisation, 1.0);
    CHECK_APPROACH("T-60", tallies.certificates.utilisation, 1.0);
  }
}

TEST_CASE("certificates are attained at small radii") {
  Generator generator(6);
  for (const std::string& block : NetworkBuilder::blocks()) {
    HeldTallies tallies;
    for (int repetition = 0; repetition < 3; ++repetition) {
      NetworkBuilder builder(generator);
      for (const std::string& name : {std::string("gemm"), block, std::string("gemm")}) builder.add(name);
      const Graph graph = builder.finish();
      const Held held(graph, network_inputs(1.0, true, generator), 1e-9, std::nullopt);
      for (const std::size_t element : {std::size_t{0}, std::size_t{5}}) held.check_at(held.steepest(element), tallies);
    }
    INFO(block);
    // A Cast to float16 rounds by far more than the inputs are off.
    if (block != "cast") CHECK_APPROACH("T-60", tallies.certificates.utilisation, 1.0);
  }
}

TEST_CASE("radii by adjoints of their own hold, and are never above the others (T-72)") {
  for (const std::string& block : NetworkBuilder::blocks()) {
    if (block == "attention" || block == "reshape") continue;
    CAPTURE(block);
    const HeldTallies tallies =
        check_held({.blocks = {"gemm", block, "gemm", "tanh"}, .refined = true, .repetitions = 2 * test_multiplier()});
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
  }
}

TEST_CASE("refinement takes radii down only, and some of them (T-72)") {
  Generator generator(7);
  std::int64_t smaller = 0, larger = 0;
  for (const std::string block : {"relu", "tanh", "exp", "square", "sqrt"}) {
    NetworkBuilder builder(generator, true);
    for (const std::string& name : {std::string("gemm"), block, std::string("gemm"), std::string("relu")})
      builder.add(name);
    const Graph graph = builder.finish();
    for (const double radius : {1e-3, 0.1}) {
      Held held(graph, network_inputs(1.0, true, generator), radius, NetworkBuilder::rows);
      const std::vector<bounds::ValueRadii> before = held.deviation().radii;
      held.refine();
      const std::vector<bounds::ValueRadii>& after = held.deviation().radii;
      for (ValueId id = 0; id < before.size(); ++id) {
        REQUIRE(before[id].element.size() == after[id].element.size());
        for (std::size_t i = 0; i < before[id].element.size(); ++i) {
          smaller += after[id].element[i] < before[id].element[i] ? 1 : 0;
          larger += after[id].element[i] <= before[id].element[i] ? 0 : 1;
        }
        for (std::size_t row = 0; row < before[id].norm.size(); ++row)
          larger += after[id].norm[row] <= before[id].norm[row] ? 0 : 1;
      }
    }
  }
  CHECK(larger == 0);
  CHECK(smaller > 0);
}

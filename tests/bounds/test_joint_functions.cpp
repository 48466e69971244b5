#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/joint_function_checks.hpp"

using namespace checks;

TEST_CASE("what several nodes make of one value moves within one radius, exact and in runs (T-125)") {
  for (const auto& [name, tallies] : check_joint_functions(bounds::default_rules(), 4 * test_multiplier())) {
    CAPTURE(name);
    INFO(tallies.all.first_violation);
    CHECK(tallies.all.violations == 0);
    CHECK(tallies.all.checked > 1000);
    CHECK_APPROACH("T-125", tallies.nearest, 0.99999);
  }
}

TEST_CASE("what the slopes of ways lose when they are rounded counts (T-125)") {
  const Tally tally = check_rounded_slopes(bounds::default_rules());
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.checked > 0);
  CHECK_APPROACH("T-125", tally.utilisation, 0.0899);
}

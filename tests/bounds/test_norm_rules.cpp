#include <doctest/doctest.h>

#include "support/norm_checks.hpp"

using namespace checks;

TEST_CASE("every rule for norms holds, and is attained where it can be (T-62)") {
  for (const NormCase& subject : norm_cases()) {
    CAPTURE(subject.name);
    const Tally tally = check_norm_case(bounds::NormRules{}, subject, 200 * test_multiplier(), 11);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation > 0.999999);
  }
}

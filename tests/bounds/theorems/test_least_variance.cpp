#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/variance_checks.hpp"

using namespace checks;

TEST_CASE("no variance of a run is below its bound, whatever its mean, its order and its merges (T-186, T-187)") {
  const VarianceTally tally = check_variances(30000 * test_multiplier(), 1861);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-186", tally.sum, 1.0);
  CHECK_APPROACH("T-186", tally.two_passes, 1.0);
  CHECK_APPROACH("T-186", tally.merged, 0.08);
  CHECK_APPROACH("T-186", tally.most, 0.4);
  CHECK_APPROACH("T-187", tally.mean, 1.0);
}

TEST_CASE("roots and quotients move by no more than a known least argument allows, and by as much (T-43, T-44)") {
  double closest = 0.0;
  CHECK(check_known_least(20000, 1862, &closest) == 0);
  CHECK_APPROACH("T-44", closest, 1.0);
}

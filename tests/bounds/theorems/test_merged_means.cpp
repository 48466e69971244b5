#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/merge_checks.hpp"

using namespace checks;

TEST_CASE("no tree of merges exceeds the bound of a mean, zeros among the numbers or not (T-136)") {
  const MergeTally tally = check_merged_means(40000 * test_multiplier(), 1361);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-136", tally.closest, 0.3);
}

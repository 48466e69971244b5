#include <doctest/doctest.h>

#include <vector>

#include "bounds/sums/row_groups.hpp"
#include "support/approach.hpp"
#include "support/remainder_checks.hpp"
#include "support/theorems.hpp"

// What functions leave over, by radii and the norm of a row (T-96), and rows with the same zeros.

using namespace driftbound;
using namespace checks;

TEST_CASE("what a row leaves over by its norm is at least the largest there is, and at most four times (T-96)") {
  const LeftOver found = check_remainder_by_norm(400 * test_multiplier(), 91);
  CHECK_MESSAGE(found.tally.violations == 0, found.tally.first_violation);
  CHECK(found.is_within_four);
  CHECK_APPROACH("T-96", found.tally.utilisation, 1.0);
}

TEST_CASE("rows of the same sample are found together, with the columns that any of them uses") {
  const std::vector<double> d = {0, 1, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0};
  const bounds::RowGroups groups(std::span<const double>(d), std::vector<std::size_t>{5, 2, 5});
  REQUIRE(groups.groups().size() == 2);
  const SparseRows &first = groups.groups()[0], &second = groups.groups()[1];
  CHECK(std::vector<std::uint32_t>(first.rows, first.rows + first.row_count) == std::vector<std::uint32_t>{1});
  CHECK(std::vector<std::uint32_t>(first.columns, first.columns + first.column_count) == std::vector<std::uint32_t>{1});
  CHECK(std::vector<std::uint32_t>(second.rows, second.rows + second.row_count) == std::vector<std::uint32_t>{0, 2});
  CHECK(std::vector<std::uint32_t>(second.columns, second.columns + second.column_count) ==
        std::vector<std::uint32_t>{0, 1});
  CHECK(groups.are_sparse());
  const std::vector<double> ones(12, 1.0);
  CHECK_FALSE(bounds::RowGroups(std::span(ones), std::vector<std::size_t>{1, 1, 1}).are_sparse());
}

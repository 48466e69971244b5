#include <doctest/doctest.h>

#include <cstring>

#include "support/row_checks.hpp"
#include "support/sanitizers.hpp"

using namespace checks;

TEST_CASE("every loop over rows rounds up, and not far, in every build (T-81)") {
  const int repetitions = (driftbound::test::under_sanitizers() ? 20 : 100) * test_multiplier();
  for (const bounds::RowKernels* rows : bounds::usable_row_kernels()) {
    for (const RowCase& subject : row_cases()) {
      CAPTURE(subject.name);
      const RowTally tally = check_row_case(*rows, subject, repetitions, 23);
      CHECK(tally.violations == 0);
      CHECK(tally.excess >= 1.0 - 0x1p-50);
      const bool is_raised = subject.name.find("single precision") != std::string::npos;
      if (!is_raised && subject.name != "any order") CHECK(tally.excess <= (subject.name == "sum" ? 2.01 : 1.001));
    }
  }
}

TEST_CASE("every build of the loops over rows gives the same bits") {
  Generator generator(24);
  const std::size_t n = 45;
  for (int i = 0; i < 20; ++i) {
    const Row d = spread_row(n, generator, false), x = spread_row(n, generator, true);
    const double sum = bounds::usable_row_kernels().front()->weighted_sum(d.data(), x.data(), n);
    Row first(n), other(n);
    bounds::usable_row_kernels().front()->larger_operand(d.data(), x.data(), first.data(), n);
    for (const bounds::RowKernels* rows : bounds::usable_row_kernels()) {
      CHECK(rows->weighted_sum(d.data(), x.data(), n) == sum);
      rows->larger_operand(d.data(), x.data(), other.data(), n);
      CHECK(std::memcmp(first.data(), other.data(), n * sizeof(double)) == 0);
    }
  }
}

TEST_CASE("bounds of sums in any order are mostly within a hundredth of T-68 as it is written down") {
  Generator generator(25);
  RowTally moved, run;
  for (int i = 0; i < 100; ++i) check_product_rows(bounds::fastest_row_kernels(), generator, moved, run);
  CHECK(static_cast<double>(run.close) > 0.8 * static_cast<double>(run.compared));
}

TEST_CASE("long sums in single precision make up for all terms that they lose (T-81)") {
  const RowTally tally = check_coarse_sums();
  CHECK(tally.violations == 0);
  CHECK(tally.compared == 2);
  CHECK(tally.excess <= 1.0 + 0x1p-10);
}

TEST_CASE("a matrix without a scale is not packed") {
  CHECK(!bounds::coarse_weights(Row{1.0, INFINITY}, 2, 1));
  CHECK(!bounds::coarse_weights(Row{1.0, std::nan("")}, 1, 2));
  CHECK(!bounds::coarse_weights(Row{0x1p-500}, 1, 1));
  CHECK(!bounds::coarse_scale(0x1p401));
  CHECK(bounds::coarse_scale(0.0) == 1.0);
  CHECK(bounds::coarse_scale(3.0) == 0.5);
}

TEST_CASE("what is not a number becomes infinite") {
  const bounds::RowKernels& rows = bounds::fastest_row_kernels();
  const Row centre = {1.0, 1.0, INFINITY}, off = {std::nan(""), INFINITY, 1.0};
  Row radius = off;
  rows.limit(centre.data(), INFINITY, INFINITY, radius.data(), 3);
  for (const double e : radius) CHECK(e == INFINITY);
  Row d = {INFINITY, 1.0}, defect = {0.0, 0.0};
  const Row share = {-INFINITY, std::nan("")};
  rows.add_shares(d.data(), defect.data(), share.data(), nullptr, 2);
  for (const double e : defect) CHECK(e == INFINITY);
  CHECK(bounds::outward(rows.weighted_sum(Row{0.0}.data(), Row{INFINITY}.data(), 1), 2, 1) == INFINITY);
}

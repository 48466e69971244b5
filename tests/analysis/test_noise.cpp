#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "analysis/noise.hpp"
#include "driftbound/num/format.hpp"
#include "support/approach.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

std::vector<double> rows_of_noise(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(rows * columns);
  for (double& x : values) x = normal(random);
  return values;
}

/// Of numbers that are large next to the noise.
std::optional<NoiseStructure> structure_of(const std::vector<double>& noise, std::int64_t columns) {
  std::vector<double> first = rows_of_noise(noise.size(), 1, 99), second(noise.size());
  for (std::size_t i = 0; i < noise.size(); ++i) second[i] = (first[i] *= 1e6) + noise[i];
  return estimate_noise_structure(first, second, columns);
}

/// Normal numbers with normal noise of this size, a share of it common to a row; all cast to bfloat16. `spread`: of the
/// rows' sizes.
std::optional<NoiseStructure> structure_after_cast(std::size_t rows, std::size_t columns, double size, double common,
                                                   std::uint64_t seed, double spread = 0.0) {
  std::vector<double> first = rows_of_noise(rows, columns, 2 * seed),
                      noise = rows_of_noise(rows, columns, 2 * seed + 1);
  const std::vector<double> of_rows = rows_of_noise(rows, 2, seed);
  std::vector<double> second = first;
  const auto cast = [](double x) { return round_to(x, format(FormatId::bf16), Rounding::nearest_even); };
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double one = std::sqrt(common) * of_rows[2 * row] + std::sqrt(1.0 - common) * noise[i];
      second[i] = cast(first[i] + size * std::exp(spread * of_rows[2 * row + 1]) * one);
      first[i] = cast(first[i]);
    }
  return estimate_noise_structure(first, second, static_cast<std::int64_t>(columns));
}

}  // namespace

TEST_CASE("independent columns have the share of independence, and no evidence" * doctest::test_suite("campaign")) {
  int evidence = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto noise = structure_of(rows_of_noise(300, 40, seed), 40);
    REQUIRE(noise);
    CHECK(noise->off_share == doctest::Approx(noise->off_share_if_independent).epsilon(0.03));
    CHECK(noise->off_share_if_independent ==
          doctest::Approx(0.642).epsilon(0.02));  // 39 sqrt(2 / (300 pi)) / (1 + that)
    CHECK(noise->largest_eigenvalue < 1.15 * noise->edge);
    evidence += noise->p_correlation < 0.05 ? 1 : 0;
    evidence += noise->p_mean < 0.05 ? 1 : 0;
  }
  CHECK(evidence < 10);  // 2 of 40 are expected
}

TEST_CASE("a planted correlation and a planted mean are found, each by its own test") {
  std::vector<double> values = rows_of_noise(400, 50, 7);
  for (std::size_t row = 0; row < 400; ++row)
    for (std::size_t j = 1; j < 6; ++j) values[row * 50 + j] += 0.6 * values[row * 50];
  const auto correlated = structure_of(values, 50);
  REQUIRE(correlated);
  CHECK(correlated->p_correlation < 1e-6);
  CHECK(correlated->p_mean > 1e-3);
  CHECK(correlated->largest_eigenvalue > correlated->edge);
  std::vector<double> moved = rows_of_noise(400, 50, 8);
  for (double& x : moved) x += 0.05;
  const auto biased = structure_of(moved, 50);
  REQUIRE(biased);
  CHECK(biased->p_mean < 1e-6);
  CHECK(biased->mean == doctest::Approx(0.05).epsilon(0.3));
  CHECK(biased->p_correlation > 1e-3);
}

TEST_CASE("ten thousand rows of a thousand columns of independent noise: 89.1 % off the diagonal, and no evidence" *
          doctest::test_suite("campaign")) {
  const auto noise = structure_of(rows_of_noise(10000, 1024, 3), 1024);
  REQUIRE(noise);
  CHECK(noise->rows == 10000);
  CHECK(noise->off_share == doctest::Approx(0.891).epsilon(0.001));
  CHECK(noise->off_share_if_independent == doctest::Approx(0.891).epsilon(0.001));
  CHECK(noise->p_correlation > 0.01);
  CHECK(noise->largest_eigenvalue == doctest::Approx(noise->edge).epsilon(0.02));
}

TEST_CASE("too little, constant columns and numbers that are not finite give no structure") {
  CHECK_FALSE(structure_of(rows_of_noise(63, 8, 1), 8));
  CHECK_FALSE(structure_of(rows_of_noise(200, 3, 1), 3));
  std::vector<double> values = rows_of_noise(100, 6, 2);
  for (std::size_t row = 0; row < 100; ++row) values[row * 6 + 2] = 0.5;
  REQUIRE(structure_of(values, 6));
  CHECK(structure_of(values, 6)->columns == 5);
  values[4] = std::nan("");
  CHECK_FALSE(structure_of(values, 6));
}

TEST_CASE("independent noise is no evidence after a cast to bfloat16 either, and the share is that of independence" *
          doctest::test_suite("campaign")) {
  struct Size {
    std::size_t rows, columns;
    double noise;
  };
  int evidence = 0, strong = 0, all = 0;
  for (const Size& size : {Size{200, 50, 3e-4}, Size{200, 50, 1e-3}, Size{400, 20, 1e-5}, Size{1000, 16, 1e-4}})
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const auto noise = structure_after_cast(size.rows, size.columns, size.noise, 0.0, seed);
      REQUIRE(noise);
      CHECK(noise->differing < 0.5);
      CHECK(noise->off_share == doctest::Approx(noise->off_share_if_independent).epsilon(0.15));
      evidence += noise->p_correlation < 1e-3 ? 1 : 0;
      strong += noise->p_correlation < 0.05 ? 1 : 0;
      ++all;
    }
  CHECK(all == 32);
  CHECK(evidence == 0);
  CHECK(strong <= 6);
}

TEST_CASE("noise that rows have in common is found before and after a cast to bfloat16") {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto noise = structure_after_cast(400, 40, 1e-3, 0.4, seed);
    REQUIRE(noise);
    CHECK(noise->p_correlation < 1e-3);
    CHECK(noise->off_share > 1.05 * noise->off_share_if_independent);
  }
}

TEST_CASE("rows of different sizes whose noise is independent are no evidence of correlation") {
  int permuted = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto noise = structure_after_cast(300, 30, 1e-3, 0.0, seed, 1.0);
    REQUIRE(noise);
    CHECK(noise->p_correlation > 1e-3);
    permuted += noise->p_permuted < 1e-3 ? 1 : 0;
  }
  CHECK(permuted > 3);  // permuted rows alone would call it correlation
}

TEST_CASE("numbers that are cut toward zero in one run are a bias toward zero, though the differences have no mean") {
  std::vector<double> rounded = rows_of_noise(500, 20, 4), cut = rounded;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    cut[i] = round_to(cut[i], format(FormatId::bf16), Rounding::toward_zero);
    rounded[i] = round_to(rounded[i], format(FormatId::bf16), Rounding::nearest_even);
  }
  const auto noise = estimate_noise_structure(rounded, cut, 20);
  REQUIRE(noise);
  CHECK(noise->p_mean > 1e-3);
  CHECK(noise->p_outward < 1e-6);
  CHECK(noise->mean_outward < 0.0);
  const auto back = estimate_noise_structure(cut, rounded, 20);
  CHECK(back->mean_outward > 0.0);
  CHECK(back->p_outward < 1e-6);
  CHECK(structure_after_cast(500, 20, 1e-3, 0.0, 5)->p_outward > 1e-3);
}

TEST_CASE("rows that repeat others in both runs count once") {
  const std::vector<double> once = rows_of_noise(96, 20, 11), noise_once = rows_of_noise(96, 20, 12);
  std::vector<double> first = once, second = once;
  for (std::size_t i = 0; i < once.size(); ++i) second[i] += 1e-3 * noise_once[i];
  const auto without = estimate_noise_structure(first, second, 20);
  for (int copy = 0; copy < 3; ++copy)
    for (std::vector<double>* run : {&first, &second}) {
      const std::vector<double> some(run->begin(), run->begin() + 32 * 20);
      run->insert(run->end(), some.begin(), some.end());
    }
  const auto noise = estimate_noise_structure(first, second, 20);
  REQUIRE(noise);
  CHECK(noise->repeated_rows == 96);
  CHECK(noise->all_rows == 192);
  CHECK(noise->rows == 96);
  CHECK(noise->p_correlation == without->p_correlation);
  CHECK(noise->p_correlation > 1e-3);
  CHECK(without->repeated_rows == 0);
}

TEST_CASE("rows beyond what time allows are left out, and counted") {
  const auto noise = structure_of(rows_of_noise(140000, 5, 6), 5);
  REQUIRE(noise);
  CHECK(noise->all_rows == 140000);
  CHECK(noise->rows == 70000);
}

TEST_CASE("T-180: the moments of squared correlations are those of all permutations of the rows") {
  const std::vector<std::vector<int>> columns = {{3, -1, 0, 0, 5, 2}, {0, 0, 1, 0, 0, -4}, {1, 2, 3, -4, 0, 7}};
  const std::size_t rows = 6;
  std::vector<std::vector<int>> orders(1, std::vector<int>(rows));
  std::iota(orders[0].begin(), orders[0].end(), 0);
  for (std::vector<int> next = orders[0]; std::next_permutation(next.begin(), next.end());) orders.push_back(next);
  REQUIRE(orders.size() == 720);
  std::vector<std::vector<long double>> centred;
  std::vector<double> fourths;
  for (const std::vector<int>& column : columns) {
    const long double mean = static_cast<long double>(std::accumulate(column.begin(), column.end(), 0)) / 6.0L;
    long double squares = 0.0L, of_fourth = 0.0L;
    std::vector<long double> one;
    for (const int x : column) {
      const long double d = static_cast<long double>(x) - mean;
      one.push_back(d);
      squares += d * d;
      of_fourth += d * d * d * d;
    }
    for (long double& d : one) d /= std::sqrt(squares);
    centred.push_back(one);
    fourths.push_back(static_cast<double>(of_fourth / squares / squares));
  }
  // Columns 1 and 2 in all orders next to column 0 as it is: the sum of squares of three correlations.
  long double sum = 0.0L, squares = 0.0L;
  for (const std::vector<int>& p : orders)
    for (const std::vector<int>& q : orders) {
      long double r[3] = {};
      for (std::size_t i = 0; i < rows; ++i) {
        const long double x = centred[0][i], y = centred[1][static_cast<std::size_t>(p[i])],
                          z = centred[2][static_cast<std::size_t>(q[i])];
        r[0] += x * y;
        r[1] += x * z;
        r[2] += y * z;
      }
      const long double one = r[0] * r[0] + r[1] * r[1] + r[2] * r[2];
      sum += one;
      squares += one * one;
    }
  const long double all = 720.0L * 720.0L, mean = sum / all, variance = squares / all - mean * mean;
  const PermutedMoments moments = moments_if_permuted(fourths, 6);
  CHECK_EXACT("T-180", moments.mean == doctest::Approx(static_cast<double>(mean)).epsilon(1e-12));
  CHECK_EXACT("T-180", moments.variance == doctest::Approx(static_cast<double>(variance)).epsilon(1e-12));
}

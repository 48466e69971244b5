#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "analysis/noise.hpp"

using namespace driftbound::analysis;

namespace {

std::vector<double> rows_of_noise(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(rows * columns);
  for (double& x : values) x = normal(random);
  return values;
}

}  // namespace

TEST_CASE("independent columns have the share of independence, and no evidence") {
  int evidence = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto noise = estimate_noise_structure(rows_of_noise(500, 60, seed), 60);
    REQUIRE(noise);
    CHECK(noise->off_share == doctest::Approx(noise->off_share_if_independent).epsilon(0.03));
    CHECK(noise->off_share_if_independent ==
          doctest::Approx(0.678).epsilon(0.02));  // 59 sqrt(2 / (500 pi)) / (1 + that)
    CHECK(noise->largest_eigenvalue < 1.15 * noise->edge);
    evidence += noise->p_correlation < 0.05 ? 1 : 0;
    evidence += noise->p_mean < 0.05 ? 1 : 0;
  }
  CHECK(evidence < 16);  // 4 of 80 are expected
}

TEST_CASE("a planted correlation and a planted mean are found, each by its own test") {
  std::vector<double> values = rows_of_noise(400, 50, 7);
  for (std::size_t row = 0; row < 400; ++row)
    for (std::size_t j = 1; j < 6; ++j) values[row * 50 + j] += 0.6 * values[row * 50];
  const auto correlated = estimate_noise_structure(values, 50);
  REQUIRE(correlated);
  CHECK(correlated->p_correlation < 1e-6);
  CHECK(correlated->p_mean > 1e-3);
  CHECK(correlated->largest_eigenvalue > correlated->edge);
  std::vector<double> moved = rows_of_noise(400, 50, 8);
  for (double& x : moved) x += 0.05;
  const auto biased = estimate_noise_structure(moved, 50);
  REQUIRE(biased);
  CHECK(biased->p_mean < 1e-6);
  CHECK(biased->mean == doctest::Approx(0.05).epsilon(0.3));
  CHECK(biased->p_correlation > 1e-3);
}

TEST_CASE("ten thousand rows of a thousand columns of independent noise: 89.1 % off the diagonal, and no evidence") {
  const auto noise = estimate_noise_structure(rows_of_noise(10000, 1024, 3), 1024);
  REQUIRE(noise);
  CHECK(noise->rows == 10000);
  CHECK(noise->off_share == doctest::Approx(0.891).epsilon(0.001));
  CHECK(noise->off_share_if_independent == doctest::Approx(0.891).epsilon(0.001));
  CHECK(noise->p_correlation > 0.01);
  CHECK(noise->largest_eigenvalue == doctest::Approx(noise->edge).epsilon(0.02));
}

TEST_CASE("too little, constant columns and numbers that are not finite give no structure") {
  CHECK_FALSE(estimate_noise_structure(rows_of_noise(63, 8, 1), 8));
  CHECK_FALSE(estimate_noise_structure(rows_of_noise(200, 3, 1), 3));
  std::vector<double> values = rows_of_noise(100, 6, 2);
  for (std::size_t row = 0; row < 100; ++row) values[row * 6 + 2] = 0.5;
  REQUIRE(estimate_noise_structure(values, 6));
  CHECK(estimate_noise_structure(values, 6)->columns == 5);
  values[4] = std::nan("");
  CHECK_FALSE(estimate_noise_structure(values, 6));
}

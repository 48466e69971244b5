#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "analysis/flip_estimate.hpp"
#include "driftbound/num/format.hpp"
#include "support/approach.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

std::size_t winner_of(const double* row, std::size_t classes) {
  std::size_t winner = 0;
  for (std::size_t i = 1; i < classes; ++i)
    if (row[i] > row[winner]) winner = i;
  return winner;
}

double flips_of(const std::vector<double>& first, const std::vector<double>& second, std::size_t classes) {
  double flips = 0.0;
  for (std::size_t at = 0; at < first.size(); at += classes)
    flips += winner_of(&first[at], classes) != winner_of(&second[at], classes) ? 1.0 : 0.0;
  return flips;
}

double to_bf16(double x) {
  return round_to(x, format(FormatId::bf16), Rounding::nearest_even);
}

}  // namespace

TEST_CASE("T-181: flips of independent differences with a few values are those of all their combinations") {
  // Differences of all numbers: 0 five times of eight, 1 twice, 2 once.
  const std::vector<double> first = {4, 4, 4, 4, 5, 4, 6, 4, 4, 5, 6, 6, 7, 4, 4, 4, 5, 6, 6, 6, 7, 7, 4, 4};
  std::vector<double> second = first;
  for (std::size_t i = 0; i < second.size(); ++i)
    second[i] += i % 8 == 1 ? 1.0 : i % 8 == 3 ? -1.0 : i % 8 == 6 ? 2.0 : 0.0;
  const std::map<double, double> law = {{-2, 1.0 / 16}, {-1, 2.0 / 16}, {0, 10.0 / 16}, {1, 2.0 / 16}, {2, 1.0 / 16}};
  double flips = 0.0;
  for (std::size_t at = 0; at < first.size(); at += 3)
    for (const auto& [x, p] : law)
      for (const auto& [y, q] : law)
        for (const auto& [z, r] : law) {
          const double moved[3] = {first[at] + x, first[at + 1] + y, first[at + 2] + z};
          if (winner_of(moved, 3) != winner_of(&first[at], 3)) flips += p * q * r;
        }
  CHECK_EXACT("T-181", estimate_flips(first, second, 3) == doctest::Approx(flips).epsilon(1e-13));
}

TEST_CASE("rows that tie in bfloat16 rarely flip: as often as independent noise makes them") {
  std::mt19937_64 random(64);
  std::normal_distribution<double> normal;
  const std::size_t rows = 20000, classes = 8;
  for (const double size : {2e-5, 1e-3, 5e-3}) {
    std::vector<double> first(rows * classes), second(rows * classes);
    double ties = 0.0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double x = normal(random);
      first[i] = to_bf16(x);
      second[i] = to_bf16(x + size * normal(random));
    }
    for (std::size_t at = 0; at < first.size(); at += classes) {
      const std::size_t winner = winner_of(&first[at], classes);
      for (std::size_t i = 0; i < classes; ++i) ties += i != winner && first[at + i] == first[at + winner] ? 1.0 : 0.0;
    }
    const double flips = flips_of(first, second, classes), estimate = estimate_flips(first, second, classes);
    CHECK(ties > 50);
    CHECK(std::abs(flips - estimate) < 4.0 * std::sqrt(estimate + 1.0) + 0.1 * estimate);
    if (size < 1e-4) CHECK(estimate < 0.05 * ties);  // not half of them
  }
}

TEST_CASE("where all numbers tie and the noise is continuous, any class may win") {
  std::mt19937_64 random(65);
  std::normal_distribution<double> normal;
  for (const std::size_t classes : {2U, 10U}) {
    std::vector<double> first(2000 * classes, 1.0), second = first;
    for (double& x : second) x += 1e-6 * normal(random);
    const double estimate = estimate_flips(first, second, classes);
    CHECK(estimate == doctest::Approx(2000.0 * (1.0 - 1.0 / static_cast<double>(classes))).epsilon(1e-6));
    CHECK(flips_of(first, second, classes) == doctest::Approx(estimate).epsilon(0.06));
  }
}

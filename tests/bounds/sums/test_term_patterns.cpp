#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "bounds/sums/term_patterns.hpp"
#include "support/approach.hpp"
#include "support/bound_checks.hpp"

// Patterns of the terms of sums (T-75, T-95), against sorted terms.

using namespace checks;
using bounds::TermPattern;

namespace {

double normal(Generator& generator) {
  std::normal_distribution<double> distribution;
  return distribution(generator);
}

TermPattern pattern_by_sorting(std::vector<double> terms) {
  std::erase(terms, 0.0);
  std::sort(terms.begin(), terms.end());
  const std::size_t n = terms.size();
  if (n >= 16 && terms.back() <= (1.0 + 0x1p-8) * terms.front()) return TermPattern::constant;
  return n > 256 && terms.back() > 4096.0 * terms[(n - 1) / 2] ? TermPattern::stagnant : TermPattern::none;
}

/// Magnitudes of one kind: alike, spread over binades, sparse, with one that stands out, or tiny.
std::vector<double> factors(Generator& generator, std::size_t count, int kind) {
  std::vector<double> x(count);
  for (double& value : x) {
    value = std::abs(normal(generator));
    if (kind == 0) value = 1.0 + 0x1p-10 * uniform(generator, 0.0, 1.0);
    if (kind == 1) value = std::exp2(uniform(generator, -16.0, 0.0));
    if (kind == 2 && generator() % 2 == 0) value = 0.0;
    if (kind == 3 && generator() % 64 == 0) value *= 0x1p13;
    if (kind == 4) value *= 0x1p-560;
  }
  return x;
}

ProductPlan plan_of(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed) {
  op::Gemm gemm;
  gemm.transpose_b = transposed;
  return plan_product(gemm, {m, k}, transposed ? Shape{n, k} : Shape{k, n});
}

}  // namespace

TEST_CASE("patterns of a product are those of its sorted terms") {
  Generator generator(951);
  int found[3] = {};
  for (int repetition = 0; repetition < 400; ++repetition) {
    const std::int64_t m = 2, n = 3, k = 1 + static_cast<std::int64_t>(generator() % 800);
    const ProductPlan plan = plan_of(m, n, k, repetition % 2 == 0);
    const auto a = factors(generator, static_cast<std::size_t>(m * k), static_cast<int>(generator() % 6));
    const auto b = factors(generator, static_cast<std::size_t>(n * k), static_cast<int>(generator() % 6));
    const std::vector<TermPattern> patterns = bounds::patterns_of(plan, a, b);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        std::vector<double> terms;
        for (std::int64_t l = 0; l < k; ++l) terms.push_back(a[plan.a_index(0, i, l)] * b[plan.b_index(0, l, j)]);
        const TermPattern pattern = pattern_by_sorting(terms);
        CHECK(patterns[static_cast<std::size_t>(i * n + j)] == pattern);
        ++found[static_cast<int>(pattern)];
      }
    }
  }
  for (const int count : found) CHECK(count > 20);
}

TEST_CASE("counts rule stagnation out up to the last term that may be small, and for most data at once (T-95)") {
  const auto excluded = [](const std::vector<double>& x, const std::vector<double>& w) {
    return bounds::cannot_stagnate(bounds::left_sizes(x), bounds::right_sizes(w), static_cast<std::int64_t>(x.size()));
  };
  for (const std::size_t n : {512u, 513u}) {
    std::vector<double> x(n, 0x1p-6), w = x;
    x[0] = w[0] = 1.0;
    const std::size_t most = (n - 1) / 2;
    for (std::size_t small = 1; small <= most + 1; ++small) {
      x[small] = 0x1.fffp-7;
      std::vector<double> terms;
      for (std::size_t k = 0; k < n; ++k) terms.push_back(x[k] * w[k]);
      CHECK_EXACT("T-95", excluded(x, w) == (small <= most));
      CHECK_EXACT("T-95", (pattern_by_sorting(terms) == TermPattern::stagnant) == (small > most));
    }
  }
  Generator generator(952);
  for (const int kind : {2, 5}) {
    int undecided = 0;
    for (int repetition = 0; repetition < 200; ++repetition)
      undecided += excluded(factors(generator, 512, kind), factors(generator, 512, 5)) ? 0 : 1;
    CHECK(undecided == 0);
  }
}

TEST_CASE("numbers whose products leave the range of doubles are looked at") {
  const std::vector<double> tiny(400, 0x1p-700), huge(400, 0x1p700);
  CHECK_FALSE(bounds::cannot_stagnate(bounds::left_sizes(tiny), bounds::right_sizes(tiny), 400));
  CHECK_FALSE(bounds::cannot_stagnate(bounds::left_sizes(huge), bounds::right_sizes(huge), 400));
  std::vector<double> with_nan(400, 1.0);
  with_nan[7] = std::nan("");
  CHECK_FALSE(bounds::cannot_stagnate(bounds::left_sizes(with_nan), bounds::right_sizes(huge), 400));
}

TEST_CASE("factors so small that shares of them are rounded are looked at (T-95)") {
  constexpr double least = 0x1p-1074;
  std::vector<double> x(400, least), w(400, 0x1p92);
  x[0] = 20.0 * least;  // a sixteenth of it rounds to `least`, which is below
  w[0] = 0x1p100;
  std::vector<double> terms;
  for (std::size_t k = 0; k < x.size(); ++k) terms.push_back(x[k] * w[k]);
  REQUIRE(pattern_by_sorting(terms) == TermPattern::stagnant);
  CHECK_FALSE(bounds::cannot_stagnate(bounds::left_sizes(x), bounds::right_sizes(w), 400));
  CHECK(bounds::patterns_of(plan_of(1, 1, 400, false), x, w) == std::vector{TermPattern::stagnant});
}

TEST_CASE("a column whose largest is far from another's is looked at by itself (T-95)") {
  std::vector<double> x(400, 0x1p92), tiny(400, 0x1p-1074), w;
  x[0] = 0x1p100;
  tiny[0] = 20.0 * 0x1p-1074;
  for (const double factor : tiny) w.insert(w.end(), {1.0, factor, 1.0});
  const auto none = TermPattern::none, stagnant = TermPattern::stagnant;
  CHECK(bounds::patterns_of(plan_of(1, 3, 400, false), x, w) == std::vector{none, stagnant, none});
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "bounds/adjoint/recursion.hpp"
#include "support/bound_checks.hpp"

// How many radii are found by adjoints of their own, and which (T-72).

using namespace checks;

namespace {

constexpr std::int64_t rows = 5;

struct Costs {
  bounds::Refinement refinement;
  std::vector<std::vector<double>> remainders;

  explicit Costs(Generator& generator) {
    for (const std::size_t size : {0U, 7U, 30U, 1U}) {
      remainders.emplace_back();
      refinement.weight.emplace_back();
      for (std::size_t i = 0; i < rows * size; ++i) {
        remainders.back().push_back(generator() % 3 == 0 ? 0.0 : uniform(generator, 0.0, 1.0));
        refinement.weight.back().push_back(uniform(generator, 0.0, 1.0));
      }
    }
    refinement.allowance = uniform(generator, 0.0, 2.0);
    refinement.most_elements = 20;
  }

  std::vector<double> chosen() const {
    std::vector<double> costs;
    for (std::size_t id = 0; id < remainders.size(); ++id) {
      const std::size_t size = remainders[id].size() / rows;
      if (size == 0) continue;
      for (const bounds::RowElement& one :
           bounds::worth_refining(refinement.weight[id], remainders[id], rows, refinement)) {
        const std::size_t at = static_cast<std::size_t>(one.row) * size + one.element;
        costs.push_back(refinement.weight[id][at] * remainders[id][at]);
      }
    }
    std::sort(costs.rbegin(), costs.rend());
    return costs;
  }
};

}  // namespace

TEST_CASE("no more radii are refined than may be, and those that matter most (T-72)") {
  Generator generator(81);
  for (int repetition = 0; repetition < 200 * test_multiplier(); ++repetition) {
    Costs costs(generator);
    const std::vector<double> all = costs.chosen();
    const auto most = static_cast<std::int64_t>(generator() % (all.size() + 3));
    costs.refinement.least = bounds::least_worth_refining(costs.remainders, rows, costs.refinement, most);
    const std::vector<double> capped = costs.chosen();
    REQUIRE(capped.size() == std::min<std::size_t>(all.size(), static_cast<std::size_t>(most)));
    CHECK(std::equal(capped.begin(), capped.end(), all.begin()));
    for (std::vector<double>& of_value : costs.remainders)
      for (double& remainder : of_value) remainder *= uniform(generator, 0.0, 1.0);
    CHECK(costs.chosen().size() <= capped.size());
  }
}

TEST_CASE("where none may be refined none is, where all may be nothing is left out (T-72)") {
  Generator generator(82);
  Costs costs(generator);
  costs.refinement.allowance = 0.0;
  REQUIRE(!costs.chosen().empty());
  CHECK(bounds::least_worth_refining(costs.remainders, rows, costs.refinement, 1'000'000) == 0.0);
  costs.refinement.least = bounds::least_worth_refining(costs.remainders, rows, costs.refinement, 0);
  CHECK(costs.chosen().empty());
}

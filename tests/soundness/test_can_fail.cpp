#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "faults/theorems.hpp"
#include "soundness/foreign_sums.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound {
namespace {

using namespace soundness;

Magnitude third_of(Magnitude bound) {
  return Magnitude(0.3) * bound;
}

/// Random networks and foreign sums, judged until a violation is seen or there are no more.
bool is_caught() {
  Random seeds(20261121);
  CheckOptions options;
  Tally tally;
  for (int round = 0; round < 60 && tally.violations() == 0; ++round) {
    for (const Family family : all_families()) {
      const Case the_case = random_case(family, seeds.bits());
      check_run(
          the_case.graph, [&] { return evaluate(the_case); }, [&] { return describe(the_case); }, options, tally);
    }
    const ForeignSum sum = random_foreign_sum(seeds.bits());
    check_run(
        sum.graph, [&] { return sum.trace; }, [&] { return sum.description; }, options, tally);
  }
  return tally.violations() > 0;
}

}  // namespace

TEST_CASE("bounds that are too small are caught") {
  std::vector<std::pair<std::string, checks::Theorems>> faults;
  const auto fault = [&](const char* name) -> checks::Theorems& {
    return faults.emplace_back(name, checks::Theorems()).second;
  };
  fault("a third of n u").any_order_factor = [](std::int64_t leaves, const bounds::Machine& machine) {
    return third_of(proven::any_order_factor(leaves, machine));
  };
  fault("two roundings forgotten on every path").path_factor = [](std::int64_t roundings,
                                                                  const bounds::Machine& machine) {
    return proven::path_factor(roundings - 2, machine);
  };
  fault("operands of products taken for exact").operand_error = [](double, double) { return 0.0; };
  fault("a third of a rounding").rounding_error = [](double y, const bounds::Machine& machine) {
    return third_of(proven::rounding_error(y, machine));
  };
  fault("a third of a function's error").function_error = [](double y, bounds::FunctionError accuracy,
                                                             const bounds::Machine& machine) {
    return third_of(proven::function_error(y, accuracy, machine));
  };
  fault("local errors not handed on").add_local_errors = [](std::span<const double>, std::span<double>) {};
  fault("underflow forgotten").underflow_term = [](std::int64_t, std::int64_t, const bounds::Machine&) {
    return Magnitude();
  };

  for (const auto& [name, theorems] : faults) {
    INFO(name);
    const checks::ScopedTheorems in_force(theorems);
    CHECK(is_caught());
  }
}

}  // namespace driftbound

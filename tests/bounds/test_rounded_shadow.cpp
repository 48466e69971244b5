#include <doctest/doctest.h>

#include "bounds/adjoint/narrow_steps.hpp"
#include "driftbound/bounds/rounded_shadow.hpp"
#include "support/approach.hpp"
#include "support/rounded_checks.hpp"

using namespace checks;

TEST_CASE("roundings of numbers within a radius are in their hull, and what is made of them holds (T-76)") {
  const RoundedTallies tallies = check_roundings(bounds::NarrowRules(), 20'000 * test_multiplier(), 761);
  CHECK(tallies.checked > 300'000);
  CHECK(tallies.outside_hull == 0);
  INFO(tallies.roundings.first_violation, tallies.radii.first_violation, tallies.remainders.first_violation);
  CHECK(tallies.violations() == 0);
  CHECK_EXACT("T-76", tallies.roundings.utilisation == 1.0);
  CHECK(tallies.radii.utilisation == 1.0);
  CHECK(tallies.remainders.utilisation == 1.0);
}

TEST_CASE("norms of rounded rows hold (T-76)") {
  const Tally norms = check_rounded_norms(bounds::NarrowRules(), 5'000, 762);
  CHECK(norms.violations == 0);
  CHECK(norms.utilisation > 0.8);
}

TEST_CASE("what is known exactly is rounded exactly, and what may be either is neither") {
  const bounds::NarrowRules rules;
  const bounds::NarrowRounding even{&format(FormatId::bf16), Rounding::nearest_even, false, false};
  const bounds::NarrowRounding open{&format(FormatId::bf16), Rounding::nearest_away, true, false};
  const double tie = 1.0 + 0x1p-8;
  CHECK(rules.hull_rounded(tie, 0.0, even).lower == 1.0);
  CHECK(rules.hull_rounded(tie, 0.0, even).upper == 1.0);
  CHECK(rules.hull_rounded(tie, 0.0, open).lower == 1.0);
  CHECK(rules.hull_rounded(tie, 0.0, open).upper == 1.0 + 0x1p-7);
  CHECK(rules.hull_rounded(tie, 0x1p-40, even).upper == 1.0 + 0x1p-7);
  CHECK(rules.hull_rounded(1.0, 0x1p-9, even).upper == 1.0);

  const bounds::RoundedElement healed = rules.rounded_element(1.0 + 0x1p-10, 0x1p-12, {1.0, 1.0}, Magnitude(0x1p-8));
  CHECK(healed.centre == 1.0);
  CHECK(healed.radius == 0.0);
  CHECK(healed.slope == 0.0);
  CHECK_FALSE(healed.is_ambiguous);

  const bounds::NarrowRounding fp16{&format(FormatId::fp16), Rounding::nearest_even, false, false};
  CHECK(std::isinf(rules.hull_rounded(65519.0, 1.0, fp16).upper));
  const bounds::RoundedElement lost =
      rules.rounded_element(65519.0, 1.0, rules.hull_rounded(65519.0, 1.0, fp16), Magnitude(16.0));
  CHECK(std::isinf(lost.radius));
}

TEST_CASE("every run in narrow formats stays within the rounded shadow's radii and bounds (T-76)") {
  NarrowTallies all;
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    const NarrowTallies tallies = check_narrow_networks(
        bounds::default_rules(), {"gemm", block, "gemm", "tanh", "matmul"}, narrow_runs(), 2 * test_multiplier(), 763);
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    all += tallies;
  }
  CHECK(all.values.checked + all.bounds.checked > 100'000);
  CHECK(all.ambiguous > 0);
  MESSAGE("judged " << all.values.checked + all.bounds.checked << ", ambiguous roundings " << all.ambiguous
                    << ", radii used to " << all.values.utilisation << ", bounds to " << all.bounds.utilisation);
  CHECK(all.bounds.utilisation > 0.999);
}

TEST_CASE("there is no rounded shadow where nothing is rounded to a narrow format") {
  Generator generator(764);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  CHECK_FALSE(bounds::Network(graph, {{2, 4}}, std::nullopt).narrowed(machine).has_value());
}

TEST_CASE("values known to be in a format are not rounded to it again") {
  Generator generator(765);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  const auto roundings = [&](FormatId input, FormatId output) {
    const bounds::Machine machine = bounds::machine_of(arithmetic_of({input, output, false}));
    const auto network = bounds::Network(graph, {{2, 4}}, std::nullopt).narrowed(machine);
    return std::count_if(network->steps().rounding.begin(), network->steps().rounding.end(),
                         [](const auto& rounding) { return rounding.has_value(); });
  };
  CHECK(roundings(FormatId::bf16, FormatId::fp32) == 4);  // two factors each
  CHECK(roundings(FormatId::bf16, FormatId::bf16) ==
        5);  // x, two weights, two sums; not Relu, nor the second product's
  CHECK(roundings(FormatId::fp16, FormatId::bf16) == 6);  // that of the second product is another format
}

TEST_CASE("the sign of every run is right or wrong where its enclosure and the exact one say so") {
  CHECK(sign_of_runs({1.0, 2.0}, {0.5, 0.6}) == SignVerdict::right);
  CHECK(sign_of_runs({-2.0, -1.0}, {-0.6, -0.5}) == SignVerdict::right);
  CHECK(sign_of_runs({-2.0, -1.0}, {0.5, 0.6}) == SignVerdict::wrong);
  CHECK(sign_of_runs({1.0, 2.0}, {-0.6, -0.5}) == SignVerdict::wrong);
  CHECK(sign_of_runs({0.0, 2.0}, {0.5, 0.6}) == SignVerdict::open);
  CHECK(sign_of_runs({1.0, 2.0}, {-0.1, 0.6}) == SignVerdict::open);
  CHECK(sign_of_runs(Interval::whole(), {0.5, 0.6}) == SignVerdict::open);
  CHECK(name_of(SignVerdict::wrong) == "wrong");
}

TEST_CASE("a matrix unit that may read its operands as they are makes roundings of operands a condition") {
  Generator generator(766);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm"}) builder.add(block);
  const Graph graph = builder.finish();
  ArithmeticModel arithmetic = arithmetic_of({FormatId::tf32, FormatId::fp32, false});
  arithmetic.tensor_core = TensorCore{24, 4};
  const bounds::Setting setting = setting_of(bounds::default_rules(), arithmetic);
  const auto network = bounds::Network(graph, {{2, 4}}, std::nullopt).narrowed(setting.machine);
  bounds::Weights weights;
  const bounds::RoundedShadow rounded =
      bounds::rounded_shadow_of(*network, {network_inputs(1.0, false, generator)}, {{}}, setting, weights);
  CHECK(std::any_of(rounded.deviation.conditions.begin(), rounded.deviation.conditions.end(),
                    [](const std::string& condition) { return condition.find("A-07") != std::string::npos; }));
}

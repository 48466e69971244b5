#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bounds/chance/chance_sweep.hpp"
#include "bounds/chance/statistical.hpp"
#include "bounds/theorems/chance.hpp"
#include "faults/theorems.hpp"
#include "support/approach.hpp"
#include "support/chance_checks.hpp"
#include "support/special_numbers.hpp"

// Bounds that leave rounding errors to chance, against enumerations and permutations.

using namespace checks;
using bounds::SumsByChance;

namespace {

constexpr double u = 0x1p-24;

/// One sum in float32, from left to right.
struct LongSum {
  std::vector<float> terms;

  double error() const {
    float sum = 0.0f;
    Real exact;
    for (const float term : terms) {
      sum += term;
      exact += Real(static_cast<double>(term));
    }
    return (Real(static_cast<double>(sum)) - exact).to_double();
  }
  double estimate_sigma() const {
    double sum = 0.0, squares = 0.0;
    for (const float term : terms) {
      sum += static_cast<double>(term);
      squares += static_cast<double>(term) * static_cast<double>(term);
    }
    return u * std::sqrt(bounds::estimate_sum_variance({static_cast<double>(terms.size()), squares, sum, 0.0, false}));
  }

  Bounds bounds(ArithmeticModel arithmetic) const {
    const auto n = static_cast<std::int64_t>(terms.size());
    Tensor<double> a({1, n}), ones({n, 1}, std::vector<double>(terms.size(), 1.0));
    float sum = 0.0f;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      a.values[i] = static_cast<double>(terms[i]);
      sum += terms[i];
    }
    OneNode one = one_node(op::MatMul{}, {a, ones}, {{1, 1}, {static_cast<double>(sum)}}, arithmetic);
    one.trace.provenance = foreign_provenance;
    BoundOptions options;
    options.targets = {{{0, 0}, std::nullopt}};
    return bound(one.graph, one.trace, options);
  }
  Bounds bounds() const { return bounds(cpu_arithmetic("fp32", parse_summation_order("sequential"))); }
};

const std::vector<BoundKind> by_chance = {BoundKind::adjoint_probabilistic, BoundKind::adjoint_statistical};

void check_not_applicable(const Bounds& bounds, const std::string& reason) {
  for (const BoundKind kind : by_chance) {
    CAPTURE(name_of(kind));
    const BoundResult* of_output = find_bound(bounds.layers.back().accumulated, kind);
    const BoundResult* of_target = find_bound(bounds.targets.at(0).bounds, kind);
    REQUIRE(of_output != nullptr);
    REQUIRE(of_target != nullptr);
    CHECK(std::isinf(of_output->values.values[0]));
    CHECK(std::isinf(of_target->values.values[0]));
    CHECK(of_output->not_applicable.find(reason) != std::string::npos);
    CHECK(of_target->not_applicable == of_output->not_applicable);
  }
}

LongSum constant_terms() {
  return {std::vector<float>(4096, 0.1f)};
}

LongSum stagnating_terms() {
  LongSum sum{std::vector<float>(4096, 0x1.8p-25f)};
  sum.terms[0] = 1.0f;
  return sum;
}

}  // namespace

TEST_CASE("walks of equal steps leave lambda roots no more often than stated, to the ninth digit of a probability") {
  CHECK(check_tails() == 0);
  for (const double p : {0.5, 1e-3, 1e-9, 1e-200}) {
    for (const std::int64_t statements : {std::int64_t{1}, std::int64_t{1} << 40}) {
      const double factor = bounds::tail_factor(p, statements);
      const double stated = bounds::failure_probability_of(factor, statements);
      CHECK(stated <= p);
      CHECK(stated >= (1.0 - 1e-9) * p);
      const Real exact =
          Real(2.0 * static_cast<double>(statements)) * (Real(-0.5) * Real(factor) * Real(factor)).apply(mpfr_exp);
      CHECK(exact <= Real(stated));
    }
  }
}

TEST_CASE("no tree of few bits has roundings with larger squares than T-74 adds up") {
  const Tally tally = check_squares(20000 * test_multiplier(), 742);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-74", tally.utilisation, 1.0);
}

TEST_CASE("among all signs of rounding errors no more leave the probabilistic bound than stated (T-74)") {
  double largest_share = 0.0;
  for (const SignRuns& runs : sign_runs(741)) {
    for (const double p : {0.9, 0.5, 0.27, 0.1, 0.01}) {
      const BoundResult result = probabilistic_bound(runs, p);
      REQUIRE(result.failure_probability);
      CHECK(*result.failure_probability <= p);
      CHECK(result.guarantee == Guarantee::probabilistic);
      const double frequency = runs.frequency_above(result.values.values[0]);
      CHECK(frequency <= *result.failure_probability);
      largest_share = std::max(largest_share, frequency / p);
    }
  }
  CHECK_APPROACH("T-74", largest_share, 0.347);
}

TEST_CASE("what is not modelled goes in at full size: a function that is always off the same way (T-74)") {
  CHECK(check_function_at_full_size() == 0);
}

TEST_CASE("what a scaled addend loses where it is read as 0 goes in at full size (T-74)") {
  constexpr double beta = 1000.0;
  const auto x = static_cast<double>(1e-30f), c = static_cast<double>(1e-38f);
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  arithmetic.products_may_flush = true;
  OneNode one = one_node(op::Gemm{1.0, beta, false, false}, {{{1, 1}, {x}}, {{1, 1}, {1.0}}, {{1}, {c}}}, {{1, 1}, {x}},
                         arithmetic);
  one.trace.provenance = foreign_provenance;
  const Bounds all = bound(one.graph, one.trace, {});
  const BoundResult* result = find_bound(all.layers.back().accumulated, BoundKind::adjoint_probabilistic);
  REQUIRE(result != nullptr);
  CHECK(result->values.values[0] >= beta * c);
  CHECK(result->values.values[0] <= 3.0 * beta * c);
}

TEST_CASE("a probabilistic bound of one sum is below that of any order, and runs stay within it") {
  Generator generator(743);
  for (int repetition = 0; repetition < 50 * test_multiplier(); ++repetition) {
    LongSum sum;
    for (int k = 0; k < 512; ++k) sum.terms.push_back(static_cast<float>(uniform(generator, -1.0, 1.0)));
    const Bounds bounds = sum.bounds();
    const BoundResult* local = find_bound(bounds.layers[0].local, BoundKind::probabilistic);
    const BoundResult* any_order = find_bound(bounds.layers[0].local, BoundKind::partial_sums);
    REQUIRE(local != nullptr);
    CHECK(local->theorem == "T-74");
    CHECK(local->failure_probability.value_or(1.0) <= 1e-9);
    CHECK(local->values.values[0] < 0.5 * any_order->values.values[0]);
    CHECK(std::abs(sum.error()) <= local->values.values[0]);
    const BoundResult* whole = find_bound(bounds.layers[0].accumulated, BoundKind::adjoint_probabilistic);
    CHECK(whole->values.values[0] == doctest::Approx(local->values.values[0]).epsilon(0.05));
    const BoundResult* estimate = find_bound(bounds.layers[0].accumulated, BoundKind::adjoint_statistical);
    CHECK(estimate->guarantee == Guarantee::heuristic);
    CHECK(estimate->values.values[0] < whole->values.values[0]);
    CHECK(std::abs(sum.error()) <= estimate->values.values[0]);
  }
}

TEST_CASE("the mean square of partial sums over all permutations is that of T-75") {
  Generator generator(751);
  for (const std::size_t n : std::vector<std::size_t>{1, 2, 3, 5, 7}) {
    std::vector<double> terms;
    for (std::size_t k = 0; k < n; ++k) terms.push_back(std::round(uniform(generator, -64.0, 64.0)));
    std::sort(terms.begin(), terms.end());
    double mean = 0.0, permutations = 0.0, sum = 0.0, squares = 0.0;
    for (const double term : terms) {
      sum += term;
      squares += term * term;
    }
    std::vector<std::size_t> order(n);
    for (std::size_t k = 0; k < n; ++k) order[k] = k;
    do {
      double partial = 0.0;
      for (const std::size_t k : order) {
        partial += terms[k];
        mean += partial * partial;
      }
      permutations += 1.0;
    } while (std::next_permutation(order.begin(), order.end()));
    const double estimate = bounds::estimate_sum_variance({static_cast<double>(n), squares, sum, 0.0, false});
    CHECK_EXACT("T-75", estimate == doctest::Approx(0.18 * mean / permutations));
  }
}

TEST_CASE("rounding errors of random permutations have the variance of T-75" * doctest::test_suite("campaign")) {
  Generator generator(752);
  for (const double low : {-1.0, -0.5, 0.0}) {
    LongSum sum;
    for (int k = 0; k < 256; ++k) sum.terms.push_back(static_cast<float>(uniform(generator, low, 1.0)));
    double squares = 0.0;
    constexpr int permutations = 4000;
    for (int repetition = 0; repetition < permutations; ++repetition) {
      std::shuffle(sum.terms.begin(), sum.terms.end(), generator);
      squares += sum.error() * sum.error();
    }
    const double ratio = std::sqrt(squares / permutations) / sum.estimate_sigma();
    MESSAGE("terms from " << low << ": standard deviation " << ratio << " of the estimate");
    CHECK(ratio > 0.7);
    CHECK(ratio < 1.25);
  }
}

namespace {

/// Sums of the squares of all partial sums but the last, over their mean: one entry a random permutation.
std::vector<double> energies_of(std::vector<double> terms, int permutations, Generator& generator) {
  std::vector<double> energies;
  double mean = 0.0;
  for (int repetition = 0; repetition < permutations; ++repetition) {
    std::shuffle(terms.begin(), terms.end(), generator);
    double partial = 0.0, energy = 0.0;
    for (const double term : terms) {
      partial += term;
      energy += partial * partial;
    }
    energies.push_back(energy);
    mean += energy / permutations;
  }
  for (double& energy : energies) energy /= mean;
  return energies;
}

/// The least T with E exp(t X) exp(-t T) <= exp(-sigmas^2 / 2) for some t, X the sum of `sums` independent errors of
/// variance 1 / sums each, normal once the order is drawn.
double threshold_of(const std::vector<double>& energies, double sums, double sigmas) {
  double least = std::numeric_limits<double>::infinity();
  for (double t = 0.05; t < 2.0 * sigmas; t += 0.01) {
    double mean = 0.0;
    for (const double energy : energies)
      mean += std::exp(0.5 * t * t * energy / sums) / static_cast<double>(energies.size());
    least = std::min(least, (0.5 * sigmas * sigmas + sums * std::log(mean)) / t);
  }
  return least;
}

}  // namespace

TEST_CASE("orders that are drawn at random make large errors likelier by as much as T-75 adds") {
  Generator generator(754);
  std::vector<double> terms(400, 1.0);
  std::fill_n(terms.begin(), 200, -1.0);
  const std::vector<double> energies = energies_of(terms, 40000, generator);
  for (const double sums : {1.0, 4.0, 30.0}) {
    const double threshold = threshold_of(energies, sums, 1.5), expected = threshold * threshold / 2.25;
    const std::vector<SumsByChance> nodes(static_cast<std::size_t>(sums), {1.0 / sums, 1.0 / sums, HUGE_VAL});
    CHECK_EXACT("T-75", bounds::variance_over_orders(0.0, nodes, 1.5) == doctest::Approx(expected).epsilon(0.02));
    if (sums > 4.0) continue;
    const std::vector<SumsByChance> elements = {{1.0, 1.0 / sums, HUGE_VAL}};
    CHECK_EXACT("T-75", bounds::variance_over_orders(0.0, elements, 1.5) == doctest::Approx(expected).epsilon(0.02));
  }
}

TEST_CASE("what orders add is between nothing and the worst order (T-75)") {
  const auto with = [](double fixed, const std::vector<SumsByChance>& nodes) {
    return bounds::variance_over_orders(fixed, nodes, 6.0);
  };
  CHECK(with(0.0, {{1.0, 1.0, HUGE_VAL}}) == doctest::Approx(6.98).epsilon(0.01));
  CHECK(with(0.0, {{1.0, 1.0, 3.0}}) == doctest::Approx(3.0).epsilon(0.01));
  CHECK(with(0.0, {{1.0, 1.0, 0.5}}) == doctest::Approx(1.0));
  CHECK(with(0.0, {{1.0, 1e-6, HUGE_VAL}}) == with(0.0, {{1.0, 0.25, HUGE_VAL}}));
  CHECK(with(0.0, std::vector<SumsByChance>(1000, {1e-200, 1e-200, HUGE_VAL})) < 1.02e-197);
  CHECK(with(1.0, {{0.0, 0.0, 0.0}}) == doctest::Approx(1.0));
  CHECK(with(2.0, {}) == 2.0);
  CHECK(std::isinf(with(1.0, {{HUGE_VAL, HUGE_VAL, HUGE_VAL}})));
}

TEST_CASE("one sum of cancelling terms exceeds six sigma over all orders in some of them, never those of T-75" *
          doctest::test_suite("campaign")) {
  Generator generator(755);
  LongSum sum;
  for (int k = 0; k < 256; ++k) sum.terms.push_back(static_cast<float>(uniform(generator, -1.0, 1.0)));
  sum.terms.back() = 0.0f;
  for (int k = 0; k < 255; ++k) sum.terms.back() -= sum.terms[static_cast<std::size_t>(k)];
  const double over_orders = 6.0 * sum.estimate_sigma();
  const double estimate =
      std::sqrt(bounds::variance_over_orders(0.0, std::vector<SumsByChance>{{1.0, 1.0, HUGE_VAL}}, 6.0)) * over_orders;
  int beyond_six = 0, beyond_estimate = 0;
  for (int repetition = 0; repetition < 40000; ++repetition) {
    std::shuffle(sum.terms.begin(), sum.terms.end(), generator);
    const double error = std::abs(sum.error());
    beyond_six += error > over_orders ? 1 : 0;
    beyond_estimate += error > estimate ? 1 : 0;
  }
  MESSAGE(beyond_six << " of 40,000 permutations beyond six sigma");
  CHECK(beyond_six > 0);
  CHECK(beyond_estimate == 0);
}

TEST_CASE("constant data exceed the estimate, and it is not applicable to them") {
  const LongSum sum = constant_terms();
  CHECK(std::abs(sum.error()) > 6.0 * sum.estimate_sigma());
  const Bounds bounds = sum.bounds();
  check_not_applicable(bounds, "of one magnitude");
  const BoundResult* local = find_bound(bounds.layers[0].local, BoundKind::probabilistic);
  CHECK(std::isinf(local->values.values[0]));
  CHECK(local->not_applicable.find("of one magnitude") != std::string::npos);
}

TEST_CASE("stagnation exceeds the estimate, and it is not applicable to that") {
  const LongSum sum = stagnating_terms();
  CHECK(std::abs(sum.error()) > 6.0 * sum.estimate_sigma());
  check_not_applicable(sum.bounds(), "times the median");
}

TEST_CASE("an accumulator that does not round to nearest, flushes, or is a matrix unit's is no matter of chance") {
  const LongSum sum{{0.5f, 0.25f, 0.3f}};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  arithmetic.rounding = Rounding::toward_zero;
  check_not_applicable(sum.bounds(arithmetic), "does not round to nearest");
  arithmetic.rounding = Rounding::nearest_even;
  arithmetic.flushes_subnormals = true;
  check_not_applicable(sum.bounds(arithmetic), "flushed");
  arithmetic.flushes_subnormals = false;
  arithmetic.tensor_core = TensorCore{23, 4};
  check_not_applicable(sum.bounds(arithmetic), "matrix unit");
  arithmetic.tensor_core.reset();
  arithmetic.reduced_reduction = ReducedReduction{FormatId::bf16, 2};
  check_not_applicable(sum.bounds(arithmetic), "narrower format");
}

TEST_CASE("an accumulator narrower than float32 stagnates in sums that do not look like it (T-75)") {
  const LongSum sum{std::vector<float>(300, 0.25f)};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  arithmetic.input = arithmetic.accumulator = arithmetic.output = FormatId::fp16;
  const Bounds bounds = sum.bounds(arithmetic);
  check_not_applicable(bounds, "narrower than float32");
  CHECK(find_bound(bounds.layers[0].local, BoundKind::probabilistic) == nullptr);
}

TEST_CASE("numbers that are close to each other are all stored as one, which is no chance (T-74)") {
  constexpr std::int64_t n = 256;
  Generator generator(769);
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1, n});
  const ValueId one = graph.add_constant("one", StoredTensor::from(Tensor<float>({1}, {1.0f})));
  const ValueId h = graph.add_node("h", op::Add{}, {x, one});
  Tensor<float> weights({n, 1}), inputs({1, n}), stored({1, n}, std::vector<float>(n, 1.0f));
  double sum = 0.0, error = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    weights.values[i] = naive::as_bf16(static_cast<float>(uniform(generator, 0.5, 1.5)));
    inputs.values[i] = static_cast<float>(uniform(generator, 0.05, 0.45) * 0x1p-7);  // 1 + x is stored as 1
    sum += static_cast<double>(weights.values[i]);
    error += static_cast<double>(inputs.values[i]) * static_cast<double>(weights.values[i]);
  }
  const ValueId w = graph.add_constant("w", StoredTensor::from(weights));
  const ValueId bias = graph.add_constant("b", StoredTensor::from(Tensor<float>({1}, {static_cast<float>(-sum)})));
  graph.outputs = {graph.add_node("y", op::Gemm{}, {h, w, bias})};
  Trace trace;
  trace.arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  trace.arithmetic.output = FormatId::bf16;
  trace.provenance = foreign_provenance;
  trace.samples = 1;
  trace.inputs.tensors.emplace_back("x", StoredTensor::from(inputs));
  trace.layers = {{"h", StoredTensor::from(stored)}, {"y", StoredTensor::from(Tensor<float>({1, 1}, {0.0f}))}};
  const Bounds bounds = bound(graph, trace, {});
  const BoundResult* result = find_bound(bounds.layers.back().accumulated, BoundKind::adjoint_probabilistic);
  REQUIRE(result != nullptr);
  CHECK(result->values.values[0] >= error);
  CHECK(result->values.values[0] <= 4.0 * error);
}

TEST_CASE("patterns of terms are found") {
  Generator generator(753);
  int constant = 0, stagnant = 0, neither = 0;
  for (int repetition = 0; repetition < 3000; ++repetition) {
    const std::size_t n = 1 + generator() % 600;
    const double spread = generator() % 3 == 0 ? 0x1.4p-8 : generator() % 2 == 0 ? 0x1p-9 : 1.0;
    std::vector<double> terms;
    for (std::size_t k = 0; k < n; ++k) terms.push_back(1.0 + spread * uniform(generator, 0.0, 1.0));
    if (generator() % 3 == 0) terms[0] = uniform(generator, 1.0, 10000.0);
    std::vector<double> sorted = terms;
    std::sort(sorted.begin(), sorted.end());
    const bool is_constant = n >= 16 && sorted.back() <= (1.0 + 0x1p-8) * sorted.front();
    const bool is_stagnant = n > 256 && sorted.back() > 4096.0 * sorted[(n - 1) / 2];
    const bounds::TermPattern pattern = bounds::pattern_of(terms);
    CHECK((pattern == bounds::TermPattern::constant) == is_constant);
    CHECK((pattern == bounds::TermPattern::stagnant) == is_stagnant);
    constant += is_constant ? 1 : 0;
    stagnant += is_stagnant ? 1 : 0;
    neither += is_constant || is_stagnant ? 0 : 1;
  }
  CHECK(constant > 50);
  CHECK(stagnant > 50);
  CHECK(neither > 50);
}

TEST_CASE(
    "an estimate takes radii for three times the share of chance and all else it charges, but where they are unseen "
    "(T-75)") {
  using bounds::ChanceBound;
  const double infinity = std::numeric_limits<double>::infinity();
  ChanceBound estimate{
      {10.0, 10.0, infinity, 10.0}, {8.0, 8.0, infinity, 8.0}, {0.0, 0.0, 0.0, 2.0}, {1.0, 12.0, 1.0, 1.0}, {}};
  for (std::size_t row = 0; row < 4; ++row) bounds::estimate_remainder(30.0, estimate, row);
  CHECK(estimate.total[0] == doctest::Approx(2.0 + 8.0 * 4.0 / 30.0));
  CHECK(estimate.remainder[0] == doctest::Approx(8.0 * 4.0 / 30.0));
  CHECK(estimate.total[1] == 10.0);
  CHECK(std::isinf(estimate.total[2]));
  CHECK(estimate.remainder[3] == doctest::Approx(2.0 + 6.0 * 6.0 / 30.0));
  CHECK(estimate.total[3] == doctest::Approx(2.0 + estimate.remainder[3]));
  ChanceBound with_fixed_operands{{10.0}, {8.0}, {0.0}, {}, {}};
  bounds::estimate_remainder(30.0, with_fixed_operands, 0);
  CHECK(with_fixed_operands.total[0] == 10.0);
}

TEST_CASE("elements that err alike are weighted together") {
  const std::vector<double> d = {1.0, -2.0, 3.0, 4.0}, c = {1.0, 1.0, 1.0, 2.0};
  CHECK(bounds::weighted_squares(d, c, {}).value() == doctest::Approx(78.0));
  const std::vector<std::uint32_t> alike = bounds::correlated_elements(std::vector<double>{5.0, 5.0, 6.0, 5.0}, c);
  CHECK(alike == std::vector<std::uint32_t>{0, 0, 2, 3});
  CHECK(bounds::weighted_squares(d, c, alike).value() == doctest::Approx(82.0));
  const double refined_first = bounds::weighted_squares(d, std::vector<double>{0.25, 1.0, 1.0, 2.0}, alike).value();
  CHECK(refined_first == doctest::Approx(82.0));
  const std::vector<double> no_number = {not_a_number, 1.0, 1.0, 2.0};
  CHECK(!(bounds::weighted_squares(d, no_number, alike).value() <= 1e300));
  CHECK(bounds::correlated_elements(std::vector<double>{5.0, 6.0, 7.0, 5.0}, c).empty());
  CHECK(check_weights() == 0);
}

namespace {

std::vector<std::int64_t> asked_statements;

}  // namespace

TEST_CASE("every target of every sample is a statement of its own (T-74)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const Tensor<float> w({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(w))})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({4, 2}, std::vector<float>(8, 0.3f))));
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  Theorems theorems;
  theorems.tail_factor = [](double failure, std::int64_t statements) {
    asked_statements.push_back(statements);
    return proven::tail_factor(failure, statements);
  };
  const ScopedTheorems in_force(theorems);
  BoundOptions options;
  options.requests = {BoundKind::adjoint_probabilistic};
  REQUIRE(find_bound(bound(graph, trace, options).layers[0].accumulated, BoundKind::adjoint_probabilistic) != nullptr);
  REQUIRE(!asked_statements.empty());
  for (const std::int64_t statements : asked_statements) CHECK(statements == 3 * 4);
}

TEST_CASE("what reading an operand changes is not left to chance (T-74)") {
  const LongSum sum{{1.0f + 0x1p-11f}};
  const Bounds bounds = sum.bounds(cpu_arithmetic("tf32", parse_summation_order("sequential")));
  CHECK(find_bound(bounds.layers[0].accumulated, BoundKind::adjoint_probabilistic)->values.values[0] >= 0x1p-11);
}

TEST_CASE("narrow roundings are estimated where values are, not where radii of any run reach (T-75)") {
  constexpr std::int64_t n = 48, layers = 12;
  Generator generator(770);
  const auto matrix = [&](const Shape& shape) {
    Tensor<float> w(shape);
    for (float& element : w.values)
      element = naive::as_bf16(static_cast<float>(uniform(generator, -1.0, 1.0) * std::sqrt(3.0 / n)));
    return StoredTensor::from(w);
  };
  Graph graph;
  ValueId value = graph.add_input("x", ElementType::f32, {{-1, "N"}, {n, ""}});
  for (std::int64_t layer = 0; layer < layers; ++layer)
    value = graph.add_node(
        "y" + std::to_string(layer), op::MatMul{},
        {value, graph.add_constant("w" + std::to_string(layer), matrix({n, layer + 1 < layers ? n : 2}))});
  graph.outputs = {value};
  Tensor<float> x({4, n});
  for (float& element : x.values) element = static_cast<float>(uniform(generator, -1.0, 1.0));
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(x));
  const Trace trace = cpu_evaluator(cpu_arithmetic("bf16", parse_summation_order("sequential"))).run(graph, inputs);
  BoundOptions options;
  options.requests = {BoundKind::shadow, BoundKind::adjoint_any_order, BoundKind::adjoint_statistical};
  const Bounds bounds = bound(graph, trace, options);
  const auto largest = [&](BoundKind kind) {
    const BoundResult* result = find_bound(bounds.layers.back().accumulated, kind);
    REQUIRE(result != nullptr);
    return *std::max_element(result->values.values.begin(), result->values.values.end());
  };
  CHECK(largest(BoundKind::adjoint_statistical) >= largest(BoundKind::shadow));
  CHECK(largest(BoundKind::adjoint_statistical) <= 5.0 * largest(BoundKind::shadow));
  CHECK(largest(BoundKind::adjoint_any_order) >= 10.0 * largest(BoundKind::adjoint_statistical));
}

TEST_CASE("a failure probability is at least 0 and below 1") {
  const Graph graph = sign_runs(1)[0].graph();
  for (const double p : {1.0, -1.0, std::nan("")}) {
    BoundOptions options;
    options.failure_probability = p;
    CHECK_THROWS_AS(Bounder(graph, options), InvalidArgument);
  }
}

TEST_CASE("nothing is left to chance where no failure is allowed") {
  const OneNode one = one_node(op::MatMul{}, {{{1, 2}, {1.0, 2.0}}, {{2, 1}, {3.0, 4.0}}}, {{1, 1}, {11.0}},
                               cpu_arithmetic("fp32", parse_summation_order("sequential")));
  BoundOptions options;
  CHECK(find_bound(bound(one.graph, one.trace, options).layers[0].local, BoundKind::probabilistic) != nullptr);
  options.failure_probability = 0.0;
  const LayerBounds layer = bound(one.graph, one.trace, options).layers[0];
  CHECK(find_bound(layer.local, BoundKind::probabilistic) == nullptr);
  CHECK(find_bound(layer.accumulated, BoundKind::adjoint_probabilistic) == nullptr);
  CHECK(find_bound(layer.accumulated, BoundKind::adjoint_statistical) != nullptr);
}

#include <doctest/doctest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bounds/theorems/chance.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "faults/theorems.hpp"
#include "support/approach.hpp"
#include "support/structured_sums.hpp"

// The model of T-74 tried on the data (T-133), and the chance of signs (T-134).

using namespace driftbound;
using Rational = boost::multiprecision::cpp_rational;
using Integer = boost::multiprecision::cpp_int;

namespace {

/// One sum, made in all orders: every row of the product is the same.
struct Sums {
  Graph graph;
  Trace trace;

  Sums(const structured::Factors& factors, const std::vector<structured::Order>& orders) {
    const auto rows = static_cast<std::int64_t>(orders.size()), n = static_cast<std::int64_t>(factors.x.size());
    Tensor<float> x({rows, n}), w({n, 1}), y({rows, 1});
    for (std::size_t row = 0; row < orders.size(); ++row) {
      std::copy(factors.x.begin(), factors.x.end(),
                x.values.begin() + static_cast<std::ptrdiff_t>(row * factors.x.size()));
      y.values[row] = structured::sum(factors, orders[row]);
    }
    w.values = factors.w;
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {n, ""}});
    graph.outputs = {graph.add_node("sum", op::MatMul{}, {input, graph.add_constant("w", StoredTensor::from(w))})};
    Inputs inputs;
    inputs.tensors = {{"x", StoredTensor::from(x)}};
    trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
    trace.layers[0].output = StoredTensor::from(y);
    trace.provenance.program = "plain loops";
    trace.arithmetic.order = {};
  }

  Bounds bounds() const {
    BoundOptions options;
    options.requests = {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic};
    const Reference local = local_reference(graph, trace);
    return Bounder(graph, options)(trace, {&local.layers, nullptr});
  }
};

const BoundResult& probabilistic(const Bounds& bounds) {
  for (const BoundResult& bound : bounds.layers[0].local)
    if (bound.kind == BoundKind::probabilistic) return bound;
  FAIL("no probabilistic bound");
  return bounds.layers[0].local.front();
}

Rational exact(double x) {
  return Rational(x);
}

Rational exact_sum(const structured::Factors& factors) {
  Rational sum = 0;
  for (std::size_t k = 0; k < factors.x.size(); ++k)
    sum += exact(static_cast<double>(factors.x[k])) * exact(static_cast<double>(factors.w[k]));
  return sum;
}

}  // namespace

TEST_CASE("coin_tail is above the exact tail of the binomial distribution, and close to it") {
  for (const std::int64_t coins : {1, 2, 7, 64, 128, 300}) {
    for (std::int64_t heads = 0; heads <= coins; heads += 1 + coins / 40) {
      Integer ways = 0, choose = 1;
      for (std::int64_t k = coins; k >= heads; --k) {
        ways += choose;
        choose = choose * k / (coins - k + 1);
      }
      const Rational tail = Rational(ways) / Rational(Integer(1) << static_cast<unsigned>(coins));
      const double bound = bounds::theorems::coin_tail(heads, coins);
      CHECK(exact(bound) >= tail);
      CHECK(exact(bound) <= tail * (coins + 1));
    }
    const double all_heads = std::ldexp(1.0, static_cast<int>(-coins));
    CHECK_APPROACH("T-134", all_heads / bounds::theorems::coin_tail(coins, coins), 1.0);
  }
}

TEST_CASE("a bound with repeats covers the worst set of alike roundings") {
  for (const std::int64_t repeats : {1, 2, 3, 10, 32768}) {
    const double bound = bounds::theorems::with_repeats(Magnitude(0.7), repeats).value();
    CHECK(exact(bound) * exact(bound) >= exact(0.7) * exact(0.7) * repeats);
    // r equal errors c add up to r c, and a = √r c
    const double c = 0.7 / std::sqrt(static_cast<double>(repeats));
    CHECK_APPROACH("T-133", (1 - 1e-14) * static_cast<double>(repeats) * c / bound, 1.0);
  }
}

TEST_CASE("honest sums of structured data are not above their probabilistic bound, in any of many orders") {
  std::mt19937_64 random(133);
  const std::vector<structured::Order> orders = structured::orders();
  std::size_t refused = 0, kept = 0;
  for (const structured::Kind& kind : structured::kinds()) {
    for (const std::size_t n : {2U, 5U, 33U, 256U, 2048U}) {
      const structured::Factors factors = kind.make(n, random);
      const Sums sums(factors, orders);
      const Rational sum = exact_sum(factors);
      const Bounds bounds = sums.bounds();
      const BoundResult& bound = probabilistic(bounds);
      const Tensor<double> computed = sums.trace.layers[0].output.to_double();
      for (std::size_t i = 0; i < orders.size(); ++i) {
        const double value = bound.values.values[i];
        if (std::isinf(value)) ++refused;
        if (std::isinf(value)) continue;
        ++kept;
        CHECK_MESSAGE(abs(exact(computed.values[i]) - sum) <= exact(value),
                      kind.name << ", " << n << " terms, " << orders[i].name);
      }
    }
  }
  CHECK(kept > 10 * refused);
}

TEST_CASE("terms that repeat widen a bound that is exceeded, and terms that are lost in every order remove it") {
  std::mt19937_64 random(5);
  const std::vector<structured::Order> orders = structured::orders();
  structured::Factors periodic{std::vector<float>(8192, 1.0F), std::vector<float>(8192)};
  for (std::size_t k = 0; k < periodic.w.size(); ++k) periodic.w[k] = k % 2 == 0 ? 0.1F : 0.7301F;
  structured::Factors lost{std::vector<float>(4096, 1.0F), std::vector<float>(4096)};
  for (std::size_t k = 0; k < lost.w.size(); ++k)
    lost.w[k] = std::ldexp(0.5F + 0.5F * structured::detail::uniform(random), k < 2400 ? 0 : -14);
  for (const structured::Factors& factors : {periodic, lost}) {
    const Sums sums(factors, orders);
    Sums without = sums;
    without.trace.layers[0].output = StoredTensor::from(
        Tensor<float>({static_cast<std::int64_t>(orders.size()), 1},
                      std::vector<float>(orders.size(), static_cast<float>(exact_sum(factors).convert_to<double>()))));
    const Bounds of_honest = sums.bounds(), of_exact = without.bounds();
    const std::vector<double>& wide = probabilistic(of_honest).values.values;
    const std::vector<double>& narrow = probabilistic(of_exact).values.values;
    std::size_t widened = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) widened += wide[i] > 2.0 * narrow[i] ? 1U : 0U;
    CHECK(widened > 0);
  }
  const auto is_finite = [](double bound) { return std::isfinite(bound); };
  const auto of_periodic = [&] { return probabilistic(Sums(periodic, orders).bounds()).values.values; };
  const std::vector<double> widened = of_periodic();
  CHECK(std::all_of(widened.begin(), widened.end(), is_finite));
  checks::Theorems theorems;
  theorems.with_repeats = [](Magnitude bound, std::int64_t) { return bound; };
  const checks::ScopedTheorems in_force(theorems);
  const std::vector<double> refused = of_periodic();
  CHECK_FALSE(std::all_of(refused.begin(), refused.end(), is_finite));
  const Bounds bounds = Sums(lost, orders).bounds();
  CHECK(probabilistic(bounds).not_applicable.find("another order") != std::string::npos);
}

TEST_CASE("an error that no order explains stays above the bound") {
  std::mt19937_64 random(6);
  const std::vector<structured::Order> orders = structured::orders();
  Sums sums(structured::kinds().front().make(1024, random), orders);
  const Bounds honest = sums.bounds();
  const double bound = probabilistic(honest).values.values[0];
  Tensor<double> computed = sums.trace.layers[0].output.to_double();
  std::vector<float> moved;
  for (const double y : computed.values) moved.push_back(static_cast<float>(y + 2.5 * bound));
  sums.trace.layers[0].output = StoredTensor::from(Tensor<float>(computed.shape, moved));
  const Bounds of_moved = sums.bounds();
  const Tensor<Ball> exact = local_reference(sums.graph, sums.trace).layers[0];
  for (std::size_t i = 0; i < orders.size(); ++i)
    CHECK(static_cast<double>(moved[i]) - exact.values[i].hi > probabilistic(of_moved).values.values[i]);
}

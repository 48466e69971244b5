#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/approach.hpp"
#include "support/bound_checks.hpp"
#include "support/theorems.hpp"

using namespace checks;

namespace {

void require_sound(const Tallies& tallies) {
  INFO(tallies.first_violation());
  CHECK(tallies.violations() == 0);
  CHECK(tallies.componentwise.checked > 0);
}

}  // namespace

TEST_CASE("products in every declared order stay within both bounds" * doctest::test_suite("campaign")) {
  for (const SummationOrder& order : declared_orders()) {
    for (const char* arithmetic : {"fp32", "fp64"}) {
      for (const bool has_bias : {false, true}) {
        CAPTURE(to_string(order));
        CAPTURE(arithmetic);
        CAPTURE(has_bias);
        ProductSetup setup;
        setup.arithmetic = arithmetic;
        setup.order = order;
        setup.has_bias = has_bias;
        const Tallies tallies = check_products(setup, 4 * test_multiplier(), 11);
        require_sound(tallies);
        CHECK(tallies.order_aware.checked == tallies.componentwise.checked);
      }
    }
  }
}

TEST_CASE("operands rounded to a narrower format stay within both bounds" * doctest::test_suite("campaign")) {
  for (const char* arithmetic : {"tf32", "bf16", "fp16"}) {
    for (const SummationOrder& order : declared_orders()) {
      CAPTURE(arithmetic);
      CAPTURE(to_string(order));
      ProductSetup setup;
      setup.arithmetic = arithmetic;
      setup.order = order;
      setup.has_bias = true;
      require_sound(check_products(setup, 2 * test_multiplier(), 12));
    }
  }
}

TEST_CASE("weights, inputs and biases stored wider than the arithmetic stay within the bounds") {
  ProductSetup setup;
  setup.order = {SummationOrder::Kind::blocked, 8, true};
  setup.has_bias = true;
  setup.wide_operands = true;
  require_sound(check_products(setup, 20 * test_multiplier(), 13));
}

TEST_CASE("alpha and beta that are not 1, also such that float32 does not hold, stay within the bounds") {
  for (const double alpha : {-1.0, 0.5, 0.7, 3.1}) {
    for (const double beta : {0.0, 1.0, -1.0, 0.3}) {
      CAPTURE(alpha);
      CAPTURE(beta);
      ProductSetup setup;
      setup.order = {SummationOrder::Kind::sequential, 0, true};
      setup.has_bias = true;
      setup.alpha = alpha;
      setup.beta = beta;
      require_sound(check_products(setup, 3 * test_multiplier(), 14));
    }
  }
}

TEST_CASE("any tree of roundings, with fused steps and the bias anywhere, stays within componentwise" *
          doctest::test_suite("campaign")) {
  for (const char* arithmetic : {"fp32", "fp64", "bf16"}) {
    CAPTURE(arithmetic);
    ProductSetup setup;
    setup.arithmetic = arithmetic;
    setup.any_tree = true;
    for (const bool has_bias : {false, true}) {
      setup.has_bias = has_bias;
      const Tallies tallies = check_products(setup, 40 * test_multiplier(), 15);
      require_sound(tallies);
      CHECK(tallies.order_aware.checked == 0);
    }
  }
}

TEST_CASE("data built for it approach componentwise and order-aware") {
  double closest = 0.0;
  for (const SummationOrder& order : declared_orders()) {
    CAPTURE(to_string(order));
    ProductSetup setup;
    setup.order = order;
    Tallies tallies;
    Generator generator(16);
    for (const std::size_t k : std::vector<std::size_t>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 64})
      tallies += check_gemm<float>(setup, Data::stagnation, k, generator);
    CHECK(tallies.violations() == 0);
    closest = std::max(closest, tallies.componentwise.utilisation);
    const double chain = static_cast<double>(order.parameter);
    double recorded = 0.98;
    if (order.kind == SummationOrder::Kind::pairwise) recorded = 0.666;
    if (order.kind == SummationOrder::Kind::blocked) recorded = chain / (chain + 1.0);
    if (order.kind == SummationOrder::Kind::split_k && order.parameter == 5) recorded = 0.882;
    CHECK_APPROACH("T-11", tallies.order_aware.utilisation, recorded);
  }
  CHECK_APPROACH("T-10", closest, 0.98);
}

TEST_CASE("(1, 2^-24, -1) . (1, 1, 1) exceeds the folklore and stays within componentwise") {
  const Tensor<double> a{{1, 3}, {1.0, 0x1p-24, -1.0}};
  const Tensor<double> b{{3, 1}, {1.0, 1.0, 1.0}};
  const float computed = (1.0f + 0x1p-24f) - 1.0f;
  CHECK(computed == 0.0f);
  const OneNode one = one_node(op::MatMul{}, {a, b}, {{1, 1}, {static_cast<double>(computed)}},
                               cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false}));
  const LayerBounds layer = bounds_of(one);
  for (const BoundKind kind : {BoundKind::seed_gamma, BoundKind::seed_gamma_note}) {
    const BoundResult* folklore = find_bound(layer.local, kind);
    REQUIRE(folklore != nullptr);
    CHECK(folklore->guarantee == Guarantee::heuristic);
    CHECK(folklore->values.values[0] < 0x1p-24);
  }
  const BoundResult* componentwise = find_bound(layer.local, BoundKind::componentwise);
  REQUIRE(componentwise != nullptr);
  CHECK(componentwise->guarantee == Guarantee::proven);
  CHECK(componentwise->values.values[0] >= 0x1p-24);
  CHECK(componentwise->values.values[0] <= 3 * 0x1p-23);
  CHECK(layer.kappa.values[0] == std::numeric_limits<double>::infinity());
  CHECK(layer.fan_in == 3);
}

TEST_CASE("dead inputs cost nothing: a product with zeros only is exactly its bias") {
  const Tensor<double> zeros{{1, 4}, {0.0, 0.0, 0.0, 0.0}};
  const Tensor<double> weights{{4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  const Tensor<double> bias{{2}, {0.25, static_cast<double>(0.1f)}};
  const OneNode one = one_node(op::Gemm{}, {zeros, weights, bias}, {{1, 2}, bias.values},
                               cpu_arithmetic("fp32", {SummationOrder::Kind::blocked, 8, true}));
  for (const BoundResult& result : bounds_of(one).local) {
    if (result.guarantee == Guarantee::proven) CHECK(result.values.values == std::vector<double>{0.0, 0.0});
  }
}

TEST_CASE("zeros among the inputs shorten the sum that a bound counts") {
  std::vector<double> a(16, 0.0), dense(16, 1.0);
  a[3] = a[9] = 1.0;
  const Tensor<double> weights{{16, 1}, std::vector<double>(16, 1.0)};
  const ArithmeticModel fp32 = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, true});
  const auto bound_of = [&](const std::vector<double>& row, double y, BoundKind kind) {
    const LayerBounds layer = bounds_of(one_node(op::MatMul{}, {{{1, 16}, row}, weights}, {{1, 1}, {y}}, fp32));
    return find_bound(layer.local, kind)->values.values[0];
  };
  for (const BoundKind kind : {BoundKind::componentwise, BoundKind::order_aware, BoundKind::running}) {
    CHECK(bound_of(a, 2.0, kind) < 5 * 0x1p-24);
    CHECK(bound_of(dense, 16.0, kind) > 100 * 0x1p-24);
  }
}

namespace {

/// alpha sum a_k b_k + c in float32, scaled where a program may scale it, in one order after the other.
std::vector<float> scaled_sums(float alpha, const std::vector<float>& a, const std::vector<float>& b, float c) {
  const std::size_t half = a.size() / 2;
  float of_factors = c, of_products = c, complete = 0.0F, first = 0.0F, second = 0.0F, last = 0.0F;
  for (std::size_t k = 0; k < a.size(); ++k) {
    of_factors += alpha * a[k] * b[k];
    of_products += alpha * (a[k] * b[k]);
    complete += a[k] * b[k];
    (k < half ? first : second) += a[k] * b[k];
    last += a[k] * (alpha * b[k]);
  }
  return {of_factors, of_products, alpha * complete + c, c + alpha * first + alpha * second, last + c};
}

}  // namespace

TEST_CASE("sums that programs scale before, within or after them stay within every bound of them (T-10, T-11)") {
  std::mt19937_64 random(31);
  std::uniform_real_distribution<float> real(-1.0F, 1.0F);
  double closest = 0.0;
  for (int repeat = 0; repeat < 4000; ++repeat) {
    const std::size_t n = 1 + random() % 6;
    // Factors that are multiplied by the small scale underflow; the large factors make their error visible.
    const bool underflows = repeat % 2 == 1;
    const float size_of_a = underflows ? 0x1p-50F : 1.0F, size_of_b = underflows ? 0x1p+100F : 1.0F;
    const float alpha = (underflows ? 0x1p-90F : 2.0F) * real(random);
    const float c = (underflows ? 0x1p-42F : 1.0F) * real(random);
    std::vector<float> a(n), b(n);
    Tensor<double> left({1, static_cast<std::int64_t>(n)}), right({static_cast<std::int64_t>(n), 1});
    double exact = static_cast<double>(c);
    for (std::size_t k = 0; k < n; ++k) {
      left.values[k] = static_cast<double>(a[k] = size_of_a * real(random));
      right.values[k] = static_cast<double>(b[k] = size_of_b * real(random));
      exact += static_cast<double>(alpha) * left.values[k] * right.values[k];
    }
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
    for (const float y : scaled_sums(alpha, a, b, c)) {
      OneNode node =
          one_node(op::Gemm{static_cast<double>(alpha), 1.0, false, false},
                   {left, right, {{1}, {static_cast<double>(c)}}}, {{1, 1}, {static_cast<double>(y)}}, arithmetic);
      node.trace.provenance = foreign_provenance;
      const double error = std::abs(static_cast<double>(y) - exact);
      const double of_double = (underflows ? 0x1p-42 : 1.0) * 1e-14;  // the exact value above is a sum in double
      for (const BoundResult& result : bounds_of(node).local) {
        if (result.guarantee != Guarantee::proven && result.guarantee != Guarantee::conditional) continue;
        INFO(name_of(result.kind));
        CHECK(error <= result.values.values[0] + of_double);
        closest = std::max(closest, error / result.values.values[0]);
      }
    }
  }
  CHECK(closest > 0.5);
}

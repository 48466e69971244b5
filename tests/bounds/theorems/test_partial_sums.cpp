#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/all_orders.hpp"
#include "support/approach.hpp"
#include "support/bound_checks.hpp"
#include "support/one_sided_checks.hpp"

using namespace checks;

namespace {

bounds::TermSizes sizes_of(const std::vector<double>& terms) {
  double sum = 0.0;
  bounds::NumberTerms numbers;
  for (const double term : terms) {
    numbers.add(term);
    sum += term;
  }
  bounds::TermSizes sizes = numbers.sizes();
  sizes.sum = Magnitude(sum);
  return sizes;
}

}  // namespace

TEST_CASE("no order of a short sum exceeds the bound by partial sums, and some come close (T-68)") {
  Generator generator(681);
  const bounds::Machine machine = few_bit_machine();
  double closest = 0.0;
  for (int draw = 0; draw < 3000 * test_multiplier(); ++draw) {
    const std::size_t count = draw % 50 == 0 ? 7 + generator() % 3 : 2 + generator() % 5;
    const std::vector<double> terms = few_bit_terms(count, generator);
    double exact = 0.0;
    for (const double term : terms) exact += term;
    const double bound = bounds::partial_sums_error(sizes_of(terms), machine).value();
    const AllOrders orders(terms);
    for (const double unrounded : orders.before_last()) {
      const double error = std::abs(unrounded - exact);
      if (!(error <= bound)) {
        CAPTURE(exact);
        CAPTURE(unrounded);
        REQUIRE(error <= bound);
      }
      if (bound > 0.0) closest = std::max(closest, error / bound);
    }
  }
  CHECK_APPROACH("T-68", closest, 1.0);
}

TEST_CASE("no order of a short sum whose results may be flushed exceeds the bound by partial sums (T-68)") {
  Generator generator(6812);
  bounds::Machine machine = few_bit_machine();
  machine.flushes = true;
  double closest = 0.0;
  for (int draw = 0; draw < 2000 * test_multiplier(); ++draw) {
    const std::size_t products = draw % 2 == 0 ? 0 : generator() % 3;
    const std::vector<double> stored = few_bit_terms(2 + generator() % 4, generator);
    const std::vector<double> left = few_bit_terms(products, generator);
    machine.eta = std::ldexp(1.0, static_cast<int>(generator() % 13));
    std::vector<double> all = stored;
    all.insert(all.end(), left.begin(), left.end());
    bounds::TermSizes sizes = sizes_of(all);
    double exact = 0.0, size_of_products = 0.0;
    for (const double term : all) exact += term;
    for (const double term : left) size_of_products += std::abs(term);
    sizes.rounded = Magnitude(size_of_products);
    sizes.underflow = bounds::underflow_term(static_cast<std::int64_t>(products), sizes.leaves, machine);
    const double bound = bounds::partial_sums_error(sizes, machine).value();
    const AllOrders orders(stored, left, machine.eta);
    for (const double unrounded : orders.before_last()) {
      const double share = std::abs(unrounded - exact) / bound;
      closest = !(share <= closest) && bound > 0.0 ? share : closest;
    }
  }
  CHECK_APPROACH("T-68", closest, 0.97);
}

TEST_CASE("squares of terms of one sign are no more than what is known of their signs allows (T-68)") {
  const Tally tally = check_one_sided(300 * test_multiplier(), 685);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.utilisation > 1.0 - 0x1p-40);
}

namespace {

/// Some large terms and some small ones, with whatever the rule is told of them.
Tally check_small_terms(bool is_told_their_sum, std::uint64_t seed) {
  Generator generator(seed);
  const bounds::Machine machine = few_bit_machine();
  Tally tally;
  for (int draw = 0; draw < 500 * test_multiplier(); ++draw) {
    std::vector<double> terms = {FewBitSum::rounded(1024.0 + static_cast<double>(generator() % 1024))};
    const std::size_t large = 1 + generator() % 2, small = 1 + generator() % 4;
    const double most_small = generator() % 2 == 0 ? 16.0 : 64.0;
    while (terms.size() < large) terms.push_back(FewBitSum::rounded(-2048.0 * uniform(generator, 0.0, 1.0)));
    while (terms.size() < large + small) terms.push_back(FewBitSum::rounded(most_small * uniform(generator, 0.5, 1.0)));
    bounds::TermSizes sizes = sizes_of(terms);
    sizes.small = static_cast<std::int64_t>(small);
    double exact = 0.0;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      exact += terms[i];
      if (i >= large && is_told_their_sum) sizes.small_total += Magnitude(terms[i]);
    }
    const double bound = bounds::partial_sums_error(sizes, machine).value();
    const AllOrders orders(terms);
    for (const double before_last : orders.before_last()) tally.add(before_last, Real(exact), bound);
  }
  return tally;
}

}  // namespace

TEST_CASE("small terms set apart cost what they add up to, and no less (T-68)") {
  const Tally told = check_small_terms(true, 684);
  INFO(told.first_violation);
  CHECK(told.violations == 0);
  CHECK(told.utilisation >= 0.6);
  MESSAGE("closest approach ", told.utilisation);
  CHECK(check_small_terms(false, 684).violations > 0);
}

TEST_CASE("the bound by partial sums is well below the classical one on sums of random signs") {
  Generator generator(682);
  const std::size_t n = 512;
  std::vector<double> a(n), ones(n, 1.0);
  float y = 0.0f;
  for (double& value : a) {
    value = static_cast<double>(static_cast<float>(uniform(generator, -1.0, 1.0)));
    y += static_cast<float>(value);
  }
  const auto columns = static_cast<std::int64_t>(n);
  const OneNode one = one_node(op::MatMul{}, {{{1, columns}, a}, {{columns, 1}, ones}},
                               {{1, 1}, {static_cast<double>(y)}}, cpu_arithmetic("fp32", SummationOrder{}));
  const LayerBounds layer = bounds_of(one);
  const BoundResult* classical = find_bound(layer.local, BoundKind::componentwise);
  const BoundResult* by_partial_sums = find_bound(layer.local, BoundKind::partial_sums);
  REQUIRE(by_partial_sums != nullptr);
  CHECK(by_partial_sums->theorem == "T-68");
  CHECK(by_partial_sums->values.values[0] < 0.5 * classical->values.values[0]);
  CHECK(layer.accumulated[0].values.values[0] <= by_partial_sums->values.values[0]);
}

TEST_CASE("the bound by the partial sums of the declared order is well below that of any order, and comes close") {
  Generator generator(683);
  const std::size_t n = 512;
  for (const SummationOrder& order : declared_orders()) {
    std::vector<float> a(n), ones(n, 1.0f);
    for (float& value : a) value = static_cast<float>(uniform(generator, -1.0, 1.0));
    const std::vector<double> wide(a.begin(), a.end());
    const auto columns = static_cast<std::int64_t>(n);
    const auto y = static_cast<double>(naive::dot(order, a, ones));
    const OneNode one = one_node(op::MatMul{}, {{{1, columns}, wide}, {{columns, 1}, std::vector<double>(n, 1.0)}},
                                 {{1, 1}, {y}}, cpu_arithmetic("fp32", order));
    const LayerBounds layer = bounds_of(one);
    const double in_any_order = find_bound(layer.local, BoundKind::partial_sums)->values.values[0];
    const BoundResult* running = find_bound(layer.local, BoundKind::running);
    INFO(to_string(order));
    REQUIRE(running != nullptr);
    CHECK(running->theorem == "T-69");
    CHECK(running->guarantee == Guarantee::proven);
    CHECK(running->values.values[0] < 0.4 * in_any_order);
    CHECK(running->values.values[0] <= find_bound(layer.local, BoundKind::order_aware)->values.values[0]);
    CHECK(layer.accumulated[0].values.values[0] <= running->values.values[0]);
  }
}

TEST_CASE("sums of numbers have the same bounds without products, and hold in every order") {
  Generator generator(684);
  const std::size_t n = 512, rows = 4;
  for (const SummationOrder& order : declared_orders()) {
    std::vector<double> x(rows * n), computed;
    std::vector<Real> exact(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<float> terms, ones(n, 1.0f);
      for (std::size_t k = 0; k < n; ++k) {
        terms.push_back(k % 7 == row ? 0.0f : static_cast<float>(uniform(generator, -1.0, 1.0)));
        x[row * n + k] = static_cast<double>(terms.back());
        exact[row] += Real(x[row * n + k]);
      }
      computed.push_back(static_cast<double>(naive::dot(order, terms, ones)));
    }
    const Shape shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(n)};
    const LayerBounds layer = bounds_of(
        one_node(op::ReduceSum{{1}, false}, {{shape, x}}, {{shape[0]}, computed}, cpu_arithmetic("fp32", order)));
    INFO(to_string(order));
    Tallies tallies;
    for (std::size_t row = 0; row < rows; ++row) {
      tallies.add(layer, row, computed[row], exact[row]);
      const auto value_of = [&](BoundKind kind) { return find_bound(layer.local, kind)->values.values[row]; };
      CHECK(value_of(BoundKind::partial_sums) < 0.5 * value_of(BoundKind::componentwise));
      CHECK(value_of(BoundKind::running) < 0.4 * value_of(BoundKind::partial_sums));
    }
    CHECK(tallies.violations() == 0);
  }
}

TEST_CASE("a sum of numbers whose every rounding is a tie comes close to its running bound") {
  std::vector<double> x(9, 0x1p-24);
  x[0] = 1.0;
  const OneNode one = one_node(op::ReduceSum{{0}, false}, {{{9}, x}}, {{}, {1.0}},
                               cpu_arithmetic("fp32", parse_summation_order("sequential")));
  const double bound = find_bound(bounds_of(one).local, BoundKind::running)->values.values[0];
  CHECK(8 * 0x1p-24 <= bound);
  CHECK(bound <= 1.01 * 8 * 0x1p-24);
}

TEST_CASE("a sum whose every rounding is a tie comes close to its running bound") {
  std::vector<double> a(9, 0x1p-24);
  a[0] = 1.0;
  const OneNode one = one_node(op::MatMul{}, {{{1, 9}, a}, {{9, 1}, std::vector<double>(9, 1.0)}}, {{1, 1}, {1.0}},
                               cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, true}));
  const double error = 8 * 0x1p-24;
  const double bound = find_bound(bounds_of(one).local, BoundKind::running)->values.values[0];
  CHECK(error <= bound);
  CHECK(bound <= 1.13 * error);
}

TEST_CASE("no bound by partial sums where its theorem does not hold") {
  const auto names = [](ArithmeticModel arithmetic, double alpha) {
    const op::Gemm gemm{alpha, 1.0, false, false};
    const OneNode one =
        one_node(gemm, {{{1, 2}, {1.0, 2.0}}, {{2, 1}, {3.0, 4.0}}}, {{1, 1}, {alpha * 11.0}}, arithmetic);
    return find_bound(bounds_of(one).local, BoundKind::partial_sums) != nullptr;
  };
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  CHECK(names(arithmetic, 1.0));
  CHECK(names(arithmetic, -1.0));
  CHECK_FALSE(names(arithmetic, 2.0));
  arithmetic.flushes_subnormals = true;
  CHECK(names(arithmetic, 1.0));
  arithmetic.flushes_subnormals = false;
  arithmetic.rounding = Rounding::toward_zero;
  CHECK_FALSE(names(arithmetic, 1.0));
}

TEST_CASE("an addend that a product may read as 0 is lost in some run (T-13, T-68)") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.products_may_flush = true;
  const double small = 0x1p-127;
  for (const double beta : {1.0, -1.0}) {
    CAPTURE(beta);
    const OneNode one = one_node(op::Gemm{1.0, beta, false, false}, {{{1, 1}, {0.0}}, {{1, 1}, {1.0}}, {{1}, {small}}},
                                 {{1, 1}, {0.0}}, arithmetic);
    const LayerBounds layer = bounds_of(one);
    CHECK(small <= find_bound(layer.local, BoundKind::partial_sums)->values.values[0]);
    CHECK(small <= find_bound(layer.accumulated, BoundKind::adjoint_any_order)->values.values[0]);
  }
}

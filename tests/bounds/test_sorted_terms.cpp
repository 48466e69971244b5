#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/approach.hpp"
#include "support/bound_checks.hpp"
#include "support/sorted_checks.hpp"

using namespace checks;

namespace {

const std::vector<std::string> any_order_names = {"componentwise", "partial-sums", "sorted-partial-sums"};

/// The two bounds by partial sums of one sum of float32 products with ones, which some order has computed.
struct TwoBounds {
  double by_norms, by_sorted_terms;

  explicit TwoBounds(const std::vector<float>& a) {
    const std::vector<double> wide(a.begin(), a.end()), ones(a.size(), 1.0);
    const auto n = static_cast<std::int64_t>(a.size());
    float y = 0.0f;
    for (const float x : a) y += x;
    const OneNode one = one_node(op::MatMul{}, {{{1, n}, wide}, {{n, 1}, ones}}, {{1, 1}, {static_cast<double>(y)}},
                                 cpu_arithmetic("fp32", SummationOrder{}));
    const LayerBounds layer = bounds_of(one, bounds::default_rules(), any_order_names);
    by_norms = find_bound(layer.local, "partial-sums")->values.values[0];
    by_sorted_terms = find_bound(layer.local, "sorted-partial-sums")->values.values[0];
  }
};

double sorted_error(std::vector<double> numbers, const bounds::Machine& machine) {
  bounds::ListedTerms terms;
  for (const double x : numbers) terms.add_number(x);
  return bounds::sorted_terms_error(terms, machine).value();
}

double first_place(double x) {
  return x == 0.0 ? 0.0 : std::ldexp(1.0, std::ilogb(x));
}

/// The most that the first places of exact partial sums, the last one apart, add up to in any tree: by sets of terms.
double most_of_any_tree(const std::vector<double>& terms) {
  const std::uint32_t all = (1U << terms.size()) - 1U;
  std::vector<double> sums(all + 1U, 0.0), most(all + 1U, 0.0);
  for (std::uint32_t set = 1; set <= all; ++set) {
    const auto lowest = static_cast<std::size_t>(std::countr_zero(set));
    sums[set] = sums[set & (set - 1U)] + terms[lowest];
    for (std::uint32_t part = (set - 1U) & set; part != 0; part = (part - 1U) & set)
      most[set] = std::max(most[set], most[part] + most[set ^ part]);
    if (set != all && std::popcount(set) > 1) most[set] += first_place(sums[set]);
  }
  return most[all];
}

/// Integers of one to three sizes, some of them alike or opposite.
std::vector<double> some_integers(std::size_t count, Generator& generator) {
  std::vector<double> terms;
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = static_cast<std::int64_t>(1) << (3 * (1 + generator() % 3));
    const double x = static_cast<double>(static_cast<std::int64_t>(generator() % 1000) * size / 512 + 1);
    terms.push_back(i > 0 && generator() % 4 == 0 ? terms.back() : x);
    if (generator() % 2 == 0) terms.back() = -terms.back();
  }
  return terms;
}

}  // namespace

TEST_CASE("no order of a short sum exceeds the bound by sorted terms, and some come close (T-98)") {
  const Tally tally = check_sorted_terms(bounds::default_rules(), 3000 * test_multiplier(), 981);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-98", tally.utilisation, 1.0);
}

TEST_CASE("the first places of partial sums add up to no more than sorted terms say in any tree, and to as much in some (T-98)") {
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  Generator generator(986);
  std::vector<std::vector<double>> sums = {{25, -189, 25, 340, 307, -25, 18, 362}};
  for (int i = 0; i < 400 * test_multiplier(); ++i) sums.push_back(some_integers(3 + generator() % 7, generator));
  double closest = 0.0;
  for (const std::vector<double>& terms : sums) {
    const double most = most_of_any_tree(terms), bound = sorted_error(terms, machine) / machine.u;
    CAPTURE(terms);
    CHECK(most <= bound);
    closest = std::max(closest, most / bound);
  }
  CHECK_APPROACH("T-98", closest, 0.99999);
}

TEST_CASE("terms set apart from a large one cost no less than orders make of them (T-98)") {
  const Tally tally = check_terms_set_apart(bounds::default_rules(), 500 * test_multiplier(), 982);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-98", tally.utilisation, 1.0);
}

TEST_CASE("sorted terms bound sums of products of every kind in random trees, in several arithmetics (T-98)" *
          doctest::test_suite("campaign")) {
  for (const char* arithmetic : {"fp32", "bf16", "fp64"}) {
    for (const bool has_bias : {false, true}) {
      for (const double alpha : {1.0, -1.0}) {
        ProductSetup setup;
        setup.arithmetic = arithmetic;
        setup.any_tree = alpha > 0.0;
        setup.order = {SummationOrder::Kind::sequential, 0, false};
        setup.has_bias = has_bias;
        setup.alpha = alpha;
        setup.beta = has_bias && alpha < 0.0 ? 0.75 : 1.0;
        setup.wide_operands = has_bias;
        setup.names = any_order_names;
        const Tallies tallies = check_products(bounds::default_rules(), setup, 20 * test_multiplier(), 983);
        INFO(arithmetic);
        INFO(tallies.first_violation());
        CHECK(tallies.sorted.checked > 500);
        CHECK(tallies.violations() == 0);
      }
    }
  }
}

TEST_CASE("sorted terms take off what norms leave on random signs, and never cost more (T-98)") {
  Generator generator(984);
  for (const std::size_t n : std::vector<std::size_t>{3, 4, 7, 64, 257, 512}) {
    std::vector<float> a(n);
    for (float& x : a) x = static_cast<float>(uniform(generator, -1.0, 1.0) * uniform(generator, 0.0, 1.0));
    const TwoBounds of_both_signs(a);
    CHECK(of_both_signs.by_sorted_terms <= of_both_signs.by_norms);
    if (n >= 64) CHECK(of_both_signs.by_sorted_terms < 0.97 * of_both_signs.by_norms);
    for (float& x : a) x = std::abs(x);
    const TwoBounds of_one_sign(a);
    CHECK(of_one_sign.by_sorted_terms <= of_one_sign.by_norms);
  }
}

TEST_CASE("many terms far below the others cost hardly anything when they are set apart (T-98)") {
  std::vector<float> a(1024, 1e-12f);
  a[0] = 1.0f;
  a[1] = -0.75f;
  const TwoBounds bounds(a);
  CHECK(bounds.by_sorted_terms < 0.02 * bounds.by_norms);
}

TEST_CASE("sums of numbers by sorted terms hold in every declared order (T-98)") {
  Generator generator(985);
  const std::size_t n = 300;
  for (const SummationOrder& order : declared_orders()) {
    std::vector<float> terms;
    std::vector<double> x;
    Real exact;
    for (std::size_t k = 0; k < n; ++k) {
      terms.push_back(k % 7 == 0 ? 0.0f : static_cast<float>(uniform(generator, -1.0, 1.0)));
      x.push_back(static_cast<double>(terms.back()));
      exact += Real(x.back());
    }
    const auto computed = static_cast<double>(naive::dot(order, terms, std::vector<float>(n, 1.0f)));
    const LayerBounds layer = bounds_of(one_node(op::ReduceSum{{0}, false}, {{{static_cast<std::int64_t>(n)}, x}},
                                                 {{}, {computed}}, cpu_arithmetic("fp32", order)),
                                        bounds::default_rules(), any_order_names);
    INFO(to_string(order));
    Tallies tallies;
    tallies.add(layer, 0, computed, exact);
    CHECK(tallies.violations() == 0);
    CHECK(tallies.sorted.checked == 1);
    const auto value_of = [&](const char* name) { return find_bound(layer.local, name)->values.values[0]; };
    CHECK(value_of("sorted-partial-sums") < 0.98 * value_of("partial-sums"));
  }
}

TEST_CASE("sorted terms: nothing to round costs nothing, and what is not finite has no bound (T-98)") {
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& exact : {std::vector<double>{}, {0.0, 0.0}, {1.0}, {0.0, -3.0, 0.0}, {1.0, 2.0}})
    CHECK(sorted_error(exact, machine) == 0.0);
  CHECK(sorted_error({1.0, 2.0, 3.0}, machine) > 0.0);
  CHECK(sorted_error({1.0, infinity, 3.0}, machine) == infinity);
  CHECK(sorted_error({-infinity, infinity, 3.0}, machine) == infinity);
  CHECK(sorted_error({1.0, std::numeric_limits<double>::quiet_NaN(), 3.0}, machine) == infinity);
  const double largest = std::numeric_limits<double>::max();
  CHECK(sorted_error({largest, -largest, largest, largest}, machine) == infinity);
}

TEST_CASE("the first places of subnormal terms are below what they bound (T-98)") {
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp64", {}));
  const double least = std::numeric_limits<double>::denorm_min();
  const double error = sorted_error({least, 3.0 * least, -least, 5.0 * least}, machine);
  CHECK(error > 0.0);
  CHECK(error < 0x1p-990);
}

TEST_CASE("sorted terms are there only where they are asked for and their theorem holds (T-98)") {
  const auto has_bound = [](const ArithmeticModel& arithmetic, double alpha, const std::vector<std::string>& names) {
    const op::Gemm gemm{alpha, 1.0, false, false};
    const OneNode one =
        one_node(gemm, {{{1, 2}, {1.0, 2.0}}, {{2, 1}, {3.0, 4.0}}}, {{1, 1}, {alpha * 11.0}}, arithmetic);
    const LayerBounds layer = bounds_of(one, bounds::default_rules(), names);
    const BoundResult* bound = find_bound(layer.local, "sorted-partial-sums");
    if (bound == nullptr) return false;
    CHECK(bound->theorem == "T-98");
    CHECK(bound->guarantee == Guarantee::proven);
    CHECK(bound->question == Question::this_run);
    return true;
  };
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  CHECK(has_bound(arithmetic, 1.0, any_order_names));
  CHECK(has_bound(arithmetic, -1.0, any_order_names));
  CHECK_FALSE(has_bound(arithmetic, 1.0, {}));
  CHECK_FALSE(has_bound(arithmetic, 1.0, {"partial-sums"}));
  CHECK_FALSE(has_bound(arithmetic, 2.0, any_order_names));
  arithmetic.flushes_subnormals = true;
  CHECK_FALSE(has_bound(arithmetic, 1.0, any_order_names));
  arithmetic.flushes_subnormals = false;
  arithmetic.rounding = Rounding::toward_zero;
  CHECK_FALSE(has_bound(arithmetic, 1.0, any_order_names));
}

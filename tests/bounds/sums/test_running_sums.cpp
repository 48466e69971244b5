#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bounds/sums/running_sums.hpp"
#include "support/approach.hpp"
#include "support/few_bits.hpp"

using namespace checks;
using bounds::SumStep;

namespace {

/// "ab+cd++": a product pushed for its letter, "+" behind a letter that is added to the top, "|" for a join.
std::string written(const SummationOrder& order, const std::string& nonzero) {
  std::vector<char> pattern;
  for (const char c : nonzero) pattern.push_back(c == '1' ? 1 : 0);
  std::string text;
  for (const SumStep& step : bounds::sum_steps(order, pattern)) {
    if (step.kind == SumStep::Kind::join) {
      text += '|';
      continue;
    }
    text += static_cast<char>('a' + step.k);
    if (step.kind == SumStep::Kind::add) text += '+';
  }
  return text;
}

using Kind = SummationOrder::Kind;

long double ufp(long double x) {
  return x == 0.0L ? 0.0L : std::exp2(std::floor(std::log2(std::abs(x))));
}

}  // namespace

TEST_CASE("the operations of the declared orders, with and without factors that are 0 (T-69)") {
  CHECK(written({Kind::sequential, 0, false}, "11111") == "ab+c+d+e+");
  CHECK(written({Kind::sequential, 0, true}, "01011") == "bd+e+");
  CHECK(written({Kind::pairwise, 0, false}, "11111") == "ab+cd+|e|");
  CHECK(written({Kind::pairwise, 0, true}, "1111111") == "ab+cd+|ef+g||");
  CHECK(written({Kind::pairwise, 0, false}, "0011001") == "cd+g|");
  CHECK(written({Kind::blocked, 2, false}, "11111") == "ab+cd+|e|");
  CHECK(written({Kind::blocked, 2, false}, "11001") == "ab+e|");
  CHECK(written({Kind::split_k, 2, false}, "11111") == "ab+c+de+|");
  CHECK(written({Kind::split_k, 2, false}, "0000").empty());
}

TEST_CASE("no sum in a declared order exceeds its running bound, and every order comes close (T-69)") {
  for (const SummationOrder& order : declared_orders()) {
    const Tally tally = check_running_sums(order, 4000 * test_multiplier(), 691);
    CAPTURE(to_string(order));
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-69", tally.utilisation, order.fma ? 1.0 : 0.941);
  }
}

TEST_CASE("the operations of orders that are dealt out (T-69)") {
  const auto of = [](const char* order, const char* nonzero) { return written(parse_summation_order(order), nonzero); };
  CHECK(of("lanes:2x1", "11111") == "ac+e+bd+|");
  CHECK(of("lanes:4x1/halves", "1111") == "ac|bd||");
  CHECK(of("lanes:4x1/neighbours", "11111") == "ae+b|cd||");
  CHECK(of("lanes:3x1/halves", "111") == "ac|b|");
  CHECK(of("slices:2/neighbours", "111111") == "ab+cd+|ef+|");
  CHECK(of("balanced:3:1", "11111") == "ab+c+de+|");
  CHECK(of("balanced:3:1", "1111111") == "ab+c+de+|fg+|");
  CHECK(of("balanced:4:2", "111111") == "ab+c+d+ef+|");
  CHECK(of("lanes:4x1/halves", "0101") == "bd|");
  CHECK(of("lanes:4x1/halves", "0000").empty());
  CHECK(of("lanes:2x1:4", "111111") == "ac+e+f+bd+|");
  CHECK(of("lanes:2x1:2:last", "11111") == "ac+bd+|e|");
  CHECK(of("lanes:4x1:2:sum", "1111111") == "ae+bf+|c|d|g|");
  CHECK(of("lanes:8x1:4:front/fours", "111111111111") == "ae+i|bf+j||cg+k|dh+l|||");
  CHECK(of("slices:2:2:last", "11111") == "ab+cd+|e|");
  CHECK(of("slices:4/lanes:2x1", "111111") == "ac+bd+|ef||");
  CHECK(of("slices:4/lanes:2x1", "010011") == "bef||");
}

TEST_CASE("no sum in a dealt order exceeds its running bound or that of its paths (T-69, T-11)") {
  for (const SummationOrder& order : dealt_orders()) {
    const Tally tally = check_running_sums(order, 4000 * test_multiplier(), 693);
    CAPTURE(to_string(order));
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation > 0.9);
  }
}

TEST_CASE("terms of a dealt order meet as many roundings as its operations say (T-11)") {
  Generator generator(694);
  for (const SummationOrder& order : dealt_orders()) {
    for (int repetition = 0; repetition < 200; ++repetition) {
      std::vector<char> nonzero(1 + generator() % 20);
      for (char& flag : nonzero) flag = generator() % 4 != 0 ? 1 : 0;
      std::vector<std::int64_t> claimed(nonzero.size()), met(nonzero.size(), 0);
      bounds::path_lengths(order, nonzero, claimed);
      std::vector<std::vector<std::size_t>> stack;  // of sums, with their terms
      for (const SumStep& step : bounds::sum_steps(order, nonzero)) {
        if (step.kind == SumStep::Kind::join) {
          const std::vector<std::size_t> top = stack.back();
          stack.pop_back();
          stack.back().insert(stack.back().end(), top.begin(), top.end());
        } else {
          const auto k = static_cast<std::size_t>(step.k);
          const bool starts = step.kind == SumStep::Kind::start;
          if (starts) stack.emplace_back();
          stack.back().push_back(k);
          if (starts || !order.fma) ++met[k];  // as a product
          if (starts) continue;
        }
        for (const std::size_t k : stack.back()) ++met[k];
      }
      CAPTURE(to_string(order));
      for (std::size_t k = 0; k < nonzero.size(); ++k) {
        CHECK(claimed[k] >= met[k]);
        if (nonzero[k] != 0) CHECK(claimed[k] <= met[k] + 6);
      }
    }
  }
}

TEST_CASE("the running bound of many rows and columns is that of each alone") {
  Generator generator(692);
  const std::int64_t m = 5, k = 13, n = 21;
  std::vector<double> a, b, slack;
  for (std::int64_t i = 0; i < m * k; ++i) a.push_back(generator() % 4 == 0 ? 0.0 : uniform(generator, -1.0, 1.0));
  for (std::int64_t i = 0; i < k * n; ++i) b.push_back(uniform(generator, -1.0, 1.0));
  for (std::int64_t i = 0; i < m * n; ++i) slack.push_back(uniform(generator, 0.0, 0.1));
  const ProductPlan whole = plan_product(op::Gemm{1.0, 1.0, false, true}, {m, k}, {n, k});
  for (const SummationOrder& order : declared_orders()) {
    for (const bool leave_out_last : {false, true}) {
      const std::vector<double> all = bounds::running_ufps(whole, {a, b, a, slack}, order, leave_out_last, 2);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto from = [&](const std::vector<double>& values, std::int64_t first) {
            return std::span<const double>(values).subspan(static_cast<std::size_t>(first),
                                                           static_cast<std::size_t>(k));
          };
          const auto at = static_cast<std::size_t>(i * n + j);
          const ProductPlan one = plan_product(op::MatMul{}, {1, k}, {k, 1});
          const bounds::RunningTerms terms{from(a, i * k), from(b, j * k), from(a, i * k), {&slack[at], 1}};
          CHECK(bounds::running_ufps(one, terms, order, leave_out_last, 1).front() == all[at]);
        }
      }
    }
  }
}

TEST_CASE("first places of sums in single precision are no less than the exact ones, and hardly more (T-69)") {
  Generator generator(694);
  const std::int64_t m = 6, k = 70, n = 37;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const ProductPlan plan = plan_product(op::Gemm{1.0, 1.0, false, true}, {m, k}, {n, k});
  for (int repetition = 0; repetition < 20 * test_multiplier(); ++repetition) {
    // 2^30 times as large: factors that are too large for single precision, so that sums go in double
    const double size = repetition % 4 == 0 ? 0x1p30 : 0x1p-3;
    std::vector<double> a, b, slack(at(m * n), 0.0);
    for (std::int64_t i = 0; i < m * k; ++i)
      a.push_back(generator() % 4 == 0 ? 0.0 : std::ldexp(std::round(uniform(generator, -0x1p30, 0x1p30)), -30) * size);
    for (std::int64_t j = 0; j < n * k; ++j) b.push_back(static_cast<float>(uniform(generator, -1.0, 1.0)));
    // the last partial sum of the first column is a power of two and a little more
    for (std::int64_t i = 0; i < m; ++i) {
      long double sum = 0.0L;
      for (std::int64_t l = 0; l + 1 < k; ++l) sum += static_cast<long double>(a[at(i * k + l)]) * b[at(l)];
      a[at((i + 1) * k - 1)] = static_cast<double>(0x1.0000000001p3L * size - sum);
    }
    b[at(k - 1)] = 1.0;
    const bounds::SingleColumns single = bounds::single_columns(plan, b);
    for (const bool fma : {false, true}) {
      const SummationOrder order{Kind::sequential, 0, fma};
      const std::vector<double> places =
          bounds::running_ufps(plan, {a, b, a, slack, nullptr, &single}, order, false, 1);
      const std::vector<double> products = bounds::product_ufps(plan, {a, b, a, slack, nullptr, &single}, 1);
      double excess = 0.0, excess_of_products = 0.0;  // a partial sum next to a power of two may count twice
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          long double sum = 0.0L, expected = 0.0L, of_products = 0.0L;
          bool is_first = true;
          for (std::int64_t l = 0; l < k; ++l) {
            if (a[at(i * k + l)] == 0.0) continue;
            const long double product = static_cast<long double>(a[at(i * k + l)]) * b[at(j * k + l)];
            sum += product;
            of_products += ufp(product);
            if (!is_first || fma) expected += ufp(sum);
            is_first = false;
          }
          CHECK(places[at(i * n + j)] >= static_cast<double>(expected));
          CHECK(products[at(i * n + j)] >= static_cast<double>(of_products));
          excess += places[at(i * n + j)] / static_cast<double>(expected) - 1.0;
          excess_of_products += products[at(i * n + j)] / static_cast<double>(of_products) - 1.0;
        }
      }
      CHECK(excess < 4e-3 * static_cast<double>(m * n));
      CHECK(excess_of_products < 4e-3 * static_cast<double>(m * n));
    }
  }
}

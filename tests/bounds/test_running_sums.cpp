#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bounds/running_sums.hpp"
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
    const Tally tally = check_running_sums(bounds::default_rules(), order, 4000 * test_multiplier(), 691);
    CAPTURE(to_string(order));
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-69", tally.utilisation, order.fma ? 1.0 : 0.883);
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
      const std::vector<double> all = bounds::running_first_places(whole, {a, b, a, slack}, order, leave_out_last, 2);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const auto from = [&](const std::vector<double>& values, std::int64_t first) {
            return std::span<const double>(values).subspan(static_cast<std::size_t>(first),
                                                           static_cast<std::size_t>(k));
          };
          const auto at = static_cast<std::size_t>(i * n + j);
          const ProductPlan one = plan_product(op::MatMul{}, {1, k}, {k, 1});
          const bounds::RunningTerms terms{from(a, i * k), from(b, j * k), from(a, i * k), {&slack[at], 1}};
          CHECK(bounds::running_first_places(one, terms, order, leave_out_last, 1).front() == all[at]);
        }
      }
    }
  }
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/plain_sums.hpp"
#include "support/sum_checks.hpp"

using namespace checks;

namespace {

/// A Gemm in float32 with what local bounds are asked for.
struct FloatProduct {
  Node node;
  Tensor<double> x, w, c, y;
  ArithmeticModel arithmetic;
  bounds::Setting setting;

  /// Of these rows and columns, y in double.
  FloatProduct(Tensor<double> rows, Tensor<double> columns, const SummationOrder& order)
      : x(std::move(rows)), w(std::move(columns)), arithmetic(cpu_arithmetic("fp32", order)) {
    c = Tensor<double>({w.shape[1]});
    y = Tensor<double>({x.shape[0], w.shape[1]});
    prepare();
  }

  FloatProduct(Generator& g, std::int64_t m, std::int64_t n, std::int64_t k, const SummationOrder& order)
      : x({m, k}), w({k, n}), c({n}), y({m, n}), arithmetic(cpu_arithmetic("fp32", order)) {
    for (Tensor<double>* tensor : {&x, &w, &c})
      for (double& value : tensor->values) value = static_cast<double>(static_cast<float>(uniform(g, -1.0, 1.0)));
    for (double& value : x.values) value = g() % 3 == 0 ? 0.0 : value;
    prepare();
  }

  void prepare() {
    const std::size_t n = c.size(), k = x.size() / static_cast<std::size_t>(x.shape[0]);
    node.op = op::Gemm{};
    node.inputs = {0, 1, 2};
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = c.values[i % n];
      for (std::size_t l = 0; l < k; ++l) sum += x.values[i / n * k + l] * w.values[l * n + i % n];
      y.values[i] = static_cast<double>(static_cast<float>(sum));
    }
    setting.arithmetic = &arithmetic;
    setting.machine = bounds::machine_of(arithmetic);
    setting.tail_factor = 6.0;
  }

  bounds::ProductBounds bounds(bounds::OperandCache* operands) {
    setting.operands = operands;
    const bounds::NodeView view{&node, {&x, &w, &c}, &y};
    const bounds::Product product = *bounds::product_of(view);
    CHECK(bounds::plain_product_bounds(product, view, setting).has_value() == (operands != nullptr));
    return bounds::product_bounds(product, view, setting);
  }
};

}  // namespace

TEST_CASE("loops over sums round up, and not far, in every build (T-81)") {
  for (const bounds::SumKernels* sums : bounds::usable_sum_kernels()) {
    for (const SumCase& subject : sum_cases()) {
      CAPTURE(subject.name);
      const RowTally tally = check_sum_case(*sums, subject, 100 * test_multiplier(), 27);
      CHECK(tally.violations == 0);
      CHECK(tally.compared > 500);
      if (subject.name != "local") CHECK(tally.excess <= 2.01);  // a place may be twice the one below
      CHECK(static_cast<double>(tally.close) > 0.9 * static_cast<double>(tally.compared));
    }
  }
}

TEST_CASE("local bounds of products by rows are those of one element after the other") {
  Generator generator(28);
  for (const SummationOrder& order : declared_orders()) {
    CAPTURE(to_string(order));
    FloatProduct product(generator, 37, 19, 300, order);
    bounds::OperandCache operands;
    const bounds::ProductBounds by_rows = product.bounds(&operands), one_by_one = product.bounds(nullptr);
    for (const auto values :
         {&bounds::ProductBounds::any_order, &bounds::ProductBounds::partial_sums, &bounds::ProductBounds::running,
          &bounds::ProductBounds::order_aware, &bounds::ProductBounds::probabilistic, &bounds::ProductBounds::kappa}) {
      const std::vector<double>&ours = by_rows.*values, &theirs = one_by_one.*values;
      REQUIRE(ours.size() == theirs.size());
      double least = 2.0, excess = 0.0;  // a partial sum next to a power of two may count twice
      for (std::size_t i = 0; i < ours.size(); ++i) {
        least = std::min(least, ours[i] / theirs[i]);
        excess += ours[i] / theirs[i] - 1.0;
      }
      CHECK(least > 1.0 - 1e-9);
      const double most = values == &bounds::ProductBounds::running ? 4e-3 : 1e-4;  // followed in single precision
      CHECK(excess < most * static_cast<double>(ours.size()));
    }
    CHECK(by_rows.patterns == one_by_one.patterns);
  }
}

TEST_CASE("terms that long sums in single precision lose count in local bounds (T-81)") {
  constexpr std::size_t k = 4097;
  Tensor<double> x({1, k}), w({k, 1});
  x.values.assign(k, 0x1p-25);
  x.values[0] = 1.0;
  w.values.assign(k, 1.0);
  FloatProduct product(x, w, parse_summation_order("pairwise+fma"));
  bounds::OperandCache operands;
  const bounds::ProductBounds by_rows = product.bounds(&operands), one_by_one = product.bounds(nullptr);
  for (const auto values : {&bounds::ProductBounds::any_order, &bounds::ProductBounds::order_aware}) {
    const double ours = (by_rows.*values)[0], theirs = (one_by_one.*values)[0];
    INFO(ours, " and ", theirs);
    CHECK(ours >= (1.0 - 1e-9) * theirs);
    CHECK(ours <= 1.001 * theirs);
  }
}

TEST_CASE("terms with factors far below the largest of a row and of a column count as what they are (T-81)") {
  for (const std::string order : {"sequential", "pairwise+fma", "unknown"}) {
    CAPTURE(order);
    FloatProduct product(Tensor<double>({2, 2}, {1.0, 0x1p-100, 0.0, 1.0}),
                         Tensor<double>({2, 2}, {0x1p-100, 1.0, 1.0, 0x1p-100}), parse_summation_order(order));
    bounds::OperandCache operands;
    const bounds::ProductBounds by_rows = product.bounds(&operands), one_by_one = product.bounds(nullptr);
    for (const auto values : {&bounds::ProductBounds::any_order, &bounds::ProductBounds::partial_sums,
                              &bounds::ProductBounds::order_aware, &bounds::ProductBounds::kappa}) {
      const std::vector<double>&ours = by_rows.*values, &theirs = one_by_one.*values;
      REQUIRE(ours.size() == theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        INFO(ours[i], " and ", theirs[i]);
        CHECK(ours[i] <= 1.01 * theirs[i]);
        CHECK(ours[i] >= (1.0 - 1e-9) * theirs[i]);
      }
    }
  }
}

TEST_CASE("numbers that are no float32, and arithmetics that are not, go one element after the other") {
  Generator generator(29);
  FloatProduct product(generator, 2, 3, 5, parse_summation_order("sequential"));
  bounds::OperandCache operands;
  product.setting.operands = &operands;
  const bounds::NodeView view{&product.node, {&product.x, &product.w, &product.c}, &product.y};
  const bounds::Product plan = *bounds::product_of(view);
  const auto is_plain = [&] { return bounds::plain_product_bounds(plan, view, product.setting).has_value(); };
  CHECK(is_plain());
  for (double* value : {&product.x.values[0], &product.w.values[1], &product.c.values[2]}) {
    for (const double other : {1.0 + 0x1p-40, std::nan(""), static_cast<double>(INFINITY), 1e300}) {
      const double before = std::exchange(*value, other);
      CHECK(!is_plain());
      *value = before;
    }
  }
  product.setting.machine.flushes = true;
  CHECK(!is_plain());
}

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "support/approach.hpp"
#include "trace/audit_choice.hpp"

using namespace driftbound;

namespace {

using Places = std::vector<std::int64_t>;

bool has(const Places& numbers, std::int64_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

class Normal {
public:
  Tensor<double> tensor(const Shape& shape) {
    Tensor<double> result(shape);
    for (double& x : result.values) x = static_cast<double>(static_cast<float>(normal_(random_)));
    return result;
  }

private:
  std::mt19937_64 random_{5};
  std::normal_distribution<double> normal_;
};

ValueView view_of(const Tensor<double>& tensor) {
  return ValueView(StoredTensor::from(tensor), tensor.shape);
}

/// Batches of X [m, k] times [k, n] and an addend of n numbers, as a kernel in float32 would leave it.
struct Product {
  op::MatMul op;
  Tensor<double> a, b, c, y;
  ProductPlan plan;

  Product(const Shape& a_shape, const Shape& b_shape) {
    Normal normal;
    a = normal.tensor(a_shape);
    b = normal.tensor(b_shape);
    plan = plan_product(op, a_shape, b_shape);
    c = normal.tensor({plan.n});
    y = Tensor<double>({plan.batches, plan.m, plan.n});
    for (std::int64_t batch = 0; batch < plan.batches; ++batch)
      for (std::int64_t i = 0; i < plan.m; ++i)
        for (std::int64_t j = 0; j < plan.n; ++j) {
          double sum = c.values[static_cast<std::size_t>(j)];
          for (std::int64_t k = 0; k < plan.k; ++k)
            sum += a.values[plan.a_index(batch, i, k)] * b.values[plan.b_index(batch, k, j)];
          at(batch, i, j) = static_cast<double>(static_cast<float>(sum));
        }
  }
  double& at(std::int64_t batch, std::int64_t i, std::int64_t j) {
    return y.values[static_cast<std::size_t>(place(batch, i, j))];
  }
  std::int64_t place(std::int64_t batch, std::int64_t i, std::int64_t j) const {
    return (batch * plan.m + i) * plan.n + j;
  }

  Places suspects() const {
    Random random(3);
    const ValueView left = view_of(a), right = view_of(b), addend = view_of(c), computed = view_of(y);
    const std::int64_t n = plan.n;
    return suspects_of_product({plan, 1.0, 1.0, left, right, &addend, [n](std::int64_t e) { return e % n; }, computed},
                               random);
  }
};

}  // namespace

TEST_CASE("Draws of an audit: every row and every column is met with four draws for each") {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{37, 50}, {128, 9}, {7, 7}, {2, 301}}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Random random(seed);
      const Places drawn = stratified_draws(rows, columns, 4 * std::max(rows, columns), random);
      CHECK(std::is_sorted(drawn.begin(), drawn.end()));
      std::set<std::int64_t> met_rows, met_columns;
      for (const std::int64_t e : drawn) {
        REQUIRE((e >= 0 && e < rows * columns));
        met_rows.insert(e / columns);
        met_columns.insert(e % columns);
      }
      CHECK(met_rows.size() == static_cast<std::size_t>(rows));
      CHECK(met_columns.size() == static_cast<std::size_t>(columns));
    }
  }
}

TEST_CASE("T-140: draws of an audit miss a share p of the elements no more often than (1 - p)^draws") {
  const std::int64_t rows = 6, columns = 7, draws = 11, all = rows * columns;
  const int repetitions = 20000;
  std::vector<std::vector<bool>> sets(5, std::vector<bool>(static_cast<std::size_t>(all), false));
  for (std::int64_t e = 0; e < all; ++e) {
    const auto at = static_cast<std::size_t>(e);
    sets[0][at] = e / columns == 3;            // a row
    sets[1][at] = e % columns == 6;            // a column
    sets[2][at] = e / columns == e % columns;  // a diagonal
    sets[3][at] = e == all - 1;                // one element
    sets[4][at] = e < 4;                       // a block
  }
  std::vector<int> missed(sets.size(), 0);
  std::vector<int> count(static_cast<std::size_t>(all), 0);
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    Random random(static_cast<std::uint64_t>(repetition));
    const Places drawn = stratified_draws(rows, columns, draws, random);
    for (const std::int64_t e : drawn) ++count[static_cast<std::size_t>(e)];
    for (std::size_t s = 0; s < sets.size(); ++s)
      missed[s] += std::none_of(drawn.begin(), drawn.end(),
                                [&](std::int64_t e) { return sets[s][static_cast<std::size_t>(e)]; });
  }
  double closest = 0.0;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    CAPTURE(s);
    const double p = static_cast<double>(std::count(sets[s].begin(), sets[s].end(), true)) / static_cast<double>(all);
    const double most = std::pow(1.0 - p, static_cast<double>(draws));
    const double deviation = std::sqrt(most * (1.0 - most) / repetitions);
    const double share_missed = missed[s] / static_cast<double>(repetitions);
    CHECK(share_missed <= most + 5.0 * deviation);
    closest = std::max(closest, share_missed / (most + 5.0 * deviation));
  }
  CHECK_APPROACH("T-140", closest, 0.8);
  // Where an element is drawn with probability 1/N by each draw, it is among 11 of them in 23.3 % of the audits.
  const double share = 1.0 - std::pow(1.0 - 1.0 / static_cast<double>(all), static_cast<double>(draws));
  for (const int c : count) {
    CHECK(c > 0.9 * share * repetitions);
    CHECK(c < 1.2 * share * repetitions);  // an element in one band of a group is drawn more often once
  }
}

TEST_CASE("Checksums find one wrong element, wherever it is, and one that is not finite") {
  for (const Shape& b_shape : {Shape{40, 90}, Shape{3, 40, 90}}) {
    CAPTURE(b_shape.size());
    Product honest({3, 70, 40}, b_shape);
    CHECK(honest.suspects().size() <= 64);
    for (const auto& [batch, i, j] : {std::array<std::int64_t, 3>{0, 0, 0}, {2, 69, 89}, {1, 33, 4}}) {
      Product product({3, 70, 40}, b_shape);
      product.at(batch, i, j) += 1e-3;
      CHECK(has(product.suspects(), product.place(batch, i, j)));
      product.at(batch, i, j) = std::numeric_limits<double>::quiet_NaN();
      CHECK(has(product.suspects(), product.place(batch, i, j)));
    }
  }
}

TEST_CASE("Checksums find a wrong row, a wrong column, and elements of swapped rows") {
  Product row({2, 70, 40}, {40, 90});
  for (std::int64_t j = 0; j < 90; ++j) row.at(1, 12, j) *= 1.001;
  const Places of_row = row.suspects();
  CHECK(std::any_of(of_row.begin(), of_row.end(), [&](std::int64_t e) { return e / 90 == 70 + 12; }));
  Product column({2, 70, 40}, {40, 90});
  for (std::int64_t i = 0; i < 70; ++i) column.at(0, i, 8) += 0.001;
  const Places of_column = column.suspects();
  CHECK(std::any_of(of_column.begin(), of_column.end(), [](std::int64_t e) { return e < 70 * 90 && e % 90 == 8; }));
  Product swapped({1, 70, 40}, {40, 90});
  for (std::int64_t j = 0; j < 90; ++j) std::swap(swapped.at(0, 5, j), swapped.at(0, 6, j));
  const Places of_both = swapped.suspects();
  CHECK(std::any_of(of_both.begin(), of_both.end(), [](std::int64_t e) { return e / 90 == 5 || e / 90 == 6; }));
}

TEST_CASE(
    "Checksums read factors that lie transposed and addends of all elements, and are silent where these are masks") {
  Product product({1, 70, 40}, {40, 90});
  product.at(0, 21, 77) += 1e-3;
  Tensor<double> a({40, 70}), b({90, 40}), c({70, 90});
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t k = 0; k < 40; ++k) a.values[k * 70 + i] = product.a.values[i * 40 + k];
  for (std::size_t j = 0; j < 90; ++j)
    for (std::size_t k = 0; k < 40; ++k) b.values[j * 40 + k] = product.b.values[k * 90 + j];
  for (std::size_t i = 0; i < 70; ++i)
    for (std::size_t j = 0; j < 90; ++j) c.values[i * 90 + j] = product.c.values[j] / 2.0;
  const ProductPlan plan = plan_product(op::Gemm{1.0, 2.0, true, true}, a.shape, b.shape);
  const auto suspects = [&] {
    Random random(3);
    const ValueView left = view_of(a), right = view_of(b), addend = view_of(c), computed = view_of(product.y);
    return suspects_of_product({plan, 1.0, 2.0, left, right, &addend, [](std::int64_t e) { return e; }, computed},
                               random);
  };
  CHECK(has(suspects(), product.place(0, 21, 77)));
  c.values[5] = -std::numeric_limits<double>::infinity();
  CHECK(suspects().empty());
}

TEST_CASE("Rows of a softmax or a norm that differ from the others are found") {
  Normal normal;
  Tensor<double> rows = normal.tensor({300, 50});
  for (std::size_t r = 0; r < 300; ++r) {
    double sum = 0.0;
    for (std::size_t j = 0; j < 50; ++j) sum += rows.values[50 * r + j] = std::exp(rows.values[50 * r + j]);
    for (std::size_t j = 0; j < 50; ++j) rows.values[50 * r + j] /= sum;
  }
  for (std::size_t j = 0; j < 50; ++j) rows.values[50 * 123 + j] *= 1.0001;
  rows.values[50 * 200] = std::numeric_limits<double>::infinity();
  const Places found = outlying_rows(view_of(rows), 50);
  CHECK(has(found, 123));
  CHECK(has(found, 200));
  CHECK(found.size() <= 8);
  CHECK(outlying_rows(view_of(rows), 0).empty());
}

TEST_CASE("Of every block of a value the largest element and the first one that is not finite are chosen") {
  Tensor<double> values({160});
  for (std::size_t i = 0; i < 160; ++i) values.values[i] = static_cast<double>(i % 7);
  values.values[42] = -9.0;
  values.values[95] = std::numeric_limits<double>::quiet_NaN();
  const Places chosen = extreme_elements(view_of(values));
  CHECK(chosen.size() == 17);
  CHECK(has(chosen, 42));
  CHECK(has(chosen, 95));
}

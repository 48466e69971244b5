#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "reference/float_product.hpp"
#include "reference/mpfr_range.hpp"
#include "reference/product.hpp"

using namespace driftbound;

namespace {

class Draws {
public:
  explicit Draws(int spread) : spread_(spread) {}

  BallTensor tensor(Shape shape, int bits) {
    BallTensor x(std::move(shape), bits);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale = spread_ == 0 ? 0.0 : std::uniform_real_distribution<double>(-spread_, spread_)(generator_);
      assign(x[i], static_cast<float>(std::normal_distribution<double>()(generator_) * std::exp2(scale)));
    }
    return x;
  }

private:
  std::mt19937_64 generator_{21};
  int spread_;
};

/// Every element as T-32 has it.
BallTensor by_fixed_point(const BallTensor& a, const BallTensor& b, const ProductPlan& plan, const Shape& shape) {
  BallTensor c(shape, a.bits());
  std::size_t next = 0;
  FixedPointVector row, column;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t j = 0; j < plan.n; ++j) {
        const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
        row.assign({&a, plan.a_index(batch, i, 0), size(plan.a_col), size(plan.k)});
        column.assign({&b, plan.b_index(batch, 0, j), size(plan.b_row), size(plan.k)});
        DotProduct()(c[next++], row, column);
      }
    }
  }
  return c;
}

void check_same(const BallTensor& x, const BallTensor& y) {
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(mpfr_equal_p(x[i].mid(), y[i].mid()));
    CHECK(x[i].radius == y[i].radius);
  }
}

}  // namespace

TEST_CASE("products of float32 tensors are those of fixed point, bit by bit, radius by radius") {
  const MpfrRange range;
  Draws draws(0);
  for (const int bits : {64, 128, 192}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const BallTensor a = draws.tensor(transpose_a ? Shape{40, 9} : Shape{9, 40}, bits);
        const BallTensor b = draws.tensor(transpose_b ? Shape{19, 40} : Shape{40, 19}, bits);
        const ProductPlan plan = plan_product(op::Gemm{1.0, 1.0, transpose_a, transpose_b}, a.shape(), b.shape());
        BallTensor c({9, 19}, bits);
        REQUIRE(FloatProduct(a, b, plan).multiply(c, 0));
        check_same(c, by_fixed_point(a, b, plan, {9, 19}));
      }
    }
    const BallTensor a = draws.tensor({3, 2, 5}, bits), b = draws.tensor({3, 5, 4}, bits);
    const ProductPlan plan = plan_product(op::MatMul{}, a.shape(), b.shape());
    BallTensor c({3, 2, 4}, bits);
    for (std::int64_t batch = 0; batch < 3; ++batch) REQUIRE(FloatProduct(a, b, plan).multiply(c, batch));
    check_same(c, by_fixed_point(a, b, plan, {3, 2, 4}));
  }
}

TEST_CASE("what is no float32 number, and what may not be exact, is left to fixed point") {
  const MpfrRange range;
  Draws draws(0);
  const ProductPlan plan = plan_product(op::Gemm{}, {2, 30}, {30, 2});
  const auto accepts = [&](double last, Scaled radius) {
    BallTensor a = draws.tensor({2, 30}, 128), b = draws.tensor({30, 2}, 128), c({2, 2}, 128);
    assign(a[59], last);
    a[59].radius = radius;
    assign(c[3], 7.0);
    const bool accepted =
        FloatProduct(a, b, plan).multiply(c, 0) &&
        FloatProduct(b, a, plan_product(op::Gemm{1.0, 1.0, true, true}, b.shape(), a.shape())).multiply(c, 0);
    if (!accepted) CHECK(mpfr_get_d(c[3].mid(), MPFR_RNDN) == 7.0);
    return accepted;
  };
  for (const float x : {0.0f, -0.0f, 1.0f, -0x1.fffffep-1f, 0x1.fffffep0f}) CHECK(accepts(x, {}));
  for (const double x : {0x1.fffffep127, 0x1p-149, -0x1.8p-148}) {  // float32 numbers, out of sight of the others
    BallTensor a({1, 1}, 128), c({1, 1}, 128);
    assign(a[0], x);
    const ProductPlan square = plan_product(op::Gemm{}, {1, 1}, {1, 1});
    REQUIRE(FloatProduct(a, a, square).multiply(c, 0));
    check_same(c, by_fixed_point(a, a, square, {1, 1}));
  }
  for (const double x : {0x1.000001p0, 0x1p-150, 0x1.8p-149, 0x1p128, 0x1.ffffffp127, 1.0 / 3.0,
                         std::numeric_limits<double>::infinity(), std::nan("")}) {
    CAPTURE(x);
    CHECK_FALSE(accepts(x, {}));
  }
  CHECK_FALSE(accepts(1.0, Scaled::power_of_two(-500)));
  CHECK_FALSE(accepts(1.0, Scaled::infinite()));

  BallTensor one({1, 1}, 128), next({1, 1}, 128), product({1, 1}, 128);
  assign(one[0], 1.0);
  assign(next[0], 1.0);
  mpfr_nextabove(next[0].mid());  // 1 + 2^-127: what is more than a float32 number lies in another limb
  CHECK_FALSE(FloatProduct(one, next, plan_product(op::Gemm{}, {1, 1}, {1, 1})).multiply(product, 0));

  Draws wide(60);
  const BallTensor a = wide.tensor({2, 30}, 128), b = wide.tensor({30, 2}, 128);
  BallTensor c({2, 2}, 128);
  CHECK_FALSE(FloatProduct(a, b, plan).multiply(c, 0));
}

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "linalg/ordered_product.hpp"
#include "linalg/symmetric_product.hpp"
#include "support/approach.hpp"
#include "support/rule_checks.hpp"
#include "support/special_numbers.hpp"

using namespace checks;
using bounds::MatrixView;

namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  Matrix(std::int64_t m, std::int64_t n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
  MatrixView view() const { return {values.data(), rows, columns, columns, 1}; }
  MatrixView transposed() const { return {values.data(), columns, rows, 1, columns}; }
};

double norm_of(const Matrix& w) {
  return bounds::spectral_norm(w.view(), 1).value();
}

Matrix random_matrix(std::int64_t m, std::int64_t n, Generator& generator, double scale = 1.0) {
  Matrix w(m, n);
  for (double& x : w.values) x = scale * uniform(generator, -1.0, 1.0);
  return w;
}

/// |W v| / |v| at 700 bits, whatever v is at most ‖W‖₂; v is where 3000 steps of power iteration in double end.
Real norm_from_below(const Matrix& w, Generator& generator) {
  std::vector<double> v(static_cast<std::size_t>(w.columns));
  for (double& x : v) x = uniform(generator, 0.5, 1.0);
  for (int step = 0; step < 3000; ++step) {
    std::vector<double> next(v.size(), 0.0);
    double length = 0.0;
    for (std::int64_t i = 0; i < w.rows; ++i) {
      double product = 0.0;
      for (std::size_t j = 0; j < v.size(); ++j) product += w.at(i, static_cast<std::int64_t>(j)) * v[j];
      for (std::size_t j = 0; j < v.size(); ++j) next[j] += w.at(i, static_cast<std::int64_t>(j)) * product;
    }
    for (const double x : next) length += x * x;
    for (std::size_t j = 0; j < v.size(); ++j) v[j] = next[j] / std::sqrt(length);
  }
  Real image, length;
  for (const double x : v) length += Real(x) * Real(x);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    Real product;
    for (std::size_t j = 0; j < v.size(); ++j) product += Real(w.at(i, static_cast<std::int64_t>(j))) * Real(v[j]);
    image += product * product;
  }
  return (image / length).apply(mpfr_sqrt);
}

Matrix hadamard(std::int64_t n) {
  Matrix w(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      w.at(i, j) = std::popcount(static_cast<std::uint64_t>(i & j)) % 2 == 0 ? 1.0 : -1.0;
  }
  return w;
}

}  // namespace

TEST_CASE("the bound of a spectral norm lies above |W v| / |v|, and near the largest") {
  Generator generator(71);
  for (int repetition = 0; repetition < 30 * test_multiplier(); ++repetition) {
    const auto m = static_cast<std::int64_t>(1 + generator() % 48), n = static_cast<std::int64_t>(1 + generator() % 48);
    const Matrix w = random_matrix(m, n, generator);
    CAPTURE(m);
    CAPTURE(n);
    const Real below = norm_from_below(w, generator);
    CHECK(below <= Real(norm_of(w)));
    CHECK(Real(norm_of(w)) <= Real(1.0 + 0x1p-9) * below);
  }
}

TEST_CASE("256 singular values cost at most a thousandth, few large ones next to nothing") {
  Generator generator(72);
  const Matrix w = random_matrix(256, 256, generator);
  const Real below = norm_from_below(w, generator);
  CHECK(below <= Real(norm_of(w)));
  CHECK(Real(norm_of(w)) <= Real(1.0 + 0x1p-10) * below);
  Matrix spiked = w;
  for (double& x : spiked.values) x += 1.0;
  const Real spike = norm_from_below(spiked, generator);
  CHECK(spike <= Real(norm_of(spiked)));
  CHECK(Real(norm_of(spiked)) <= Real(1.0 + 0x1p-20) * spike);
}

TEST_CASE("singular values that are nearly the largest do not pass for it (T-129)") {
  const auto check = [](std::int64_t n, std::uint64_t seed) {
    CAPTURE(n);
    CAPTURE(seed);
    std::mt19937_64 bits(seed);
    std::normal_distribution<double> normal;
    Matrix w(n, n);
    for (double& x : w.values) x = normal(bits);
    Generator generator(seed);
    const Real below = norm_from_below(w, generator);
    CHECK(below <= Real(norm_of(w)));
    CHECK(Real(norm_of(w)) <= Real(1.0 + 0x1p-9) * below);
  };
  for (const std::uint64_t stalled : {4608u, 1238u, 23236u}) check(64, stalled);
  check(32, 1894);
  for (std::uint64_t seed = 0; seed < 20; ++seed) check(48, seed);
}

TEST_CASE("the norms of matrices of rank one are met up to rounding errors") {
  const Tally tally = check_spectral_norm(300 * test_multiplier(), 73);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-63", tally.utilisation, 1.0);
  CHECK(tally.utilisation >= 1.0 - 0x1p-40);
}

TEST_CASE("matrices with orthogonal rows of one length and diagonal ones are met up to rounding errors") {
  for (const std::int64_t n : {1, 2, 4, 16, 64}) {
    CAPTURE(n);
    const double exact = std::sqrt(static_cast<double>(n)), bound = norm_of(hadamard(n));
    CHECK(Real(static_cast<double>(n)).apply(mpfr_sqrt) <= Real(bound));
    CHECK(bound <= exact * (1.0 + 0x1p-36));
  }
  Matrix diagonal(9, 7);
  for (std::int64_t i = 0; i < 7; ++i) diagonal.at(i, i) = static_cast<double>(i) - 4.0;
  CHECK(norm_of(diagonal) >= 4.0);
  CHECK(norm_of(diagonal) <= 4.0001);
}

TEST_CASE("a matrix and its transpose, any number of threads and any strides give one bound") {
  Generator generator(74);
  const Matrix w = random_matrix(150, 140, generator);
  const double bound = norm_of(w);
  CHECK(bounds::spectral_norm(w.transposed(), 1).value() == bound);
  CHECK(bounds::spectral_norm(w.view(), 3).value() == bound);
  Matrix padded(150, 300);
  for (std::int64_t i = 0; i < 150; ++i) {
    for (std::int64_t j = 0; j < 140; ++j) padded.at(i, 2 * j) = w.at(i, j);
  }
  CHECK(bounds::spectral_norm({padded.values.data(), 150, 140, 300, 2}, 1).value() == bound);
}

TEST_CASE("huge, tiny and mixed scales keep their bound, and its tightness") {
  Generator generator(75);
  const Matrix w = random_matrix(20, 30, generator);
  const double bound = norm_of(w);
  for (const int exponent : {1018, 600, -600, -1000}) {
    CAPTURE(exponent);
    Matrix other = w;
    for (double& x : other.values) x = std::ldexp(x, exponent);
    CHECK(norm_of(other) >= std::ldexp(bound, exponent) * (1.0 - 0x1p-40));
    CHECK(norm_of(other) <= std::ldexp(bound, exponent) * (1.0 + 0x1p-40));
  }
  Matrix subnormal(3, 3);
  for (double& x : subnormal.values) x = 0x1p-1074;
  CHECK(norm_of(subnormal) >= 3 * 0x1p-1074);
  CHECK(norm_of(subnormal) <= 4 * 0x1p-1074);
  Matrix mixed(2, 2);
  mixed.at(0, 0) = 0x1p1000;
  mixed.at(1, 1) = 0x1p-1000;
  CHECK(norm_of(mixed) >= 0x1p1000);
  CHECK(norm_of(mixed) <= 0x1p1000 * (1.0 + 0x1p-40));
  Matrix largest(2, 2);
  for (double& x : largest.values) x = std::numeric_limits<double>::max();
  CHECK(norm_of(largest) == infinity);
}

TEST_CASE("what the sums of a Gram matrix lose one term after the other is in the bound") {
  constexpr std::int64_t n = 1 << 18;  // loses 2^-37, which what Lanczos leaves above an eigenvalue does not cover
  Matrix w(2, n);
  for (double& x : w.values) x = 0x1p-27;
  w.at(0, 0) = w.at(1, 0) = 1.0;
  const Real exact = (Real(2.0) * (Real(1.0) + Real(n - 1) * Real(0x1p-54))).apply(mpfr_sqrt);
  CHECK(exact <= Real(norm_of(w)));
  CHECK(Real(norm_of(w)) <= exact * Real(1.0 + 0x1p-30));
}

namespace {

/// Whether symmetric_product() is the whole product to the bit: A Aᵀ, and its square.
template <class Number>
void check_symmetric_products(std::int64_t n, std::int64_t k, int threads, Generator& generator) {
  const auto whole = [](const Tensor<Number>& a, std::int64_t b_row, std::int64_t b_col) {
    ProductPlan plan;
    plan.m = plan.n = a.shape[0];
    plan.k = a.shape[1];
    plan.a_batch = plan.b_batch = {0};
    plan.a_row = plan.k;
    plan.a_col = 1;
    plan.b_row = b_row;
    plan.b_col = b_col;
    PackedMatrices<Number> packed;
    pack_missing(plan, a, packed);
    return multiply(plan, a, packed, bounds::fused_chain, 1);
  };
  Tensor<Number> a({n, k});
  for (Number& x : a.values) x = static_cast<Number>(uniform(generator, -1.0, 1.0));
  const std::vector<Number> gram = bounds::symmetric_product(a, 1, k, threads);
  CHECK(gram == whole(a, 1, k));
  const Tensor<Number> symmetric({n, n}, gram);
  CHECK(bounds::symmetric_product(symmetric, n, 1, threads) == whole(symmetric, n, 1));
}

}  // namespace

TEST_CASE("symmetric products are whole products to the bit") {
  Generator generator(77);
  for (const std::int64_t n : {1, 2, 15, 16, 63, 64, 65, 127, 128, 129, 300})
    for (const int threads : {1, 3}) {
      check_symmetric_products<float>(n, n + 3, threads, generator);
      check_symmetric_products<double>(n, 2 * n, threads, generator);
    }
}

TEST_CASE("nothing has norm 0, what is not finite none") {
  CHECK(norm_of(Matrix(0, 5)) == 0.0);
  CHECK(norm_of(Matrix(5, 0)) == 0.0);
  CHECK(norm_of(Matrix(5, 4)) == 0.0);
  for (const double bad : {infinity, -infinity, std::nan("")}) {
    Matrix w(3, 2);
    w.at(2, 1) = bad;
    CHECK(norm_of(w) == infinity);
    CHECK(bounds::column_norms(w.view()) == std::vector<double>{0.0, infinity});
  }
}

TEST_CASE("the norms of columns are upper bounds, and sharp, at any scale") {
  Generator generator(76);
  for (int repetition = 0; repetition < 60; ++repetition) {
    const double scale = repetition % 3 == 0 ? 1.0 : repetition % 3 == 1 ? 0x1p-1000 : 0x1p1000;
    const Matrix w = random_matrix(static_cast<std::int64_t>(1 + generator() % 60), 5, generator, scale);
    const std::vector<double> bound = bounds::column_norms(w.view());
    REQUIRE(bound.size() == 5);
    for (std::int64_t j = 0; j < w.columns; ++j) {
      Real sum;
      for (std::int64_t i = 0; i < w.rows; ++i) sum += Real(w.at(i, j)) * Real(w.at(i, j));
      const Real exact = sum.apply(mpfr_sqrt), given(bound[static_cast<std::size_t>(j)]);
      CHECK(exact <= given);
      CHECK(given <= exact * Real(1.0 + 0x1p-44));
    }
  }
  CHECK(bounds::column_norms(Matrix(0, 3).view()) == std::vector<double>{0.0, 0.0, 0.0});
}

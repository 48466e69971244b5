#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bounds/matrices/positive_definite.hpp"
#include "support/approach.hpp"
#include "support/rule_checks.hpp"
#include "support/special_numbers.hpp"

using namespace checks;

namespace {

std::size_t index_of(std::int64_t i, std::int64_t j, std::int64_t n) {
  return static_cast<std::size_t>(i * n + j);
}

/// (|u|² - below) I - u uᵀ for whole numbers u, times a power of two, its diagonal rounded.
Tensor<double> one_direction_less(const std::vector<double>& u, double below, int exponent) {
  const auto n = static_cast<std::int64_t>(u.size());
  double squares = 0.0;
  for (const double x : u) squares += x * x;
  Tensor<double> a({n, n});
  for (std::size_t i = 0; i < u.size(); ++i)
    for (std::size_t j = 0; j < u.size(); ++j)
      a.values[i * u.size() + j] = std::ldexp(i == j ? squares - u[i] * u[i] - below : -u[i] * u[j], exponent);
  return a;
}

/// vᵀ A v / vᵀ v, between the least eigenvalue of A and the largest.
Real quotient(const Tensor<double>& a, const std::vector<double>& v) {
  Real image, length;
  for (std::size_t i = 0; i < v.size(); ++i) {
    for (std::size_t j = 0; j < v.size(); ++j) image += Real(v[i]) * Real(a.values[i * v.size() + j]) * Real(v[j]);
    length += Real(v[i]) * Real(v[i]);
  }
  return image / length;
}

Tensor<double> random_gram(std::int64_t n, std::int64_t m, Generator& generator) {
  std::vector<double> w(static_cast<std::size_t>(n * m));
  for (double& x : w) x = std::round(uniform(generator, -64.0, 64.0));
  Tensor<double> g({n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t k = 0; k < m; ++k) g.values[index_of(i, j, n)] += w[index_of(i, k, m)] * w[index_of(j, k, m)];
  return g;
}

/// quotient() at 700 bits, at most the largest eigenvalue whatever v is; v is where 3000 steps of power iteration
/// in double end.
Real eigenvalue_from_below(const Tensor<double>& g) {
  const std::int64_t n = g.shape[0];
  std::vector<double> v(static_cast<std::size_t>(n), 1.0), next(v);
  v.front() = 1.5;
  for (int step = 0; step < 3000; ++step) {
    double largest = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < n; ++j) sum += g.values[index_of(i, j, n)] * v[static_cast<std::size_t>(j)];
      next[static_cast<std::size_t>(i)] = sum;
      largest = std::max(largest, std::abs(sum));
    }
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = next[i] / largest;
  }
  return quotient(g, v);
}

}  // namespace

TEST_CASE("a factorisation that succeeds has no eigenvalue farther below 0 than is said (T-129)") {
  Generator generator(81);
  double closest = 0.0;
  for (int repetition = 0; repetition < 20000 * test_multiplier(); ++repetition) {
    std::vector<double> u(2 + generator() % 4);
    for (double& x : u) x = 2048.0 + static_cast<double>(generator() % 1024);
    const double below = std::ldexp(static_cast<double>(generator() % 64), -32);
    const int exponent = static_cast<int>(generator() % 200) - 100;
    const Tensor<double> a = one_direction_less(u, below, exponent);
    if (!bounds::has_cholesky_factor(a)) continue;
    Magnitude trace;
    for (std::size_t i = 0; i < u.size(); ++i) trace += Magnitude(a.values[i * u.size() + i]);
    const auto n = static_cast<std::int64_t>(u.size());
    const double share = (-quotient(a, u) / Real(bounds::definite_within(n, trace).value())).to_double();
    CHECK(share <= 1.0);
    closest = std::max(closest, share);
  }
  CHECK_APPROACH("T-129", closest, 0.0368);
}

TEST_CASE("matrices of all sizes have factors from the largest eigenvalue on, and none far below it (T-129)") {
  Generator generator(82);
  for (const std::int64_t n : {1, 2, 3, 31, 32, 33, 64, 65, 96, 130}) {
    CAPTURE(n);
    const Tensor<double> g = random_gram(n, n + 3, generator);
    const Real below = eigenvalue_from_below(g);
    const Magnitude bound = bounds::largest_eigenvalue(g);
    CHECK(below <= Real(bound.value()));
    CHECK(Real(bound.value()) <= Real(1.0 + 0x1p-8) * below);
    for (const double share : {0.9, 0.999}) {
      Tensor<double> a = g;
      for (double& x : a.values) x = -x;
      for (std::int64_t i = 0; i < n; ++i) a.values[index_of(i, i, n)] += share * bound.value();
      CHECK_FALSE(bounds::has_cholesky_factor(a));
    }
  }
}

TEST_CASE("an eigenvalue that stands apart is met up to 2^-37, in any direction of the space (T-129)") {
  for (const std::int64_t n : {1, 5, 64, 100}) {
    for (const std::int64_t where : {std::int64_t{0}, n / 2, n - 1}) {
      Tensor<double> g({n, n});
      for (std::int64_t i = 0; i < n; ++i) g.values[index_of(i, i, n)] = i == where ? 3.0 : 1.0;
      const double bound = bounds::largest_eigenvalue(g).value();
      const Magnitude of_rounding = bounds::definite_within(n, Magnitude(3.0 * static_cast<double>(n)));
      CHECK(Real(bound) >= Real(3.0) + Real(of_rounding.value()));
      CHECK(bound <= 3.0 * (1.0 + 0x1p-37));
    }
  }
}

TEST_CASE("three eigenvalues leave Lanczos' method without a direction after three steps (T-129)") {
  constexpr std::int64_t n = 24;
  Tensor<double> g({n, n});
  for (std::int64_t i = 0; i < n; ++i) g.values[index_of(i, i, n)] = i < 8 ? 1.0 : i < 16 ? 2.0 : 2.0 + 0x1p-20;
  const double bound = bounds::largest_eigenvalue(g).value();
  CHECK(bound >= 2.0 + 0x1p-20);
  CHECK(bound <= (2.0 + 0x1p-20) * (1.0 + 0x1p-37));
}

TEST_CASE("what is not finite, or nothing but zeros, has no factor and no eigenvalue (T-129)") {
  for (const double bad : {infinity, -infinity, std::nan("")}) {
    for (const std::size_t where : {0u, 1u, 4u, 8u}) {
      Tensor<double> g({3, 3}, {2.0, 0.5, 0.5, 0.5, 2.0, 0.5, 0.5, 0.5, 2.0});
      g.values[where] = bad;
      if (where != 4 && where != 8) g.values[where * 3] = bad;
      CHECK_FALSE(bounds::has_cholesky_factor(g));
      CHECK(bounds::largest_eigenvalue(g) == Magnitude::infinite());
    }
  }
  CHECK_FALSE(bounds::has_cholesky_factor(Tensor<double>({4, 4})));
  CHECK(bounds::largest_eigenvalue(Tensor<double>({4, 4})) == Magnitude::infinite());
  CHECK(bounds::definite_within(std::int64_t{1} << 52, Magnitude(1.0)) == Magnitude::infinite());
  CHECK(bounds::definite_within(2, Magnitude::infinite()) == Magnitude::infinite());
}

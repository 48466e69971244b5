#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "linalg/pair_product.hpp"
#include "num/doubles.hpp"
#include "num/error_free.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using namespace driftbound::linalg;

namespace {

struct PairMatrix {
  std::size_t rows, length;
  std::vector<double> high, low;

  PairMatrix(std::size_t m, std::size_t k) : rows(m), length(k), high(m * k), low(m * k) {}
  PairRows view() const { return {high.data(), low.data(), rows, length, static_cast<std::ptrdiff_t>(length), 1}; }
  Real at(std::size_t i, std::size_t l) const { return Real(high[i * length + l]) + Real(low[i * length + l]); }
};

class Draws {
public:
  explicit Draws(std::uint64_t seed) : generator_(seed) {}

  static const std::vector<std::string>& kinds() {
    static const std::vector<std::string> all = {"normal", "relu",     "doubles", "floats",     "spread 60", "outlier",
                                                 "tiny",   "integers", "zeros",   "cancelling", "large",     "equal"};
    return all;
  }

  PairMatrix draw(const std::string& kind, std::size_t rows, std::size_t length) {
    PairMatrix matrix(rows, length);
    for (std::size_t i = 0; i < matrix.high.size(); ++i) {
      const double high = element(kind, i);
      const bool has_low = kind != "doubles" && kind != "floats" && kind != "integers";
      const num::ErrorFree pair = num::two_sum(high, has_low ? high * 0x1p-53 * uniform(-1.0, 1.0) : 0.0);
      matrix.high[i] = pair.value;
      matrix.low[i] = pair.error;
    }
    for (std::size_t i = 0; kind == "outlier" && i < rows && length > 0; ++i)
      matrix.high[i * length + generator_() % length] *= 0x1p40;
    return matrix;
  }
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator_); }
  std::size_t below(std::size_t n) { return generator_() % n; }

private:
  double element(const std::string& kind, std::size_t i) {
    const double normal = std::normal_distribution<double>()(generator_);
    if (kind == "relu") return std::max(0.0, normal);
    if (kind == "floats") return static_cast<float>(normal);
    if (kind == "spread 60") return normal * std::exp2(uniform(-60.0, 60.0));
    if (kind == "tiny") return normal * 0x1p-300;
    if (kind == "large") return normal * 0x1p300;
    if (kind == "integers") return std::floor(uniform(-0x1p30, 0x1p30));
    if (kind == "zeros") return generator_() % 4 == 0 ? normal : 0.0;
    if (kind == "equal") return 0x1.fffffffffffffp-1;
    if (kind == "cancelling") {
      if (i % 2 == 0) previous_ = normal;
      return i % 2 == 0 || generator_() % 3 == 0 ? previous_ : -previous_;
    }
    return normal;
  }

  std::mt19937_64 generator_;
  double previous_ = 0.0;
};

struct Sums {
  std::vector<double> high, low, radius;
};

Sums multiply(const PairRows& a, const PairRows& b, const ExactKernels& kernels,
              const unsigned char* certify = nullptr) {
  const PairOperand left(a, Side::left, certify, kernels), right(b, Side::right, nullptr, kernels);
  const std::size_t size = a.rows * b.rows;
  Sums sums{std::vector<double>(size), std::vector<double>(size), std::vector<double>(size)};
  pair_product(left, right, {sums.high.data(), sums.low.data(), sums.radius.data()});
  return sums;
}

Sums multiply(const PairMatrix& a, const PairMatrix& b, const ExactKernels& kernels = fastest_exact_kernels()) {
  return multiply(a.view(), b.view(), kernels);
}

/// |sum - exact| and the radius, element by element.
template <class F>
void compare(const PairMatrix& a, const PairMatrix& b, const Sums& y, F&& f) {
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      Real exact;
      for (std::size_t l = 0; l < a.length; ++l) exact += a.at(i, l) * b.at(j, l);
      const std::size_t place = i * b.rows + j;
      f(place, abs(exact - Real(y.high[place]) - Real(y.low[place])), Real(y.radius[place]));
    }
  }
}

/// The largest error in radii; more than 1 where one is outside.
double worst(const PairMatrix& a, const PairMatrix& b, const Sums& y) {
  double most = 0.0;
  compare(a, b, y, [&](std::size_t, const Real& error, const Real& radius) {
    if (!(error <= radius)) most = 2.0;
    if (Real(0.0) < radius) most = std::max(most, (error / radius).to_double());
  });
  return most;
}

/// Last bits are looked at panel by panel, and panels differ: a radius is the same everywhere, or 0.
bool agree(const std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i] && std::min(x[i], y[i]) != 0.0) return false;
  }
  return x.size() == y.size();
}

double norm(const PairMatrix& x, std::size_t row) {
  double sum = 0.0;
  for (std::size_t l = 0; l < x.length; ++l) sum += x.high[row * x.length + l] * x.high[row * x.length + l];
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("sums of products of pairs lie within their radii, for every two kinds of data and every build, alike" *
          doctest::test_suite("campaign")) {
  Draws draws(1);
  for (const std::string& left : Draws::kinds()) {
    for (const std::string& right : Draws::kinds()) {
      for (const std::size_t k : {1u, 31u, 33u, 70u}) {
        CAPTURE(left);
        CAPTURE(right);
        CAPTURE(k);
        const PairMatrix a = draws.draw(left, 7, k), b = draws.draw(right, 17, k);
        const Sums y = multiply(a, b);
        CHECK(worst(a, b, y) <= 1.0);
        for (const ExactKernels* kernels : usable_exact_kernels()) {
          const Sums same = multiply(a, b, *kernels);
          CHECK(same.high == y.high);
          CHECK(same.low == y.low);
          CHECK(agree(same.radius, y.radius));
        }
      }
    }
  }
}

TEST_CASE("ragged sizes, long rows, rows and columns of larger matrices") {
  Draws draws(2);
  for (int round = 0; round < 12; ++round) {
    const std::size_t m = 1 + draws.below(40), n = 1 + draws.below(40), k = 1 + draws.below(round < 3 ? 1500 : 90);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    const PairMatrix a = draws.draw("normal", m, k), b = draws.draw("relu", n, k);
    const Sums y = multiply(a, b);
    CHECK(worst(a, b, y) <= 1.0);
    PairMatrix turned(k, n);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) {
        turned.high[l * n + j] = b.high[j * k + l];
        turned.low[l * n + j] = b.low[j * k + l];
      }
    }
    const PairRows columns = {turned.high.data(), turned.low.data(), n, k, 1, static_cast<std::ptrdiff_t>(n)};
    const Sums same = multiply(a.view(), columns, fastest_exact_kernels());
    CHECK(same.high == y.high);
    CHECK(same.low == y.low);
    CHECK(same.radius == y.radius);
  }
}

TEST_CASE("a row's sums do not depend on the rows beside it") {
  Draws draws(3);
  PairMatrix a = draws.draw("floats", 20, 40);
  const PairMatrix b = draws.draw("floats", 20, 40), other = draws.draw("spread 60", 20, 40);
  const Sums before = multiply(a, b);
  std::copy_n(other.high.begin(), 19 * 40, a.high.begin());
  std::copy_n(other.low.begin(), 19 * 40, a.low.begin());
  const Sums after = multiply(a, b);
  for (std::size_t j = 0; j < 20; ++j) {
    CHECK(after.high[19 * 20 + j] == before.high[19 * 20 + j]);
    CHECK(after.low[19 * 20 + j] == before.low[19 * 20 + j]);
    CHECK(after.radius[19 * 20 + j] == before.radius[19 * 20 + j]);
  }
}

TEST_CASE("integers, float32 numbers and rows of zeros: the radius is 0") {
  Draws draws(4);
  for (const char* kind : {"integers", "floats"}) {
    const PairMatrix a = draws.draw(kind, 7, 300), b = draws.draw("floats", 17, 300),
                     c = draws.draw("integers", 17, 300);
    const Sums y = multiply(a, b), z = multiply(a, c);
    CHECK(worst(a, b, y) == 0.0);
    CHECK(worst(a, c, z) == 0.0);
    CHECK(std::count(y.radius.begin(), y.radius.end(), 0.0) == 7 * 17);
    CHECK(std::count(z.radius.begin(), z.radius.end(), 0.0) == 7 * 17);
    std::vector<unsigned char> certify(7, 1);
    certify[2] = 0;
    const Sums part = multiply(a.view(), b.view(), fastest_exact_kernels(), certify.data());
    CHECK(part.radius[2 * 17] > 0.0);
    CHECK(part.radius[3 * 17] == 0.0);
  }
  const PairMatrix zeros(7, 30), b = draws.draw("spread 60", 17, 30);
  const Sums left = multiply(zeros, b), right = multiply(b, zeros);
  CHECK(std::count(left.radius.begin(), left.radius.end(), 0.0) == 7 * 17);
  CHECK(std::count(right.radius.begin(), right.radius.end(), 0.0) == 7 * 17);
  CHECK(multiply(PairMatrix(2, 0), PairMatrix(3, 0)).radius == std::vector<double>(6, 0.0));
}

TEST_CASE("what two accumulators may lose is at most 2^-97 k times the norms") {
  Draws draws(5);
  for (const std::size_t k : {1u, 16u, 100u, 512u, 2000u}) {
    const PairMatrix a = draws.draw("normal", 6, k), b = draws.draw("normal", 16, k);
    const Sums y = multiply(a, b);
    for (std::size_t i = 0; i < 6; ++i) {
      for (std::size_t j = 0; j < 16; ++j)
        CHECK(y.radius[i * 16 + j] <= 0x1p-97 * static_cast<double>(k) * norm(a, i) * norm(b, j) + 0x1p-1072);
    }
  }
}

TEST_CASE("rows that are no numbers, too large or too small claim nothing; others beside them do") {
  Draws draws(6);
  for (const double x : {infinity, -infinity, std::nan(""), 0x1p600, 0x1.8p1023, 0x1p-460, 0x1p-1074}) {
    CAPTURE(x);
    PairMatrix a = draws.draw("normal", 3, 5), b = draws.draw("normal", 4, 5);
    std::fill_n(a.high.begin() + 5, 5, x);
    std::fill_n(a.low.begin() + 5, 5, 0.0);
    const Sums y = multiply(a, b), z = multiply(b, a);
    for (std::size_t j = 0; j < 4; ++j) {
      CHECK(y.radius[4 + j] == infinity);
      CHECK(y.high[4 + j] == 0.0);
      CHECK(y.radius[8 + j] < 0x1p-90);
      CHECK(z.radius[j * 3 + 1] == infinity);
      CHECK(z.radius[j * 3] < 0x1p-90);
    }
  }
  PairMatrix tiny(1, 1), small(1, 1);
  tiny.high[0] = 0x1p-420;
  small.high[0] = 0x1p-400;
  CHECK(multiply(tiny, small).radius[0] == infinity);  // what is left over may be no double
}

TEST_CASE("elements far below their row's norm, to the smallest double") {
  Draws draws(7);
  PairMatrix a = draws.draw("normal", 4, 40), b = draws.draw("normal", 17, 40);
  for (std::size_t i = 0; i < a.high.size(); ++i) {
    if (i % 3 == 0) continue;
    a.high[i] = std::ldexp(a.high[i], i % 3 == 1 ? -1040 : -700);
    a.low[i] = i % 3 == 1 ? 0.0 : std::ldexp(a.low[i], -700);
  }
  CHECK(worst(a, b, multiply(a, b)) <= 1.0);
  for (double& x : a.high) x *= 0x1p400;
  for (double& x : a.low) x *= 0x1p400;
  CHECK(worst(a, b, multiply(a, b)) <= 1.0);
}

TEST_CASE("sums of products of pairs, any data, sizes up to 4097 and builds") {
  Draws draws(26);
  const auto extent = [&](double most) {
    return static_cast<std::size_t>(std::exp2(draws.uniform(0.0, std::log2(most))));
  };
  const auto usable = usable_exact_kernels();
  std::size_t outputs = 0;
  for (int round = 0; round < driftbound_tests::scaled_by_multiplier(100); ++round) {
    const std::size_t k = extent(4098), m = extent(std::min(4098.0, 30000.0 / static_cast<double>(k)));
    const std::size_t n = extent(std::min(4098.0, 30000.0 / static_cast<double>(k * m)) + 1.0);
    const std::string &left = Draws::kinds()[draws.below(Draws::kinds().size())],
                      &right = Draws::kinds()[draws.below(Draws::kinds().size())];
    const PairMatrix a = draws.draw(left, m, k), b = draws.draw(right, n, k);
    const ExactKernels& kernels = *usable[draws.below(usable.size())];
    CAPTURE(kernels.name);
    CAPTURE(left);
    CAPTURE(right);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CHECK(worst(a, b, multiply(a, b, kernels)) <= 1.0);
    outputs += m * n;
  }
  MESSAGE("outputs " << outputs);
}

TEST_CASE("operands that do not fit together are refused, and unsound environments") {
  const PairMatrix a(2, 3), b(2, 4);
  const PairOperand left(a.view(), Side::left), right(b.view(), Side::right), wrong(a.view(), Side::left);
  double place[4];
  CHECK_THROWS_AS(pair_product(left, right, {place, place, place}), InvalidArgument);
  CHECK_THROWS_AS(pair_product(left, wrong, {place, place, place}), InvalidArgument);
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(PairOperand(a.view(), Side::left), UnsoundEnvironment);
  CHECK_THROWS_AS(pair_product(left, right, {place, place, place}), UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
}

namespace {

/// A row whose products with `b` lose as much as can be found, one step after the other, all in one direction.
PairMatrix losing_row(const PairMatrix& b, Draws& draws) {
  PairMatrix a(1, b.length);
  double high = 3.0, low = 0.0;
  Real lost;
  for (std::size_t l = 0; l < b.length; ++l) {
    double best = 0.0, best_high = high, best_low = low;
    Real most = Real(-1.0);
    for (int attempt = 0; attempt < 400; ++attempt) {
      const double x = draws.uniform(0x1p-4, 0x1.4p-3), next = std::fma(x, b.high[l], high);
      const double rest = std::fma(x, b.high[l], -(next - high)), sum = low + rest;
      const Real more = lost + Real(x) * Real(b.high[l]) - (Real(next) - Real(high)) - (Real(sum) - Real(low));
      if (!(most < more)) continue;
      most = more;
      best = x, best_high = next, best_low = sum;
    }
    a.high[l] = best;
    lost = most;
    high = best_high, low = best_low;
  }
  return a;
}

}  // namespace

TEST_CASE("steps chosen to lose come near to what the radius allows (T-86)") {
  Draws draws(8);
  double closest = 0.0;
  for (int round = 0; round < 5; ++round) {
    PairMatrix b(1, 32);
    for (double& x : b.high) x = draws.uniform(0.12, 0.15);
    const PairMatrix a = losing_row(b, draws);
    closest = std::max(closest, worst(a, b, multiply(a, b)));
  }
  CHECK_APPROACH("T-86", closest, 0.3);
}

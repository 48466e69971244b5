#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mp_support.hpp"
#include "reference/mpfr_range.hpp"
#include "reference/sliced_product.hpp"
#include "support/approach.hpp"

using namespace driftbound;
using mp::Real400;
using networks::Maker;
using networks::Scale;

namespace {

constexpr std::size_t n = 17, k = 45;
const KeptMatrices::Place whole = {0, n, k, k, 1, linalg::Side::right};

PairTensor matrix(Maker& make, bool are_floats, int spread) {
  Tensor<double> w({n, k});
  for (double& x : w.values) {
    x = std::ldexp(make.number(), -static_cast<int>(make.below(static_cast<std::uint64_t>(spread))));
    if (are_floats) x = static_cast<double>(static_cast<float>(x));
    if (make.chance(0.1)) x = 0.0;
  }
  return PairTensor(w);
}

/// Midpoints of up to `bits` bits, `spread` powers of two apart.
BallTensor rows_of(Maker& make, std::size_t rows, int bits, bool with_radii, int spread) {
  BallTensor x({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(k)}, bits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    Real400 m(make.number());
    if (make.chance(0.8)) m *= 1 + ldexp(Real400(make.number()), -static_cast<int>(make.below(300)));
    const int shift = static_cast<int>(make.below(static_cast<std::uint64_t>(spread)));
    m = make.chance(0.1) ? Real400(0) : ldexp(m, -shift);
    const auto below = static_cast<std::int64_t>(make.below(250));
    mp::set(x[i], m, with_radii && make.chance(0.8) ? Scaled::of(std::fabs(make.number()), -below) : Scaled());
  }
  return x;
}

std::vector<BallVector> vectors_of(const BallTensor& x) {
  std::vector<BallVector> rows;
  for (std::size_t i = 0; i < x.size() / k; ++i) rows.push_back({&x, i * k, 1, k});
  return rows;
}

/// False where slices do not take it.
bool multiply(BallTensor& c, const BallTensor& x, const PairTensor& w, const linalg::ResidueKernels& kernels) {
  KeptMatrices kept(&kernels);
  return multiply_by_slices(c, 0, vectors_of(x), {&w, &kept}, whole);
}

BallTensor product(const BallTensor& x, const PairTensor& w,
                   const linalg::ResidueKernels& kernels = linalg::residue_baseline) {
  BallTensor c({static_cast<std::int64_t>(x.size() / k), static_cast<std::int64_t>(n)}, x.bits());
  REQUIRE(multiply(c, x, w, kernels));
  return c;
}

/// The sum at one point of every ball of a row.
Real400 sum_at(const std::vector<Real400>& point, const PairTensor& w, std::size_t column) {
  Real400 sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += point[l] * Real400(w.hi[column * k + l]);
  return sum;
}

bool is_same(const MpBall& x, const MpBall& y) {
  return x.is_void() == y.is_void() && (x.is_void() || mpfr_equal_p(x.mid(), y.mid()) != 0) && x.radius == y.radius;
}

}  // namespace

TEST_CASE("products by slices hold the sums at every point, whatever the precision and the spread (T-127)" *
          doctest::test_suite("campaign")) {
  const MpfrRange range;
  Maker make(21, Scale::ordinary);
  std::int64_t sums = 0;
  for (int round = 0; round < 40 * networks::multiplier(); ++round) {
    const int precisions[] = {64, 65, 128, 160, 161, 192, 256, 512, 704};
    const int spreads[] = {1, 4, 60, 400};
    const int bits = precisions[make.below(9)], spread = spreads[make.below(4)];
    CAPTURE(bits);
    CAPTURE(spread);
    const BallTensor x = rows_of(make, 1 + make.below(20), bits, round % 3 != 0, spread);
    const PairTensor w = matrix(make, round % 4 != 0, round % 2 == 0 ? 1 : 16);
    for (const linalg::ResidueKernels* kernels : linalg::usable_residue_kernels()) {
      BallTensor c({static_cast<std::int64_t>(x.size() / k), static_cast<std::int64_t>(n)}, bits);
      if (!multiply(c, x, w, *kernels)) continue;  // doubles of too many bits
      for (std::size_t i = 0; i < x.size() / k; ++i) {
        std::vector<Real400> point(k);
        for (std::size_t l = 0; l < k; ++l) point[l] = mp::point(x[i * k + l], make);
        for (std::size_t column = 0; column < n; ++column) {
          const MpBall& ball = c[i * n + column];
          ++sums;
          if (!(abs(sum_at(point, w, column) - mp::midpoint(ball)) <= mp::real(ball.radius) + Real400("1e-380")))
            FAIL("row ", i, ", column ", column, " by ", std::string(kernels->name), ": the sum is not in the ball");
        }
      }
    }
  }
  MESSAGE("sums held against 400 digits: ", sums);
  CHECK(sums > 4000 * networks::multiplier());
}

TEST_CASE("without radii products by slices are those of fixed point, bit by bit, radius by radius (T-127, T-32)") {
  const MpfrRange range;
  Maker make(22, Scale::ordinary);
  for (const int bits : {64, 128, 160, 320}) {
    const BallTensor x = rows_of(make, 6, bits, false, 20), none({static_cast<std::int64_t>(k)}, bits);
    const PairTensor w = matrix(make, true, 4);
    const BallTensor c = product(x, w), weights = w.balls(bits);
    FixedPointVector row, column;
    BallTensor expected({1}, bits);
    for (std::size_t i = 0; i < c.size(); ++i) {
      row.assign({&x, i / n * k, 1, k});
      column.assign({&weights, i % n * k, 1, k});
      DotProduct()(expected[0], row, column);
      CHECK(is_same(c[i], expected[0]));
    }
  }
}

TEST_CASE("with radii products by slices are as tight as those of fixed point (T-127, T-32)") {
  const MpfrRange range;
  Maker make(26, Scale::ordinary);
  for (const int spread : {1, 40, 200}) {
    const BallTensor x = rows_of(make, 8, 160, true, spread);
    const PairTensor w = matrix(make, true, 4);
    const BallTensor c = product(x, w), weights = w.balls(160);
    FixedPointVector row, column;
    BallTensor expected({1}, 160);
    for (std::size_t i = 0; i < c.size(); ++i) {
      row.assign({&x, i / n * k, 1, k});
      column.assign({&weights, i % n * k, 1, k});
      DotProduct()(expected[0], row, column);
      CHECK(c[i].radius <= mul_up(expected[0].radius, Scaled::of(1.0 + 0x1p-14)));
    }
  }
  // A radius that meets a weight of 0 is none.
  Tensor<double> one_zero({n, k}, std::vector<double>(n * k, 0.5));
  for (std::size_t column = 0; column < n; ++column) one_zero.values[column * k] = 0.0;
  BallTensor x({1, static_cast<std::int64_t>(k)}, 160);
  mp::set(x[0], 3, Scaled::power_of_two(-60));
  for (std::size_t l = 1; l < k; ++l) mp::set(x[l], ldexp(Real400(1), -150), {});
  const BallTensor c = product(x, PairTensor(one_zero));
  for (std::size_t column = 0; column < n; ++column) CHECK(c[column].is_exact());
}

TEST_CASE("what cancels but for the last of 100 bits is exact (T-127)") {
  const MpfrRange range;
  const Tensor<double> ones({n, k}, std::vector<double>(n * k, 1.0));
  BallTensor x({1, static_cast<std::int64_t>(k)}, 160);
  mp::set(x[0], 1 + ldexp(Real400(1), -100), {});
  mp::set(x[1], -1, {});
  const BallTensor c = product(x, PairTensor(ones));
  for (std::size_t column = 0; column < n; ++column) {
    CHECK(mp::midpoint(c[column]) == ldexp(Real400(1), -100));
    CHECK(c[column].is_exact());
  }
}

TEST_CASE("radii in proportion to the weights, and digits cut off, come near what slices claim (T-127)") {
  const MpfrRange range;
  Maker make(23, Scale::ordinary);
  const PairTensor w = matrix(make, true, 1);
  BallTensor x({1, static_cast<std::int64_t>(k)}, 160);
  std::vector<Real400> end(k);
  for (std::size_t l = 0; l < k; ++l) {
    mp::set(x[l], Real400(make.number()), Scaled::of(std::fabs(w.hi[l]), -30));
    end[l] = mp::midpoint(x[l]) + ldexp(Real400(w.hi[l]), -30);
  }
  const BallTensor c = product(x, w);
  const auto share = [&](const Real400& value) {
    return Real400(abs(value - mp::midpoint(c[0])) / mp::real(c[0].radius)).convert_to<double>();
  };
  CHECK_APPROACH("T-127", share(sum_at(end, w, 0)), 1.0);

  // Numbers just below 2^-430 beside a 1: of 448 bits and more that are kept, ten slices of 46, they lose nearly a unit.
  Tensor<double> one_zero({n, k}, std::vector<double>(n * k, 1.0));
  for (std::size_t column = 0; column < n; ++column) one_zero.values[column * k] = 0.0;
  const PairTensor others(one_zero);
  BallTensor tiny({1, static_cast<std::int64_t>(k)}, 160);
  mp::set(tiny[0], 1, {});
  std::vector<Real400> point(k, Real400(1));
  for (std::size_t l = 1; l < k; ++l) {
    point[l] = ldexp(1 - ldexp(Real400(1), -60), -430);
    mp::set(tiny[l], point[l], Scaled::power_of_two(-600));
  }
  const BallTensor sums = product(tiny, others);
  const Real400 lost = abs(sum_at(point, others, 0) - mp::midpoint(sums[0]));
  CHECK_APPROACH("T-127", Real400(lost / mp::real(sums[0].radius)).convert_to<double>(), 1.0);
}

TEST_CASE("rows without a value or knowledge have none, zeros are zeros, and neighbours change nothing (T-127)") {
  const MpfrRange range;
  Maker make(24, Scale::ordinary);
  const PairTensor w = matrix(make, true, 4);
  BallTensor x = rows_of(make, 6, 160, true, 30);
  make_void(x[k + 3]);
  make_unknown(x[2 * k + 5]);
  for (std::size_t l = 0; l < k; ++l) assign(x[3 * k + l], 0.0);
  for (std::size_t l = 0; l < k; ++l) mp::set(x[4 * k + l], 0, Scaled::power_of_two(-9));
  mp::set(x[5 * k], ldexp(Real400(1), 300), {});
  const BallTensor c = product(x, w);
  for (std::size_t column = 0; column < n; ++column) {
    CHECK(c[n + column].is_void());
    CHECK(c[2 * n + column].is_unknown());
    CHECK((c[3 * n + column].is_exact() && mpfr_zero_p(c[3 * n + column].mid()) != 0));
    CHECK((!c[4 * n + column].is_exact() && mpfr_zero_p(c[4 * n + column].mid()) != 0));
  }
  for (std::size_t row = 0; row < 6; ++row) {
    BallTensor one({1, static_cast<std::int64_t>(k)}, 160);
    for (std::size_t l = 0; l < k; ++l) {
      one[l].radius = x[row * k + l].radius;
      mpfr_set(one[l].mid(), x[row * k + l].mid(), MPFR_RNDN);
    }
    const BallTensor alone = product(one, w);
    for (std::size_t column = 0; column < n; ++column) CHECK(is_same(alone[column], c[row * n + column]));
  }
}

TEST_CASE("matrices with too many bits, or none kept, are left to fixed point (T-127)") {
  const MpfrRange range;
  Maker make(25, Scale::ordinary);
  const BallTensor x = rows_of(make, 2, 160, true, 1);
  BallTensor c({2, static_cast<std::int64_t>(n)}, 160);
  PairTensor w = matrix(make, true, 1);
  CHECK(multiply(c, x, w, linalg::residue_baseline));
  CHECK_FALSE(multiply_by_slices(c, 0, vectors_of(x), {&w, nullptr}, whole));
  w.hi[0] = 1.0 + 0x1p-45;
  w.hi[1] = 0x1p20;
  CHECK_FALSE(multiply(c, x, w, linalg::residue_baseline));
}

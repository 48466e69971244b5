#include <doctest/doctest.h>

#include "mp_support.hpp"
#include "reference/mpfr_range.hpp"
#include "reference/product.hpp"

using namespace driftbound;
using mp::Real400;

namespace {

BallTensor vector_of(networks::Maker& make, std::size_t n, int bits, bool with_radius) {
  BallTensor x({static_cast<std::int64_t>(n)}, bits);
  for (std::size_t k = 0; k < n; ++k) {
    Real400 m(make.number());
    if (make.chance(0.7)) m *= 1 + ldexp(Real400(make.number()), -static_cast<int>(make.below(200)));
    const Scaled radius = with_radius && make.chance(0.8)
                              ? Scaled::of(std::fabs(make.number()), -static_cast<std::int64_t>(make.below(200)))
                              : Scaled();
    mp::set(x[k], m, radius);
  }
  return x;
}

void dot(MpBall& result, const BallTensor& x, const BallTensor& y) {
  FixedPointVector left, right;
  left.assign({&x, 0, 1, x.size()});
  right.assign({&y, 0, 1, y.size()});
  DotProduct()(result, left, right);
}

}  // namespace

TEST_CASE("dot products of balls hold the dot product of every pair of points") {
  const MpfrRange range;
  for (const networks::Scale scale : {networks::Scale::ordinary, networks::Scale::wide, networks::Scale::integers}) {
    networks::Maker make(1, scale);
    for (int i = 0; i < 1500 * networks::multiplier(); ++i) {
      const std::size_t n = make.below(12);
      const int bits = 64 + static_cast<int>(make.below(200));
      const BallTensor x = vector_of(make, n, bits, i % 2 == 0), y = vector_of(make, n, bits, i % 3 == 0);
      BallTensor result({1}, bits);
      dot(result[0], x, y);
      for (int repeat = 0; repeat < 3; ++repeat) {
        Real400 sum = 0, size = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const Real400 term = mp::point(x[k], make) * mp::point(y[k], make);
          sum += term;
          size += abs(term);
        }
        CHECK(abs(sum - mp::midpoint(result[0])) <= mp::real(result[0].radius) + size * Real400("1e-395"));
      }
    }
  }
}

TEST_CASE("dot products of exact vectors are rounded once, whatever cancels") {
  const MpfrRange range;
  networks::Maker make(2, networks::Scale::ordinary);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t n = 2 + 2 * make.below(20);
    BallTensor x({static_cast<std::int64_t>(n)}, 128), y({static_cast<std::int64_t>(n)}, 128), result({1}, 128);
    Real400 exact = 0;
    for (std::size_t k = 0; k < n; k += 2) {  // pairs that cancel but for the last bits
      const double a = make.number(), b = 1.0 + std::fabs(make.number());
      assign(x[k], a);
      assign(y[k], b);
      assign(x[k + 1], -a);
      assign(y[k + 1], std::nextafter(b, 9.0));
      exact += Real400(a) * Real400(b) - Real400(a) * Real400(std::nextafter(b, 9.0));
    }
    dot(result[0], x, y);
    CHECK(abs(exact - mp::midpoint(result[0])) <= mp::real(result[0].radius));
    CHECK(mp::real(result[0].radius) <= ldexp(abs(exact), -127));
  }
}

TEST_CASE("dot products carry through full limbs") {
  const MpfrRange range;
  BallTensor x({3}, 192), y({3}, 192), result({1}, 192);
  const Real400 ones = ldexp(Real400(1), 192) - 1;
  mp::set(x[0], ones, {});
  mp::set(y[0], ones, {});
  mp::set(x[1], ones, {});
  mp::set(y[1], 2, {});
  assign(x[2], 1.0);
  assign(y[2], 1.0);
  dot(result[0], x, y);  // (2^192 - 1)^2 + 2 (2^192 - 1) + 1 = 2^384
  CHECK(mp::midpoint(result[0]) == ldexp(Real400(1), 384));
  CHECK(result[0].is_exact());
}

TEST_CASE("digits far below the largest element are cut off and paid for") {
  const MpfrRange range;
  BallTensor x({2}, 64), y({2}, 64), result({1}, 64);
  assign(x[0], 1.0);
  assign(y[0], 1.0);
  assign(x[1], 0x1.8p-1000);
  assign(y[1], 1.0);
  dot(result[0], x, y);
  CHECK(mp::contains(result[0], 1 + Real400(0x1.8p-1000)));
  CHECK(result[0].radius <= Scaled::power_of_two(-64));
  assign(y[0], 0.0);
  dot(result[0], x, y);  // only the digits cut off are left
  CHECK(mp::contains(result[0], Real400(0x1.8p-1000)));
}

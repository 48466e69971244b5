#include <doctest/doctest.h>

#include <functional>

#include "random_balls.hpp"
#include "reference/ball_functions.hpp"
#include "reference/mpfr_range.hpp"

using namespace driftbound;
using mp::bits;
using mp::random_balls;
using mp::Real400;

namespace {

using BallFunction = std::function<void(MpBall&, const MpBall&, MpBall&)>;

struct Unary {
  std::string name;
  BallFunction ball;
  std::function<Real400(const Real400&)> exact;
  double tightness;         ///< radius <= tightness * the variation over a small ball (+ rounding)
  bool has_jumps = false;   ///< unknown where the value is not the same all over the ball
  bool is_partial = false;  ///< defined for half of all numbers
};

BallFunction without_scratch(void (*function)(MpBall&, const MpBall&)) {
  return [function](MpBall& y, const MpBall& x, MpBall&) { function(y, x); };
}

Unary power_of(double p, double tightness) {
  return {"x^" + std::to_string(p),
          [p](MpBall& y, const MpBall& x, MpBall&) { power(y, x, p); },
          [p](const Real400& x) {
            Real400 y, exponent(p);
            mpfr_pow(y.backend().data(), x.backend().data(), exponent.backend().data(), MPFR_RNDN);
            return y;
          },
          tightness,
          false,
          p != std::trunc(p)};
}

const std::vector<Unary>& functions() {
  static const std::vector<Unary> all = {
      {"1/x", without_scratch(reciprocal), [](const Real400& x) { return Real400(1 / x); }, 1.01},
      {"log", without_scratch(logarithm), [](const Real400& x) { return Real400(log(x)); }, 1.01, false, true},
      {"tan", without_scratch(tangent), [](const Real400& x) { return Real400(tan(x)); }, 1.01},
      {"atan", without_scratch(arctangent), [](const Real400& x) { return Real400(atan(x)); }, 1.01},
      {"sinh", without_scratch(hyperbolic_sine), [](const Real400& x) { return Real400(sinh(x)); }, 1.8},
      {"cosh", without_scratch(hyperbolic_cosine), [](const Real400& x) { return Real400(cosh(x)); }, 2.2},
      {"|x|", without_scratch(absolute), [](const Real400& x) { return Real400(abs(x)); }, 1.01},
      power_of(0.0, 1.01),
      power_of(1.0, 1.01),
      power_of(2.0, 1.01),
      power_of(3.0, 1.01),
      power_of(4.0, 1.01),
      power_of(-1.0, 1.01),
      power_of(-2.0, 1.01),
      power_of(-3.0, 1.01),
      power_of(0.5, 2.01),
      power_of(1.5, 1.01),
      power_of(1.0 / 3.0, 1.01),
      power_of(-0.75, 1.01),
      power_of(31.0, 1.01),
      {"floor", floor_function, [](const Real400& x) { return Real400(floor(x)); }, 0.0, true},
      {"ceil", ceiling_function, [](const Real400& x) { return Real400(ceil(x)); }, 0.0, true},
      {"round", rounding_function,
       [](const Real400& x) {
         const Real400 down = floor(x), rest = x - down;
         return Real400(rest < 0.5 || (rest == 0.5 && floor(down / 2) * 2 == down) ? down : down + 1);
       },
       0.0, true},
      {"sign", without_scratch(sign_function), [](const Real400& x) { return Real400(x.sign()); }, 0.0, true}};
  return all;
}

BallTensor applied(const Unary& f, const BallTensor& x, int precision_bits = bits) {
  BallTensor y(x.shape(), precision_bits);
  BallTensor scratch({1}, precision_bits);
  for (std::size_t i = 0; i < x.size(); ++i) f.ball(y[i], x[i], scratch[0]);
  return y;
}

bool claims(const MpBall& ball) {
  return !ball.is_void() && !ball.is_unknown();
}

/// Where the divisor 1 - T t of T-37 is below 1/4.
bool is_near_a_pole(const Real400& m, const Real400& r) {
  const Real400 room = 1 - 0.4053 * r * r;
  return room <= 0 || abs(tan(m)) * r / room > 0.75;
}

}  // namespace

TEST_CASE("special functions of balls: the value at every point of the ball lies in the result") {
  const MpfrRange range;
  networks::Maker make(21, networks::Scale::ordinary);
  for (const Unary& f : functions()) {
    CAPTURE(f.name);
    const BallTensor x = random_balls(make, static_cast<std::size_t>(400 * networks::multiplier()));
    const BallTensor y = applied(f, x);
    std::size_t claimed = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (claims(y[i])) ++claimed;
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Real400 point = mp::point(x[i], make);
        const Real400 value = f.exact(point);
        const bool inside = mp::contains(y[i], value);
        if (!inside || (y[i].is_void() && oracle::is_number(value)))
          FAIL("ball ", i, ": ", mp::midpoint(x[i]).str(30), " +- ", mp::real(x[i].radius).str(10), " at ",
               point.str(30));
      }
    }
    CHECK(claimed > x.size() / (f.is_partial ? 4 : 2));
  }
}

TEST_CASE("special functions of balls: a wide ball is no wider than a few times the range of the function") {
  const MpfrRange range;
  networks::Maker make(22, networks::Scale::ordinary);
  for (const Unary& f : functions()) {
    if (f.has_jumps) continue;
    CAPTURE(f.name);
    BallTensor x({300}, bits);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real400 m(3.0 + std::fabs(make.number()));
      mp::set(x[i], m, Scaled::of(mp::Real400(m / 3).convert_to<double>()));
    }
    const BallTensor y = applied(f, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real400 m = mp::midpoint(x[i]), r = mp::real(x[i].radius);
      if (f.name == "tan" && is_near_a_pole(m, r)) continue;
      REQUIRE(claims(y[i]));
      const Real400 variation = abs(f.exact(m + r) - f.exact(m - r)) / 2;
      CHECK(mp::real(y[i].radius) <= 12 * variation);
    }
  }
}

TEST_CASE("special functions of balls: the radius stays near the variation over a small ball") {
  const MpfrRange range;
  networks::Maker make(23, networks::Scale::ordinary);
  for (const Unary& f : functions()) {
    CAPTURE(f.name);
    BallTensor x({300}, bits);
    for (std::size_t i = 0; i < x.size(); ++i) {
      mp::set(x[i], ldexp(Real400(make.number()), static_cast<int>(make.below(5))), Scaled::power_of_two(-80));
    }
    const BallTensor y = applied(f, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!claims(y[i])) continue;
      const Real400 m = mp::midpoint(x[i]), r = mp::real(x[i].radius);
      const Real400 centre = f.exact(m), up = abs(f.exact(m + r) - centre), down = abs(f.exact(m - r) - centre);
      const Real400 variation = up < down ? down : up;
      CHECK(mp::real(y[i].radius) <= variation * f.tightness + ldexp(abs(centre), -120));
    }
  }
}

TEST_CASE("special functions of exact numbers are as precise as the ball has bits, also thousands") {
  const MpfrRange range;
  for (const int precision_bits : {128, 1024}) {
    for (const Unary& f : functions()) {
      CAPTURE(f.name);
      CAPTURE(precision_bits);
      BallTensor x({8}, precision_bits);
      const double numbers[] = {0.1, 0.75, 1.0 + 0x1p-50, 3.0, 1e-30, 1e5, -0.7, -0x1p-60};
      for (std::size_t i = 0; i < x.size(); ++i) assign(x[i], numbers[i]);
      const BallTensor y = applied(f, x, precision_bits);
      for (std::size_t i = 0; i < x.size(); ++i) {
        CAPTURE(numbers[i]);
        if (y[i].is_void()) {
          CHECK_FALSE(oracle::is_number(f.exact(Real400(numbers[i]))));
          continue;
        }
        CHECK(mp::real(y[i].radius) <= ldexp(abs(mp::midpoint(y[i])), -precision_bits));
        CHECK(mp::contains(y[i], f.exact(Real400(numbers[i]))));
      }
    }
  }
}

TEST_CASE("special functions have no value outside their domain, and are unknown where they may have none") {
  const MpfrRange range;
  BallTensor x({6}, bits);
  assign(x[0], 0.0);
  assign(x[1], -2.0);
  mp::set(x[2], -2, Scaled::of(1.0));
  mp::set(x[3], -1, Scaled::of(1.0));
  mp::set(x[4], 1, Scaled::of(1.0));
  mp::set(x[5], 0, Scaled::of(0.25));
  // v: void, u: unknown, .: a ball
  const auto states = [&](const Unary& f) {
    const BallTensor y = applied(f, x);
    std::string result;
    for (std::size_t i = 0; i < y.size(); ++i) result += y[i].is_void() ? 'v' : y[i].is_unknown() ? 'u' : '.';
    return result;
  };
  const auto state_of = [&](const std::string& name) {
    for (const Unary& f : functions())
      if (f.name == name) return states(f);
    return std::string("no such function");
  };
  CHECK(state_of("1/x") == "v..uuu");
  CHECK(state_of("log") == "vvvvuu");
  CHECK(state_of("tan") == "..uuu.");
  CHECK(states(power_of(-2.0, 0)) == "v..uuu");
  CHECK(states(power_of(1.5, 0)) == ".vvu.u");
  CHECK(states(power_of(-1.5, 0)) == "vvvuuu");
  CHECK(states(power_of(3.0, 0)) == "......");
  CHECK(states(power_of(0.0, 0)) == "......");
  CHECK(state_of("sign") == "...uuu");
  CHECK(state_of("floor") == "..uuuu");

  BallTensor special({3}, bits);
  make_void(special[0]);
  make_unknown(special[1]);
  mp::set(special[2], 0, Scaled::of(2.0));
  for (const Unary& f : functions()) {
    CAPTURE(f.name);
    const BallTensor y = applied(f, special);
    CHECK(y[0].is_void());
    CHECK_FALSE(y[1].is_void());
    CHECK_FALSE(y[2].is_void());
    const bool is_bounded = f.name == "atan" || f.name == power_of(0.0, 0).name;
    CHECK(y[1].is_unknown() != is_bounded);
  }
}

TEST_CASE("floor, ceil and sign are exact next to a jump and unknown on it") {
  const MpfrRange range;
  const auto value = [](BallFunction f, const Real400& m, Scaled radius) -> double {
    BallTensor x({2}, bits), y({1}, bits);
    mp::set(x[0], m, radius);
    f(y[0], x[0], x[1]);
    if (!claims(y[0])) return std::nan("");
    CHECK(y[0].is_exact());
    return mp::midpoint(y[0]).convert_to<double>();
  };
  const Scaled tiny = Scaled::power_of_two(-1000);
  const Real400 half_way = ldexp(Real400(1), -999);
  CHECK(value(floor_function, 2, Scaled()) == 2.0);
  CHECK(std::isnan(value(floor_function, 2, tiny)));
  CHECK(value(floor_function, half_way, tiny) == 0.0);
  CHECK(value(floor_function, -half_way, tiny) == -1.0);
  CHECK(value(floor_function, -half_way, Scaled()) == -1.0);
  CHECK(std::isnan(value(floor_function, half_way / 4, tiny)));
  CHECK(std::isnan(value(floor_function, -half_way / 2, tiny)));  // reaches 0
  CHECK(value(floor_function, half_way / 2, tiny) == 0.0);        // starts at 0
  CHECK(value(ceiling_function, half_way, tiny) == 1.0);
  CHECK(value(ceiling_function, -half_way, tiny) == 0.0);
  CHECK(value(ceiling_function, -half_way / 2, tiny) == 0.0);
  CHECK(std::isnan(value(ceiling_function, half_way / 2, tiny)));
  CHECK(value(ceiling_function, -2.5, Scaled::of(0.25)) == -2.0);
  CHECK(value(floor_function, -2.5, Scaled::of(0.25)) == -3.0);
  CHECK(value(floor_function, 1e300, Scaled()) == 1e300);
  CHECK(std::isnan(value(floor_function, ldexp(Real400(1), 200), tiny)));
  CHECK(value(rounding_function, half_way, tiny) == 0.0);
  CHECK(value(rounding_function, 2.5, Scaled()) == 2.0);
  CHECK(value(rounding_function, 3.5, Scaled()) == 4.0);
  CHECK(std::isnan(value(rounding_function, 2.5, tiny)));
  CHECK(value(rounding_function, 2.75, Scaled::of(0.125)) == 3.0);
  CHECK(std::isnan(value(rounding_function, 2.75, Scaled::of(0.25))));
  const BallFunction sign = without_scratch(sign_function);
  CHECK(value(sign, half_way, tiny) == 1.0);
  CHECK(value(sign, -half_way, tiny) == -1.0);
  CHECK(std::isnan(value(sign, half_way / 2, tiny)));
  CHECK(value(sign, 0, Scaled()) == 0.0);
}

TEST_CASE("max and min of balls: the value at every pair of points lies in the result, which is one of two apart") {
  const MpfrRange range;
  networks::Maker make(24, networks::Scale::ordinary);
  const BallTensor a = random_balls(make, static_cast<std::size_t>(2000 * networks::multiplier()));
  const BallTensor b = random_balls(make, a.size());
  BallTensor y({2}, bits);
  for (std::size_t i = 0; i < a.size(); ++i) {
    maximum(y[0], a[i], b[i]);
    minimum(y[1], a[i], b[i]);
    for (int repeat = 0; repeat < 4; ++repeat) {
      const Real400 s = mp::point(a[i], make), t = mp::point(b[i], make);
      CHECK(mp::contains(y[0], s < t ? t : s));
      CHECK(mp::contains(y[1], s < t ? s : t));
    }
    CHECK(y[0].radius <= std::max(a[i].radius, b[i].radius));
    const Real400 m = mp::midpoint(a[i]), n = mp::midpoint(b[i]);
    if (m - n > 1.01 * (mp::real(a[i].radius) + mp::real(b[i].radius))) {
      CHECK((mp::midpoint(y[0]) == m && y[0].radius == a[i].radius));
      CHECK((mp::midpoint(y[1]) == n && y[1].radius == b[i].radius));
    }
  }
  BallTensor x({2}, bits);
  assign(x[0], 1.0);
  make_unknown(x[1]);
  maximum(y[0], x[0], x[1]);
  CHECK((y[0].is_unknown() && !y[0].is_void()));
  make_void(x[1]);
  minimum(y[0], x[0], x[1]);
  CHECK(y[0].is_void());
}

TEST_CASE("special functions of numbers beyond every double end at once: void by overflow, covered by underflow") {
  const MpfrRange range;
  BallTensor x({3}, bits);
  assign(x[0], 1e300);
  assign(x[1], -1e300);
  mp::set(x[2], ldexp(Real400(1), 100000), Scaled::power_of_two(99000));
  for (const Unary& f : functions()) {
    CAPTURE(f.name);
    const BallTensor y = applied(f, x);
    if (f.name == "sinh" || f.name == "cosh") {
      CHECK(y[0].is_void());
      CHECK(y[1].is_void());
    }
    if (f.name == "tan") CHECK(y[2].is_unknown());
  }
  const BallTensor y = applied(power_of(1e300, 0), x);
  CHECK(y[0].is_void());
  const BallTensor z = applied(power_of(-1e300, 0), x);
  CHECK((mpfr_zero_p(z[0].mid()) != 0 && z[0].radius == Scaled::smallest()));
}

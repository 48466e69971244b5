#include <doctest/doctest.h>

#include <functional>
#include <map>

#include "random_balls.hpp"
#include "reference/apply.hpp"
#include "reference/ball_functions.hpp"
#include "reference/mpfr_range.hpp"

using namespace driftbound;
using mp::bits;
using mp::random_balls;
using mp::Real400;

namespace {

struct Unary {
  std::string name;
  Op op;
  std::function<Real400(const Real400&)> exact;
  double tightness;          ///< radius <= tightness * half the variation over the ball (+ rounding),
  bool of_argument = false;  ///< or of the radius of the argument
};

const std::vector<Unary>& unary_functions() {
  static const std::vector<Unary> functions = {
      {"Neg", op::Neg{}, [](const Real400& x) { return Real400(-x); }, 1.01},
      {"Relu", op::Relu{}, [](const Real400& x) { return x < 0 ? Real400(0) : x; }, 1.01},
      {"LeakyRelu", op::LeakyRelu{0.25}, [](const Real400& x) { return x < 0 ? Real400(x / 4) : x; }, 4.01},
      {"LeakyRelu -2", op::LeakyRelu{-2.0}, [](const Real400& x) { return x < 0 ? Real400(-2 * x) : x; }, 2.01, true},
      {"Elu", op::Elu{1.0}, [](const Real400& x) { return x < 0 ? Real400(exp(x) - 1) : x; }, 1.01, true},
      {"Elu -3", op::Elu{-3.0}, [](const Real400& x) { return x < 0 ? Real400(-3 * (exp(x) - 1)) : x; }, 3.01, true},
      {"Tanh", op::Tanh{}, [](const Real400& x) { return Real400(tanh(x)); }, 4.0},
      {"Sigmoid", op::Sigmoid{}, [](const Real400& x) { return Real400(1 / (1 + exp(-x))); }, 4.0},
      {"Softplus", op::Softplus{}, [](const Real400& x) { return Real400(log(1 + exp(x))); }, 4.0},
      {"Sin", op::Sin{}, [](const Real400& x) { return Real400(sin(x)); }, 1.01, true},
      {"Cos", op::Cos{}, [](const Real400& x) { return Real400(cos(x)); }, 1.01, true},
      {"Exp", op::Exp{}, [](const Real400& x) { return Real400(exp(x)); }, 1.01},
      {"Erf", op::Erf{}, [](const Real400& x) { return Real400(boost::multiprecision::erf(x)); }, 8.0},
      {"Gelu", op::Gelu{}, mp::gelu, 1.14, true},
      {"Gelu by tanh", op::Gelu{true}, mp::gelu_tanh, 40.0, true},
      {"Sqrt", op::Sqrt{}, [](const Real400& x) { return Real400(sqrt(x)); }, 2.01}};
  return functions;
}

BallTensor applied(const Op& op, const BallTensor& x) {
  const BallTensor* inputs[] = {&x};
  return apply(op, inputs, x.shape(), bits);
}

}  // namespace

TEST_CASE("functions of balls: the value at every point of the ball lies in the result" *
          doctest::test_suite("campaign")) {
  const MpfrRange range;
  networks::Maker make(1, networks::Scale::ordinary);
  for (const Unary& f : unary_functions()) {
    CAPTURE(f.name);
    const BallTensor x = random_balls(make, static_cast<std::size_t>(800 * networks::multiplier()));
    const BallTensor y = applied(f.op, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Real400 point = mp::point(x[i], make);
        const bool inside = mp::contains(y[i], f.exact(point));
        if (!inside)
          FAIL("ball ", i, ": ", mp::midpoint(x[i]).str(30), " +- ", mp::real(x[i].radius).str(10), " at ",
               point.str(30));
      }
  }
}

TEST_CASE("functions of balls: the radius stays within a small factor of the variation, small balls") {
  const MpfrRange range;
  networks::Maker make(2, networks::Scale::ordinary);
  for (const Unary& f : unary_functions()) {
    CAPTURE(f.name);
    BallTensor x({500}, bits);
    for (std::size_t i = 0; i < x.size(); ++i)
      mp::set(x[i], ldexp(Real400(make.number()), static_cast<int>(make.below(5))), Scaled::power_of_two(-80));
    const BallTensor y = applied(f.op, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (y[i].is_void() || y[i].is_unknown()) continue;
      const Real400 m = mp::midpoint(x[i]), r = mp::real(x[i].radius);
      const Real400 variation = f.of_argument ? r : Real400(abs(f.exact(m + r) - f.exact(m - r)) / 2);
      CHECK(mp::real(y[i].radius) <= variation * f.tightness + ldexp(abs(f.exact(m)), -120));
    }
  }
}

TEST_CASE("balls with more bits than they need hold the values, with radii that are hardly larger (T-33)") {
  const MpfrRange range;
  constexpr int many = 704;
  networks::Maker make(27, networks::Scale::ordinary);
  for (const Unary& f : unary_functions()) {
    CAPTURE(f.name);
    BallTensor x({300}, many);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real400 digits = 1 + ldexp(Real400(make.number()), -100) + ldexp(Real400(make.number()), -600);
      const int size = static_cast<int>(make.below(8)) - 3, below = 30 + static_cast<int>(make.below(600));
      mp::set(x[i], ldexp(Real400(make.number()) * digits, size), Scaled::power_of_two(-below));
    }
    const BallTensor* inputs[] = {&x};
    const BallTensor y = apply(f.op, inputs, x.shape(), many);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real400 m = mp::midpoint(x[i]), r = mp::real(x[i].radius);
      for (const Real400& point : {Real400(m - r), m, Real400(m + r)}) CHECK(mp::contains(y[i], f.exact(point)));
      if (y[i].is_void() || y[i].is_unknown()) continue;
      const Real400 variation = f.of_argument ? r : Real400(abs(f.exact(m + r) - f.exact(m - r)) / 2);
      const Real400 shortening = ldexp(r * (1 + abs(f.exact(m))), -30);
      CHECK(mp::real(y[i].radius) <= variation * f.tightness + shortening + ldexp(abs(f.exact(m)), 4 - many));
    }
  }
}

TEST_CASE(
    "rounding the midpoint of a ball with more bits than it needs is paid for: sine where it is steep and 0 (T-33)") {
  const MpfrRange range;
  constexpr int many = 704;
  for (int k = 1; k < 20; ++k) {
    BallTensor x({1}, many);
    Real400 pi;
    mpfr_const_pi(pi.backend().data(), MPFR_RNDN);
    mp::set(x[0], k * pi, Scaled::power_of_two(-150));  // 192 bits are just enough
    const BallTensor* inputs[] = {&x};
    const BallTensor y = apply(op::Sin{}, inputs, {1}, many);
    const Real400 m = mp::midpoint(x[0]), r = mp::real(x[0].radius);
    for (const Real400& point : {Real400(m - r), Real400(m + r)}) CHECK(mp::contains(y[0], Real400(sin(point))));
    CHECK(mp::real(y[0].radius) <= r * (1 + ldexp(Real400(1), -38)));
  }
}

TEST_CASE("Gelu of balls is as precise next to itself where it is tiny, and at the ends of all exponents (T-33)" *
          doctest::test_suite("campaign")) {
  const MpfrRange range;
  networks::Maker make(4, networks::Scale::ordinary);
  BallTensor x({300}, bits);
  for (std::size_t i = 0; i < x.size(); ++i)
    mp::set(x[i], Real400(-6.0 - 20.0 * std::fabs(std::fmod(make.number(), 1.0))), Scaled::power_of_two(-100));
  for (const bool by_tanh : {false, true}) {
    CAPTURE(by_tanh);
    const BallTensor y = applied(op::Gelu{by_tanh}, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real400 m = mp::midpoint(x[i]), r = mp::real(x[i].radius);
      for (const int end : {-1, 0, 1}) {
        const Real400 at = m + end * r;
        CHECK(mp::contains(y[i], by_tanh ? mp::gelu_tanh(at) : mp::gelu(at)));
      }
      CHECK(mp::real(y[i].radius) <= abs(mp::midpoint(y[i])) * ldexp(Real400(1), -80));
    }
  }
  BallTensor ends({6}, bits);
  const double numbers[] = {0.0, 0x1p-1074, 0x1p29, -0x1p29, 0x1p1023, -0x1p1023};
  for (std::size_t i = 0; i < ends.size(); ++i) assign(ends[i], numbers[i]);
  const BallTensor y = applied(op::Gelu{}, ends);
  CHECK((y[0].is_exact() && mpfr_zero_p(y[0].mid()) != 0));
  CHECK(mp::contains(y[1], mp::gelu(Real400(0x1p-1074))));
  for (const std::size_t i : {2u, 4u}) CHECK(mp::contains(y[i], Real400(numbers[i])));
  CHECK(mp::contains(y[5], Real400(0)));
  CHECK(mpfr_sgn(y[3].mid()) < 0);  // e^-2^57 and less
  CHECK(Scaled::upper(y[3].mid()) <= Scaled::power_of_two(-(std::int64_t{1} << 57)));
  for (std::size_t i = 0; i < ends.size(); ++i) CHECK(y[i].radius <= Scaled::upper(ends[i].mid()));
}

TEST_CASE("Gelu of the root of 6 in thousands of bits has a value, though MPFR cannot take its argument as it is") {
  const MpfrRange range;
  for (const int many : {1400, 4200}) {
    BallTensor six({1}, many), root({1}, many);
    assign(six[0], 6.0);
    square_root(root[0], six[0]);
    const BallTensor* inputs[] = {&root};
    const BallTensor y = apply(op::Gelu{}, inputs, {1}, many);
    const Real400 near = mp::gelu(sqrt(Real400(6)) + ldexp(Real400(1), -895));  // nearer MPFR would fail here too
    CHECK(y[0].radius <= Scaled::power_of_two(-880));
    CHECK(abs(mp::midpoint(y[0]) - near) <= ldexp(Real400(1), -890));
  }
}

TEST_CASE("operations on two balls: the value at every pair of points lies in the result") {
  const MpfrRange range;
  networks::Maker make(3, networks::Scale::ordinary);
  const std::map<std::string, std::pair<Op, std::function<Real400(const Real400&, const Real400&)>>> operations = {
      {"Add", {op::Add{}, [](const Real400& a, const Real400& b) { return Real400(a + b); }}},
      {"Sub", {op::Sub{}, [](const Real400& a, const Real400& b) { return Real400(a - b); }}},
      {"Mul", {op::Mul{}, [](const Real400& a, const Real400& b) { return Real400(a * b); }}},
      {"Div", {op::Div{}, [](const Real400& a, const Real400& b) { return Real400(a / b); }}}};
  for (const auto& entry : operations) {
    const auto& operation = entry.second;
    CAPTURE(entry.first);
    const BallTensor a = random_balls(make, static_cast<std::size_t>(2000 * networks::multiplier()));
    const BallTensor b = random_balls(make, a.size());
    const BallTensor* inputs[] = {&a, &b};
    const BallTensor y = apply(operation.first, inputs, a.shape(), bits);
    int claims = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      claims += !y[i].is_void() && !y[i].is_unknown();
      for (int repeat = 0; repeat < 4; ++repeat)
        CHECK(mp::contains(y[i], operation.second(mp::point(a[i], make), mp::point(b[i], make))));
    }
    CHECK(claims > static_cast<int>(a.size()) / 2);
  }
}

TEST_CASE("comparisons of balls are exact where the balls are apart and unknown elsewhere; a choice holds both then") {
  const MpfrRange range;
  BallTensor a({5}, bits), b({5}, bits);
  for (std::size_t i = 0; i < a.size(); ++i) mp::set(a[i], 1, Scaled::of(i < 3 ? 0.25 : 0.0));
  mp::set(b[0], Real400(0.25), Scaled::of(0.25));
  mp::set(b[1], Real400(0.5), Scaled::of(0.25));  // they touch
  mp::set(b[2], Real400(2), Scaled::of(0.25));
  mp::set(b[3], 1, Scaled());
  make_void(b[4]);
  const auto compared = [&](const Op& op) {
    const BallTensor* inputs[] = {&a, &b};
    return apply(op, inputs, {5}, bits);
  };
  const auto is_exactly = [](const MpBall& ball, double value) {
    return ball.is_exact() && mp::midpoint(ball) == value;
  };
  const BallTensor greater = compared(op::Greater{}), at_least = compared(op::GreaterOrEqual{}),
                   equal = compared(op::Equal{});
  CHECK((is_exactly(greater[0], 1) && is_exactly(at_least[0], 1) && is_exactly(equal[0], 0)));
  CHECK((greater[1].is_unknown() && !is_exactly(at_least[1], 0) && equal[1].is_unknown()));
  CHECK((is_exactly(greater[2], 0) && is_exactly(at_least[2], 0) && is_exactly(equal[2], 0)));
  CHECK((is_exactly(greater[3], 0) && is_exactly(at_least[3], 1) && is_exactly(equal[3], 1)));
  CHECK((greater[4].is_void() && at_least[4].is_void() && equal[4].is_void()));

  BallTensor c({5}, bits), x({5}, bits), y({5}, bits);
  for (std::size_t i = 0; i < x.size(); ++i) {
    mp::set(x[i], 3, Scaled::of(0.25));
    mp::set(y[i], -1, Scaled::of(0.5));
  }
  mp::set(c[0], 1, Scaled::of(0.25));
  mp::set(c[1], 0, Scaled::of(0.5));
  make_unknown(c[2]);
  make_void(c[3]);
  mp::set(c[4], 1, Scaled());
  make_void(y[4]);  // not taken
  const BallTensor* inputs[] = {&c, &x, &y};
  const BallTensor chosen = apply(op::Choice{}, inputs, {5}, bits);
  CHECK((mp::midpoint(chosen[0]) == 3 && chosen[0].radius == Scaled::of(0.25)));
  CHECK((mp::midpoint(chosen[1]) == -1 && chosen[1].radius == Scaled::of(0.5)));
  for (const double end : {3.25, -1.5}) CHECK(mp::contains(chosen[2], Real400(end)));
  CHECK(mp::real(chosen[2].radius) <= Real400(2.5001));
  CHECK(chosen[3].is_void());
  CHECK(mp::midpoint(chosen[4]) == 3);
  make_unknown(c[4]);
  CHECK(apply(op::Choice{}, inputs, {5}, bits)[4].is_unknown());
}

TEST_CASE("a choice of balls with an undecided condition holds every point of both") {
  const MpfrRange range;
  networks::Maker make(6, networks::Scale::ordinary);
  const BallTensor a = random_balls(make, static_cast<std::size_t>(2000 * networks::multiplier()));
  const BallTensor b = random_balls(make, a.size());
  BallTensor c(a.shape(), bits);
  for (std::size_t i = 0; i < c.size(); ++i) make_unknown(c[i]);
  const BallTensor* inputs[] = {&c, &a, &b};
  const BallTensor y = apply(op::Choice{}, inputs, a.shape(), bits);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(mp::contains(y[i], mp::point(a[i], make)));
    CHECK(mp::contains(y[i], mp::point(b[i], make)));
  }
}

TEST_CASE("softmax of balls: the value at every point of the box lies in the result, also for rows of any spread") {
  const MpfrRange range;
  networks::Maker make(4, networks::Scale::ordinary);
  for (int row = 0; row < 400 * networks::multiplier(); ++row) {
    const std::size_t n = 1 + make.below(6);
    BallTensor x = random_balls(make, n);
    if (make.chance(0.2)) assign(x[0], 1e300);
    if (make.chance(0.2)) assign(x[n - 1], -1e300);
    const BallTensor y = applied(op::Softmax{}, x);
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<Real400> e;
      Real400 sum = 0, largest = mp::midpoint(x[0]);
      for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, mp::midpoint(x[i]));
      for (std::size_t i = 0; i < n; ++i) sum += e.emplace_back(exp(mp::point(x[i], make) - largest));
      for (std::size_t i = 0; i < n; ++i) CHECK(mp::contains(y[i], e[i] / sum));
    }
  }
}

TEST_CASE("ReLU of a ball: unchanged right of 0, exactly 0 left of it, [0, m + r] across it") {
  const MpfrRange range;
  BallTensor x({5}, bits);
  mp::set(x[0], 2, Scaled::of(1.0));
  mp::set(x[1], -2, Scaled::of(1.0));
  mp::set(x[2], -1, Scaled::of(1.0));
  mp::set(x[3], 1, Scaled::of(3.0));
  mp::set(x[4], 0, Scaled());
  const BallTensor y = applied(op::Relu{}, x);
  CHECK(mp::midpoint(y[0]) == 2);
  CHECK(y[0].radius == Scaled::of(1.0));
  for (const std::size_t i : {1u, 2u, 4u}) {
    CHECK(mp::midpoint(y[i]) == 0);
    CHECK(y[i].radius.is_zero());
  }
  CHECK(mp::midpoint(y[3]) == 2);
  CHECK(y[3].radius == Scaled::of(2.0));
}

TEST_CASE("no value and no knowledge: void stays void, division by a ball around 0 is unknown") {
  const MpfrRange range;
  BallTensor x({4}, bits);
  assign(x[0], std::nan(""));
  assign(x[1], INFINITY);
  make_unknown(x[2]);
  assign(x[3], 1.0);
  CHECK(x[0].is_void());
  CHECK(x[1].is_void());
  for (const Unary& f : unary_functions()) {
    const BallTensor y = applied(f.op, x);
    CHECK(y[0].is_void());
    CHECK(y[1].is_void());
    CHECK_FALSE(y[2].is_void());
    CHECK_FALSE(y[3].is_unknown());
  }

  BallTensor d({3}, bits);
  BallTensor one({3}, bits);
  for (std::size_t i = 0; i < 3; ++i) assign(one[i], 1.0);
  mp::set(d[0], 1, Scaled::of(1.0));
  assign(d[1], 0.0);
  mp::set(d[2], 1, Scaled::of(0.5));
  const BallTensor* inputs[] = {&one, &d};
  const BallTensor y = apply(op::Div{}, inputs, d.shape(), bits);
  CHECK((y[0].is_unknown() && !y[0].is_void()));
  CHECK(y[1].is_void());
  CHECK(y[2].radius <= Scaled::of(1.0001));
}

TEST_CASE("sizes beyond every double: overflow claims nothing, underflow is covered, and sine does not hang") {
  const MpfrRange range;
  BallTensor x({3}, bits);
  assign(x[0], 1e300);
  assign(x[1], -1e300);
  assign(x[2], 1e15);
  const BallTensor e = applied(op::Exp{}, x);
  CHECK(e[0].is_void());
  CHECK(mpfr_zero_p(e[1].mid()));
  CHECK(e[1].radius == Scaled::smallest());
  CHECK_FALSE(e[2].is_unknown());
  const BallTensor s = applied(op::Sin{}, e);
  CHECK(s[2].radius == Scaled::of(1.0));
  const BallTensor sigmoid = applied(op::Sigmoid{}, x);
  CHECK(sigmoid[1].radius == Scaled::smallest());
  CHECK(mp::midpoint(sigmoid[0]) == 1);
}

TEST_CASE("erf near sqrt(3) with thousands of bits does not end the program") {
  const MpfrRange range;
  for (const int many : {1024, 4096, 4160}) {
    BallTensor x({2}, many);
    assign(x[0], 3.0);
    square_root(x[0], x[0]);
    negate(x[1], x[0]);
    const BallTensor* inputs[] = {&x};
    const BallTensor y = apply(op::Erf{}, inputs, x.shape(), many);
    const Real400 exact = boost::multiprecision::erf(Real400(sqrt(Real400(3)) + ldexp(Real400(1), -1000)));
    CHECK(abs(mp::midpoint(y[0]) - exact) < ldexp(Real400(1), -894));
    CHECK(abs(mp::midpoint(y[1]) + exact) < ldexp(Real400(1), -894));
    CHECK(y[0].radius < Scaled::power_of_two(-890));
    if (many > 4096) CHECK(y[0].radius > Scaled::power_of_two(-897));  // the series is not for so many bits
  }
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "driftbound/model/op_groups.hpp"
#include "mp_support.hpp"
#include "num/error_free.hpp"
#include "reference/kept_matrices.hpp"
#include "reference/mpfr_range.hpp"
#include "reference/pair_apply.hpp"
#include "reference/pair_kernels.hpp"
#include "support/approach.hpp"
#include "support/special_numbers.hpp"

using namespace driftbound;
using networks::Maker;
using networks::Scale;
using oracle::Real400;

namespace {

/// Midpoints of all sizes and near each other, radii of none, of rounding errors and of more than the number.
PairTensor random_pairs(Maker& make, Shape shape, std::size_t parts) {
  PairTensor x(std::move(shape), parts);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int exponents[] = {0, 0, 0, 4, -30, -300, -1040};
    const double hi = std::ldexp(make.number(), make.chance(0.8) ? 0 : exponents[make.below(7)]);
    const num::ErrorFree pair = num::two_sum(hi, make.chance(0.3) ? 0.0 : hi * make.number() * 0x1p-54);
    x.hi[i] = pair.value;
    x.lo[i] = pair.error;
    x.radius[i] = make.chance(0.3) ? 0.0 : std::fabs(make.number() * std::exp2(-static_cast<double>(make.below(140))));
    if (make.chance(0.1)) x.radius[i] = std::fabs(x.hi[i]);
    if (make.chance(0.05)) x.hi[i] = x.lo[i] = 0.0;
    if (make.chance(0.03) && i > 0) x.hi[i] = x.hi[i - 1], x.lo[i] = x.lo[i - 1];
    if (make.chance(0.01)) x.hi[i] = x.lo[i] = 0.0, x.radius[i] = infinity;
  }
  x.settle();
  return x;
}

Real400 middle(const PairTensor& x, std::size_t i) {
  return Real400(x.hi[i]) + Real400(x.lo[i]);
}

/// A point of a ball; of the whole line some number.
Real400 point(const PairTensor& x, std::size_t i, Maker& make) {
  if (std::isinf(x.radius[i])) return Real400(make.number());
  const double places[] = {-1.0, 1.0, 0.0, static_cast<double>(make.below(1000)) / 500.0 - 1.0};
  return middle(x, i) + Real400(x.radius[i]) * Real400(places[make.below(4)]);
}

bool holds(const PairTensor& y, std::size_t i, const Real400& exact) {
  if (std::isinf(y.radius[i])) return true;
  return oracle::is_number(exact) && abs(exact - middle(y, i)) <= Real400(y.radius[i]) + abs(exact) * Real400("1e-395");
}

/// |exact - middle| / radius.
double share(const PairTensor& y, std::size_t i, const Real400& exact) {
  return Real400(abs(exact - middle(y, i)) / Real400(y.radius[i])).convert_to<double>();
}

struct Case {
  const char* name;
  Op op;
  std::function<Real400(const Real400&, const Real400&)> exact;
  std::size_t operands;
};

/// log(1 + t) for 0 < t <= 1, also where 1 + t would be 1.
Real400 soft(const Real400& t) {
  return t > Real400("1e-300") ? Real400(boost::multiprecision::log1p(t)) : t;
}

const std::vector<Case>& cases() {
  using R = const Real400&;
  static const std::vector<Case> all = {
      {"add", op::Add{}, [](R a, R b) { return Real400(a + b); }, 2},
      {"subtract", op::Sub{}, [](R a, R b) { return Real400(a - b); }, 2},
      {"multiply", op::Mul{}, [](R a, R b) { return Real400(a * b); }, 2},
      {"divide", op::Div{}, [](R a, R b) { return Real400(a / b); }, 2},
      {"maximum", op::Max{}, [](R a, R b) { return a < b ? b : a; }, 2},
      {"minimum", op::Min{}, [](R a, R b) { return a < b ? a : b; }, 2},
      {"reciprocal", op::Reciprocal{}, [](R a, R) { return Real400(1 / a); }, 1},
      {"root", op::Sqrt{}, [](R a, R) { return Real400(sqrt(a)); }, 1},
      {"rectified", op::Relu{}, [](R a, R) { return a < 0 ? Real400(0) : a; }, 1},
      {"absolute", op::Abs{}, [](R a, R) { return Real400(abs(a)); }, 1},
      {"negative", op::Neg{}, [](R a, R) { return Real400(-a); }, 1},
      {"clip", op::Clip{-0.5, 0.75}, [](R a, R) { return a < -0.5   ? Real400(-0.5)
                                                         : a < 0.75 ? a
                                                                    : Real400(0.75); }, 1},
      {"tanh", op::Tanh{}, [](R a, R) { return Real400(tanh(a)); }, 1},
      {"sigmoid", op::Sigmoid{}, [](R a, R) { return Real400(1 / (1 + exp(-a))); }, 1},
      {"softplus", op::Softplus{}, [](R a, R) { return a > 0 ? Real400(a + log(1 + exp(-a))) : soft(exp(a)); }, 1},
      {"exp", op::Exp{}, [](R a, R) { return Real400(exp(a)); }, 1},
      {"log", op::Log{}, [](R a, R) { return Real400(log(a)); }, 1},
      {"sin", op::Sin{}, [](R a, R) { return Real400(sin(a)); }, 1},
      {"cos", op::Cos{}, [](R a, R) { return Real400(cos(a)); }, 1},
      {"erf", op::Erf{}, [](R a, R) { return Real400(boost::multiprecision::erf(a)); }, 1},
      {"gelu", op::Gelu{}, [](R a, R) { return mp::gelu(a); }, 1},
      {"gelu by tanh", op::Gelu{true}, [](R a, R) { return mp::gelu_tanh(a); }, 1},
      {"atan, by balls", op::Atan{}, [](R a, R) { return Real400(atan(a)); }, 1}};
  return all;
}

PairTensor applied(const Op& op, std::span<const PairTensor* const> operands, const Shape& shape, std::size_t parts) {
  std::vector<PairInput> inputs;
  for (const PairTensor* operand : operands) inputs.push_back({operand, nullptr});
  return apply(op, inputs, shape, parts);
}

PairTensor ball(double hi, double radius) {
  PairTensor x(Tensor<double>({1}, {hi}));
  x.radius[0] = radius;
  x.settle();
  return x;
}

bool takes_two(const Op& op) {
  return std::visit([](const auto& alternative) { return ElementwiseBinary<std::decay_t<decltype(alternative)>>; }, op);
}

/// Whether a sample's exact values, given with their tensor, are within the norm of their midpoints.
bool norm_holds(const PairTensor& y, std::size_t part, const std::vector<Real400>& exact) {
  if (std::isinf(y.norms[part])) return true;
  Real400 squares = 0;
  for (std::size_t i = part * y.part_size(); i < (part + 1) * y.part_size(); ++i) {
    const Real400 distance = exact[i] - middle(y, i);
    squares += distance * distance;
  }
  return sqrt(squares) <= Real400(y.norms[part]);
}

}  // namespace

TEST_CASE("functions of pairs hold the exact values of all points of their operands" *
          doctest::test_suite("campaign")) {
  const MpfrRange range;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Maker make(11, Scale::ordinary);
    const std::size_t n = 4000;
    const PairTensor a = random_pairs(make, {static_cast<std::int64_t>(n)}, 1);
    const PairTensor b = random_pairs(make, {static_cast<std::int64_t>(n)}, 1);
    const PairTensor* operands[] = {&a, &b};
    const PairTensor y = applied(c.op, {operands, c.operands}, a.shape, 1);
    std::size_t claims = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (std::isinf(y.radius[i])) continue;
      ++claims;
      for (int trial = 0; trial < 3; ++trial) {
        const Real400 x = point(a, i, make), z = point(b, i, make);
        if (!holds(y, i, c.exact(x, z)))
          FAIL(c.name, " element ", i, ": ", y.hi[i], " +- ", y.radius[i], " of ", a.hi[i], " +- ", a.radius[i]);
      }
      const bool normalised = y.hi[i] == y.hi[i] + y.lo[i];
      if (!normalised) FAIL(c.name, " element ", i, " is not normalised");
    }
    CHECK(claims > n / 5);
  }
}

TEST_CASE("every build of the loops gives the same bits, also at the end of an array") {
  Maker make(12, Scale::ordinary);
  for (const std::size_t n : {1u, 7u, 8u, 61u}) {
    const PairTensor a = random_pairs(make, {static_cast<std::int64_t>(n)}, 1);
    const PairTensor b = random_pairs(make, {static_cast<std::int64_t>(n)}, 1);
    const auto run = [&](const PairKernels& kernels) {
      std::vector<double> all;
      const auto keep = [&](auto function) {
        PairTensor y(Tensor<double>(a.shape));
        function(y.view());
        for (const Doubles* part : {&y.hi, &y.lo, &y.radius}) all.insert(all.end(), part->begin(), part->end());
      };
      for (const auto function : {kernels.add, kernels.subtract, kernels.multiply})
        keep([&](Pairs y) { all.push_back(function(y, a.view(), b.view(), n)); });
      for (const auto function : {kernels.divide, kernels.maximum, kernels.minimum})
        keep([&](Pairs y) { function(y, a.view(), b.view(), n); });
      for (const auto function : {kernels.square_root, kernels.rectified, kernels.absolute})
        keep([&](Pairs y) { function(y, a.view(), n); });
      keep([&](Pairs y) { kernels.spread(y.radius, 0.7, a.radius.data(), n); });
      keep([&](Pairs y) {
        std::copy_n(a.radius.data(), n, y.radius);
        kernels.cap(y.radius, 0x1p-40, n);
      });
      all.push_back(kernels.norm(a.radius.data(), n));
      std::vector<unsigned char> precise(n);
      all.push_back(static_cast<double>(
          kernels.judge(a.view(), b.hi.data(), {0x1p-30, 0x1p-60, 0x1p-40, 0x1p-90}, n, precise.data())));
      all.insert(all.end(), precise.begin(), precise.end());
      return all;
    };
    const std::vector<double> expected = run(*usable_pair_kernels().front());
    for (const PairKernels* kernels : usable_pair_kernels()) {
      CAPTURE(kernels->name);
      CHECK(run(*kernels) == expected);
    }
  }
}

TEST_CASE("exact operands with exact results have radius 0, and zeros stay zeros") {
  const PairTensor x = PairTensor(Tensor<double>({4}, {3.0, -2.0, 0.0, 0x1p-900}));
  const PairTensor y = PairTensor(Tensor<double>({4}, {-4.0, 0.5, 7.0, 2.0}));
  const PairTensor* operands[] = {&x, &y};
  for (const Op& op : std::vector<Op>{op::Add{}, op::Sub{}, op::Mul{}, op::Max{}, op::Min{}}) {
    const PairTensor z = applied(op, operands, {4}, 1);
    CHECK(z.radius == Doubles(4, 0.0));
    CHECK(z.is_exact());
  }
  const PairTensor quotient = applied(op::Div{}, operands, {4}, 1);
  CHECK(quotient.radius[0] == 0.0);  // -3 / 4
  CHECK(quotient.radius[2] == 0.0);
  const PairTensor* roots[] = {&y};
  CHECK(applied(op::Sqrt{}, roots, {4}, 1).radius[0] == infinity);
  const PairTensor nine = ball(9.0, 0.0), none = ball(0.0, infinity), zero = ball(0.0, 0.0);
  const PairTensor *root[] = {&nine}, *zeros[] = {&none, &zero};
  CHECK(applied(op::Sqrt{}, root, {1}, 1).radius[0] == 0.0);
  CHECK(applied(op::Div{}, zeros, {1}, 1).radius[0] == infinity);
}

TEST_CASE("Gelu in its tail is as precise next to itself as its argument is (T-87)" * doctest::test_suite("campaign")) {
  Maker make(13, Scale::ordinary);
  constexpr std::size_t n = 600;
  PairTensor x(Tensor<double>({static_cast<std::int64_t>(n)}));
  for (std::size_t i = 0; i < n; ++i) {
    x.hi[i] = -5.1 - 15.0 * std::fabs(std::fmod(make.number(), 1.0));
    x.radius[i] = std::exp2(-60.0 - static_cast<double>(make.below(60)));
  }
  x.settle();
  const PairTensor* operands[] = {&x};
  for (const bool by_tanh : {false, true}) {
    CAPTURE(by_tanh);
    const PairTensor y = applied(op::Gelu{by_tanh}, operands, x.shape, 1);
    for (std::size_t i = 0; i < n; ++i) {
      for (const double end : {-1.0, 0.0, 1.0}) {
        const Real400 at = middle(x, i) + Real400(x.radius[i]) * end;
        CHECK(holds(y, i, by_tanh ? mp::gelu_tanh(at) : mp::gelu(at)));
      }
      const double steepness = by_tanh ? 1100.0 : 25.0;
      CHECK(y.radius[i] <= std::fabs(y.hi[i]) * (steepness * x.radius[i] + 0x1p-91) + 0x1p-799);
    }
  }
}

TEST_CASE("numbers that are none are the whole line") {
  const PairTensor x = PairTensor(Tensor<double>({4}, {infinity, -infinity, std::nan(""), 1.0}));
  CHECK(x.radius == Doubles{infinity, infinity, infinity, 0.0});
  CHECK(x.norms == std::vector<double>{infinity});
  CHECK(x.hi == Doubles{0.0, 0.0, 0.0, 1.0});
  const PairTensor huge = PairTensor(Tensor<double>({1}, {0x1.8p1023}));
  const PairTensor* twice[] = {&huge, &huge};
  CHECK(applied(op::Add{}, twice, {1}, 1).radius[0] == infinity);
  CHECK(applied(op::Mul{}, twice, {1}, 1).radius[0] == infinity);
}

TEST_CASE("what a selection fills in is the whole line where it is no number") {
  const PairTensor x = PairTensor(Tensor<double>({2}, {0.5, -2.0}));
  const PairTensor* operands[] = {&x};
  for (const double fill : {infinity, -infinity, std::nan("")}) {
    const PairTensor y = applied(op::Pad{op::Pad::Mode::constant, {0}, {1}, fill}, operands, {3}, 1);
    CHECK(y.hi == Doubles{0.5, -2.0, 0.0});
    CHECK(y.radius == Doubles{0.0, 0.0, infinity});
    CHECK(y.norms == std::vector<double>{infinity});
    const double computed[] = {0.5, -2.0, fill};
    unsigned char precise[3] = {};
    CHECK(fastest_pair_kernels().judge(y.view(), computed, {0x1p-30, 0x1p-60, 0x1p-84, 0x1p-210}, 3, precise) == 1);
  }
}

TEST_CASE("norms of radii are norms' upper bounds, among the smallest numbers too") {
  for (const PairKernels* kernels : usable_pair_kernels()) {
    CAPTURE(kernels->name);
    for (std::size_t n = 0; n <= 40; ++n) {
      for (const double radius : {0.0, 0x1p-1074, 0x1p-1073, 0x1p-1070, 0x1p-1060, 0x1p-400, 0x1p-399, 1.0, 0x1p900}) {
        const Doubles radii(n, radius);
        const double norm = kernels->norm(radii.data(), n);
        const Real400 squares = Real400(radius) * Real400(radius) * static_cast<double>(n);
        CHECK(Real400(norm) * Real400(norm) >= squares);
        CHECK((norm == 0.0) == (n == 0 || radius == 0.0));
        CHECK(Real400(norm) <= sqrt(squares) * Real400(1.0 + 0x1p-46) + Real400(0x1p-1069));
      }
    }
  }
}

TEST_CASE("where an operand has no value no result has one") {
  const MpfrRange range;
  PairTensor x(Tensor<double>({2, 3}, {1.0, std::nan(""), 0.5, 0.25, 0.75, 1.0}));
  const PairTensor y(Tensor<double>({2, 3}, {0.0, 0.0, 0.0, 0.0, 0.0, 0.0})), w(Tensor<double>({3, 2}));
  for (const Op& op :
       std::vector<Op>{op::Add{}, op::Sub{}, op::Mul{}, op::Div{}, op::Max{}, op::Min{}, op::Abs{}, op::Relu{},
                       op::Neg{}, op::Sqrt{}, op::Clip{2.0, 3.0}, op::Tanh{}, op::Sigmoid{}, op::Sin{}, op::Softmax{},
                       op::Sign{}, op::Greater{}, op::Gelu{}, op::Identity{}}) {
    CAPTURE(name_of(op));
    const std::size_t operands = takes_two(op) ? 2 : 1;
    const PairTensor* inputs[] = {&x, &y};
    CHECK(applied(op, {inputs, operands}, {2, 3}, 2).radius[1] == infinity);
    const PairTensor* turned[] = {&y, &x};
    if (operands == 2) CHECK(applied(op, turned, {2, 3}, 2).radius[1] == infinity);
  }
  KeptMatrices kept;
  const std::vector<PairInput> by_zeros = {{&x, nullptr}, {&w, &kept}};
  const PairTensor product = apply(op::MatMul{}, by_zeros, {2, 2}, 2);
  CHECK(product.radius == Doubles{infinity, infinity, 0.0, 0.0});
  const PairTensor zeros(Tensor<double>({4, 2}));
  const std::vector<PairInput> of_zeros = {{&zeros, nullptr}, {&x, nullptr}};
  const PairTensor other = apply(op::MatMul{}, of_zeros, {4, 3}, 1);
  for (std::size_t i = 0; i < 12; ++i) CHECK(std::isinf(other.radius[i]) == (i % 3 == 1));
}

TEST_CASE("quotients, roots, kinks and extrema at the ends of their operands (T-87)") {
  const double r = 0x1p-20;
  const PairTensor one = ball(1.0, r), two = ball(2.0, r), zero = ball(0.0, r), third = ball(3.0, 0.0);
  const auto of = [](const Op& op, std::vector<const PairTensor*> operands) { return applied(op, operands, {1}, 1); };
  CHECK_APPROACH("T-87", share(of(op::Div{}, {&one, &two}), 0, (1 + Real400(r)) / (2 - Real400(r))), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Sqrt{}, {&zero, &zero}), 0, Real400(0)), 0.0);
  CHECK_APPROACH("T-87", share(of(op::Sqrt{}, {&one}), 0, sqrt(1 - Real400(r))), 0.5);
  CHECK_APPROACH("T-87", share(of(op::Relu{}, {&zero}), 0, Real400(r)), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Max{}, {&zero, &zero}), 0, Real400(r)), 1.0);
  const Real400 end = 1 + Real400(r), start = 1 - Real400(r);
  CHECK_APPROACH("T-87", share(of(op::Exp{}, {&one}), 0, exp(end)), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Log{}, {&one}), 0, log(start)), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Tanh{}, {&one}), 0, tanh(start)), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Sin{}, {&zero}), 0, sin(Real400(r))), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Erf{}, {&zero}), 0, boost::multiprecision::erf(Real400(r))), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Sigmoid{}, {&zero}), 0, 1 / (1 + exp(-Real400(r)))), 1.0);
  const PairTensor low = ball(-20.0, r), nothing = ball(0.0, 0.0);
  CHECK_APPROACH("T-87", share(of(op::Sigmoid{}, {&low}), 0, 1 / (1 + exp(20 - Real400(r)))), 1.0);
  CHECK_APPROACH("T-87", share(of(op::Softplus{}, {&low}), 0, log(1 + exp(-20 + Real400(r)))), 1.0);
  for (const Op& op : std::vector<Op>{op::Tanh{}, op::Sin{}, op::Erf{}, op::Gelu{}})
    CHECK(of(op, {&nothing}).radius[0] == 0.0);
  const PairTensor exact_one = ball(1.0, 0.0), quotient = of(op::Div{}, {&exact_one, &third});
  CHECK(quotient.radius[0] <= 0x1p-106);  // 1/3 to more bits than two doubles are asked for
  const PairTensor root = of(op::Sqrt{}, {&third});
  CHECK(root.radius[0] <= 0x1p-102);
}

TEST_CASE("products of matrices, biases and sums: elements and norms of samples hold (T-89)") {
  Maker make(13, Scale::ordinary);
  double closest = 0.0;
  for (int round = 0; round < 30; ++round) {
    const std::int64_t samples = 5, k = 17, n = 20;
    PairTensor x = random_pairs(make, {samples, k}, 5), w(make.tensor({k, n}));
    const PairTensor bias(make.tensor({n}));
    for (std::size_t i = 0; i < x.size(); ++i)
      if (std::isinf(x.radius[i])) x.radius[i] = 1.0;
    for (std::size_t part = 0; part < 5; ++part) x.norms[part] = infinity;
    x.settle();
    KeptMatrices kept;
    const std::vector<PairInput> inputs = {{&x, nullptr}, {&w, &kept}, {&bias, nullptr}};
    const PairTensor y = apply(op::Gemm{}, inputs, {samples, n}, 5);
    std::vector<Real400> values, exact(y.size());
    for (std::size_t i = 0; i < x.size(); ++i) values.push_back(point(x, i, make));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = i / 20, column = i % 20;
      exact[i] = Real400(bias.hi[column]);
      for (std::size_t l = 0; l < 17; ++l) exact[i] += values[row * 17 + l] * Real400(w.hi[l * 20 + column]);
      if (!holds(y, i, exact[i])) FAIL("element ", i, " of round ", round);
      closest = std::max(closest, share(y, i, exact[i]));
    }
    for (std::size_t part = 0; part < 5; ++part) CHECK(norm_holds(y, part, exact));
  }
  CHECK(closest > 0.1);

  // One element is off by all that the norm allows, along the one direction in which a matrix of rank 1 acts.
  PairTensor x(Tensor<double>({1, 2}, {3.0, 4.0}));
  x.radius = {0x1.8p-20, 0x1p-19};
  x.settle();
  const PairTensor w(Tensor<double>({2, 1}, {0.75, 1.0}));
  KeptMatrices kept;
  const std::vector<PairInput> inputs = {{&x, nullptr}, {&w, &kept}};
  const PairTensor y = apply(op::MatMul{}, inputs, {1, 1}, 1);
  const Real400 end = Real400(0.75) * (3.0 + 0x1.8p-20) + 4.0 + 0x1p-19;
  CHECK_APPROACH("T-89", share(y, 0, end), 1.0);
}

TEST_CASE("norms grow by a matrix's norm, not by its rows' sums") {
  Maker make(14, Scale::ordinary);
  const std::int64_t n = 64;
  Tensor<double> rotation({n, n});  // a Hadamard matrix by its size's root: orthogonal
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      rotation.values[static_cast<std::size_t>(i * n + j)] =
          __builtin_popcountll(static_cast<std::uint64_t>(i & j)) % 2 == 0 ? 0.125 : -0.125;
  const PairTensor w(rotation);
  KeptMatrices kept;
  PairTensor x({2, n}, 2);
  for (std::size_t i = 0; i < x.size(); ++i) x.hi[i] = make.number(), x.lo[i] = 0.0, x.radius[i] = 0x1p-60;
  x.settle();
  const double before = x.norms[0];
  for (int layer = 0; layer < 10; ++layer) {
    const std::vector<PairInput> inputs = {{&x, nullptr}, {&w, &kept}};
    x = apply(op::MatMul{}, inputs, {2, n}, 2);
  }
  CHECK(x.norms[0] <= 1.1 * before);
  CHECK(x.radius[0] <= 1.1 * before);
}

#include <doctest/doctest.h>

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "evaluate/small_graphs.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;
using Rational = boost::multiprecision::cpp_rational;

/// A float format by its two numbers; rounding by exact rational arithmetic.
struct Binary {
  int precision;
  int min_exponent;
};
constexpr Binary fp32 = {24, -126};
constexpr Binary fp64 = {53, -1022};
constexpr Binary tf32 = {11, -126};
constexpr Binary bf16 = {8, -126};
constexpr Binary fp16 = {11, -14};

Rational power_of_two(int exponent) {
  const boost::multiprecision::cpp_int power = boost::multiprecision::cpp_int(1) << std::abs(exponent);
  return exponent >= 0 ? Rational(power) : Rational(1) / Rational(power);
}

/// The number of the format nearest to x, ties to even; overflow does not occur in these tests.
Rational nearest(const Rational& x, const Binary& to) {
  if (x == 0) return x;
  const Rational size = abs(x);
  int exponent = static_cast<int>(msb(numerator(size))) - static_cast<int>(msb(denominator(size)));
  if (power_of_two(exponent) > size) --exponent;
  const Rational unit = power_of_two(std::max(exponent, to.min_exponent) - to.precision + 1);
  const Rational steps = size / unit;
  boost::multiprecision::cpp_int whole = numerator(steps) / denominator(steps);
  const Rational rest = steps - Rational(whole);
  const Rational half(1, 2);
  if (rest > half || (rest == half && whole % 2 != 0)) ++whole;
  const Rational result = Rational(whole) * unit;
  return x < 0 ? Rational(-result) : result;
}

struct Oracle {
  Binary accumulator;
  SummationOrder order;
  std::vector<Rational> a, b;

  Rational fl(const Rational& x) const { return nearest(x, accumulator); }

  Rational chain(std::size_t first, std::size_t last) const {
    Rational sum = fl(a[first] * b[first]);
    for (std::size_t i = first + 1; i < last; ++i) {
      sum = order.fma ? fl(sum + a[i] * b[i]) : fl(sum + fl(a[i] * b[i]));
    }
    return sum;
  }

  Rational halves(std::size_t first, std::size_t last) const {
    const std::size_t n = last - first;
    if (n <= 2) return chain(first, last);
    std::size_t left = 1;
    while (2 * left < n) left *= 2;
    return fl(halves(first, first + left) + halves(first + left, last));
  }

  /// Products in turn to lanes, or to slices of neighbours, and the ways to add the parts.
  Rational dealt() const {
    const Dealing& how = order.parts.dealing;
    const bool in_turn = how.kind == Dealing::Kind::interleaved;
    std::map<std::size_t, std::vector<std::size_t>> parts;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::size_t run = i / static_cast<std::size_t>(how.run);
      parts[in_turn ? run % static_cast<std::size_t>(how.parts) : run].push_back(i);
    }
    std::vector<Rational> sums;
    for (const auto& [part, products] : parts) {
      Oracle one{accumulator, order, {}, {}};
      for (const std::size_t i : products) {
        one.a.push_back(a[i]);
        one.b.push_back(b[i]);
      }
      sums.push_back(one.chain(0, products.size()));
    }
    const Combination combination = order.parts.combination;
    while (sums.size() > 1) {
      std::vector<Rational> next;
      const std::size_t half = (sums.size() + 1) / 2;
      const bool by_halves =
          combination == Combination::halves || (combination == Combination::fours && sums.size() > 4);
      if (combination == Combination::sequential) {
        next = sums;
        next[0] = fl(sums[0] + sums[1]);
        next.erase(next.begin() + 1);
      } else {
        for (std::size_t i = 0; i < half; ++i) {
          const std::size_t left = by_halves ? i : 2 * i, right = by_halves ? i + half : 2 * i + 1;
          next.push_back(right < sums.size() ? fl(sums[left] + sums[right]) : sums[left]);
        }
      }
      sums = std::move(next);
    }
    return sums.front();
  }

  Rational sum() const {
    const std::size_t n = a.size();
    if (n == 0) return 0;
    if (order.kind == SummationOrder::Kind::dealt) return dealt();
    const auto parameter = static_cast<std::size_t>(order.parameter);
    std::size_t length = n;
    switch (order.kind) {
      case SummationOrder::Kind::pairwise:
        return halves(0, n);
      case SummationOrder::Kind::blocked:
        length = parameter;
        break;
      case SummationOrder::Kind::split_k:
        length = (n + parameter - 1) / parameter;
        break;
      default:
        break;
    }
    Rational total = chain(0, std::min(length, n));
    for (std::size_t first = length; first < n; first += length) {
      total = fl(total + chain(first, std::min(first + length, n)));
    }
    return total;
  }
};

const std::vector<SummationOrder>& orders() {
  static const std::vector<SummationOrder> all = [] {
    std::vector<SummationOrder> list;
    for (const bool fma : {false, true}) {
      list.push_back({SummationOrder::Kind::sequential, 0, fma});
      list.push_back({SummationOrder::Kind::pairwise, 0, fma});
      for (const std::int64_t parameter : {1, 3, 8}) {
        list.push_back({SummationOrder::Kind::blocked, parameter, fma});
        list.push_back({SummationOrder::Kind::split_k, parameter, fma});
      }
      for (const std::string dealt : {"lanes:4x1/halves", "lanes:8x1/neighbours", "lanes:8x1/fours", "lanes:3x2",
                                      "slices:5/neighbours", "slices:2/halves"})
        list.push_back(parse_summation_order(dealt + (fma ? "+fma" : "")));
    }
    return list;
  }();
  return all;
}

int multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

struct Case {
  const char* name;
  Binary operand, accumulator;
};
const Case cases[] = {
    {"fp64", fp64, fp64}, {"fp32", fp32, fp32}, {"tf32", tf32, fp32}, {"bf16", bf16, fp32}, {"fp16", fp16, fp32}};

/// Numbers of very different sizes, so that every order rounds differently, some of them subnormal in fp16.
double spiteful(std::mt19937_64& random) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
  return std::ldexp(unit, static_cast<int>(random() % 24) - 16);
}

TEST_CASE("a matrix product rounds exactly as its declared order says") {
  std::mt19937_64 random(1);
  for (int round = 0; round < multiplier(); ++round) {
    for (const Case& c : cases) {
      for (const SummationOrder& order : orders()) {
        for (const std::int64_t k : {1, 2, 3, 5, 7, 8, 9, 16, 21, 37}) {
          const std::int64_t m = 3, n = 2;
          Tensor<double> a({m, k}), b({k, n});
          for (double& x : a.values) x = spiteful(random);
          for (double& x : b.values) x = spiteful(random);
          const Tensor<double> y = apply<double>(op::MatMul{}, {a, b}, cpu_arithmetic(c.name, order));
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              Oracle oracle{c.accumulator, order, {}, {}};
              for (std::int64_t l = 0; l < k; ++l) {
                oracle.a.push_back(nearest(Rational(a.values[static_cast<std::size_t>(i * k + l)]), c.operand));
                oracle.b.push_back(nearest(Rational(b.values[static_cast<std::size_t>(l * n + j)]), c.operand));
              }
              CAPTURE(c.name);
              CAPTURE(to_string(order));
              CAPTURE(k);
              REQUIRE(Rational(y.values[static_cast<std::size_t>(i * n + j)]) == oracle.sum());
            }
          }
        }
      }
    }
  }
}

TEST_CASE("parts that are far more or far longer than a sum has products are one, or one product each") {
  std::mt19937_64 random(3);
  const Tensor<double> a = random_tensor<double>({2, 9}, random), b = random_tensor<double>({9, 3}, random);
  const auto product = [&](const std::string& order) {
    return apply<double>(op::MatMul{}, {a, b}, cpu_arithmetic("fp32", parse_summation_order(order))).values;
  };
  const std::string huge = "9223372036854775807";
  CHECK(product("lanes:" + huge + "x1/halves") == product("lanes:9x1/halves"));
  CHECK(product("lanes:" + huge + "x" + huge) == product("sequential"));
  CHECK(product("lanes:" + huge + "x2:front") == product("lanes:5x2:front"));
  CHECK(product("slices:" + huge) == product("sequential"));
  CHECK(product("balanced:" + huge + ":" + huge) == product("sequential"));
}

TEST_CASE("the orders are different functions") {
  std::mt19937_64 random(2);
  const Tensor<float> a = random_tensor<float>({1, 100}, random), b = random_tensor<float>({100, 40}, random);
  std::vector<std::vector<double>> results;
  for (const SummationOrder& order : orders()) {
    if (order.parameter == 1) continue;  // sequential again, split_k 1 also with fma
    results.push_back(apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic("fp32", order)).values);
    for (std::size_t i = 0; i + 1 < results.size(); ++i) CHECK(results[i] != results.back());
  }
}

TEST_CASE("subnormal products and sums round gradually") {
  // products of 1 and 1/2 units of 2^-149: rounded first, 1 + 0; fused, 1.5 -> 2
  const auto a = tensor<float>({1, 2}, {0x1p-75f, 0x1p-75f}), b = tensor<float>({2, 1}, {0x1p-74f, 0x1p-75f});
  const auto product = [&](bool fma) {
    return apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, fma}))
        .values[0];
  };
  CHECK(product(false) == 0x1p-149);
  CHECK(product(true) == 0x1p-148);
}

TEST_CASE("operands of products overflow to infinity in fp16 and not elsewhere") {
  const auto a = tensor<float>({1, 1}, {65520.0f}), b = tensor<float>({1, 1}, {1.0f});
  const SummationOrder order{SummationOrder::Kind::sequential, 0, false};
  CHECK(std::isinf(apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic("fp16", order)).values[0]));
  CHECK(apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic("bf16", order)).values[0] == 65536.0);
  CHECK(apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic("tf32", order)).values[0] == 65536.0);
  CHECK(apply<float>(op::Add{}, {a, b}, cpu_arithmetic("fp16", order)).values[0] == 65521.0);
}

TEST_CASE("operands of products round to the fp8 formats: 448 is the largest number of E4M3, above are none") {
  const SummationOrder order{SummationOrder::Kind::sequential, 0, false};
  const auto product = [&](const char* arithmetic, float x) {
    const auto a = tensor<float>({1, 1}, {x}), b = tensor<float>({1, 1}, {1.0f});
    return apply<float>(op::MatMul{}, {a, b}, cpu_arithmetic(arithmetic, order)).values[0];
  };
  CHECK(product("fp8_e4m3", 1.0625f) == 1.0f);  // a tie, to even
  CHECK(product("fp8_e4m3", 1.07f) == 1.125f);
  CHECK(product("fp8_e4m3", 460.0f) == 448.0f);
  CHECK(std::isnan(product("fp8_e4m3", 470.0f)));
  CHECK(product("fp8_e5m2", 1.13f) == 1.25f);
  CHECK(product("fp8_e5m2", 60000.0f) == 57344.0f);
  CHECK(std::isinf(product("fp8_e5m2", 61440.0f)));
}

TEST_CASE("Gemm scales the sum and the bias, rounding each once, and adds the bias last") {
  const op::Gemm gemm{0.1, 0.3, true, true};
  const auto a = tensor<float>({2, 1}, {1.1f, 2.2f}), b = tensor<float>({1, 2}, {3.3f, 4.4f});
  const auto c = tensor<float>({1}, {0.7f});
  const float sum = std::fma(2.2f, 4.4f, 1.1f * 3.3f);
  const float scaled = 0.1f * sum, bias = 0.3f * 0.7f;
  const auto y = apply<float>(gemm, {a, b, c}, cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, true}));
  CHECK(y.values == std::vector<double>{static_cast<double>(scaled + bias)});
}

}  // namespace

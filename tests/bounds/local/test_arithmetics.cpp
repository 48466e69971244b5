#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/soft_arithmetic.hpp"

// Directed rounding, flushing of subnormal numbers, a narrower output format.

using namespace checks;

namespace {

std::vector<float> draw_floats(Data data, std::size_t n, Generator& generator) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(draw(data, generator));
  return values;
}

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

Tallies check_soft_dot(const SoftArithmetic& soft, Data data, bool fma, bool has_bias, Generator& generator) {
  const std::size_t k = 1 + generator() % 12;
  std::vector<double> p = widened(draw_floats(data, k, generator)), q = widened(draw_floats(data, k, generator));
  shape_rows<float>(data, k, p, q);
  const std::vector<float> a(p.begin(), p.end()), b(q.begin(), q.end());
  const float bias = static_cast<float>(draw(data, generator));
  float y = soft.dot(a, b, fma);
  Real exact;
  for (std::size_t i = 0; i < k; ++i) exact += Real(a[i]) * Real(b[i]);
  const auto length = static_cast<std::int64_t>(k);
  std::vector<Tensor<double>> operands{{{1, length}, p}, {{length, 1}, q}};
  if (has_bias) {
    y = soft.add(y, soft.operand(bias));
    exact += Real(bias);
    operands.push_back({{1}, {static_cast<double>(bias)}});
  }
  const auto computed = static_cast<double>(soft.stored(y));
  const LayerBounds layer = bounds_of(one_node(op::Gemm{}, operands, {{1, 1}, {computed}}, soft.model(fma)));
  Tallies tallies;
  if (std::isfinite(computed)) tallies.add(layer, 0, computed, exact);
  return tallies;
}

template <class SoftOp, class ExactOp>
Tallies check_soft_pairs(const Op& op, const SoftArithmetic& soft, Data data, SoftOp soft_op, ExactOp exact_op,
                         Generator& generator) {
  const std::vector<float> a = draw_floats(data, 8, generator), b = draw_floats(data, 8, generator);
  std::vector<double> computed;
  for (std::size_t i = 0; i < a.size(); ++i) {
    computed.push_back(static_cast<double>(soft.stored(soft_op(soft.operand(a[i]), soft.operand(b[i])))));
  }
  const OneNode one = one_node(op, {{{8}, widened(a)}, {{8}, widened(b)}}, {{8}, computed}, soft.model(false));
  const LayerBounds layer = bounds_of(one);
  Tallies tallies;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(computed[i])) tallies.add(layer, i, computed[i], exact_op(Real(a[i]), Real(b[i])));
  }
  return tallies;
}

}  // namespace

TEST_CASE("directed rounding, flushing and narrow outputs keep both bounds of a product") {
  Generator generator(51);
  for (const SoftArithmetic& soft : soft_arithmetics()) {
    CAPTURE(static_cast<int>(soft.direction));
    CAPTURE(soft.flushes);
    CAPTURE(soft.stores_bf16);
    Tallies tallies;
    for (int i = 0; i < 25 * test_multiplier(); ++i) {
      for (int data = 0; data < static_cast<int>(Data::bias); ++data) {
        tallies += check_soft_dot(soft, static_cast<Data>(data), i % 2 == 0, i % 3 == 0, generator);
      }
    }
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK_APPROACH("T-11", tallies.order_aware.utilisation, 1.0);
  }
}

TEST_CASE("directed rounding, flushing and narrow outputs keep the bounds of single operations") {
  Generator generator(52);
  for (const SoftArithmetic& soft : soft_arithmetics()) {
    CAPTURE(static_cast<int>(soft.direction));
    CAPTURE(soft.flushes);
    CAPTURE(soft.stores_bf16);
    Tallies tallies;
    for (int i = 0; i < 20 * test_multiplier(); ++i) {
      for (int kind = 0; kind < static_cast<int>(Data::bias); ++kind) {
        const auto data = static_cast<Data>(kind);
        tallies += check_soft_pairs(
            op::Add{}, soft, data, [&](float a, float b) { return soft.add(a, b); },
            [](const Real& a, const Real& b) { return a + b; }, generator);
        tallies += check_soft_pairs(
            op::Mul{}, soft, data, [&](float a, float b) { return soft.multiply(a, b); },
            [](const Real& a, const Real& b) { return a * b; }, generator);
        tallies += check_soft_pairs(
            op::Div{}, soft, data, [&](float a, float b) { return soft.divide(a, b); },
            [](const Real& a, const Real& b) { return a / b; }, generator);
      }
    }
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK_APPROACH("T-15", tallies.componentwise.utilisation, 1.0);
  }
}

TEST_CASE("operands on the verge of subnormal sums: additions below twice the smallest normal are exact") {
  Generator generator(53);
  for (int i = 0; i < 2000 * test_multiplier(); ++i) {
    const auto draw_small = [&] { return static_cast<float>(uniform(generator, -0x1p-125, 0x1p-125)); };
    const float a = draw_small(), b = draw_small();
    const auto y = static_cast<double>(a + b);
    const OneNode one = one_node(op::Add{}, {{{1}, {static_cast<double>(a)}}, {{1}, {static_cast<double>(b)}}},
                                 {{1}, {y}}, cpu_arithmetic("fp32", {}));
    Tallies tallies;
    tallies.add(bounds_of(one), 0, y, Real(a) + Real(b));
    CAPTURE(a);
    CAPTURE(b);
    REQUIRE(tallies.violations() == 0);
  }
}

TEST_CASE("a flushing cast loses subnormal numbers of its target, which are normal in the accumulator") {
  const double x = 0x1p-20;  // subnormal in float16
  for (const FormatId output : {FormatId::fp32, FormatId::bf16}) {
    for (const bool flushes : {true, false}) {
      ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
      arithmetic.flushes_subnormals = flushes;
      arithmetic.output = output;
      const auto bound_of = [&](double y) {
        const OneNode one = one_node(op::Cast{ElementType::f16}, {{{1}, {x}}}, {{1}, {y}}, arithmetic);
        return find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0];
      };
      CAPTURE(flushes);
      if (flushes) CHECK(bound_of(0.0) >= x);
      if (flushes) CHECK(bound_of(0.0) <= 0x1.1p-14);
      if (!flushes && output == FormatId::fp32) CHECK(bound_of(x) == 0.0);
    }
  }
}

TEST_CASE("what a narrow output flushes is not taken for a copy") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.flushes_subnormals = true;
  arithmetic.output = FormatId::fp16;
  for (const Op& op : {Op(op::Relu{}), Op(op::Identity{})}) {
    const OneNode one = one_node(op, {{{1}, {0x1p-20}}}, {{1}, {0.0}}, arithmetic);
    CHECK(find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0] >= 0x1p-20);
  }
}

TEST_CASE("a number that rounds to the smallest normal one may be read as 0 instead (T-13)") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.flushes_subnormals = true;
  const double omega = format(FormatId::fp32).smallest_normal, x = omega * (1.0 - 0x1p-30);
  const auto bound_of = [&](const Op& op, const std::vector<double>& operands, double y) {
    std::vector<Tensor<double>> tensors;
    for (const double operand : operands) tensors.push_back({{1}, {operand}});
    const OneNode one = one_node(op, tensors, {{1}, {y}}, arithmetic);
    return find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0];
  };
  for (const double read : {0.0, omega}) {
    CAPTURE(read);
    const double sign = read == 0.0 ? 0.0 : 1.0;
    CHECK(bound_of(op::Sign{}, {x}, sign) >= 1.0 - sign);
    CHECK(bound_of(op::Ceil{}, {x}, sign) >= 1.0 - sign);
    CHECK(bound_of(op::Greater{}, {x, 0.0}, sign) >= 1.0 - sign);
    CHECK(bound_of(op::Sqrt{}, {x}, std::sqrt(read)) >= std::abs(std::sqrt(read) - std::sqrt(x)));
  }
  CHECK(bound_of(op::Sqrt{}, {x}, 0.0) <= 4.0 * std::sqrt(omega));
  CHECK(bound_of(op::Sign{}, {2.0 * omega}, 1.0) == 0.0);
}

TEST_CASE("a function that stops at the accumulator's largest number stands for more, however it is stored (T-16)") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.accumulator = FormatId::fp16;
  arithmetic.input = FormatId::fp16;
  const auto bound_of = [&](const Op& op, double x, double y) {
    const OneNode one = one_node(op, {{{1}, {x}}}, {{1}, {y}}, arithmetic);
    return find_bound(bounds_of(one).local, BoundKind::componentwise)->values.values[0];
  };
  for (const Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero}) {
    arithmetic.rounding = rounding;
    arithmetic.output = FormatId::bf16;
    CHECK(std::isinf(bound_of(op::Cosh{}, 20.0, 65280.0)));
    CHECK(std::isfinite(bound_of(op::Cosh{}, 2.0, 3.765625)));
    arithmetic.output = FormatId::fp16;
    for (const double sign : {1.0, -1.0}) CHECK(std::isinf(bound_of(op::Sinh{}, sign * 20.0, sign * 65472.0)));
    CHECK(std::isinf(bound_of(op::Pow{3.0}, 50.0, 65472.0)));
    CHECK(std::isinf(bound_of(op::Pow{-3.0}, 0x1p-6, 65472.0)));
    CHECK(std::isfinite(bound_of(op::Pow{3.0}, 5.0, 125.0)));
    CHECK(std::isfinite(bound_of(op::Pow{-3.0}, 50.0, 0x1.0p-17)));
  }
}

TEST_CASE("an Elu of another program is as accurate as its exp and as its expm1 (T-18)") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  const auto set = [&](const std::string& name, double units) {
    for (FunctionAccuracy& entry : arithmetic.functions)
      if (entry.function == name) entry = {name, units, Evidence::documented, "test"};
  };
  set("exp", 9.0);
  set("expm1", 3.0);
  const double x = -0x1p-10, exact = std::expm1(x), by_exp = (std::exp(x) - 8.0 * 0x1p-24) - 1.0;
  OneNode one =
      one_node(op::Elu{1.0}, {{{1}, {x}}}, {{1}, {static_cast<double>(static_cast<float>(by_exp))}}, arithmetic);
  one.trace.provenance = foreign_provenance;
  const LayerBounds bounds = bounds_of(one);
  const BoundResult* bound = find_bound(bounds.local, BoundKind::componentwise);
  CHECK(bound->values.values[0] >= std::abs(one.trace.layers[0].output.to_double().values[0] - exact));
  CHECK(bound->values.values[0] <= 12.0 * 0x1p-24);
  CHECK(bound->condition.find("exp within 9") != std::string::npos);
}

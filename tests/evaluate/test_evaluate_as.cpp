#include <doctest/doctest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <cfenv>
#include <cmath>
#include <set>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/every_op.hpp"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace {

using namespace driftbound;
using namespace driftbound::tests;
using Precise =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<90>, boost::multiprecision::et_off>;
using Rational =
    boost::multiprecision::number<boost::multiprecision::cpp_rational_backend, boost::multiprecision::et_off>;

/// A double that knows nothing but arithmetic.
struct Plain {
  double value = 0.0;
  Plain() = default;
  explicit Plain(double x) : value(x) {}
  friend Plain operator+(Plain x, Plain y) { return Plain(x.value + y.value); }
  friend Plain operator-(Plain x, Plain y) { return Plain(x.value - y.value); }
  friend Plain operator*(Plain x, Plain y) { return Plain(x.value * y.value); }
  friend Plain operator/(Plain x, Plain y) { return Plain(x.value / y.value); }
  friend Plain operator-(Plain x) { return Plain(-x.value); }
  friend bool operator<(Plain x, Plain y) { return x.value < y.value; }
};

/// Converts to double on its own, which must not be mistaken for having double's functions.
struct Leaky : Plain {
  using Plain::Plain;
  Leaky(const Plain& x) : Plain(x) {}
  operator double() const { return value; }
  friend Leaky operator+(const Leaky& x, const Leaky& y) { return Leaky(x.value + y.value); }
  friend Leaky operator-(const Leaky& x, const Leaky& y) { return Leaky(x.value - y.value); }
  friend Leaky operator*(const Leaky& x, const Leaky& y) { return Leaky(x.value * y.value); }
  friend Leaky operator/(const Leaky& x, const Leaky& y) { return Leaky(x.value / y.value); }
  friend Leaky operator-(const Leaky& x) { return Leaky(-x.value); }
  friend bool operator<(const Leaky& x, const Leaky& y) { return x.value < y.value; }
};

static_assert(EvaluationScalar<double> && EvaluationScalar<float> && EvaluationScalar<long double>);
static_assert(EvaluationScalar<Interval> && EvaluationScalar<Precise> && EvaluationScalar<Rational>);
static_assert(EvaluationScalar<Plain> && EvaluationScalar<Leaky>);
static_assert(!EvaluationScalar<std::string> && !EvaluationScalar<boost::multiprecision::cpp_rational>);

template <class Real>
Tensor<Real> apply_as(const OpCase& c) {
  return evaluate_as<Real>(graph_of(c.op, c.operands), inputs_of(c.operands)).at(0);
}

/// x (2^-149)^7 (2^126)^8: products on the way are subnormal in double.
Graph tiny_and_large_factors() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {1, ""}});
  const ValueId tiny = graph.add_constant("tiny", StoredTensor::from(Tensor<float>({1}, {0x1p-149f}))),
                large = graph.add_constant("large", StoredTensor::from(Tensor<float>({1}, {0x1p126f})));
  ValueId last = x;
  for (int i = 0; i < 7; ++i) last = graph.add_node("tiny" + std::to_string(i), op::Mul{}, {last, tiny});
  for (int i = 0; i < 8; ++i) last = graph.add_node("large" + std::to_string(i), op::Mul{}, {last, large});
  graph.outputs = {last};
  return graph;
}

TEST_CASE("intervals are refused in a thread that does not round to nearest, other scalars are not") {
  const Graph graph = tiny_and_large_factors();
  const Inputs inputs{{{"x", StoredTensor::from(Tensor<float>({1, 1}, {1.0f}))}}};
  CHECK(evaluate_as<Interval>(graph, inputs).back().values[0].contains(0x1p-35));
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    bool refused = false;
    try {
      (void)evaluate_as<Interval>(graph, inputs);
    } catch (const UnsoundEnvironment&) {
      refused = true;
    }
    const std::vector<Tensor<double>> plain = evaluate_as<double>(graph, inputs);
    std::fesetround(FE_TONEAREST);
    CAPTURE(mode);
    CHECK(refused);
    CHECK(plain.size() == 15);
  }
}

#ifdef __SSE2__
TEST_CASE("intervals are refused in a thread that flushes subnormal numbers, other scalars are not") {
  const Graph graph = tiny_and_large_factors();
  const Inputs inputs{{{"x", StoredTensor::from(Tensor<float>({1, 1}, {1.0f}))}}};
  for (const unsigned bits : {0x8000u, 0x0040u, 0x8040u}) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | bits);
    bool refused = false;
    try {
      (void)evaluate_as<Interval>(graph, inputs);
    } catch (const UnsoundEnvironment&) {
      refused = true;
    }
    const std::vector<Tensor<double>> plain = evaluate_as<double>(graph, inputs);
    _mm_setcsr(before);
    CAPTURE(bits);
    CHECK(refused);
    CHECK(plain.size() == 15);
  }
}
#endif

TEST_CASE("intervals contain the exact value of every op and are a few units wide") {
  std::mt19937_64 random(3);
  std::set<std::size_t> seen;
  for (const OpCase& c : every_op(random)) {
    CAPTURE(name_of(c.op));
    seen.insert(c.op.index());
    const Tensor<Precise> exact = apply_as<Precise>(c);
    const Tensor<Interval> enclosure = apply_as<Interval>(c);
    REQUIRE(exact.shape == enclosure.shape);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const Interval& y = enclosure.values[i];
      CHECK(Precise(y.lower()) <= exact.values[i]);
      CHECK(exact.values[i] <= Precise(y.upper()));
      CHECK(y.upper() - y.lower() <= units_of(c.op) * 0x1p-53 * std::max(1.0, std::abs(y.upper())));
    }
  }
  CHECK(seen.size() == std::variant_size_v<OpAlternatives>);
}

TEST_CASE("double is close to the exact value of every op") {
  std::mt19937_64 random(4);
  for (const OpCase& c : every_op(random)) {
    CAPTURE(name_of(c.op));
    const Tensor<Precise> exact = apply_as<Precise>(c);
    const Tensor<double> approximate = apply_as<double>(c);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double error = std::abs(static_cast<double>(Precise(exact.values[i] - Precise(approximate.values[i]))));
      CHECK(error <= units_of(c.op) * 0x1p-53 * std::max(1.0, std::abs(approximate.values[i])));
    }
  }
}

TEST_CASE("wide intervals contain the values at every point in them") {
  std::mt19937_64 random(5);
  for (const OpCase& c : every_op(random)) {
    CAPTURE(name_of(c.op));
    const Graph graph = graph_of(c.op, c.operands);
    std::vector<Shape> shapes;
    for (const auto& operand : c.operands) shapes.push_back(operand.shape);
    const Shape result = infer_shapes(graph, shapes)[graph.nodes[0].output];
    std::vector<Tensor<Interval>> boxes;
    std::vector<Tensor<Precise>> points;
    for (const auto& operand : c.operands) {
      boxes.emplace_back(operand.shape);
      points.emplace_back(operand.shape);
      const bool is_positive =
          std::all_of(operand.values.begin(), operand.values.end(), [](double x) { return x > 0.0; });
      for (std::size_t i = 0; i < operand.size(); ++i) {
        const double x = operand.values[i], below = static_cast<double>(random() % 5) / 10.0;
        boxes.back().values[i] = Interval(is_positive ? std::max(x / 4, x - below) : x - below, x + 0.4);
        points.back().values[i] = random() % 3 == 0 ? Precise(boxes.back().values[i].lower()) : Precise(x);
      }
    }
    std::vector<const Tensor<Interval>*> box_operands;
    std::vector<const Tensor<Precise>*> point_operands;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      box_operands.push_back(&boxes[i]);
      point_operands.push_back(&points[i]);
    }
    const auto range = std::visit(scalar::OpEvaluator<Interval>(graph.nodes[0], box_operands, result), c.op);
    const auto value = std::visit(scalar::OpEvaluator<Precise>(graph.nodes[0], point_operands, result), c.op);
    for (std::size_t i = 0; i < value.size(); ++i) {
      CHECK(Precise(range.values[i].lower()) <= value.values[i]);
      CHECK(value.values[i] <= Precise(range.values[i].upper()));
    }
  }
}

TEST_CASE("the range of one activation over an interval is as tight as its values at the ends") {
  const auto close = [](const Interval& x, double lower, double upper) {
    CHECK(x.lower() == doctest::Approx(lower).epsilon(1e-14));
    CHECK(x.upper() == doctest::Approx(upper).epsilon(1e-14));
  };
  const Interval x(-2.0, 3.0);
  close(scalar::relu(x), 0.0, 3.0);
  close(scalar::leaky_relu(x, Interval(0.1)), -0.2, 3.0);
  close(scalar::elu(x, Interval(1.0)), std::expm1(-2.0), 3.0);
  close(scalar::sigmoid(x), 1 / (1 + std::exp(2.0)), 1 / (1 + std::exp(-3.0)));
  close(scalar::softplus(x), std::log1p(std::exp(-2.0)), 3.0 + std::log1p(std::exp(-3.0)));
  std::vector<Interval> softmax = {x, Interval(0.0), Interval(1.0, 1.5)};
  scalar::softmax(softmax);
  close(softmax[0], std::exp(-2.0) / (std::exp(-2.0) + 1 + std::exp(1.5)),
        std::exp(3.0) / (std::exp(3.0) + 1 + std::exp(1.0)));
  close(softmax[1], 1 / (std::exp(3.0) + 1 + std::exp(1.5)), 1 / (std::exp(-2.0) + 1 + std::exp(1.0)));
}

TEST_CASE("far arguments neither overflow nor lose the enclosure") {
  for (const double x : {-1e308, -800.0, -40.0, 40.0, 800.0, 1e308}) {
    CAPTURE(x);
    CHECK(std::isfinite(scalar::sigmoid(x)));
    CHECK(std::isfinite(scalar::softplus(x)));
    const Interval sigmoid = scalar::sigmoid(Interval(x)), softplus = scalar::softplus(Interval(x));
    CHECK((0.0 <= sigmoid.lower() && sigmoid.lower() <= sigmoid.upper() && sigmoid.upper() <= 1.0));
    CHECK((std::max(0.0, x) <= softplus.upper() && softplus.lower() <= std::max(std::exp(x < 0 ? x : 0.0), x + 1.0)));
    std::vector<Interval> softmax = {Interval(x), Interval(0.0)};
    scalar::softmax(softmax);
    CHECK((softmax[0].contains(x > 0 ? 1.0 : 0.0) || std::abs(x) < 100));
  }
  CHECK(scalar::sigmoid(Interval::whole()).contains(Interval(0.0, 1.0)));
  CHECK(scalar::softplus(Interval::whole()).contains(0.0));
}

TEST_CASE("the formulas of single ops hold for any scalar") {
  CHECK(scalar::reciprocal(Rational(3)) == Rational(1) / 3);
  CHECK(scalar::absolute(Rational(-3)) == 3);
  CHECK(scalar::sign(Rational(-3)) == -1);
  CHECK(scalar::sign(0.0) == 0.0);
  CHECK(std::isnan(scalar::sign(std::nan(""))));
  CHECK(scalar::repeated_product(Rational(2) / 3, 5.0) == Rational(32) / 243);
  CHECK(scalar::repeated_product(Rational(2) / 3, -2.0) == Rational(9) / 4);
  CHECK(scalar::repeated_product(Rational(2), 0.0) == 1);
  CHECK(scalar::power(3.0, 4.0) == 81.0);
  CHECK(scalar::power(4.0f, 1.5) == 8.0f);
  CHECK(abs(scalar::power(Precise(2), 0.5) - sqrt(Precise(2))) < 1e-85);
  CHECK(scalar::power(Interval(-2.0, 1.0), 2.0) == Interval(0.0, 4.0));
  CHECK(scalar::absolute(Interval(-2.0, 1.0)) == Interval(0.0, 2.0));
  CHECK(scalar::sign(Interval(1.0, 2.0)) == Interval(1.0));
  static_assert(!scalar::HasPow<Rational> && !scalar::HasPow<Plain> && !scalar::HasPow<Leaky>);
  static_assert(scalar::HasPow<float> && scalar::HasPow<Precise>);
}

TEST_CASE("a rational scalar evaluates a ReLU network exactly") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions({open, 1}));
  const ValueId w = graph.add_constant("w", StoredTensor::from(tensor<float>({1, 2}, {0.1f, -0.1f})));
  const ValueId b = graph.add_constant("b", StoredTensor::from(tensor<float>({2}, {0.2f, 0.3f})));
  const ValueId hidden = graph.add_node("hidden", op::Gemm{}, {x, w, b});
  graph.outputs = {graph.add_node("y", op::Relu{}, {hidden})};
  const auto layers =
      evaluate_as<Rational>(graph, inputs({{"x", StoredTensor::from(tensor<float>({2, 1}, {3.0f, -4.0f}))}}));
  CHECK(layers[1].shape == Shape{2, 2});
  const auto exact = [](float a, float factor, float c) {
    return max(Rational(0), Rational(Rational(a) * Rational(factor) + Rational(c)));
  };
  CHECK(layers[1].values == std::vector<Rational>{exact(3, 0.1f, 0.2f), exact(3, -0.1f, 0.3f), exact(-4, 0.1f, 0.2f),
                                                  exact(-4, -0.1f, 0.3f)});
}

TEST_CASE("an op whose function the scalar lacks is named") {
  const std::vector<Tensor<double>> x = {tensor<double>({1}, {2.0})};
  CHECK(evaluate_as<Plain>(graph_of<double>(op::Relu{}, x), inputs_of(x)).at(0).values[0].value == 2.0);
  for (const Op& op : std::vector<Op>{op::Tanh{}, op::Sigmoid{}, op::Softplus{}, op::Elu{}, op::Softmax{}, op::Erf{}}) {
    CHECK_THROWS_AS(evaluate_as<Plain>(graph_of<double>(op, x), inputs_of(x)), Unsupported);
    CHECK_THROWS_AS(evaluate_as<Leaky>(graph_of<double>(op, x), inputs_of(x)), Unsupported);
  }
  CHECK_THROWS_WITH(evaluate_as<Plain>(graph_of<double>(op::Tanh{}, x), inputs_of(x)),
                    doctest::Contains("node 'y' (Tanh): the scalar type has no tanh"));
}

}  // namespace

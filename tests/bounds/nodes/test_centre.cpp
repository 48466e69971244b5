#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "bounds/nodes/centre.hpp"
#include "support/rule_checks.hpp"
#include "support/special_numbers.hpp"

// An op in double against 700 bits.

using namespace checks;
using bounds::Centre;

namespace {

Centre centre_of(const Op& op, const std::vector<Tensor<double>>& operands, int threads = 1,
                 std::optional<FormatId> accumulator = std::nullopt) {
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<Shape> shapes;
  bounds::NodeView view;
  for (const Tensor<double>& operand : operands) {
    inputs.push_back(add_fixed_input(graph, "x" + std::to_string(inputs.size()), ElementType::f64, operand.shape));
    shapes.push_back(operand.shape);
    view.inputs.push_back(&operand);
  }
  graph.outputs = {graph.add_node("node", op, inputs)};
  view.node = &graph.nodes.front();
  bounds::Setting setting;
  setting.threads = threads;
  if (accumulator) setting.machine.accumulator = &format(*accumulator);
  return bounds::centre_of_node(view, infer_shapes(graph, shapes)[graph.outputs.front()], setting);
}

/// Numbers of all sizes around `scale`, some of them 0, 1 or -1 times it.
Tensor<double> draw(Shape shape, Generator& generator, double scale) {
  Tensor<double> x(std::move(shape));
  for (double& value : x.values) {
    const auto kind = generator() % 16;
    value = kind < 3 ? static_cast<double>(kind) - 1.0
                     : std::ldexp(uniform(generator, -1.0, 1.0), static_cast<int>(generator() % 8) - 4);
    value *= scale;
  }
  return x;
}

constexpr double scales[] = {1.0, 0x1p-500, 0x1p-537, 0x1p-1020, 0x1p-1060, 0x1p500};

Tally tally_of(const Centre& centre, const std::function<Real(std::size_t)>& exact) {
  Tally tally;
  REQUIRE(centre.error.size() == centre.value.size());
  for (std::size_t i = 0; i < centre.error.size(); ++i) tally.add(centre.value.values[i], exact(i), centre.error[i]);
  return tally;
}

void check_sharp(const Tally& tally, double least_utilisation) {
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.utilisation >= least_utilisation);
}

struct Product {
  std::int64_t m, k, n;
  double alpha = 1.0, beta = 1.0;
  bool transpose_a = false, transpose_b = false, has_addend = false;
};

Tally check_product(const Product& p, double scale, Generator& generator,
                    std::optional<FormatId> accumulator = std::nullopt) {
  const Tensor<double> a = draw(p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}, generator, scale);
  const Tensor<double> b = draw(p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, generator, scale);
  const Tensor<double> c = draw({p.n}, generator, scale * scale);
  const op::Gemm gemm{p.alpha, p.beta, p.transpose_a, p.transpose_b};
  const Centre centre = centre_of(gemm, p.has_addend ? std::vector{a, b, c} : std::vector{a, b}, 1, accumulator);
  const auto at = [](const Tensor<double>& x, bool transposed, std::int64_t i, std::int64_t j) {
    return Real(x.values[static_cast<std::size_t>(transposed ? j * x.shape[1] + i : i * x.shape[1] + j)]);
  };
  return tally_of(centre, [&](std::size_t element) {
    const auto i = static_cast<std::int64_t>(element) / p.n, j = static_cast<std::int64_t>(element) % p.n;
    Real sum;
    for (std::int64_t k = 0; k < p.k; ++k) sum += at(a, p.transpose_a, i, k) * at(b, p.transpose_b, k, j);
    sum = Real(p.alpha) * sum;
    return p.has_addend ? sum + Real(p.beta) * Real(c.values[static_cast<std::size_t>(j)]) : sum;
  });
}

}  // namespace

TEST_CASE("operations of one rounding are within half a unit in the last place, and reach it") {
  struct Pair {
    const char* name;
    Op op;
    std::function<Real(const Real&, const Real&)> f;
  };
  const std::vector<Pair> pairs = {
      {"add", op::Add{}, [](const Real& a, const Real& b) { return a + b; }},
      {"sub", op::Sub{}, [](const Real& a, const Real& b) { return a - b; }},
      {"mul", op::Mul{}, [](const Real& a, const Real& b) { return a * b; }},
      {"div", op::Div{}, [](const Real& a, const Real& b) { return a / b; }},
      {"prelu", op::PRelu{}, [](const Real& x, const Real& slope) { return x < Real() ? slope * x : x; }},
  };
  Generator generator(81);
  for (const Pair& pair : pairs) {
    CAPTURE(pair.name);
    for (const double scale : scales) {
      CAPTURE(scale);
      const Tensor<double> a = draw({40, 30}, generator, scale);
      Tensor<double> b = draw({30}, generator, scale);
      if (std::holds_alternative<op::Div>(pair.op)) {
        for (double& x : b.values) x = x == 0.0 ? scale : x;
      }
      const Tally tally = tally_of(centre_of(pair.op, {a, b}),
                                   [&](std::size_t i) { return pair.f(Real(a.values[i]), Real(b.values[i % 30])); });
      const bool can_round = scale == 1.0 || scale == 0x1p500;
      check_sharp(tally, can_round ? 0.9 : 0.0);
    }
  }
}

TEST_CASE("reciprocals, roots and leaky functions round once") {
  struct Unary {
    const char* name;
    Op op;
    RealFunction f;
  };
  const std::vector<Unary> functions = {
      {"reciprocal", op::Reciprocal{}, [](const Real& x) { return Real(1.0) / x; }},
      {"sqrt", op::Sqrt{}, [](const Real& x) { return x.apply(mpfr_sqrt); }},
      {"leaky relu", op::LeakyRelu{0.1}, [](const Real& x) { return x < Real() ? Real(0.1) * x : x; }},
  };
  Generator generator(82);
  for (const Unary& function : functions) {
    CAPTURE(function.name);
    for (const double scale : scales) {
      if (std::holds_alternative<op::Reciprocal>(function.op) && scale < 0x1p-1000) continue;
      Tensor<double> x = draw({1000}, generator, scale);
      for (double& value : x.values) {
        if (!std::holds_alternative<op::LeakyRelu>(function.op)) value = std::abs(value) + 0x1p-6 * scale;
      }
      const Tally tally =
          tally_of(centre_of(function.op, {x}), [&](std::size_t i) { return function.f(Real(x.values[i])); });
      check_sharp(tally, scale < 0x1p-1000 ? 0.0 : 0.9);
    }
  }
}

TEST_CASE("what copies its operands has no error") {
  struct Exact {
    const char* name;
    Op op;
    std::function<double(double)> f;
  };
  const std::vector<Exact> functions = {
      {"neg", op::Neg{}, [](double x) { return -x; }},
      {"relu", op::Relu{}, [](double x) { return x > 0.0 ? x : 0.0; }},
      {"abs", op::Abs{}, [](double x) { return std::abs(x); }},
      {"floor", op::Floor{}, [](double x) { return std::floor(x); }},
      {"ceil", op::Ceil{}, [](double x) { return std::ceil(x); }},
      {"round", op::Round{}, [](double x) { return std::nearbyint(x); }},
      {"sign", op::Sign{}, [](double x) { return static_cast<double>((x > 0.0) - (x < 0.0)); }},
      {"clip", op::Clip{-0.3, 0.7}, [](double x) { return x < -0.3  ? -0.3
                                                          : x > 0.7 ? 0.7
                                                                    : x; }},
      {"thresholded relu", op::ThresholdedRelu{0.1}, [](double x) { return x > 0.1 ? x : 0.0; }},
      {"cast", op::Cast{ElementType::f16}, [](double x) { return x; }},
      {"reshape", op::Reshape{{-1}, false}, [](double x) { return x; }},
  };
  Generator generator(83);
  for (const Exact& exact : functions) {
    CAPTURE(exact.name);
    for (const double scale : scales) {
      const Tensor<double> x = draw({20, 25}, generator, scale);
      const Centre centre = centre_of(exact.op, {x});
      for (std::size_t i = 0; i < x.size(); ++i) {
        REQUIRE(centre.value.values[i] == exact.f(x.values[i]));
        REQUIRE(centre.error[i] == 0.0);
      }
    }
  }
  const Tensor<double> a{{2, 2}, {1.0, -2.0, 3.0, 0.1}}, b{{2}, {0.5, 0.2}};
  CHECK(centre_of(op::Max{}, {a, b}).value.values == std::vector{1.0, 0.2, 3.0, 0.2});
  CHECK(centre_of(op::Min{}, {a, b}).value.values == std::vector{0.5, -2.0, 0.5, 0.1});
  CHECK(centre_of(op::ReduceMax{{1}, false}, {a}).value.values == std::vector{1.0, 3.0});
  CHECK(centre_of(op::ReduceMin{{0}, false}, {a}).value.values == std::vector{1.0, -2.0});
  for (const Op& op : {Op(op::ReduceMax{{1}, false}), Op(op::ReduceMin{{1}, false})})
    CHECK(centre_of(op, {a}).error == std::vector{0.0, 0.0});
}

TEST_CASE("products of matrices, scaled and with an addend, are within their bound at every scale") {
  Generator generator(84);
  for (const double scale : {1.0, 0x1p-500, 0x1p-537, 0x1p500}) {
    CAPTURE(scale);
    Tally tally;
    for (const Product& p :
         {Product{7, 13, 5}, Product{1, 60, 9}, Product{9, 1, 4}, Product{5, 8, 3, 1.0, 1.0, true},
          Product{5, 8, 3, 0.7, 1.0, false, true, true}, Product{4, 5, 17, 1.0, -0.3, true, true, true},
          Product{4, 5, 17, 1.0, 1.0, false, false, true}, Product{3, 2, 2, -1.5, 0.0, false, false, true}})
      tally += check_product(p, scale, generator);
    check_sharp(tally, scale == 1.0 ? 0.2 : 0.0);
  }
}

TEST_CASE("sums of products for a run in double are off by what rounding them once loses") {
  Generator generator(85);
  for (const double scale : {1.0, 0x1p-300, 0x1p-500, 0x1p-537, 0x1p500}) {
    CAPTURE(scale);
    Tally tally;
    for (const Product& p : {Product{7, 13, 5}, Product{1, 60, 9}, Product{9, 1, 4}, Product{5, 300, 3},
                             Product{4, 50, 17, 1.0, 1.0, true}, Product{5, 8, 3, 1.0, 1.0, false, true}})
      tally += check_product(p, scale, generator, FormatId::fp64);
    check_sharp(tally, scale == 1.0 ? 0.999 : 0.0);
  }
  const Centre centre =
      centre_of(op::MatMul{}, {draw({20, 500}, generator, 1.0), draw({500, 20}, generator, 1.0)}, 1, FormatId::fp64);
  for (std::size_t i = 0; i < centre.error.size(); ++i)
    CHECK(centre.error[i] <= 0x1p-53 * (1.0 + 0x1p-30) * std::abs(centre.value.values[i]));
}

TEST_CASE("a chain of products that loses half a unit at every step stays within its bound, and reaches half of it") {
  constexpr std::int64_t n = 4096;
  Tensor<double> a({1, n}), ones({n, 1});
  for (double& x : a.values) x = 0x1p-53;
  for (double& x : ones.values) x = 1.0;
  a.values[0] = 1.0;
  const Centre centre = centre_of(op::MatMul{}, {a, ones});
  CHECK(centre.value.values[0] == 1.0);
  CHECK(centre.error[0] >= (n - 1) * 0x1p-53);
  CHECK(centre.error[0] <= 1.01 * n * 0x1p-53);
}

TEST_CASE("products of zeros have no error, and threads change nothing") {
  const Tensor<double> zeros({3, 4}), tiny{{4, 2}, std::vector<double>(8, 0x1p-1074)};
  CHECK(centre_of(op::MatMul{}, {zeros, tiny}).error == std::vector<double>(6, 0.0));
  Generator generator(85);
  const Tensor<double> a = draw({130, 140}, generator, 1.0), b = draw({140, 120}, generator, 1.0);
  const Centre one = centre_of(op::MatMul{}, {a, b}), three = centre_of(op::MatMul{}, {a, b}, 3);
  CHECK(one.value.values == three.value.values);
  CHECK(one.error == three.error);
}

TEST_CASE("sums of groups are within their bound") {
  Generator generator(86);
  for (const double scale : scales) {
    for (const std::int64_t n : {1, 2, 3, 50}) {
      CAPTURE(n);
      const Tensor<double> x = draw({20, n}, generator, scale);
      const Tally tally = tally_of(centre_of(op::ReduceSum{{1}, false}, {x}), [&](std::size_t i) {
        Real sum;
        for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j)
          sum += Real(x.values[i * static_cast<std::size_t>(n) + j]);
        return sum;
      });
      INFO(tally.first_violation);
      CHECK(tally.violations == 0);
    }
  }
  const Tensor<double> stagnating{{1, 4}, {1.0, 0x1p-53, 0x1p-53, 0x1p-54}};
  const Centre centre = centre_of(op::ReduceSum{{1}, false}, {stagnating});
  CHECK(centre.value.values[0] == 1.0 + 0x1p-52);
  CHECK(centre.error[0] >= 0x1p-54);
  CHECK(centre.error[0] <= 1.001 * 0x1p-53);
  CHECK(centre_of(op::ReduceSum{{1}, false}, {Tensor<double>{{1, 1}, {0.1}}}).error[0] == 0.0);
}

TEST_CASE("functions are within a few units in the last place") {
  struct Smooth {
    const char* name;
    Op op;
    RealFunction f;
    double units, absolute = 0.0;
  };
  const auto of = [](auto function) -> RealFunction { return [function](const Real& x) { return x.apply(function); }; };
  const auto logistic = [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); };
  const std::vector<Smooth> functions = {
      {"exp", op::Exp{}, of(mpfr_exp), 2.0},
      {"tanh", op::Tanh{}, of(mpfr_tanh), 6.0},
      {"sigmoid", op::Sigmoid{}, logistic, 4.0},
      {"softplus", op::Softplus{}, [](const Real& x) { return x.apply(mpfr_exp).apply(mpfr_log1p); }, 9.0},
      {"sin", op::Sin{}, of(mpfr_sin), 2.5, 2.5},
      {"cos", op::Cos{}, of(mpfr_cos), 0.0, 2.5},
      {"erf", op::Erf{}, of(mpfr_erf), 10.0},
      {"log", op::Log{}, of(mpfr_log), 2.0},
      {"elu", op::Elu{0.7}, [](const Real& x) { return x < Real() ? Real(0.7) * x.apply(mpfr_expm1) : x; }, 10.0},
  };
  Generator generator(87);
  for (const Smooth& function : functions) {
    CAPTURE(function.name);
    for (const double scale : {1.0, 0x1p-20, 0x1p5}) {
      Tensor<double> x = draw({500}, generator, scale);
      if (std::holds_alternative<op::Log>(function.op)) {
        for (double& value : x.values) value = std::abs(value) + 0x1p-6 * scale;
      }
      const Centre centre = centre_of(function.op, {x});
      check_sharp(tally_of(centre, [&](std::size_t i) { return function.f(Real(x.values[i])); }), 0.05);
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(centre.error[i] <=
              1.001 * (function.units * std::abs(centre.value.values[i]) + function.absolute) * 0x1p-53);
    }
  }
}

TEST_CASE("softmax is within its bound, sharply, along any axis") {
  Generator generator(88);
  for (const double scale : {0.1, 1.0, 30.0, 1000.0, 0x1p1020}) {
    CAPTURE(scale);
    for (const std::int64_t n : {1, 2, 7, 100}) {
      const Tensor<double> x = draw({3, n, 2}, generator, scale);
      const Centre centre = centre_of(op::Softmax{1, false}, {x});
      const auto element = [&](std::size_t i, std::size_t j) {
        return i / 2 / static_cast<std::size_t>(n) * static_cast<std::size_t>(n) * 2 + j * 2 + i % 2;
      };
      const Tally tally = tally_of(centre, [&](std::size_t i) {
        Real sum;
        for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j)
          sum += (Real(x.values[element(i, j)]) - Real(x.values[i])).apply(mpfr_exp);
        return Real(1.0) / sum;
      });
      INFO(tally.first_violation);
      CHECK(tally.violations == 0);
      for (std::size_t i = 0; i < x.size(); ++i)
        CHECK(centre.error[i] <= (static_cast<double>(n) + 8.0 + 2.0 * std::min(16.0 * scale, 1500.0)) * 0x1p-53);
    }
  }
}

TEST_CASE("where a value or an operand is not finite the error is infinite") {
  const Tensor<double> one{{1}, {1.0}}, zero{{1}, {0.0}}, negative{{1}, {-1.0}}, huge{{1}, {0x1p1023}};
  const auto error = [](const Op& op, const std::vector<Tensor<double>>& operands) {
    return centre_of(op, operands).error.at(0);
  };
  CHECK(error(op::Div{}, {one, zero}) == infinity);
  CHECK(error(op::Div{}, {zero, zero}) == infinity);
  CHECK(error(op::Reciprocal{}, {zero}) == infinity);
  CHECK(error(op::Sqrt{}, {negative}) == infinity);
  CHECK(error(op::Add{}, {huge, huge}) == infinity);
  CHECK(error(op::Mul{}, {huge, huge}) == infinity);
  CHECK(error(op::LeakyRelu{4.0}, {Tensor<double>{{1}, {-0x1p1023}}}) == infinity);
  CHECK(error(op::ReduceSum{{0}, false}, {Tensor<double>{{2}, {0x1p1023, 0x1p1023}}}) == infinity);
  for (const double bad : {std::nan(""), infinity, -infinity}) {
    CAPTURE(bad);
    const Tensor<double> x{{1}, {bad}}, row{{1, 1}, {bad}}, unit{{1, 1}, {1.0}};
    for (const Op& op : {Op(op::Max{}), Op(op::Min{}), Op(op::Add{}), Op(op::Mul{})}) {
      CHECK(error(op, {x, one}) == infinity);
      CHECK(error(op, {one, x}) == infinity);
    }
    CHECK(error(op::PRelu{}, {x, one}) == infinity);
    CHECK(error(op::PRelu{}, {negative, x}) == infinity);
    CHECK(error(op::MatMul{}, {row, unit}) == infinity);
    CHECK(error(op::MatMul{}, {unit, row}) == infinity);
    CHECK(error(op::Gemm{1.0, 1.0, false, false}, {unit, unit, x}) == infinity);
    CHECK(error(op::Neg{}, {x}) == infinity);
    CHECK(error(op::Abs{}, {x}) == infinity);
    CHECK(error(op::ReduceMax{{0}, false}, {x}) == infinity);
    CHECK(error(op::Transpose{{1, 0}}, {row}) == infinity);
  }
}

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/op_kinds.hpp"
#include "faults/theorems.hpp"
#include "implicit/point_values.hpp"
#include "reference/oracle.hpp"
#include "slope_checks.hpp"
#include "support/approach.hpp"
#include "support/box_checks.hpp"

using namespace slope_checks;

namespace {

/// Ops that random networks have none of, each on its own beside x: [1, 4], one output of everything.
Graph of_other_ops() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {4, ""}});
  const auto constant = [&](const char* name, const Shape& shape, std::vector<float> values) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>(shape, std::move(values))));
  };
  int count = 0;
  std::vector<ValueId> parts;
  const auto add = [&](Op op, std::vector<ValueId> inputs) {
    const ValueId id = graph.add_node("n" + std::to_string(++count), std::move(op), std::move(inputs));
    parts.push_back(id);
    return id;
  };
  const ValueId half = constant("half", {1}, {0.5F}), zero = constant("zero", {1, 4}, {0.0F, 0.0F, 0.0F, 0.0F});
  const ValueId reversed = add(op::Mul{}, {x, constant("turn", {1, 4}, {-1.0F, 0.7F, 1.3F, -0.2F})});
  const ValueId positive = add(op::Add{}, {add(op::Abs{}, {x}), half});
  add(op::Max{}, {x, reversed});
  add(op::Min{}, {x, reversed});
  add(op::PRelu{}, {x, reversed});
  add(op::Choice{}, {add(op::Greater{}, {x, half}), x, zero});
  add(op::GreaterOrEqual{}, {reversed, half});
  add(op::Div{}, {reversed, positive});
  for (const Op& op : std::vector<Op>{op::Reciprocal{}, op::Log{}, op::Pow{1.5}, op::Pow{-2.0}}) add(op, {positive});
  for (const Op& op :
       std::vector<Op>{op::Atan{}, op::Sinh{}, op::Cosh{}, op::Pow{3.0}, op::Clip{-0.5, 1.0}, op::ThresholdedRelu{0.25},
                       op::Floor{}, op::Ceil{}, op::Round{}, op::Sign{}, op::Tan{}})
    add(op, {x});
  for (const Op& op : std::vector<Op>{op::ReduceSum{{1}, true}, op::ReduceMax{{1}, true}, op::ReduceMin{{1}, true}})
    add(op::Add{}, {add(op, {reversed}), zero});
  add(op::Add{},
      {add(op::MatMul{}, {constant("row", {1, 4}, {1.0F, -2.0F, 0.5F, 0.25F}), add(op::Transpose{{1, 0}}, {x})}),
       zero});
  graph.outputs = {graph.add_node("last", op::Identity{}, {parts.back()})};
  return graph;
}

std::vector<Tensor<Real>> oracle_values(const Graph& graph, const Tensor<Real>& x) {
  oracle::Evaluation<oracle::Real400> evaluation;
  evaluation.set_constants(graph);
  oracle::Matrix<oracle::Real400> input(1, x.size());
  const auto to_oracle = [](const Real& value) {
    const double high = value.to_double(), low = (value - Real(high)).to_double();
    return oracle::Real400(high) + oracle::Real400(low);
  };
  const auto to_real = [](const oracle::Real400& value) {
    const auto high = static_cast<double>(value);
    const auto low = static_cast<double>(value - oracle::Real400(high));
    return Real(high) + Real(low) + Real(static_cast<double>(value - oracle::Real400(high) - oracle::Real400(low)));
  };
  for (std::size_t i = 0; i < x.size(); ++i) input.values[i] = to_oracle(x.values[i]);
  evaluation.set(graph.inputs[0], input);
  std::vector<Tensor<Real>> values(graph.values.size());
  values[graph.inputs[0]] = x;
  for (const Node& node : graph.nodes) {
    const auto result = evaluation.result(node);
    evaluation.set(node.output, result);
    Tensor<Real>& value = values[node.output];
    value = Tensor<Real>({static_cast<std::int64_t>(result.rows), static_cast<std::int64_t>(result.columns)});
    for (std::size_t i = 0; i < value.size(); ++i) value.values[i] = to_real(result.values[i]);
  }
  return values;
}

/// Ends with few bits: their difference, and points with few bits between, are exact.
SlopeTallies check_other_ops(int repetitions, std::uint64_t seed) {
  const Graph graph = of_other_ops();
  Generator generator(seed);
  SlopeTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto end = [&] {
      Tensor<double> x({1, 4});
      for (double& value : x.values) value = std::ldexp(std::floor(checks::uniform(generator, -96.0, 96.0)), -6);
      return x;
    };
    const Tensor<double> a = end(), b = end();
    SlopesHeld held(graph, a, b, [&](const Tensor<Real>& x) { return oracle_values(graph, x); });
    for (const double width : {0x1p-30, 0x1p-10, 0x1p-5, 0x1p-2}) {
      const double lower = std::ldexp(std::floor(checks::uniform(generator, 0.0, 0x1p20 * (1.0 - width))), -20);
      tallies += held(lower, lower + width, generator);
    }
  }
  return tallies;
}

/// A sum of a thousand numbers that are all the same: its roundings go one way.
SlopeTallies check_long_sum() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {1, ""}});
  const ValueId spread =
      graph.add_constant("spread", StoredTensor::from(Tensor<double>({1, 1000}, std::vector(1000, 1.0))));
  const ValueId tenths =
      graph.add_constant("tenths", StoredTensor::from(Tensor<double>({1000, 1}, std::vector(1000, 0.1))));
  const ValueId wide = graph.add_node("wide", op::MatMul{}, {x, spread});
  graph.outputs = {graph.add_node("sum", op::MatMul{}, {wide, tenths})};
  Generator generator(1);
  const Tensor<double> a({1, 1}, {0.0}), b({1, 1}, {1.0});
  SlopesHeld held(graph, a, b, [&](const Tensor<Real>& at) { return checks::exact_values(graph, at); });
  return held(0.25, 0.5, generator);
}

/// One element of what a composite computes of operands that all lie on a segment.
class OnSegment {
public:
  OnSegment(const CompositeExample& example, Generator& generator) {
    Graph graph;
    std::vector<ValueId> operands;
    std::vector<double> a, b;
    std::vector<Shape> shapes;
    for (const auto& [name, shape] : example.operands) {
      std::vector<DeclaredDimension> declared;
      for (const std::int64_t extent : shape) declared.push_back({extent, ""});
      operands.push_back(graph.add_input(name, ElementType::f64, declared));
      shapes.push_back(shape);
      const double least = name == "kept" ? 0.75 : 0.25;  // truth values stay true
      for (std::int64_t i = 0; i < element_count(shape); ++i) {
        a.push_back(checks::uniform(generator, least, 1.25));
        b.push_back(checks::uniform(generator, least, 1.25));
      }
    }
    graph.outputs = {graph.add_node("composite", example.op, operands)};
    const std::int64_t elements = element_count(infer_shapes(graph, shapes)[graph.outputs[0]]);
    const Target target{{0, static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(elements))}, {}};
    line_ = implicit::line_graph(graph, target, 0.0, a, b);
  }

  implicit::PieceEnclosure enclosure(double lower, double upper) const {
    const implicit::Piece piece{lower, upper};
    return implicit::PieceEvaluator(line_)({&piece, 1}, 1).front();
  }
  std::vector<Interval> exact(const std::vector<double>& t) const {
    return implicit::PointValues(line_, 512, 1).precise(t);
  }

private:
  Graph line_;
};

bool meet(const Interval& a, const Interval& b) {
  return a.lower() <= b.upper() && b.lower() <= a.upper();
}

const std::vector<std::vector<std::string>> networks = {
    {"gemm", "relu", "gemm-scaled", "leaky-relu", "matmul"},
    {"gemm", "tanh", "gemm", "sigmoid", "matmul", "softplus", "gemm"},
    {"gemm", "sin", "gemm", "cos", "mul", "gemm"},
    {"gemm", "exp", "matmul", "erf", "sqrt", "div"},
    {"attention", "elu", "square", "sub", "add", "neg"},
    {"gemm", "softmax", "concat", "reshape", "cast"},
    {"gemm", "max", "reduce-max", "mul-computed"},
    {"matmul-computed", "relu", "gemm", "relu", "gemm"},
};

SlopeTallies check_all(int repetitions) {
  SlopeTallies tallies = check_long_sum();
  for (std::size_t i = 0; i < networks.size(); ++i) tallies += check_blocks(networks[i], repetitions, 100 + i);
  return tallies;
}

}  // namespace

TEST_CASE("ranges and difference quotients of every value of a network lie in their enclosures") {
  const SlopeTallies tallies = check_all(4 * test_multiplier());
  CHECK_MESSAGE(tallies.violations() == 0, tallies.first_violation());
  CHECK(tallies.checked() > 100'000);
  CHECK_APPROACH("T-121", tallies.ranges.utilisation, 0.99);
  CHECK_APPROACH("T-121", tallies.slopes.utilisation, 0.99);
}

TEST_CASE("so do those of ops that no random network has") {
  const SlopeTallies tallies = check_other_ops(10 * test_multiplier(), 1);
  CHECK_MESSAGE(tallies.violations() == 0, tallies.first_violation());
  CHECK(tallies.checked() > 20'000);
}

TEST_CASE("so do those of composites, operands and all, against certified references") {
  Generator generator(7);
  for (const Op& kind : every_kind()) {
    for (const CompositeExample& example : composite_examples(kind)) {
      CAPTURE(name_of(kind));
      const OnSegment composite(example, generator);
      for (const double width : {1e-6, 1e-3, 0.03}) {
        const double lower = checks::uniform(generator, 0.0, 1.0 - width);
        const implicit::PieceEnclosure piece = composite.enclosure(lower, lower + width);
        CHECK(piece.range.is_finite());
        std::vector<double> t = {lower, lower + width};
        while (t.size() < 5) t.push_back(checks::uniform(generator, lower, lower + width));
        const std::vector<Interval> exact = composite.exact(t);
        for (std::size_t i = 0; i < t.size(); ++i) {
          CHECK(meet(exact[i], piece.range));
          for (std::size_t j = 0; j < i; ++j)
            CHECK(meet(exact[i] - exact[j], piece.slope * (Interval(t[i]) - Interval(t[j]))));
        }
      }
    }
  }
}

TEST_CASE("slopes by functions in double enclose every difference quotient, and reach their ends") {
  checks::Theorems in_double;
  in_double.slope_range = proven::slope_of_one;
  const checks::ScopedTheorems in_force(in_double);
  for (const checks::LinearCase& c : checks::linear_cases()) {
    CAPTURE(c.name);
    const Tally tally =
        checks::check_slope_range(checks::op_of_case(c.name, c.subject), c.subject, 200 * test_multiplier(), 91);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.checked > 100);
    if (c.loosest != 0.0 && c.name != "power 0" && c.name != "power 1") CHECK(tally.utilisation >= 0.95);
  }
}

TEST_CASE("a fault in any theorem of the enclosures is noticed" * doctest::test_suite("campaign")) {
  const std::vector<std::pair<std::string, std::function<void(checks::Theorems&)>>> faults = {
      {"reach",
       [](checks::Theorems& theorems) {
         theorems.reach = [](double e, double p, double, double) { return Magnitude(e) + Magnitude(p) * Magnitude(); };
       }},
      {"product_radius",
       [](checks::Theorems& theorems) { theorems.product_radius = [](double, std::int64_t, bool) { return 0.0; }; }},
      {"product_gamma", [](checks::Theorems& theorems) { theorems.product_gamma = [](std::int64_t) { return 0.0; }; }},
      {"sum_radius",
       [](checks::Theorems& theorems) { theorems.sum_radius = [](double a, double, double) { return a; }; }},
      {"slope_of_larger",
       [](checks::Theorems& theorems) {
         theorems.slope_of_larger = [](const Interval&, const Interval&, const Interval& a, const Interval&) {
           return a;
         };
       }},
      {"slopes_of_softmax",
       [](checks::Theorems& theorems) {
         theorems.slopes_of_softmax = [](std::span<const Interval>, std::span<const Interval>,
                                         std::span<Interval> result) {
           std::fill(result.begin(), result.end(), Interval(0.0));
         };
       }},
      {"of_one",
       [](checks::Theorems& theorems) {
         theorems.slope_of_one = [](const Op& op, const Interval& x) {
           return proven::slope_range(op, Interval(x.midpoint()));
         };
       }},
      {"of_two", [](checks::Theorems& theorems) {
         theorems.slope_ranges = [](const Op& op, const Interval& a, const Interval& b) {
           return proven::slope_ranges(op, Interval(a.midpoint()), Interval(b.midpoint()));
         };
       }}};
  std::vector<checks::Theorems> faulty;
  for (const auto& [name, inject] : faults) {
    CAPTURE(name);
    faulty.push_back(checks::with_fault(inject));
    const checks::ScopedTheorems in_force(faulty.back());
    CHECK(check_all(1).violations() > 0);
  }
  CHECK(checks::same_in_all_of_implicit(faulty) == std::vector<std::string>{"newton"});  // test_segment.cpp
}

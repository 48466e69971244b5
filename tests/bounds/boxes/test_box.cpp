#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/box_checks.hpp"
#include "support/environment.hpp"

// Bounds over boxes (T-77) against 700 bits, and against runs in float32 and bfloat16.

using namespace checks;

TEST_CASE("slopes over an interval enclose every difference quotient, and some reach their ends (T-77)") {
  for (const LinearCase& c : linear_cases()) {
    CAPTURE(c.name);
    const Tally tally = check_slope_range(op_of_case(c.name, c.subject), c.subject, 200 * test_multiplier(), 90);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.checked > 100);
    if (c.loosest != 0.0 && c.name != "power 0" && c.name != "power 1") CHECK(tally.utilisation >= 0.95);
  }
}

TEST_CASE("slopes of two operands enclose every difference, and some are it (T-77)") {
  for (const BinaryCase& c : binary_cases()) {
    CAPTURE(c.name);
    const Tally tally = check_slope_ranges(c, 400 * test_multiplier(), 91);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.checked > 1'000);
    if (c.attains_ends) CHECK(tally.utilisation >= 0.95);
  }
}

TEST_CASE("at every point of a box, values and outputs stay within their bounds (T-77)") {
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    const HeldTallies tallies = check_box({"gemm", block, "gemm"}, block == "cast" ? 1 : 2 * test_multiplier());
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK(tallies.certificates.checked > 0);
  }
  for (const char* block :
       {"max", "min", "max-constant", "min-constant", "reduce-max", "mul-computed", "matmul-computed"}) {
    CAPTURE(block);
    CHECK(check_box({"gemm", block}, test_multiplier()).violations() == 0);
  }
}

TEST_CASE("a box of one point has nearly the bound of that point, and the bound grows with the box") {
  Generator generator(92);
  for (const std::string& block : NetworkBuilder::blocks()) {
    if (block == "cast") continue;
    CAPTURE(block);
    NetworkBuilder builder(generator);
    for (const std::string& name : {std::string("gemm"), block, std::string("gemm")}) builder.add(name);
    const Graph graph = builder.finish();
    const Tensor<double> x = network_inputs(1.0, true, generator);
    const Held at_point(graph, x, 1e-9, std::nullopt);
    const BoxHeld one(graph, x, 0.0, 1e-9);
    const BoxHeld narrow(graph, x, 1e-4, 1e-9);
    const BoxHeld wide(graph, x, 1e-2, 1e-9);
    for (std::size_t i = 0; i < one.certificates().size(); ++i) {
      const std::size_t elements = at_point.elements();
      const double alone = at_point.certificate(i % elements).total.at(i / elements);
      CHECK(one.certificates()[i] <= alone * 1.01);
      CHECK(narrow.certificates()[i] <= alone * 1.05);
      CHECK(one.certificates()[i] <= wide.certificates()[i]);
    }
  }
}

namespace {

Graph small_network(Generator& generator) {
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "relu", "gemm", "tanh", "gemm"}) builder.add(block);
  return builder.finish();
}

}  // namespace

TEST_CASE("one bound holds for runs at every point of a box, and the range holds the exact values") {
  Generator generator(93);
  Tally errors;
  for (const char* arithmetic_name : {"fp32", "bf16"}) {
    for (const double half_width : {1e-3, 0.2}) {
      const Graph graph = small_network(generator);
      const Tensor<double> middle = network_inputs(1.0, true, generator);
      const Box box = box_around(middle, half_width);
      const ArithmeticModel arithmetic = cpu_arithmetic(arithmetic_name, parse_summation_order("pairwise"));
      const Target difference{{0, 3}, OutputElement{0, 1}};
      const BoxBound bound = forward_error_bound(graph, arithmetic, box, difference);
      CHECK(bound.error.is_finite());
      CHECK(bound.guarantee == Guarantee::conditional);  // tanh
      CHECK(bound.condition.find("tanh") != std::string::npos);
      for (int k = 0; k < 40 * test_multiplier(); ++k) {
        const Tensor<double> x = random_point(box, generator, middle.shape);
        Inputs inputs;
        inputs.tensors.emplace_back("x", StoredTensor::from(x));
        const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs);
        const Tensor<double> y = trace.layers.back().output.to_double();
        const Tensor<Real> exact = exact_values(graph, convert<Real>(x))[graph.outputs[0]];
        const Real truth = exact.values[3] - exact.values[1];
        errors.add(y.values[3], exact.values[3] + Real(y.values[1]) - exact.values[1], bound.error.value());
        CHECK(Real(bound.range.lower()) <= truth);
        CHECK(truth <= Real(bound.range.upper()));
      }
    }
  }
  INFO(errors.first_violation);
  CHECK(errors.violations == 0);
  CHECK_APPROACH("T-77", errors.utilisation, 0.283);
}

TEST_CASE("ranges of functions with a smallest and a largest value end there, and are reached (T-62, T-77)") {
  for (const char* function : {"sin", "tanh", "sigmoid", "erf"}) {
    const Tally tally = check_whole_range(function, 1e3);
    CAPTURE(function);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-62", tally.utilisation, 0.999);
  }
}

TEST_CASE("runs over boxes in which functions take all values are off by no more than those differ (T-77)") {
  Generator generator(96);
  NetworkBuilder builder(generator);
  for (const char* block : {"gemm", "sin"}) builder.add(block);
  const Graph graph = builder.finish();
  const Tensor<double> middle = network_inputs(1.0, true, generator);
  const Box box = box_around(middle, 1e8);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("pairwise"));
  const BoxBound bound = forward_error_bound(graph, arithmetic, box);
  CHECK(bound.error.value() < 2.001);
  Tally errors;
  for (int k = 0; k < 200 * test_multiplier(); ++k) {
    const Tensor<double> x = random_point(box, generator, middle.shape);
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(x));
    const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs);
    const Tensor<Real> exact = exact_values(graph, convert<Real>(x))[graph.outputs[0]];
    errors.add(trace.layers.back().output.to_double().values[0], exact.values[0], bound.error.value());
  }
  INFO(errors.first_violation);
  CHECK(errors.violations == 0);
  CHECK_APPROACH("T-77", errors.utilisation, 0.99);
}

TEST_CASE("ranges stay within the ends of an output's function, and a Clip has ends (T-77)") {
  const auto range_over = [](const Op& op) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {1, ""}});
    graph.outputs = {graph.add_node("y", op, {x})};
    return forward_error_bound(graph, cpu_arithmetic("fp32", {}), Box{{-1e6}, {2e6}}).range;
  };
  for (const Op& op : {Op(op::Sin{}), Op(op::Tanh{}), Op(op::Clip{-1.0, 1.0}), Op(op::Sign{})}) {
    CAPTURE(name_of(op));
    CHECK(range_over(op).lower() >= -1.0);
    CHECK(range_over(op).upper() <= 1.0);
  }
  CHECK(range_over(op::Clip{1.0, -1.0}).upper() > -2e6);
  CHECK(range_over(op::Clip{0.0, std::numeric_limits<double>::infinity()}).upper() >= 2e6);
}

TEST_CASE("what has no value at the middle of a box has no bound over it") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {1, ""}});
  const float infinite = std::numeric_limits<float>::infinity();
  const ValueId c = graph.add_constant("c", StoredTensor::from(Tensor<float>({1, 1}, {infinite})));
  graph.outputs = {graph.add_node("y", op::Add{}, {x, graph.add_node("s", op::Sin{}, {c})})};
  const BoxBound bound = forward_error_bound(graph, cpu_arithmetic("fp32", {}), Box{{-1.0}, {1.0}});
  CHECK_FALSE(bound.error.is_finite());
  CHECK_FALSE(std::isfinite(bound.range.upper()));
}

TEST_CASE("a run reads every point of a box rounded, and the bound counts it") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1});
  graph.outputs = {graph.add_node("y", op::Relu{}, {x})};
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  const BoxBound bound = forward_error_bound(graph, arithmetic, {{1.0}, {2.0}});
  CHECK(bound.guarantee == Guarantee::proven);
  Generator generator(95);
  Tally errors;
  for (int k = 0; k < 200; ++k) {
    const Tensor<double> point({1}, {uniform(generator, 1.0, 2.0)});
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(point));
    const double y = cpu_evaluator(arithmetic).run(graph, inputs).layers.back().output.to_double().values[0];
    errors.add(y, Real(point.values[0]), bound.error.value());
  }
  INFO(errors.first_violation);
  CHECK(errors.violations == 0);
  CHECK_APPROACH("T-77", errors.utilisation, 0.498);
}

TEST_CASE("what reading a point loses depends on the types of input and accumulator (T-77)") {
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  for (const auto& type_and_tie : std::vector<std::pair<ElementType, double>>{
           {ElementType::f64, 1.0 + 0x1p-24}, {ElementType::f32, 1.0 + 0x1p-24}, {ElementType::f16, 1.0 + 0x1p-11}}) {
    const double tie = type_and_tie.second;
    Graph graph;
    const ValueId x = add_fixed_input(graph, "x", type_and_tie.first, {1});
    graph.outputs = {graph.add_node("y", op::Neg{}, {x})};
    for (const double upper : {tie, 1.5}) {
      const BoxBound bound = forward_error_bound(graph, arithmetic, {{std::min(tie, upper)}, {upper}});
      CHECK_APPROACH("T-77", (tie - 1.0) / bound.error.value(), 1.0);
    }
  }
}

TEST_CASE("a box says what is wrong with it") {
  Generator generator(94);
  const Graph graph = small_network(generator);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  Box box = box_around(network_inputs(1.0, true, generator), 0.1);
  CHECK_THROWS_WITH_AS(forward_error_bound(graph, arithmetic, {{0.0}, {1.0}}), doctest::Contains("8 elements"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(forward_error_bound(graph, arithmetic, box, {{0, 8}, std::nullopt}),
                       doctest::Contains("has 8 elements"), InvalidArgument);
  CHECK_THROWS_WITH_AS(forward_error_bound(graph, arithmetic, box, {{1, 0}, std::nullopt}),
                       doctest::Contains("no output 1"), InvalidArgument);
  std::swap(box.lower[2], box.upper[2]);
  CHECK_THROWS_WITH_AS(forward_error_bound(graph, arithmetic, box), doctest::Contains("element 2"), InvalidArgument);
  box.lower[2] = std::nan("");
  CHECK_THROWS_AS(forward_error_bound(graph, arithmetic, box), InvalidArgument);
}

TEST_CASE("over a box that decides nothing there is no bound, and none is claimed") {
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f32, {1});
  graph.outputs = {graph.add_node("y", op::Floor{}, {x})};
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  CHECK_FALSE(forward_error_bound(graph, arithmetic, {{-1.0}, {1.0}}).error.is_finite());
  CHECK(forward_error_bound(graph, arithmetic, {{0.25}, {0.75}}).error.value() <= 1e-300);
}

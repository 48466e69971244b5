#include <doctest/doctest.h>

#include <cmath>

#include "driftbound/num/errors.hpp"
#include "support/half_network.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::tests;

constexpr SummationOrder in_blocks = {SummationOrder::Kind::blocked, 8, true};

}  // namespace

TEST_CASE("every result is rounded once to the format that it is stored in, composites when they are complete") {
  std::mt19937_64 random(2711);
  const Graph graph = half_network(random);
  const Inputs data = half_inputs(random);
  struct Stored {
    FormatId output;
    bool declared;
  };
  for (const char* name : {"fp32", "bf16", "fp64"}) {
    for (const Stored stored :
         {Stored{FormatId::fp32, false}, {FormatId::fp16, false}, {FormatId::bf16, false}, {FormatId::fp64, true}}) {
      const ArithmeticModel plain = cpu_arithmetic(name, in_blocks);
      ArithmeticModel arithmetic = plain;
      arithmetic.output = stored.declared ? plain.accumulator : stored.output;
      arithmetic.stores_declared_types = stored.declared;
      const Trace trace = cpu_evaluator(arithmetic).run(graph, data);
      for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const Node& node = graph.nodes[i];
        const ElementType type = graph.value(node.output).type;
        const FormatId expected = stored.declared ? float_format(type).value() : stored.output;
        Tensor<double> result = alone(graph, node, trace, plain);
        for (double& x : result.values) x = round_to(x, format(expected), Rounding::nearest_even);
        CAPTURE(name);
        CAPTURE(node.name);
        CAPTURE(format(expected).name);
        CHECK(stored_format(arithmetic, type) == expected);
        CHECK(trace.layers[i].output.to_double().values == result.values);
      }
    }
  }
}

TEST_CASE("a composite that returns its operand is a layer of its own, in the format in which it is stored") {
  std::mt19937_64 random(2712);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId same = graph.add_node("same", op::Einsum{"ij->ij"}, {x});
  const ValueId doubled = graph.add_node("doubled", op::Add{}, {same, same});
  graph.outputs = {graph.add_node("again", op::Einsum{"ij->ij"}, {doubled})};
  const Tensor<float> values = random_tensor<float>({5, 3}, random);
  Inputs data;
  data.tensors.emplace_back("x", StoredTensor::from(values));
  for (const FormatId output : {FormatId::fp32, FormatId::bf16}) {
    ArithmeticModel arithmetic = cpu_arithmetic("fp32", in_blocks);
    arithmetic.output = output;
    RunOptions in_twos;
    in_twos.batch = 2;
    const Trace trace = cpu_evaluator(arithmetic).run(graph, data, in_twos);
    REQUIRE(trace.layers.size() == 3);
    const std::vector<double> first = trace.layers[0].output.to_double().values;
    const std::vector<double> second = trace.layers[1].output.to_double().values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double stored = round_to(static_cast<double>(values.values[i]), format(output), Rounding::nearest_even);
      CHECK(first[i] == stored);
      CHECK(second[i] == 2.0 * stored);
    }
    CHECK(trace.layers[2].output.to_double().values == second);
  }
}

TEST_CASE("integers and truth values are stored as they are") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, dimensions({open, 1}));
  const ValueId ids = graph.add_constant("ids", StoredTensor::from(tensor<std::int64_t>({2}, {70'001, -4'097})));
  const ValueId moved = graph.add_node("moved", op::Identity{}, {ids});
  graph.outputs = {graph.add_node("larger", op::Greater{},
                                  {x, graph.add_constant("one", StoredTensor::from(tensor<float>({}, {1.0f})))}),
                   moved};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", in_blocks);
  arithmetic.output = FormatId::fp16;
  const Trace trace =
      cpu_evaluator(arithmetic).run(graph, inputs({{"x", StoredTensor::from(tensor<float>({1, 1}, {2.0f}))}}));
  CHECK(trace.layers[0].output.to_double().values == std::vector<double>{70'001.0, -4'097.0});
  CHECK(trace.layers[1].output.to_double().values == std::vector<double>{1.0});
}

TEST_CASE("a result beyond the range of the stored format is an infinity") {
  const std::vector<Tensor<float>> operands = {tensor<float>({1, 1}, {60'000.0f}), tensor<float>({1, 1}, {6'000.0f})};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", in_blocks);
  arithmetic.output = FormatId::fp16;
  const Trace trace = cpu_evaluator(arithmetic).run(graph_of<float>(op::Add{}, operands), inputs_of(operands));
  CHECK(std::isinf(trace.layers[0].output.to_double().values[0]));
}

TEST_CASE("what stores results more widely than it computes them is refused") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", in_blocks);
  arithmetic.output = FormatId::fp64;
  CHECK_THROWS_WITH_AS(cpu_evaluator(arithmetic), doctest::Contains("a wider format"), Unsupported);
}

TEST_CASE("where results are stored survives JSON, and a contradiction is refused") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", in_blocks);
  arithmetic.stores_declared_types = true;
  CHECK(arithmetic_from_json(to_json(arithmetic)).stores_declared_types);
  arithmetic.output = FormatId::bf16;
  CHECK_THROWS_WITH_AS(arithmetic_from_json(to_json(arithmetic)), doctest::Contains("stores_declared_types"),
                       ParseError);
}

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "driftbound/model/op_kinds.hpp"
#include "model/graphs.hpp"

using namespace driftbound;
using graphs::declared;
using graphs::message_of;
using graphs::ones;

namespace {

bool takes(const Op& op, std::size_t inputs) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({1}));
  try {
    graph.add_node("n", op, std::vector<ValueId>(inputs, x));
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

/// x [-1, 2] -> dense -> relu
Graph two_layers() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 2}));
  const ValueId w = graph.add_constant("w", ones({2, 4}));
  const ValueId b = graph.add_constant("b", ones({4}));
  const ValueId y = graph.add_node("dense", op::Gemm{}, {x, w, b});
  graph.outputs = {graph.add_node("relu", op::Relu{}, {y})};
  return graph;
}

}  // namespace

TEST_CASE("every op has a name of its own, but for the extrema of two operands and of many, and for Where") {
  std::set<std::string_view> names;
  for (const Op& op : every_kind()) names.insert(name_of(op));
  CHECK(names.size() == std::variant_size_v<OpAlternatives> - 3);
  CHECK(name_of(op::Where{}) == name_of(op::Choice{}));
  CHECK(name_of(op::Min{}) == name_of(op::MinOf{}));
  CHECK(name_of(op::Max{}) == name_of(op::MaxOf{}));
  CHECK(name_of(op::LeakyRelu{}) == "LeakyRelu");
  CHECK(name_of(op::MatMul{}) == "MatMul");
}

TEST_CASE("add_node takes as many inputs as the op has") {
  constexpr std::size_t most_tried = 7;
  const std::set<std::string_view> variadic = {"Concat", "Einsum", "Sum", "Mean", "Segment"};
  const std::map<std::string_view, std::pair<std::size_t, std::size_t>> others = {{"Gemm", {2, 3}},
                                                                                  {"MatMul", {2, 2}},
                                                                                  {"Add", {2, 2}},
                                                                                  {"Sub", {2, 2}},
                                                                                  {"Mul", {2, 2}},
                                                                                  {"Div", {2, 2}},
                                                                                  {"PRelu", {2, 2}},
                                                                                  {"Greater", {2, 2}},
                                                                                  {"GreaterOrEqual", {2, 2}},
                                                                                  {"Equal", {2, 2}},
                                                                                  {"Where", {2, 2}},
                                                                                  {"BatchNormalization", {5, 5}},
                                                                                  {"InstanceNormalization", {3, 3}},
                                                                                  {"GroupNormalization", {3, 3}},
                                                                                  {"LayerNormalization", {2, 3}},
                                                                                  {"RMSNormalization", {2, 2}},
                                                                                  {"GridSample", {2, 2}},
                                                                                  {"Conv", {2, 3}},
                                                                                  {"ConvTranspose", {2, 3}},
                                                                                  {"Attention", {3, 4}},
                                                                                  {"MaskedSoftmax", {1, 2}},
                                                                                  {"RotaryEmbedding", {3, 3}}};
  for (const Op& op : every_kind()) {
    CAPTURE(name_of(op));
    std::pair<std::size_t, std::size_t> expected = {1, 1};
    if (others.count(name_of(op)) != 0) expected = others.at(name_of(op));
    if (std::holds_alternative<op::Min>(op) || std::holds_alternative<op::Max>(op)) expected = {2, 2};
    if (std::holds_alternative<op::Choice>(op)) expected = {3, 3};
    const bool is_extremum_of_many = std::holds_alternative<op::MinOf>(op) || std::holds_alternative<op::MaxOf>(op);
    if (is_extremum_of_many || variadic.count(name_of(op)) != 0) expected = {1, most_tried};
    for (std::size_t inputs = 0; inputs <= most_tried; ++inputs) {
      CHECK(takes(op, inputs) == (inputs >= expected.first && inputs <= expected.second));
    }
  }
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {});
  const std::string message = message_of<InvalidArgument>([&] { graph.add_node("fc1", op::Gemm{}, {x}); });
  CHECK(message == "node 'fc1' (Gemm) has 1 inputs, the op takes 2 to 3");
}

TEST_CASE("add_node refuses inputs that do not exist yet") {
  Graph graph;
  graph.add_input("x", ElementType::f32, {});
  const std::string message = message_of<InvalidArgument>([&] { graph.add_node("act", op::Relu{}, {1}); });
  CHECK(contains(message, "'act' (Relu)"));
  CHECK(graph.nodes.empty());
  CHECK(graph.values.size() == 1);
}

TEST_CASE("comparisons give truth values, choices the type of what they choose from") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {}), n = graph.add_input("n", ElementType::i64, {});
  const ValueId truth = graph.add_node("greater", op::Greater{}, {x, x});
  CHECK(graph.value(truth).type == ElementType::boolean);
  CHECK(graph.value(graph.add_node("same", op::Equal{}, {truth, truth})).type == ElementType::boolean);
  CHECK(graph.value(graph.add_node("x or x", op::Choice{}, {truth, x, x})).type == ElementType::f32);
  CHECK(graph.value(graph.add_node("and", op::Choice{}, {truth, truth, truth})).type == ElementType::boolean);
  CHECK(graph.value(graph.add_node("n or n", op::Choice{}, {truth, n, n})).type == ElementType::i64);
  CHECK(contains(message_of<Unsupported>([&] { graph.add_node("numbers", op::Greater{}, {n, n}); }), "int64"));
}

TEST_CASE("a node computes in the widest float type of its inputs") {
  Graph graph;
  const ValueId half = graph.add_input("half", ElementType::f16, {});
  const ValueId brain = graph.add_input("brain", ElementType::bf16, {});
  const ValueId single = graph.add_input("single", ElementType::f32, {});
  const ValueId wide = graph.add_input("wide", ElementType::f64, {});
  const ValueId whole = graph.add_input("whole", ElementType::i64, {});
  int nodes = 0;
  const auto type_of = [&](Op op, std::vector<ValueId> inputs) {
    return graph.value(graph.add_node("n" + std::to_string(nodes++), std::move(op), std::move(inputs))).type;
  };
  CHECK(type_of(op::Add{}, {half, half}) == ElementType::f16);
  CHECK(type_of(op::Add{}, {half, single}) == ElementType::f32);
  CHECK(type_of(op::Add{}, {wide, single}) == ElementType::f64);
  CHECK(type_of(op::Add{}, {half, brain}) == ElementType::f32);  // neither holds the other
  CHECK(type_of(op::Mul{}, {single, whole}) == ElementType::f32);
  CHECK(type_of(op::Reshape{{1}}, {whole}) == ElementType::i64);
  CHECK(type_of(op::Cast{ElementType::f64}, {half}) == ElementType::f64);
  CHECK(type_of(op::Cast{ElementType::f32}, {whole}) == ElementType::f32);
}

TEST_CASE("what integers compute is refused: they wrap and truncate") {
  Graph graph;
  const ValueId whole = graph.add_input("whole", ElementType::i64, {});
  const ValueId real = graph.add_input("real", ElementType::f32, {});
  CHECK_THROWS_AS(graph.add_node("n", op::Div{}, {whole, whole}), Unsupported);
  CHECK(contains(message_of<Unsupported>([&] { graph.add_node("n", op::Cast{ElementType::i64}, {real}); }), "int64"));
}

TEST_CASE("a graph knows its producers, parameters and working type") {
  const Graph graph = two_layers();
  CHECK(graph.producer(graph.outputs[0]) == 1);
  CHECK(graph.producer(graph.nodes[0].output) == 0);
  CHECK_FALSE(graph.producer(graph.inputs[0]).has_value());
  CHECK(graph.parameter_count() == 12);
  CHECK(graph.working_type() == ElementType::f32);
  CHECK(graph.value(graph.outputs[0]).name == "relu");

  Graph mixed = graph;
  mixed.add_constant("shape", StoredTensor::from(Tensor<std::int64_t>({2}, {1, 2})));
  CHECK(mixed.parameter_count() == 12);
  mixed.add_constant("scale", StoredTensor::from(Tensor<double>({1}, {0.5})));
  CHECK(mixed.working_type() == ElementType::f64);
}

TEST_CASE("depends_on_input follows the inputs through the nodes") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({2}));
  const ValueId c = graph.add_constant("c", ones({2}));
  const ValueId folded = graph.add_node("folded", op::Exp{}, {c});
  const ValueId mixed = graph.add_node("mixed", op::Add{}, {folded, x});
  CHECK(depends_on_input(graph) == std::vector<bool>{true, false, false, true});
  CHECK(mixed == 3);
}

TEST_CASE("fan_in is the length of the sums that a node forms") {
  const auto fan = [](Op op, const std::vector<Shape>& inputs) {
    const Graph graph = graphs::one_node(std::move(op), inputs);
    return fan_in(graph, graph.nodes[0], infer_shapes(graph, inputs));
  };
  CHECK(fan(op::Gemm{}, {{4, 3}, {3, 5}}) == 3);
  CHECK(fan(op::Gemm{1.0, 1.0, true, true}, {{4, 3}, {5, 4}}) == 4);
  CHECK(fan(op::MatMul{}, {{2, 4, 7}, {7, 5}}) == 7);
  CHECK(fan(op::MatMul{}, {{7}, {7}}) == 7);
  CHECK(fan(op::Softmax{1, false}, {{2, 3, 4}}) == 3);
  CHECK(fan(op::Softmax{1, true}, {{2, 3, 4}}) == 12);
  CHECK(fan(op::Add{}, {{4}, {4}}) == 0);
  CHECK(fan(op::Tanh{}, {{4}}) == 0);
  CHECK(fan(op::Concat{0}, {{4}, {4}}) == 0);
}

TEST_CASE("validate accepts what add_node builds") {
  CHECK_NOTHROW(validate(two_layers()));
}

TEST_CASE("validate names what is wrong with a graph") {
  const auto complaint = [](auto damage) {
    Graph graph = two_layers();
    damage(graph);
    return message_of<InvalidArgument>([&] { validate(graph); });
  };
  CHECK(contains(complaint([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }), "'relu' (Relu) reads 'dense' before"));
  CHECK(contains(complaint([](Graph& g) { g.nodes[1].name = "dense"; }), "'dense'"));
  CHECK(contains(complaint([](Graph& g) { g.nodes[1].inputs = {99}; }), "'relu' (Relu) reads value 99"));
  CHECK(contains(complaint([](Graph& g) { g.nodes[0].inputs.pop_back(), g.nodes[0].inputs.pop_back(); }), "'dense'"));
  CHECK(contains(complaint([](Graph& g) { g.nodes[1].output = g.nodes[0].output; }), "'relu'"));
  CHECK(contains(complaint([](Graph& g) { g.nodes[1].output = g.inputs[0]; }), "'relu'"));
  CHECK(contains(complaint([](Graph& g) { g.outputs = {42}; }), "output 42"));
  CHECK(contains(complaint([](Graph& g) { g.inputs = {1}; }), "input 1"));
  CHECK(contains(complaint([](Graph& g) { g.inputs.push_back(g.inputs[0]); }), "named 'x'"));
  CHECK(contains(complaint([](Graph& g) { g.inputs.clear(); }), "reads 'x' before"));
}

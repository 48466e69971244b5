// Traces that lack layers: which records are of which layers, and the graph of what is recorded.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/recorded_graph.hpp"
#include "model/safetensors.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace driftbound::test::gaps {
namespace {

StoredTensor numbers(Shape shape, float first) {
  Tensor<float> tensor(std::move(shape));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.values[i] = first + static_cast<float>(i);
  return StoredTensor::from(tensor);
}

/// x [N, 3] -> /fc1/Gemm [N, 4] -> /act/Tanh -> /fc2/Gemm [N, 3] -> /Add (x) -> /norm/{Abs, Add, Sqrt} [N, 3] -> y
Graph exported() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId w = graph.add_constant("fc1.weight", numbers({3, 4}, 1)),
                v = graph.add_constant("fc2.weight", numbers({4, 3}, 1));
  const ValueId one = graph.add_constant("one", numbers({3}, 1));
  const ValueId fc1 = graph.add_node("/fc1/Gemm", op::Gemm{}, {x, w});
  const ValueId act = graph.add_node("/act/Tanh", op::Tanh{}, {fc1});
  const ValueId fc2 = graph.add_node("/fc2/Gemm", op::Gemm{}, {act, v});
  const ValueId sum = graph.add_node("/Add", op::Add{}, {x, fc2});
  const ValueId abs = graph.add_node("/norm/Abs", op::Abs{}, {sum});
  const ValueId above = graph.add_node("/norm/Add", op::Add{}, {abs, one});
  const ValueId root = graph.add_node("/norm/Sqrt", op::Sqrt{}, {above});
  graph.outputs = {graph.add_node("/head/Sub", op::Sub{}, {root, one})};
  graph.values[graph.outputs[0]].name = "y";
  graph.values[fc1].name = "/fc1/Gemm_output_0";
  return graph;
}

using Records = std::vector<std::pair<std::string, StoredTensor>>;

RecordedRunOfModel read(const Graph& graph, Records records, const std::map<std::string, std::string>& metadata = {}) {
  const TemporaryFolder folder;
  records.emplace_back("input/x", numbers({2, 3}, 0));
  std::vector<std::pair<std::string, const StoredTensor*>> pointers;
  for (const auto& [name, tensor] : records) pointers.emplace_back(name, &tensor);
  write_safetensors(folder / "t.safetensors", pointers, metadata);
  return read_recorded(graph, "", folder / "t.safetensors");
}

std::string refusal(const Graph& graph, const Records& records) {
  try {
    read(graph, records);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> layers_of(const RecordedRunOfModel& run) {
  std::vector<std::string> names;
  for (const Node& node : run.graph.nodes) names.push_back(node.name);
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(run.trace.layers.at(i).name == names[i]);
  return names;
}

const Graph& steps_of(const Node& node) {
  return *std::get<op::Segment>(node.op).graph;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a trace of the output alone is one segment from the inputs on") {
  const Graph graph = exported();
  for (const std::string key : {"output/y", "layer/7/y/output", "layer/0/.head.Sub/output", "layer/3/head/output"}) {
    CAPTURE(key);
    const RecordedRunOfModel run = read(graph, {{key, numbers({2, 3}, 5)}});
    REQUIRE(layers_of(run) == Names{"/head/Sub"});
    CHECK(run.graph.value(run.graph.outputs.at(0)).name == "y");
    CHECK(run.segments.at(0).nodes.size() == 8);
    CHECK(run.segments.at(0).from == Names{"x"});
    CHECK(run.inside == 7);
    CHECK(run.outputs_left_out.empty());
    CHECK(batch_layout(run.graph).batched);
    validate(run.graph);
    CHECK(steps_of(run.graph.nodes[0]).nodes.size() == 8);
  }
}

TEST_CASE("nodes whose operands are recorded stay as they are, others are segments from the nearest recorded ones") {
  const Graph graph = exported();
  const RecordedRunOfModel run = read(graph, {{"layer/0/fc1/output", numbers({2, 4}, 1)},
                                              {"layer/1/act/output", numbers({2, 4}, 2)},
                                              {"layer/2/norm/output", numbers({2, 3}, 3)}});
  REQUIRE(layers_of(run) == Names{"/fc1/Gemm", "/act/Tanh", "/norm/Sqrt"});
  CHECK(std::holds_alternative<op::Gemm>(run.graph.nodes[0].op));
  CHECK(std::holds_alternative<op::Tanh>(run.graph.nodes[1].op));
  CHECK(run.segments[2].nodes == Names{"/fc2/Gemm", "/Add", "/norm/Abs", "/norm/Add", "/norm/Sqrt"});
  CHECK(run.segments[2].from == Names{"/act/Tanh", "x"});
  CHECK(run.outputs_left_out == Names{"y"});
  CHECK(run.graph.outputs == std::vector<ValueId>{run.graph.nodes[2].output});
  CHECK(run.matched.size() == 3);
  CHECK(run.matched[2].by == "module path");
  CHECK(run.nodes == 8);
  CHECK(run.inside == 4);
}

TEST_CASE("where every layer is recorded the graph is the model's") {
  const Graph graph = exported();
  Records records;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    records.emplace_back("layer/" + std::to_string(i) + "/" + graph.nodes[i].name.substr(1) + "/output",
                         numbers(i < 2 ? Shape{2, 4} : Shape{2, 3}, 1));
  for (auto& [key, tensor] : records) std::replace(key.begin() + 8, key.end() - 7, '/', '.');
  const RecordedRunOfModel run = read(graph, records);
  CHECK(run.graph.nodes.size() == 8);
  CHECK(run.segments.empty());
  CHECK(run.matched.empty());
}

TEST_CASE("modules within each other have one result") {
  const Graph graph = exported();
  const StoredTensor y = numbers({2, 3}, 5);
  const Records both = {{"layer/1/head/output", y}, {"layer/2//output", y}};
  const RecordedRunOfModel run = read(graph, both);
  CHECK(layers_of(run) == Names{"/head/Sub"});
  CHECK(run.copies.size() == 1);
  CHECK(contains(refusal(graph, {{"layer/1/head/output", y}, {"layer/2//output", numbers({2, 3}, 6)}}),
                 "are both of layer '/head/Sub' and hold other numbers"));
}

TEST_CASE("with gaps, order and shape must leave one layer for every record") {
  const Graph graph = exported();
  const RecordedRunOfModel run =
      read(graph, {{"layer/0/a/output", numbers({2, 4}, 1)}, {"layer/1/b/output", numbers({2, 4}, 2)}});
  CHECK(layers_of(run) == Names{"/fc1/Gemm", "/act/Tanh"});
  CHECK(run.matched.at(0).by == "order and shape");
  CHECK(run.matched.at(0).record == "a");

  const std::string one = refusal(graph, {{"layer/0/a/output", numbers({2, 4}, 1)}});
  CHECK(contains(one, "'layer/0/a/output' [2, 4]: '/fc1/Gemm', '/act/Tanh'"));
  const std::string none = refusal(graph, {{"layer/0/a/output", numbers({2, 7}, 1)}});
  CHECK(contains(none, "'layer/0/a/output' [2, 7]: no other layer has this shape"));
  CHECK(contains(refusal(graph, {{"output/z", numbers({2, 3}, 1)}}), "is no output of the model, which has 'y'"));
  CHECK(contains(refusal(graph, {}), "the trace lacks layers of the model"));
}

TEST_CASE("where some records are found, others that cannot be placed are left aside and named") {
  const RecordedRunOfModel run =
      read(exported(), {{"output/y", numbers({2, 3}, 1)}, {"layer/0/a/output", numbers({2, 7}, 1)}});
  CHECK(layers_of(run) == Names{"/head/Sub"});
  CHECK(run.unplaced == Names{"a"});
}

TEST_CASE("a module that is called twice has its last call recorded") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId first = graph.add_node("/act/Relu", op::Relu{}, {x});
  const ValueId middle = graph.add_node("/Neg", op::Neg{}, {first});
  const ValueId second = graph.add_node("/act_1/Relu", op::Relu{}, {middle});
  graph.outputs = {graph.add_node("/Exp", op::Exp{}, {second})};
  CHECK(layers_of(read(graph, {{"layer/0/act/output", numbers({2, 3}, 1)}})) == Names{"/act_1/Relu"});
  const Records both = {{"layer/0/act/output", numbers({2, 3}, 1)}, {"layer/1/act_1/output", numbers({2, 3}, 2)}};
  CHECK(layers_of(read(graph, both)) == Names{"/act/Relu", "/act_1/Relu"});
}

TEST_CASE("a record without a place that holds the numbers of another one is left aside") {
  const Graph graph = exported();
  const StoredTensor act = numbers({2, 3}, 4);
  const RecordedRunOfModel run = read(graph, {{"layer/0/fc2/output", act}, {"layer/1/drop/output", act}});
  CHECK(layers_of(run) == Names{"/fc2/Gemm"});
  CHECK(run.copies == Names{"drop"});
}

TEST_CASE("results inside a segment are rounded as the run stores them") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f16, {{-1, "N"}, {3, ""}});
  const ValueId root = graph.add_node("root", op::Sqrt{}, {x});
  const ValueId turned = graph.add_node("turned", op::Transpose{{0, 1}}, {root});
  const ValueId wide = graph.add_node("wide", op::Cast{ElementType::f32}, {turned});
  graph.outputs = {graph.add_node("y", op::Exp{}, {wide})};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  const auto names = [&] {
    const RecordedGraph recorded = recorded_graph(graph, {3}, arithmetic);
    Names names;
    for (const Node& step : steps_of(recorded.graph.nodes.at(0)).nodes) names.push_back(step.name);
    CHECK(recorded.segments.at(0).nodes == Names{"root", "turned", "wide", "y"});
    return names;
  };
  CHECK(names() == Names{"root", "turned", "wide", "y"});
  arithmetic.stores_declared_types = true;
  CHECK(names() == Names{"root", "root/stored", "turned", "wide", "y"});
  arithmetic.stores_declared_types = false;
  arithmetic.output = FormatId::bf16;
  CHECK(names() == Names{"root", "root/stored", "turned", "wide", "wide/stored", "y"});
  arithmetic.output = FormatId::fp8_e4m3;
  CHECK_THROWS_AS(recorded_graph(graph, {3}, arithmetic), Unsupported);
  CHECK_THROWS_AS(recorded_graph(graph, {}, arithmetic), InvalidArgument);
}

TEST_CASE("constants that only move are constants, and a product and the row added to it are one sum") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {5, ""}, {3, ""}});
  const ValueId w = graph.add_constant("w", numbers({4, 3}, 1)), bias = graph.add_constant("b", numbers({4}, 1));
  const ValueId turned = graph.add_node("turned", op::Transpose{}, {w});
  const ValueId product = graph.add_node("/fc/MatMul", op::MatMul{}, {x, turned});
  const ValueId sum = graph.add_node("/fc/Add", op::Add{}, {bias, product});
  graph.outputs = {graph.add_node("y", op::Tanh{}, {sum})};
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order("sequential"));
  const RecordedGraph recorded = recorded_graph(graph, {2, 3}, arithmetic);
  REQUIRE(recorded.graph.nodes.size() == 2);
  CHECK(recorded.graph.nodes[0].name == "/fc/Add");
  CHECK(std::holds_alternative<op::Gemm>(recorded.graph.nodes[0].op));
  CHECK(recorded.segments[0].nodes == Names{"/fc/MatMul", "/fc/Add"});
  CHECK(recorded.graph.value(recorded.graph.nodes[0].inputs[1]).constant.shape() == Shape{3, 4});
  CHECK(infer_shapes(recorded.graph, {{2, 5, 3}})[recorded.graph.outputs[0]] == Shape{2, 5, 4});
  // A product that is recorded, or read by others, is summed up alone.
  CHECK(std::holds_alternative<op::Add>(recorded_graph(graph, {1, 2, 3}, arithmetic).graph.nodes[1].op));
  graph.outputs.push_back(product);
  CHECK(std::holds_alternative<op::Segment>(recorded_graph(graph, {2, 3}, arithmetic).graph.nodes[0].op));
}

}  // namespace driftbound::test::gaps

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"
#include "support/onnx_writer.hpp"
#include "support/temporary_folder.hpp"

// Models that are loaded for the inputs of a run: ids, masks, extents and branches follow from them.

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;

StoredTensor integers(Shape shape, std::vector<std::int64_t> values) {
  return StoredTensor::from(Tensor<std::int64_t>(std::move(shape), std::move(values)));
}
StoredTensor floats(Shape shape, Floats values) {
  return StoredTensor::from(Tensor<float>(std::move(shape), std::move(values)));
}

ModelDescription load_for(const OnnxModel& model, const Inputs& data) {
  const TemporaryFolder folder;
  GivenInputs given;
  given.data = data;
  return describe_model(model.save(folder / "m.onnx"), given);
}

/// The first output, for all rows that are given.
std::vector<double> values_of(const OnnxModel& model, const Inputs& data) {
  const ModelDescription description = load_for(model, data);
  REQUIRE(description.unsupported.empty());
  const Graph& graph = description.graph;
  return evaluate_as<double>(graph, description.inputs).at(graph.producer(graph.outputs[0]).value()).values;
}

OnnxModel embedding() {
  OnnxModel model(13);
  model.input("ids", {"batch", "seq"}, onnx_int64)
      .initializer("table", {4, 2}, Floats{0, 1, 10, 11, 20, 21, 30, 31})
      .initializer("w", {2, 1}, Floats{1, 2})
      .node("Gather", {"table", "ids"}, "rows")
      .node("MatMul", {"rows", "w"}, "y")
      .output("y");
  return model;
}

/// Scores of every position against every other, masked below and by a mask of integers.
OnnxModel masked_attention(bool adds) {
  OnnxModel model(14);
  model.input("x", {"batch", "seq"})
      .input("mask", {"batch", "seq"}, onnx_int64)
      .initializer("low", {}, Floats{-std::numeric_limits<float>::infinity()})
      .initializer("zero", {}, Floats{0.0F})
      .initializer("no", {}, Integers{0})
      .initializer("axis", {1}, Integers{1})
      .node("Equal", {"mask", "no"}, "hidden")
      .node("Unsqueeze", {"hidden", "axis"}, "hidden3")
      .node("Unsqueeze", {"x", "axis"}, "scores");
  if (adds)
    model.node("Where", {"hidden3", "low", "zero"}, "bias").node("Add", {"scores", "bias"}, "seen");
  else
    model.node("Where", {"hidden3", "low", "scores"}, "seen");
  model.node("Softmax", {"seen"}, "y", {A::of_int("axis", -1)}).output("y");
  return model;
}

}  // namespace

TEST_CASE("ids look up rows of a table, which become an input of the graph") {
  const Inputs data = {{{"ids", integers({2, 3}, {0, 3, 1, 2, 2, 0})}}};
  CHECK(values_of(embedding(), data) == std::vector<double>{2, 92, 32, 62, 62, 2});
  const ModelDescription model = load_for(embedding(), data);
  REQUIRE(model.graph.inputs.size() == 1);
  const Value& rows = model.graph.value(model.graph.inputs[0]);
  CHECK(rows.name == "rows");
  CHECK(rows.declared[0].extent == -1);
  CHECK(rows.declared[1].extent == 3);
  CHECK(batch_layout(model.graph).batched);
  CHECK(model.inputs.at("ids").shape() == Shape{2, 3});  // kept for a trace
  REQUIRE(model.index_limits.size() == 1);
  CHECK(model.index_limits[0] == std::pair<std::string, std::int64_t>("ids", 4));
}

TEST_CASE("one row of ids has an open batch as well") {
  const Inputs data = {{{"ids", integers({1, 2}, {1, 2})}}};
  CHECK(values_of(embedding(), data) == std::vector<double>{32, 62});
  CHECK(batch_layout(load_for(embedding(), data).graph).batched);
}

TEST_CASE("an id outside of its table is named") {
  CHECK_THROWS_WITH_AS(load_for(embedding(), {{{"ids", integers({1, 2}, {1, 4})}}}), doctest::Contains("Gather"),
                       Error);
}

TEST_CASE("minus infinity of a mask leaves elements out of a Softmax, by Where and by Add") {
  const double e = std::exp(1.0), sum = 1.0 + e;
  const Inputs data = {{{"x", floats({2, 3}, {0, 1, 5, 1, 7, 0})}, {"mask", integers({2, 3}, {1, 1, 0, 1, 0, 1})}}};
  for (const bool adds : {false, true}) {
    const std::vector<double> y = values_of(masked_attention(adds), data);
    const std::vector<double> expected = {1.0 / sum, e / sum, 0.0, e / sum, 0.0, 1.0 / sum};
    REQUIRE(y.size() == expected.size());
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("minus infinity that reaches another op than Softmax is refused by name") {
  OnnxModel model(14);
  model.input("x", {2, 3})
      .initializer("bias", {3}, Floats{0, -std::numeric_limits<float>::infinity(), 0})
      .node("Add", {"x", "bias"}, "masked")
      .node("Relu", {"masked"}, "y")
      .output("y");
  const ModelDescription description = load_for(model, {{{"x", floats({2, 3}, Floats(6, 1.0F))}}});
  REQUIRE(description.unsupported.size() == 1);
  CHECK(description.unsupported[0].op == "Relu");
  CHECK(description.unsupported[0].reason.find("minus infinity") != std::string::npos);
}

TEST_CASE("given shapes fix open axes, and an If takes the branch that follows") {
  OnnxModel model(13);
  model.input("x", {"batch", "seq", "width"})
      .initializer("at", {}, Integers{1})
      .initializer("four", {}, Integers{4})
      .node("Shape", {"x"}, "shape")
      .node("Gather", {"shape", "at"}, "seq")
      .node("Equal", {"seq", "four"}, "is_four")
      .node("If", {"is_four"}, "y",
            {A::of_graph("then_branch", onnx_graph({onnx_node("Relu", {"x"}, {"a"})}, {"a"})),
             A::of_graph("else_branch", onnx_graph({onnx_node("Neg", {"x"}, {"b"})}, {"b"}))})
      .output("y");
  const ModelDescription four = load_for(model, {{{"x", floats({2, 4, 1}, Floats(8, -1.0F))}}});
  REQUIRE(four.graph.nodes.size() == 1);
  CHECK(std::holds_alternative<op::Relu>(four.graph.nodes[0].op));
  const ModelDescription three = load_for(model, {{{"x", floats({2, 3, 1}, Floats(6, -1.0F))}}});
  REQUIRE(three.graph.nodes.size() == 1);
  CHECK(std::holds_alternative<op::Neg>(three.graph.nodes[0].op));
}

TEST_CASE("integers that depend on other rows make all rows one evaluation") {
  OnnxModel model(13);
  model.input("ids", {"batch", "seq"}, onnx_int64)
      .input("x", {"batch", "seq"})
      .initializer("table", {3}, Floats{1, 2, 3})
      .node("Transpose", {"ids"}, "turned", {A::of_ints("perm", {1, 0})})
      .node("Gather", {"table", "turned"}, "rows")
      .node("MatMul", {"x", "rows"}, "y")
      .output("y");
  const Inputs data = {{{"ids", integers({2, 2}, {0, 1, 2, 0})}, {"x", floats({2, 2}, {1, 0, 0, 1})}}};
  CHECK(values_of(model, data) == std::vector<double>{1, 3, 2, 1});
  CHECK_FALSE(batch_layout(load_for(model, data).graph).batched);
}

TEST_CASE("data with a name that no input has are refused") {
  CHECK_THROWS_WITH_AS(load_for(embedding(), {{{"idz", integers({1, 2}, {1, 2})}}}), doctest::Contains("idz"), Error);
}

namespace {

const float minus_infinity = -std::numeric_limits<float>::infinity();

void node_is_refused(const OnnxModel& model, const Inputs& data, const char* reason) {
  const ModelDescription description = load_for(model, data);
  REQUIRE_FALSE(description.unsupported.empty());
  CAPTURE(description.unsupported[0].reason);
  CHECK(description.unsupported[0].reason.find(reason) != std::string::npos);
}

}  // namespace

TEST_CASE("two layers that read one mask of minus infinity share its parts, which have names") {
  for (const bool adds : {false, true}) {
    OnnxModel model(14);
    model.input("x", {"batch", "seq"})
        .input("keep", {"batch", "seq"}, onnx_bool)
        .initializer("low", {}, Floats{minus_infinity})
        .initializer("zero", {}, Floats{0.0F});
    if (adds)
      model.node("Where", {"keep", "zero", "low"}, "bias").node("Add", {"x", "bias"}, "seen");
    else
      model.node("Not", {"keep"}, "hide").node("Where", {"hide", "low", "x"}, "seen");
    model.node("Softmax", {"seen"}, "p", {A::of_int("axis", -1)});
    if (adds)
      model.node("Add", {"p", "bias"}, "seen2");
    else
      model.node("Where", {"hide", "low", "p"}, "seen2");
    model.node("Softmax", {"seen2"}, "y", {A::of_int("axis", -1)}).output("y");
    const StoredTensor keep(ElementType::boolean, {2, 2}, {std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}});
    const Inputs data = {{{"x", floats({2, 2}, {0, 1, 2, 2})}, {"keep", keep}}};
    CHECK(values_of(model, data) == std::vector<double>{1, 0, 0.5, 0.5});
    const Graph graph = load_for(model, data).graph;
    CHECK(graph.inputs.size() == 2);
    for (const ValueId input : graph.inputs) CHECK_FALSE(graph.value(input).name.empty());
  }
}

TEST_CASE("minus infinity that gives the scores a further axis is refused, as scores are not repeated") {
  OnnxModel model(14);
  const StoredTensor keep(ElementType::boolean, {4}, std::vector<std::byte>(4, std::byte{1}));
  model.input("s", {1, 4})
      .input("keep", {4}, onnx_bool)
      .initializer("low", {5, 1}, Floats(5, minus_infinity))
      .node("Where", {"keep", "s", "low"}, "seen")
      .node("Softmax", {"seen"}, "y", {A::of_int("axis", -1)})
      .output("y");
  node_is_refused(model, {{{"s", floats({1, 4}, {1, 2, 3, 4})}, {"keep", keep}}}, "expand the scores");
  OnnxModel times(14);
  times.input("s", {4, 4})
      .initializer("mask", {4}, Floats{0, minus_infinity, 0, 0})
      .initializer("one", {1, 1, 1}, Floats{1.0F})
      .node("Mul", {"mask", "one"}, "low")
      .node("Add", {"s", "low"}, "seen")
      .node("Softmax", {"seen"}, "y", {A::of_int("axis", 1)})
      .output("y");
  // A mask of other axes is no mask: the model keeps its weights, which are not finite.
  for (const Node& node : load_for(times, {{{"s", floats({4, 4}, Floats(16, 1.0F))}}}).graph.nodes)
    CHECK_FALSE(std::holds_alternative<op::MaskedSoftmax>(node.op));
}

TEST_CASE("integers of another shape than the model declares are refused") {
  OnnxModel model(13);
  model.input("ids", {2, 3}, onnx_int64)
      .initializer("table", {4, 1}, Floats{0, 1, 2, 3})
      .node("Gather", {"table", "ids"}, "y")
      .output("y");
  const auto of_shape = [](Shape shape) {
    const auto count = static_cast<std::size_t>(element_count(shape));
    return Inputs{{{"ids", integers(std::move(shape), Integers(count, 1))}}};
  };
  CHECK(load_for(model, of_shape({2, 3})).unsupported.empty());
  CHECK(load_for(model, of_shape({5, 2, 3})).unsupported.empty());  // five samples
  CHECK_THROWS_WITH_AS(
      load_for(model, of_shape({5, 3})),
      doctest::Contains("input 'ids' has shape [5, 3], the model takes [2, 3] or [N, 2, 3] (N samples)"),
      ShapeMismatch);
  CHECK_THROWS_AS(load_for(model, of_shape({3})), ShapeMismatch);
}

TEST_CASE("axes of one name, and samples, are as many in every input of integers") {
  OnnxModel named(13);
  named.input("ids", {"b", 2}, onnx_int64)
      .input("mask", {"b", 2}, onnx_int64)
      .node("Add", {"ids", "mask"}, "sum")
      .node("Cast", {"sum"}, "y", {A::of_int("to", 1)})
      .output("y");
  CHECK_THROWS_WITH_AS(
      load_for(named, {{{"ids", integers({3, 2}, Integers(6, 1))}, {"mask", integers({1, 2}, {1, 1})}}}),
      doctest::Contains("axis 'b' has 3 elements in input 'ids' and 1 in input 'mask'"), ShapeMismatch);
  OnnxModel stacked(13);
  stacked.input("k", {1, 2}, onnx_int64)
      .input("l", {1, 2}, onnx_int64)
      .node("Add", {"k", "l"}, "sum")
      .node("Cast", {"sum"}, "y", {A::of_int("to", 1)})
      .output("y");
  CHECK_THROWS_WITH_AS(
      load_for(stacked, {{{"k", integers({5, 2}, Integers(10, 1))}, {"l", integers({3, 2}, Integers(6, 1))}}}),
      doctest::Contains("input 'k' has 5 samples, input 'l' has 3"), ShapeMismatch);
}

TEST_CASE("samples that happen to be equal are still samples") {
  OnnxModel model(13);
  model.input("x", {1, 2})
      .input("k", {1, 2}, onnx_int64)
      .node("Cast", {"k"}, "number", {A::of_int("to", 1)})
      .node("Sqrt", {"number"}, "root")
      .node("Mul", {"x", "root"}, "y")
      .output("y");
  for (const Integers& k : {Integers{4, 4, 4, 4}, Integers{4, 4, 9, 4}}) {
    const Inputs data = {{{"x", floats({2, 2}, {1, 2, 3, 4})}, {"k", integers({2, 2}, k)}}};
    const Graph graph = load_for(model, data).graph;
    CHECK(graph.inputs.size() == 2);
  }
}

TEST_CASE("arithmetic with quantised numbers, which wraps around, is refused") {
  for (const char* op : {"Add", "Div", "Mul"}) {
    OnnxModel model(13);
    model.input("x", {2})
        .initializer("scale", {}, Floats{0.5F})
        .node("QuantizeLinear", {"x", "scale"}, "q")
        .node(op, {"q", "q"}, "sum")
        .node("DequantizeLinear", {"sum", "scale"}, "y")
        .output("y");
    node_is_refused(model, {{{"x", floats({2}, {1, 2})}}}, "computes in uint8");
  }
  OnnxModel moved(13);
  moved.input("x", {2})
      .initializer("scale", {}, Floats{0.5F})
      .initializer("shape", {2}, Integers{2, 1})
      .node("QuantizeLinear", {"x", "scale"}, "q")
      .node("Reshape", {"q", "shape"}, "column")
      .node("Relu", {"column"}, "y")
      .output("y");
  node_is_refused(moved, {{{"x", floats({2}, {1, 2})}}}, "computes in uint8");
}

TEST_CASE("where a row alone has not the extents of indices, all rows are one evaluation") {
  OnnxModel model(13);
  model.input("x", {"n", 2})
      .initializer("at", {3, 2}, Integers{0, 1, 2, 0, 1, 1})
      .node("GatherElements", {"x", "at"}, "y", {A::of_int("axis", 0)})
      .output("y");
  CHECK(values_of(model, {{{"x", floats({3, 2}, {1, 2, 3, 4, 5, 6})}}}) == std::vector<double>{1, 4, 5, 2, 3, 4});
}

TEST_CASE("a mask given as floats may hold minus infinity") {
  OnnxModel model(14);
  model.input("x", {"b", 3})
      .input("mask", {"b", 3})
      .node("Add", {"x", "mask"}, "seen")
      .node("Softmax", {"seen"}, "y", {A::of_int("axis", -1)})
      .output("y");
  const Inputs data = {{{"x", floats({2, 3}, {1, 1, 1, 2, 2, 2})},
                        {"mask", floats({2, 3}, {0, minus_infinity, 0, minus_infinity, 0, minus_infinity})}}};
  CHECK(values_of(model, data) == std::vector<double>{0.5, 0, 0.5, 0, 1, 0});
}

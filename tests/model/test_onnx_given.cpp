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
  return evaluate_as<double>(graph, description.inputs).at(0).values;
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

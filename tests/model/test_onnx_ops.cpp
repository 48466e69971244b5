#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/onnx_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

using Integers = std::vector<std::int64_t>;

/// The op of a model with the node given, which computes y from x [2, 1, 3] and constants.
Node only_node(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
               const std::vector<A>& attributes = {}) {
  OnnxModel model(opset);
  model.input("x", {2, 1, 3})
      .initializer("axes", {1}, Integers{1})
      .initializer("shape", {2}, Integers{0, -1})
      .initializer("ratio", {}, std::vector<float>{0.5f})
      .initializer(onnx_tensor_header("off", onnx_bool, {}).bytes(9, std::string(1, '\0')))
      .node(name, inputs, "y", attributes)
      .output("y");
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  REQUIRE(graph.nodes.size() == 1);
  CHECK(name_of(graph.nodes[0].op) == (name == "Dropout" ? "Identity" : name));
  return graph.nodes[0];
}

template <class T>
T only_op(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
          const std::vector<A>& attributes = {}) {
  return std::get<T>(only_node(opset, name, inputs, attributes).op);
}

template <class Exception>
bool refused(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
             const std::vector<A>& attributes = {}) {
  try {
    only_node(opset, name, inputs, attributes);
  } catch (const Exception&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("ops without attributes are what their names say") {
  for (const std::string name :
       {"Neg", "Relu", "Tanh", "Sigmoid", "Softplus", "Sin", "Cos", "Exp", "Erf", "Sqrt", "Identity"})
    only_node(9, name, {"x"});
  for (const std::string name : {"Add", "Sub", "Mul", "Div"}) CHECK(only_node(7, name, {"x", "x"}).inputs.size() == 2);
}

TEST_CASE("defaults are the numbers that ONNX states, as float32") {
  CHECK(only_op<op::LeakyRelu>(9, "LeakyRelu", {"x"}).alpha == static_cast<double>(0.01f));
  CHECK(only_op<op::LeakyRelu>(9, "LeakyRelu", {"x"}, {A::of_float("alpha", 0.2f)}).alpha == static_cast<double>(0.2f));
  CHECK(only_op<op::Elu>(9, "Elu", {"x"}).alpha == 1.0);
  CHECK(only_op<op::Elu>(9, "Elu", {"x"}, {A::of_float("alpha", 2.5f)}).alpha == 2.5);
  CHECK(only_op<op::Flatten>(9, "Flatten", {"x"}).axis == 1);
}

TEST_CASE("Softmax changed its meaning with opset 13") {
  const auto before = only_op<op::Softmax>(12, "Softmax", {"x"});
  CHECK(before.axis == 1);
  CHECK(before.all_trailing_axes);
  const auto after = only_op<op::Softmax>(13, "Softmax", {"x"});
  CHECK(after.axis == -1);
  CHECK_FALSE(after.all_trailing_axes);
  CHECK(only_op<op::Softmax>(12, "Softmax", {"x"}, {A::of_int("axis", 0)}).axis == 0);
}

TEST_CASE("axes of Squeeze and Unsqueeze are an attribute before opset 13 and an input from then on") {
  CHECK(only_op<op::Squeeze>(12, "Squeeze", {"x"}, {A::of_ints("axes", {1})}).axes == Integers{1});
  CHECK(only_op<op::Squeeze>(13, "Squeeze", {"x", "axes"}).axes == Integers{1});
  CHECK(only_op<op::Squeeze>(12, "Squeeze", {"x"}).axes.empty());
  CHECK(only_op<op::Squeeze>(13, "Squeeze", {"x"}).axes.empty());
  CHECK(only_op<op::Unsqueeze>(12, "Unsqueeze", {"x"}, {A::of_ints("axes", {0, -1})}).axes == Integers{0, -1});
  CHECK(only_op<op::Unsqueeze>(13, "Unsqueeze", {"x", "axes"}).axes == Integers{1});
  CHECK(refused<ParseError>(13, "Squeeze", {"x"}, {A::of_ints("axes", {1})}));
  CHECK(refused<ParseError>(12, "Squeeze", {"x", "axes"}));
  CHECK(refused<ParseError>(13, "Unsqueeze", {"x"}));
}

TEST_CASE("Reshape takes its target from a constant") {
  const auto reshape = only_op<op::Reshape>(13, "Reshape", {"x", "shape"});
  CHECK(reshape.target == Integers{0, -1});
  CHECK_FALSE(reshape.allow_zero);
  CHECK(refused<ParseError>(13, "Reshape", {"x", "ratio"}));
  CHECK(refused<Unsupported>(13, "Reshape", {"x", "x"}));
}

TEST_CASE("Gemm has its bias or not") {
  OnnxModel model(11);
  model.input("x", {2, 3}).initializer("W", {2, 3}, std::vector<float>(6, 1.0f));
  model.node("Gemm", {"x", "W"}, "a", {A::of_int("transB", 1), A::of_float("beta", 0.5f)})
      .node("Gemm", {"x", "W", ""}, "b", {A::of_int("transA", 1)})
      .output("a")
      .output("b");
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  CHECK(graph.nodes[0].inputs.size() == 2);
  CHECK(graph.nodes[1].inputs.size() == 2);
  CHECK(std::get<op::Gemm>(graph.nodes[0].op).transpose_b);
  CHECK(std::get<op::Gemm>(graph.nodes[0].op).beta == 0.5);
  CHECK(std::get<op::Gemm>(graph.nodes[1].op).transpose_a);
}

TEST_CASE("Dropout is the identity at inference in every opset") {
  CHECK(only_node(7, "Dropout", {"x"}, {A::of_float("ratio", 0.5f)}).inputs.size() == 1);
  CHECK(only_node(12, "Dropout", {"x", "ratio"}).inputs.size() == 1);
  CHECK(only_node(13, "Dropout", {"x", "ratio", "off"}).inputs.size() == 1);
  CHECK(only_node(13, "Dropout", {"x", "", "off"}, {A::of_int("seed", 3)}).inputs.size() == 1);
}

TEST_CASE("Concat, Transpose and Cast keep their attributes") {
  CHECK(only_op<op::Concat>(13, "Concat", {"x", "x", "x"}, {A::of_int("axis", -1)}).axis == -1);
  CHECK(only_op<op::Transpose>(13, "Transpose", {"x"}, {A::of_ints("perm", {2, 0, 1})}).permutation ==
        Integers{2, 0, 1});
  CHECK(only_op<op::Transpose>(13, "Transpose", {"x"}).permutation.empty());
  CHECK(only_op<op::Cast>(13, "Cast", {"x"}, {A::of_int("to", onnx_bfloat16)}).to == ElementType::bf16);
  CHECK(only_op<op::Cast>(19, "Cast", {"x"}, {A::of_int("to", onnx_double), A::of_int("saturate", 1)}).to ==
        ElementType::f64);
}

TEST_CASE("Constant takes any of its forms") {
  const auto constant = [](const A& attribute) {
    OnnxModel model(13);
    model.input("x", {2}).node("Constant", {}, "c", {attribute}).node("Add", {"x", "c"}, "y").output("y");
    const TemporaryFolder folder;
    const Graph graph = load_model(model.save(folder / "m.onnx"));
    return graph.value(graph.nodes.at(0).inputs.at(1)).constant;
  };
  CHECK(constant(A::of_float("value_float", 0.1f)).to_double().values ==
        std::vector<double>{static_cast<double>(0.1f)});
  CHECK(constant(A::of_float("value_float", 0.1f)).shape().empty());
  CHECK(constant(A::of_floats("value_floats", {1.5f, 2.5f})).to_double().values == std::vector<double>{1.5, 2.5});
  CHECK(constant(A::of_tensor("value", onnx_tensor("", {1, 2}, std::vector<float>{3, 4}))).shape() == Shape{1, 2});
}

TEST_CASE("zero may be left out of an attribute") {
  const A zero_axis{Message().bytes(1, "axis").varint(20, 2)};
  CHECK(only_op<op::Concat>(13, "Concat", {"x", "x"}, {zero_axis}).axis == 0);
  const A zero_alpha{Message().bytes(1, "alpha").varint(20, 1)};
  CHECK(only_op<op::Elu>(13, "Elu", {"x"}, {zero_alpha}).alpha == 0.0);
  const A untyped{Message().bytes(1, "axis").varint(3, 1)};
  CHECK(only_op<op::Concat>(13, "Concat", {"x", "x"}, {untyped}).axis == 1);
}

TEST_CASE("before opset 7 attributes say how operands broadcast") {
  const auto graph_of = [](std::int64_t opset, const Integers& shape, const std::vector<A>& attributes) {
    OnnxModel model(opset);
    model.input("x", {2, 3, 4}).initializer("b", shape, std::vector<float>(static_cast<std::size_t>(shape[0]), 1.0f));
    model.node("Add", {"x", "b"}, "y", attributes, "add").output("y");
    const TemporaryFolder folder;
    return load_model(model.save(folder / "m.onnx"));
  };
  const Graph middle = graph_of(6, {3}, {A::of_int("broadcast", 1), A::of_int("axis", 1)});
  REQUIRE(middle.nodes.size() == 1);  // the operand's new axis is folded
  CHECK(middle.value(middle.nodes[0].inputs[1]).constant.shape() == Shape{3, 1});
  const Graph last = graph_of(6, {4}, {A::of_int("broadcast", 1)});
  CHECK(last.value(last.nodes.at(0).inputs[1]).constant.shape() == Shape{4});
  const Graph end =
      graph_of(1, {4}, {A::of_int("broadcast", 1), A::of_int("axis", 2), A::of_ints("consumed_inputs", {0})});
  CHECK(end.value(end.nodes.at(0).inputs[1]).constant.shape() == Shape{4});
  CHECK_THROWS_AS(graph_of(6, {3}, {A::of_int("broadcast", 1), A::of_int("axis", 3)}), ShapeMismatch);
  CHECK_THROWS_AS(graph_of(7, {4}, {A::of_int("broadcast", 1)}), Unsupported);
}

TEST_CASE("what the oldest opsets said in other ways") {
  CHECK(only_op<op::Reshape>(4, "Reshape", {"x"}, {A::of_ints("shape", {2, -1})}).target == Integers{2, -1});
  CHECK(refused<ParseError>(5, "Reshape", {"x"}));
  CHECK(refused<Unsupported>(5, "Reshape", {"x", "shape"}, {A::of_ints("other", {2, -1})}));
  CHECK(only_op<op::Concat>(3, "Concat", {"x", "x"}).axis == 1);
  CHECK(refused<ParseError>(4, "Concat", {"x", "x"}));
  CHECK(only_node(6, "Dropout", {"x"}, {A::of_int("is_test", 1)}).inputs.size() == 1);
  CHECK(refused<Unsupported>(6, "Dropout", {"x"}));
  CHECK(refused<Unsupported>(5, "Cast", {"x"}, {A::of_string("to", "DOUBLE")}));
  CHECK(only_op<op::Cast>(6, "Cast", {"x"}, {A::of_int("to", onnx_double)}).to == ElementType::f64);
  CHECK(refused<Unsupported>(6, "Relu", {"x"}, {A::of_ints("consumed_inputs", {0})}));
  only_node(5, "Relu", {"x"}, {A::of_ints("consumed_inputs", {0})});
}

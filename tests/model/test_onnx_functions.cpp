#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

/// scaled_relu(x, w) = relu(x * w), alpha is not used
Message scaled_relu() {
  return onnx_function("scaled_relu", {"a", "w"}, {"r"},
                       {onnx_node("Mul", {"a", "w"}, {"m"}, {}, "scale"), onnx_node("Relu", {"m"}, {"r"})});
}

OnnxModel calling(const std::string& function, const std::vector<std::string>& inputs = {"x"},
                  const std::vector<A>& attributes = {}) {
  OnnxModel model;
  model.input("x", {2}).node(function, inputs, "y", attributes, "call", "local").output("y");
  return model;
}

std::vector<std::string> layers(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

/// y = If(condition, x + 1, -x)
OnnxModel branching(bool condition) {
  const Message one = onnx_tensor("one", {1}, std::vector<float>{1});
  const Message then_branch = onnx_graph({onnx_node("Add", {"x", "one"}, {"t"}, {}, "plus")}, {"t"}).message(5, one);
  const Message else_branch = onnx_graph({onnx_node("Neg", {"x"}, {"e"}, {}, "minus")}, {"e"});
  OnnxModel model;
  model.input("x", {2})
      .initializer(onnx_boolean("c", condition))
      .node("If", {"c"}, "y", {A::of_graph("then_branch", then_branch), A::of_graph("else_branch", else_branch)}, "if")
      .output("y");
  return model;
}

}  // namespace

// ---- functions ------------------------------------------------------------------------------------------------------

TEST_CASE("a call is replaced by the function's body, its layers named after the call") {
  OnnxModel model;
  model.function(scaled_relu())
      .input("x", {2})
      .initializer("w", {2}, std::vector<float>{1, 2})
      .node("scaled_relu", {"x", "w"}, "h", {}, "first", "local")
      .node("scaled_relu", {"h", "w"}, "y", {}, "second", "local")
      .output("y");
  const Graph graph = loaded(model);
  CHECK(layers(graph) == std::vector<std::string>{"first/scale", "first/r", "second/scale", "second/r"});
  CHECK(graph.nodes[2].inputs[0] == graph.nodes[1].output);
  CHECK(graph.nodes[0].inputs[1] == graph.nodes[2].inputs[1]);  // one constant, however often it is passed on
  CHECK(graph.parameter_count() == 2);
  CHECK(graph.value(graph.nodes[0].output).name == "first/m");
  CHECK(graph.value(graph.nodes[1].output).name == "h");
  CHECK(graph.value(graph.outputs[0]).name == "y");
}

TEST_CASE("functions call functions") {
  const Message twice = onnx_function("twice", {"a", "w"}, {"r"},
                                      {onnx_node("scaled_relu", {"a", "w"}, {"b"}, {}, "one", "local"),
                                       onnx_node("scaled_relu", {"b", "w"}, {"r"}, {}, "two", "local")});
  OnnxModel model = calling("twice", {"x", "x"});
  const Graph graph = loaded(model.function(twice).function(scaled_relu()));
  CHECK(layers(graph) == std::vector<std::string>{"call/one/scale", "call/one/r", "call/two/scale", "call/two/r"});
}

TEST_CASE("attributes reach a function's nodes by reference: from the call, else by default, else not at all") {
  Message leaky = onnx_function("leaky", {"a"}, {"r"},
                                {onnx_node("LeakyRelu", {"a"}, {"b"}, {A::reference("alpha", "slope", 1)}),
                                 onnx_node("Elu", {"b"}, {"r"}, {A::reference("alpha", "limit", 1)})});
  leaky.bytes(6, "slope").message(11, A::of_float("limit", 3).message);
  const auto alphas = [&](const std::vector<A>& attributes) {
    const Graph graph = loaded(calling("leaky", {"x"}, attributes).function(leaky));
    return std::pair(std::get<op::LeakyRelu>(graph.nodes.at(0).op).alpha,
                     std::get<op::Elu>(graph.nodes.at(1).op).alpha);
  };
  CHECK(alphas({A::of_float("slope", 0.5f)}) == std::pair(0.5, 3.0));
  CHECK(alphas({A::of_float("limit", 2), A::of_float("slope", 0.25f)}) == std::pair(0.25, 2.0));
  CHECK(alphas({}) == std::pair(static_cast<double>(0.01f), 3.0));
  CHECK(
      contains(load_error<ParseError>(calling("leaky", {"x"}, {A::of_float("other", 1)}).function(leaky)), "'other'"));
  CHECK(contains(load_error<ParseError>(calling("leaky", {"x"}, {A::of_int("slope", 1)}).function(leaky)),
                 "different types"));
  OnnxModel outside;
  outside.input("x", {2}).node("Elu", {"x"}, "y", {A::reference("alpha", "limit", 1)}).output("y");
  CHECK(contains(load_error<ParseError>(outside), "outside a function"));
}

TEST_CASE("references pass through functions in functions") {
  Message inner =
      onnx_function("inner", {"a"}, {"r"}, {onnx_node("Elu", {"a"}, {"r"}, {A::reference("alpha", "p", 1)})});
  inner.bytes(6, "p");
  Message outer = onnx_function("outer", {"a"}, {"r"},
                                {onnx_node("inner", {"a"}, {"r"}, {A::reference("p", "q", 1)}, "", "local")});
  outer.bytes(6, "q");
  OnnxModel model = calling("outer", {"x"}, {A::of_float("q", 5)});
  const Graph graph = loaded(model.function(inner).function(outer));
  CHECK(std::get<op::Elu>(graph.nodes.at(0).op).alpha == 5.0);
}

TEST_CASE("a function's ops mean what the opset it imports says") {
  const auto softmax = [](std::uint64_t opset) {
    const Message function = onnx_function("f", {"a"}, {"r"}, {onnx_node("Softmax", {"a"}, {"r"})}, opset);
    return std::get<op::Softmax>(loaded(calling("f").function(function)).nodes.at(0).op).all_trailing_axes;
  };
  CHECK_FALSE(softmax(13));
  OnnxModel old(13);
  const Message function = onnx_function("f", {"a"}, {"r"}, {onnx_node("Softmax", {"a"}, {"r"})}, 11);
  old.function(function).input("x", {2, 3}).node("f", {"x"}, "y", {}, "", "local").output("y");
  CHECK(std::get<op::Softmax>(loaded(old).nodes.at(0).op).all_trailing_axes);
  const Message ancient = onnx_function("f", {"a"}, {"r"}, {onnx_node("Sin", {"a"}, {"r"})}, 5);
  CHECK(contains(load_error<Unsupported>(calling("f").function(ancient)), "opset 5 is older than 7"));
  const Message none = Message()
                           .bytes(1, "f")
                           .bytes(10, "local")
                           .bytes(4, "a")
                           .bytes(5, "r")
                           .message(7, onnx_node("Relu", {"a"}, {"r"}));
  CHECK(contains(load_error<ParseError>(calling("f").function(none)), "imports no opset"));
  Message both = onnx_function("f", {"a"}, {"r"}, {onnx_node("Softmax", {"a"}, {"r"})}, 13);
  both.message(9, Message().bytes(1, "ai.onnx").varint(2, 11));
  CHECK(contains(load_error<ParseError>(calling("f").function(both)), "opsets 13 and 11 of the default domain"));
}

TEST_CASE("inputs and outputs of a function may be left out by a call") {
  const Message gemm = onnx_function("f", {"a", "b", "c"}, {"r", "s"},
                                     {onnx_node("Gemm", {"a", "b", "c"}, {"r"}), onnx_node("Neg", {"r"}, {"s"})});
  OnnxModel model;
  model.function(gemm)
      .input("x", {1, 2})
      .initializer("w", {2, 2}, std::vector<float>(4, 1.0f))
      .node("f", {"x", "w"}, "y", {}, "call", "local")
      .node("f", {"x", "w", ""}, std::vector<std::string>{"", "z"}, {}, "other", "local")
      .output("y")
      .output("z");
  const Graph graph = loaded(model);
  CHECK(graph.nodes.at(0).inputs.size() == 2);
  CHECK(graph.value(graph.outputs[1]).name == "z");
}

TEST_CASE("a function may hand an input on, and shares no names with its surroundings") {
  const Message same = onnx_function("same", {"y"}, {"y"}, {});
  OnnxModel model;
  model.function(same).input("x", {2}).node("same", {"x"}, "h", {}, "", "local").node("Relu", {"h"}, "y").output("y");
  const Graph graph = loaded(model);
  REQUIRE(graph.nodes.size() == 1);
  CHECK(graph.nodes[0].inputs[0] == graph.inputs[0]);
  CHECK(graph.value(graph.inputs[0]).name == "x");
  const Message peeking = onnx_function("f", {"a"}, {"r"}, {onnx_node("Add", {"a", "x"}, {"r"})});
  CHECK(contains(load_error<ParseError>(calling("f").function(peeking)), "'x' is not defined"));
}

TEST_CASE("a function of the model hides the op of the same name, and an overload is another function") {
  OnnxModel model;
  model.input("x", {2}).node("Relu", {"x"}, "y").output("y");
  const Message relu = Message()
                           .bytes(1, "Relu")
                           .bytes(4, "a")
                           .bytes(5, "r")
                           .message(7, onnx_node("Tanh", {"a"}, {"r"}))
                           .message(9, Message().bytes(1, "").varint(2, 13));
  OnnxModel hidden = model;
  CHECK(std::holds_alternative<op::Tanh>(loaded(hidden.function(relu)).nodes.at(0).op));
  OnnxModel overload = model;
  Message other = relu;
  CHECK(std::holds_alternative<op::Relu>(loaded(overload.function(other.bytes(13, "other"))).nodes.at(0).op));
}

TEST_CASE("unsupported ops in a function are listed by the path to them") {
  const Message f = onnx_function("f", {"a"}, {"r"}, {onnx_node("Mystery", {"a"}, {"r"}, {}, "inside")});
  const std::string message = load_error<Unsupported>(calling("f").function(f));
  CHECK(contains(message, "'call/inside'"));
  CHECK(contains(message, "1 node is"));
}

TEST_CASE("recursion, doubled functions and calls that do not fit are refused") {
  const Message self = onnx_function("f", {"a"}, {"r"}, {onnx_node("f", {"a"}, {"r"}, {}, "", "local")});
  CHECK(contains(load_error<ParseError>(calling("f").function(self)), "calls itself"));
  const Message f = onnx_function("f", {"a"}, {"r"}, {onnx_node("g", {"a"}, {"r"}, {}, "", "local")});
  const Message g = onnx_function("g", {"a"}, {"r"}, {onnx_node("f", {"a"}, {"r"}, {}, "", "local")});
  CHECK(contains(load_error<ParseError>(calling("f").function(f).function(g)), "calls itself"));
  CHECK(contains(load_error<ParseError>(calling("f").function(f).function(f)), "two functions"));
  const Message same = onnx_function("f", {"a"}, {"a"}, {});
  CHECK(contains(load_error<ParseError>(calling("f", {"x", "x"}).function(same)), "fewer inputs"));
  CHECK(contains(load_error<ParseError>(calling("f", {}).function(same)), "not defined"));
  const Message nowhere = onnx_function("f", {"a"}, {"r"}, {});
  CHECK(contains(load_error<ParseError>(calling("f").function(nowhere)), "'r' is not defined"));
  const Message clash = onnx_function("f", {"a", "a"}, {"a"}, {});
  CHECK(contains(load_error<ParseError>(calling("f", {"x", "x"}).function(clash)), "two values"));
  const Message twice = onnx_function("f", {"a"}, {"a"}, {onnx_node("Relu", {"a"}, {"a"})});
  CHECK(contains(load_error<ParseError>(calling("f").function(twice)), "'a'"));
  const Message nameless = Message().bytes(10, "local");
  CHECK(contains(load_error<ParseError>(calling("f").function(nameless)), "without a name"));
}

TEST_CASE("functions that double at every level are refused before they fill the memory") {
  OnnxModel model = calling("f0");
  for (int i = 0; i < 40; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    model.function(onnx_function(
        "f" + std::to_string(i), {"a"}, {"r"},
        {onnx_node(next, {"a"}, {"b"}, {}, "", "local"), onnx_node(next, {"b"}, {"r"}, {}, "", "local")}));
  }
  model.function(onnx_function("f40", {"a"}, {"r"}, {onnx_node("Relu", {"a"}, {"r"})}));
  CHECK(contains(load_error<Unsupported>(model), "justifies"));
}

TEST_CASE("functions nested too deeply are refused") {
  OnnxModel model = calling("f0");
  for (int i = 0; i < 100; ++i) {
    model.function(onnx_function("f" + std::to_string(i), {"a"}, {"r"},
                                 {onnx_node("f" + std::to_string(i + 1), {"a"}, {"r"}, {}, "", "local")}));
  }
  CHECK(contains(load_error<ParseError>(model.function(onnx_function("f100", {"a"}, {"a"}, {}))), "64 deep"));
}

// ---- branches -------------------------------------------------------------------------------------------------------

TEST_CASE("an If of a constant becomes the branch that it takes") {
  const Graph taken = loaded(branching(true)), other = loaded(branching(false));
  CHECK(layers(taken) == std::vector<std::string>{"if/plus"});
  CHECK(taken.value(taken.nodes[0].inputs[1]).constant.to_double().values == std::vector<double>{1});
  CHECK(taken.value(taken.outputs[0]).name == "y");
  CHECK(layers(other) == std::vector<std::string>{"if/minus"});
  CHECK(other.parameter_count() == 0);
}

TEST_CASE("a condition may follow from shapes, and a branch may read what is computed later in the file") {
  const Message then_branch = onnx_graph({onnx_node("Neg", {"later"}, {"t"})}, {"t"});
  const Message else_branch = onnx_graph({onnx_node("Mystery", {"x"}, {"e"})}, {"e"});
  OnnxModel model;
  model.input("x", {2, 3})
      .initializer("three", {}, std::vector<std::int64_t>{3})
      .initializer("one", {}, std::vector<std::int64_t>{1})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "one"}, "width")
      .node("Equal", {"width", "three"}, "c")
      .node("If", {"c"}, "y", {A::of_graph("then_branch", then_branch), A::of_graph("else_branch", else_branch)})
      .node("Relu", {"x"}, "later")
      .output("y");
  CHECK(layers(loaded(model)) == std::vector<std::string>{"later", "y/t"});
}

TEST_CASE("branches in branches and in functions") {
  const Message inner = onnx_graph({onnx_node("Add", {"x", "t"}, {"u"})}, {"u"});
  const Message outer = onnx_graph(
      {onnx_node("Neg", {"x"}, {"t"}),
       onnx_node("If", {"c"}, {"v"}, {A::of_graph("then_branch", inner), A::of_graph("else_branch", inner)}, "inner")},
      {"v"});
  OnnxModel model;
  model.input("x", {2})
      .initializer(onnx_boolean("c", true))
      .node("If", {"c"}, "y", {A::of_graph("then_branch", outer), A::of_graph("else_branch", outer)}, "outer")
      .output("y");
  CHECK(layers(loaded(model)) == std::vector<std::string>{"outer/t", "outer/inner/u"});

  const Message elu = onnx_graph({onnx_node("Elu", {"a"}, {"e"}, {A::reference("alpha", "p", 1)})}, {"e"});
  Message function = onnx_function(
      "f", {"a"}, {"r"},
      {onnx_node("Constant", {}, {"c"}, {A::of_tensor("value", onnx_boolean("", true))}),
       onnx_node("If", {"c"}, {"r"}, {A::of_graph("then_branch", elu), A::of_graph("else_branch", elu)}, "if")});
  function.bytes(6, "p");
  const Graph graph = loaded(calling("f", {"x"}, {A::of_float("p", 4)}).function(function));
  CHECK(layers(graph) == std::vector<std::string>{"call/if/e"});
  CHECK(std::get<op::Elu>(graph.nodes[0].op).alpha == 4.0);
}

TEST_CASE("a branch may hand on a value from around it") {
  const Message branch = onnx_graph({}, {"x"});
  OnnxModel model;
  model.input("x", {2})
      .initializer(onnx_boolean("c", true))
      .node("If", {"c"}, "h", {A::of_graph("then_branch", branch), A::of_graph("else_branch", branch)})
      .node("Relu", {"h"}, "y")
      .output("y");
  const Graph graph = loaded(model);
  CHECK(graph.nodes.at(0).inputs[0] == graph.inputs[0]);
}

TEST_CASE("computed conditions are unsupported by node and op") {
  OnnxModel computed;
  computed.input("x", {2}).input("c", {}, onnx_bool).output("y");
  const Message branch = onnx_graph({}, {"x"});
  computed.node("If", {"c"}, "y", {A::of_graph("then_branch", branch), A::of_graph("else_branch", branch)}, "choice");
  const std::string message = load_error<Unsupported>(computed);
  CHECK(contains(message, "If ('choice')"));
  CHECK(contains(message, "condition is computed"));
}

TEST_CASE("an Attention whose mask of truth values is computed says what to export instead") {
  OnnxModel model(23);
  model.input("q", {1, 1, 2, 1}).input("k", {1, 1, 3, 1}).input("v", {1, 1, 3, 1}).input("m", {2, 3});
  model.node("Greater", {"m", "m"}, "seen").node("Attention", {"q", "k", "v", "seen"}, "y", {}, "attend").output("y");
  const std::string message = load_error<Unsupported>(model);
  CHECK(contains(message, "Attention ('attend')"));
  CHECK(contains(message, "export the model with a constant one, or with numbers to add to the scores"));
}

TEST_CASE("damaged branches are refused") {
  const auto message = [](const std::vector<A>& attributes, const Message& condition) {
    OnnxModel model;
    model.input("x", {2}).initializer(condition).node("If", {"c"}, "y", attributes, "if").output("y");
    return load_error<ParseError>(model);
  };
  const Message yes = onnx_boolean("c", true), good = onnx_graph({}, {"x"});
  CHECK(contains(message({A::of_graph("else_branch", good)}, yes), "then_branch is missing"));
  CHECK(contains(message({A::of_int("then_branch", 1)}, yes), "'then_branch'"));
  CHECK(contains(message({A::of_graph("then_branch", good), A::of_graph("then_branch", good)}, yes), "twice"));
  CHECK(contains(message({A::of_graph("then_branch", onnx_graph({}, {}))}, yes), "fewer outputs"));
  CHECK(contains(message({A::of_graph("then_branch", onnx_graph({}, {"z"}))}, yes), "'z' is not defined"));
  Message with_input = good;
  with_input.message(11, Message().bytes(1, "i"));
  CHECK(contains(message({A::of_graph("then_branch", with_input)}, yes), "has inputs"));
  CHECK(contains(message({A::of_graph("then_branch", good)}, onnx_tensor("c", {1}, std::vector<float>{1})), "boolean"));
  CHECK(contains(message({A::of_graph("then_branch", good)}, onnx_tensor_header("c", onnx_bool, {2}).bytes(9, "\1\1")),
                 "boolean"));
  const Message hiding = onnx_graph({onnx_node("Neg", {"c"}, {"x"})}, {"x"});
  CHECK(contains(message({A::of_graph("then_branch", hiding)}, yes), "two values are named 'x'"));
  Message hiding_initializer = good;
  hiding_initializer.message(5, onnx_tensor("x", {2}, std::vector<float>{1, 2}));
  CHECK(contains(message({A::of_graph("then_branch", hiding_initializer)}, yes), "two values are named 'x'"));
  CHECK(contains(message({A::of_graph("then_branch", Message().bytes(1, "\x0A\xFF"))}, yes), "truncated or damaged"));
}

TEST_CASE("branches nested without end are refused") {
  Message branch = onnx_graph({}, {"x"});
  for (int i = 0; i < 200; ++i) {
    const std::string name = "v" + std::to_string(i);
    branch = onnx_graph({onnx_node("If", {"c"}, {name}, {A::of_graph("then_branch", branch)})}, {name});
  }
  OnnxModel model;
  model.input("x", {2}).initializer(onnx_boolean("c", true));
  model.node("If", {"c"}, "y", {A::of_graph("then_branch", branch)}, "if").output("y");
  CHECK(contains(load_error<ParseError>(model), "64 deep"));
}

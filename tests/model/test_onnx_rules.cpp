#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/model/op_kinds.hpp"
#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"
#include "support/onnx_writer.hpp"
#include "support/temporary_folder.hpp"

// How ONNX's attributes, optional inputs and opsets become the attributes of selections, reductions, windows and
// composites.

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

using Integers = std::vector<std::int64_t>;
using AutoPad = op::WindowGeometry::AutoPad;

/// A model of one node on x [1, 4, 6, 6] and constants.
OnnxModel model_of(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
                   const std::vector<A>& attributes, const std::vector<std::string>& outputs) {
  OnnxModel model(opset);
  model.input("x", {1, 4, 6, 6})
      .initializer("one", {1}, Integers{1})
      .initializer("two", {1}, Integers{2})
      .initializer("five", {1}, Integers{5})
      .initializer("minus_one", {1}, Integers{-1})
      .initializer("parts", {2}, Integers{1, 3})
      .initializer("pads", {2}, Integers{1, 2})
      .initializer("low", {}, std::vector<float>{-0.5f})
      .initializer("high", {}, std::vector<float>{2.0f})
      .initializer("c", {4}, std::vector<float>(4, 1.0f))
      .initializer("W", {6, 2, 3, 3}, std::vector<float>(108, 1.0f))
      .initializer("b", {6}, std::vector<float>(6, 1.0f))
      .initializer(onnx_tensor_header("mask", onnx_bool, {2}).bytes(9, std::string("\1\0", 2)))
      .node(name, inputs, outputs, attributes);
  for (const std::string& output : outputs) model.output(output);
  return model;
}

Graph mapped(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
             const std::vector<A>& attributes = {}, const std::vector<std::string>& outputs = {"y"}) {
  const TemporaryFolder folder;
  return load_model(model_of(opset, name, inputs, attributes, outputs).save(folder / "m.onnx"));
}

template <class T>
T only_op(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
          const std::vector<A>& attributes = {}) {
  const Graph graph = mapped(opset, name, inputs, attributes);
  REQUIRE(graph.nodes.size() == 1);
  return std::get<T>(graph.nodes[0].op);
}

/// Why the only node is unsupported.
std::string reason(std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
                   const std::vector<A>& attributes = {}, const std::vector<std::string>& outputs = {"y"}) {
  const TemporaryFolder folder;
  const ModelDescription description =
      describe_model(model_of(opset, name, inputs, attributes, outputs).save(folder / "m.onnx"));
  REQUIRE(description.unsupported.size() == 1);
  return description.unsupported[0].reason;
}

/// What a model of one node makes of x, by the formulas of its ops.
std::vector<double> values_of(const OnnxModel& model, const Tensor<float>& x) {
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  return evaluate_as<double>(graph, Inputs{{{"x", StoredTensor::from(x)}}}).back().values;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the bounds of Slice are attributes before opset 10 and inputs from then on") {
  const auto before = only_op<op::Slice>(9, "Slice", {"x"},
                                         {A::of_ints("starts", {1}), A::of_ints("ends", {5}), A::of_ints("axes", {2})});
  CHECK(before.starts == Integers{1});
  CHECK(before.ends == Integers{5});
  CHECK(before.axes == Integers{2});
  CHECK(before.steps.empty());
  const auto after = only_op<op::Slice>(10, "Slice", {"x", "five", "one", "two", "minus_one"});
  CHECK(after.starts == Integers{5});
  CHECK(after.ends == Integers{1});
  CHECK(after.axes == Integers{2});
  CHECK(after.steps == Integers{-1});
  CHECK_THROWS_AS(mapped(10, "Slice", {"x", "one"}), ParseError);
  CHECK_THROWS_AS(mapped(10, "Slice", {"x", "low", "high"}), ParseError);
}

TEST_CASE("Split is one Slice an output, of parts as given or equal ones") {
  const auto check_parts = [](const Graph& graph, const Integers& starts, const Integers& ends) {
    REQUIRE(graph.nodes.size() == starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const auto slice = std::get<op::Slice>(graph.nodes[i].op);
      CHECK(slice.starts == Integers{starts[i]});
      CHECK(slice.ends == Integers{ends[i]});
    }
  };
  const std::vector<std::string> pair = {"p", "q"};
  check_parts(mapped(11, "Split", {"x"}, {A::of_int("axis", 1), A::of_ints("split", {1, 3})}, pair), {0, 1}, {1, 4});
  check_parts(mapped(13, "Split", {"x", "parts"}, {A::of_int("axis", 1)}, pair), {0, 1}, {1, 4});
  check_parts(mapped(13, "Split", {"x"}, {A::of_int("axis", -1)}, pair), {0, 3}, {3, 6});
  check_parts(mapped(18, "Split", {"x"}, {A::of_int("axis", 1), A::of_int("num_outputs", 3)}, {"p", "q", "r"}),
              {0, 2, 4}, {2, 4, 4});
  CHECK_THROWS_AS(mapped(13, "Split", {"x", "parts"}, {A::of_int("axis", 1)}), ParseError);
}

TEST_CASE("the parts of a Split make up the axis, and are as many as its outputs") {
  const auto refusal = [](std::int64_t opset, const std::vector<std::string>& inputs, const std::vector<A>& attributes,
                          const std::vector<std::string>& outputs) {
    return load_error<ParseError>(model_of(opset, "Split", inputs, attributes, outputs));
  };
  const A rows = A::of_int("axis", 2), channels = A::of_int("axis", 1);  // of 6 and of 4
  const std::vector<std::string> pair = {"p", "q"}, three = {"p", "q", "r"}, five = {"p", "q", "r", "s", "t"};
  const std::string sums = "its parts are 4 elements together, the axis has 6";
  CHECK(says(refusal(13, {"x", "parts"}, {rows}, pair), sums));
  CHECK(says(refusal(11, {"x"}, {rows, A::of_ints("split", {1, 3})}, pair), sums));
  CHECK(says(refusal(11, {"x"}, {rows, A::of_ints("split", {7, -1})}, pair), "a part of -1 elements"));
  for (const std::int64_t opset : {11, 13})
    CHECK(says(refusal(opset, {"x"}, {channels}, three), "an axis of 4 does not split into 3 equal parts"));
  CHECK(says(refusal(18, {"x"}, {rows, A::of_int("num_outputs", 5)}, five), "does not split into 5 equal parts"));
  CHECK(says(refusal(18, {"x"}, {rows, A::of_int("num_outputs", 2)}, three), "'num_outputs' is 2 for 3 outputs"));
  CHECK(says(refusal(18, {"x"}, {rows, A::of_int("num_outputs", 3)}, pair), "'num_outputs' is 3 for 2 outputs"));
  CHECK(says(refusal(18, {"x", "parts"}, {channels, A::of_int("num_outputs", 2)}, pair), "are both given"));
  CHECK(says(refusal(13, {"x"}, {rows, A::of_int("num_outputs", 2)}, pair), "since opset 18 only"));
}

TEST_CASE("a Slice backwards starts inside its axis, as far as that is known") {
  const auto refusal = [](std::int64_t start, const OnnxModel::Dimension& rows) {
    OnnxModel model(13);
    model.input("x", {rows, 5})
        .initializer("start", {1}, Integers{start})
        .initializer("end", {1}, Integers{std::numeric_limits<std::int64_t>::min()})
        .initializer("axis", {1}, Integers{rows.index() == 0 ? 1 : 0})
        .initializer("step", {1}, Integers{-1})
        .node("Slice", {"x", "start", "end", "axis", "step"}, "y", {}, "reversed")
        .output("y");
    return load_error<Unsupported>(model);
  };
  CHECK(refusal(-5, 2).empty());
  CHECK(says(refusal(-6, 2), "a negative step from start -6 of an axis of 5"));
  CHECK(says(refusal(-6, 2), "'reversed'"));
  CHECK(refusal(-1, "N").empty());
  CHECK(says(refusal(-2, "N"), "extent is not known"));
}

TEST_CASE("what is an attribute in some opsets and an input in others is refused in the wrong form") {
  const auto refusal = [](std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
                          const std::vector<A>& attributes, const std::vector<std::string>& outputs) {
    return load_error<ParseError>(model_of(opset, name, inputs, attributes, outputs));
  };
  const auto attribute = [&](std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
                             const A& given, const std::string& since) {
    const std::string message = refusal(opset, name, inputs, {given}, {"y"});
    CAPTURE(message);
    CHECK(says(message, "node 'y' (" + name + ")"));
    CHECK(says(message, "since opset " + since + ", and the node is of opset " + std::to_string(opset)));
    CHECK(says(message, "declare the opset"));
  };
  attribute(13, "Clip", {"x"}, A::of_float("min", -1.0f), "11");
  attribute(11, "Clip", {"x", "low"}, A::of_float("max", 1.0f), "11");
  attribute(10, "Slice", {"x", "one", "two"}, A::of_ints("axes", {1}), "10");
  attribute(13, "Slice", {"x", "one", "two"}, A::of_ints("starts", {1}), "10");
  attribute(13, "Split", {"x"}, A::of_ints("split", {1}), "13");
  attribute(13, "Pad", {"x", "pads", "", "minus_one"}, A::of_float("value", 7.0f), "11");
  attribute(11, "Pad", {"x", "pads"}, A::of_ints("pads", {1, 2}), "11");
  attribute(13, "Dropout", {"x"}, A::of_float("ratio", 0.5f), "12");
  attribute(5, "Reshape", {"x", "minus_one"}, A::of_ints("shape", {4, -1}), "5");
  attribute(18, "ReduceMax", {"x"}, A::of_ints("axes", {1}), "18");

  const auto input = [&](std::int64_t opset, const std::string& name, const std::vector<std::string>& inputs,
                         const std::vector<A>& attributes, const std::string& what) {
    const std::string message = refusal(opset, name, inputs, attributes, {"y"});
    CAPTURE(message);
    CHECK(says(message, "input " + what + " only, and the node is of opset " + std::to_string(opset)));
  };
  const A all_pads = A::of_ints("pads", {0, 0, 0, 0, 0, 0, 0, 1});
  input(6, "Clip", {"x", "low"}, {}, "1 ('min') is there since opset 11");
  input(10, "Clip", {"x", "", "high"}, {}, "2 ('max') is there since opset 11");
  input(9, "Slice", {"x", "one", "two"}, {A::of_ints("starts", {1}), A::of_ints("ends", {2})},
        "1 ('starts') is there since opset 10");
  input(11, "Split", {"x", "one"}, {}, "1 ('split') is there since opset 13");
  input(10, "Pad", {"x", "pads"}, {all_pads}, "1 ('pads') is there since opset 11");
  input(17, "Pad", {"x", "pads", "", "minus_one"}, {}, "3 ('axes') is there since opset 18");
  input(11, "Dropout", {"x", "low"}, {}, "1 ('ratio') is there since opset 12");
  input(4, "Reshape", {"x", "minus_one"}, {A::of_ints("shape", {4, -1})}, "1 ('shape') is there since opset 5");
  input(13, "ReduceMax", {"x", "one"}, {}, "1 ('axes') is there since opset 18");
  CHECK(says(refusal(9, "Pad", {"x"}, {all_pads, A::of_ints("paddings", {0})}, {"y"}), "'pads' since opset 2"));
}

TEST_CASE("Clip has its limits as attributes before opset 11 and as optional inputs from then on") {
  const auto before = only_op<op::Clip>(10, "Clip", {"x"}, {A::of_float("min", 0.0f), A::of_float("max", 6.0f)});
  CHECK(before.least == 0.0);
  CHECK(before.most == 6.0);
  const auto after = only_op<op::Clip>(13, "Clip", {"x", "", "high"});
  CHECK(after.least == -std::numeric_limits<double>::infinity());
  CHECK(after.most == 2.0);
  CHECK(only_op<op::Clip>(13, "Clip", {"x", "low"}).least == -0.5);
  CHECK(says(reason(13, "Clip", {"x", "x"}), "computed"));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float least : {infinity, std::numeric_limits<float>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(mapped(10, "Clip", {"x"}, {A::of_float("min", least)}), doctest::Contains("leave no number"),
                         ParseError);
  CHECK_THROWS_AS(mapped(10, "Clip", {"x"}, {A::of_float("max", -infinity)}), ParseError);
  CHECK(only_op<op::Clip>(10, "Clip", {"x"}, {A::of_float("min", 3.0f), A::of_float("max", 2.0f)}).most == 2.0);
}

TEST_CASE("Pad names every axis, or some of them since opset 18") {
  const auto old = only_op<op::Pad>(
      9, "Pad", {"x"},
      {A::of_ints("pads", {0, 0, 1, 2, 0, 0, 3, 4}), A::of_float("value", 0.5f), A::of_string("mode", "edge")});
  CHECK(old.before == Integers{0, 0, 1, 2});
  CHECK(old.after == Integers{0, 0, 3, 4});
  CHECK(old.mode == op::Pad::Mode::edge);
  CHECK(old.value == 0.5);
  const auto some = only_op<op::Pad>(18, "Pad", {"x", "pads", "low", "minus_one"});
  CHECK(some.before == Integers{0, 0, 0, 1});
  CHECK(some.after == Integers{0, 0, 0, 2});
  CHECK(some.value == -0.5);
  CHECK_THROWS_AS(mapped(18, "Pad", {"x", "pads", "", "five"}), ParseError);
  CHECK_THROWS_AS(mapped(13, "Pad", {"x", "pads"}, {A::of_string("mode", "mirror")}), ParseError);
}

TEST_CASE("axes of reductions are an attribute, and an input since opset 13 or 18") {
  CHECK(only_op<op::ReduceSum>(11, "ReduceSum", {"x"}, {A::of_ints("axes", {1, 2})}).axes == Integers{1, 2});
  const auto sum = only_op<op::ReduceSum>(13, "ReduceSum", {"x", "two"}, {A::of_int("keepdims", 0)});
  CHECK(sum.axes == Integers{2});
  CHECK_FALSE(sum.keep_axes);
  CHECK(only_op<op::ReduceMean>(13, "ReduceMean", {"x"}, {A::of_ints("axes", {-1})}).keep_axes);
  CHECK(only_op<op::ReduceMean>(18, "ReduceMean", {"x", "minus_one"}).axes == Integers{-1});
  CHECK(only_op<op::ReduceMax>(18, "ReduceMax", {"x"}).axes.empty());
  only_op<op::Identity>(13, "ReduceSum", {"x"}, {A::of_int("noop_with_empty_axes", 1)});
  CHECK_THROWS_AS(mapped(13, "ReduceSum", {"x"}, {A::of_ints("axes", {1})}), ParseError);
  CHECK_THROWS_AS(mapped(13, "ReduceMean", {"x", "one"}), ParseError);
  CHECK(says(reason(18, "ReduceL2", {"x"}, {A::of_int("noop_with_empty_axes", 1)}), "every element"));
}

TEST_CASE("BatchNormalization is that of inference") {
  const std::vector<std::string> inputs = {"x", "c", "c", "c", "c"};
  CHECK(only_op<op::BatchNormalization>(9, "BatchNormalization", inputs).epsilon == static_cast<double>(1e-5f));
  CHECK(only_op<op::BatchNormalization>(15, "BatchNormalization", inputs, {A::of_float("epsilon", 0.25f)}).epsilon ==
        0.25);
  CHECK(says(reason(15, "BatchNormalization", inputs, {A::of_int("training_mode", 1)}), "training"));
  CHECK(says(reason(7, "BatchNormalization", inputs, {A::of_int("spatial", 0)}), "spatial"));
}

TEST_CASE("Conv and pools keep their geometry") {
  const auto conv =
      only_op<op::Conv>(11, "Conv", {"x", "W", "b"},
                        {A::of_int("group", 2), A::of_ints("strides", {2, 1}), A::of_ints("dilations", {1, 2}),
                         A::of_ints("pads", {1, 2, 3, 4}), A::of_ints("kernel_shape", {3, 3})});
  CHECK(conv.groups == 2);
  CHECK(conv.geometry.strides == Integers{2, 1});
  CHECK(conv.geometry.dilations == Integers{1, 2});
  CHECK(conv.geometry.pads_before == Integers{1, 2});
  CHECK(conv.geometry.pads_after == Integers{3, 4});
  CHECK(conv.geometry.auto_pad == AutoPad::none);
  const std::vector<A> grouped = {A::of_int("group", 2), A::of_string("auto_pad", "SAME_LOWER")};
  CHECK(only_op<op::Conv>(11, "Conv", {"x", "W"}, grouped).geometry.auto_pad == AutoPad::same_lower);
  CHECK(mapped(11, "Conv", {"x", "W", ""}, grouped).nodes[0].inputs.size() == 2);
  CHECK_THROWS_AS(mapped(11, "Conv", {"x", "W"}, {A::of_int("group", 2), A::of_string("auto_pad", "FULL")}),
                  ParseError);
  const A kernel = A::of_ints("kernel_shape", {2, 2});
  CHECK(only_op<op::MaxPool>(12, "MaxPool", {"x"}, {kernel, A::of_int("ceil_mode", 1)}).geometry.ceil_mode);
  CHECK(says(reason(12, "MaxPool", {"x"}, {kernel}, {"y", "positions"}), "positions of its maxima"));
  CHECK(only_op<op::AveragePool>(11, "AveragePool", {"x"}, {kernel, A::of_int("count_include_pad", 1)}).counts_padding);
  CHECK_FALSE(only_op<op::AveragePool>(11, "AveragePool", {"x"}, {kernel}).counts_padding);
}

TEST_CASE("a bias and the numbers of channels are as many as there are channels, the kernel is that of the weights") {
  const auto refusal = [](const std::string& name, const std::vector<std::string>& inputs,
                          const std::vector<A>& attributes) {
    return load_error<ShapeMismatch>(model_of(15, name, inputs, attributes, {"y"}));
  };
  const A groups = A::of_int("group", 2);
  const std::string bias = refusal("Conv", {"x", "W", "low"}, {groups});
  CHECK(says(bias, "node 'y' (Conv)"));
  CHECK(says(bias, "a bias [] for the 6 channels of [1, 6, 4, 4]"));
  CHECK(says(refusal("Conv", {"x", "W", "b"}, {groups, A::of_ints("kernel_shape", {2, 3})}),
             "kernel_shape [2, 3] for weights [6, 2, 3, 3]"));
  CHECK(says(refusal("BatchNormalization", {"x", "c", "c", "low", "c"}, {}), "numbers [] for the 4 channels of"));
}

TEST_CASE("runtimes disagree on an odd padding of ConvTranspose before opset 11") {
  const auto refusal = [](std::int64_t opset, const std::vector<A>& attributes) {
    OnnxModel model(opset);
    model.input("x", {1, 1, 3}).initializer("w", {1, 1, 3}, std::vector<float>{1, 10, 100});
    std::vector<A> all = {A::of_ints("strides", {2})};
    all.insert(all.end(), attributes.begin(), attributes.end());
    return load_error<Unsupported>(model.node("ConvTranspose", {"x", "w"}, "y", all, "up").output("y"));
  };
  const A six = A::of_ints("output_shape", {6}), five = A::of_ints("output_shape", {5});  // of 7
  for (const std::int64_t opset : {1, 10}) {
    CHECK(says(refusal(opset, {six}), "the side of the odd element"));
    CHECK(says(refusal(opset, {six}), "'up'"));
    for (const std::string mode : {"SAME_UPPER", "SAME_LOWER"})
      CHECK(says(refusal(opset, {A::of_string("auto_pad", mode)}), "the side of the odd element"));
    CHECK(refusal(opset, {five}).empty());
    CHECK(refusal(opset, {A::of_ints("pads", {0, 1})}).empty());
  }
  CHECK(refusal(11, {six}).empty());
  CHECK(refusal(11, {A::of_string("auto_pad", "SAME_UPPER")}).empty());
}

TEST_CASE("statistics of a LayerNormalization are of its input's type, and so is their epsilon") {
  const auto normalised = [](int type, std::int64_t stash_type) {
    OnnxModel model(17);
    model.input("x", {2, 3}, type).input("s", {3}, type);
    model.node("LayerNormalization", {"x", "s"}, std::vector<std::string>{"y", "mean", "inverse"},
               {A::of_int("stash_type", stash_type)});
    return model.output("y").output("inverse");
  };
  for (const int type : {onnx_float16, onnx_double})
    CHECK(says(load_error<Unsupported>(normalised(type, onnx_float)), "stash_type"));
  CHECK(says(load_error<Unsupported>(normalised(onnx_float16, onnx_float16)), "stash_type"));  // 1e-5 rounds there
  for (const int type : {onnx_float, onnx_double}) {
    const Graph graph = loaded(normalised(type, type));
    for (const Value& value : graph.values) {
      if (value.kind == ValueKind::constant) CHECK(value.constant.to_double().values[0] == static_cast<double>(1e-5f));
    }
  }
}

TEST_CASE("forms and constants of activations") {
  CHECK_FALSE(only_op<op::Gelu>(20, "Gelu", {"x"}).tanh_form);
  CHECK(only_op<op::Gelu>(20, "Gelu", {"x"}, {A::of_string("approximate", "tanh")}).tanh_form);
  CHECK_THROWS_AS(mapped(20, "Gelu", {"x"}, {A::of_string("approximate", "fast")}), ParseError);
  CHECK(only_op<op::Pow>(13, "Pow", {"x", "high"}).exponent == 2.0);
  CHECK(says(reason(13, "Pow", {"x", "x"}), "computed"));
  CHECK(says(reason(13, "Celu", {"x"}, {A::of_float("alpha", -1.0f)}), "not positive"));
  CHECK(only_op<op::HardSigmoid>(13, "HardSigmoid", {"x"}).alpha == static_cast<double>(0.2f));
  only_op<op::Max>(13, "Max", {"x", "high"});
  only_op<op::MaxOf>(13, "Max", {"x", "high", "low"});
  const auto before = only_op<op::LogSoftmax>(12, "LogSoftmax", {"x"});
  CHECK(before.axis == 1);
  CHECK(before.all_trailing_axes);
  CHECK(only_op<op::LogSoftmax>(13, "LogSoftmax", {"x"}).axis == -1);
}

TEST_CASE("comparisons of floats are three ops: the others exchange their operands") {
  const auto operands = [](std::int64_t opset, const std::string& name, std::size_t kind) {
    CAPTURE(name);
    const Graph graph = mapped(opset, name, {"x", "high"});
    REQUIRE(graph.nodes.size() == 1);
    CHECK(graph.nodes[0].op.index() == kind);
    CHECK(graph.value(graph.outputs[0]).type == ElementType::boolean);
    return graph.nodes[0].inputs[0] == graph.inputs[0];
  };
  for (const std::int64_t opset : {1, 7, 9, 13, 24}) {
    CHECK(operands(opset, "Greater", kind_of<op::Greater>));
    CHECK_FALSE(operands(opset, "Less", kind_of<op::Greater>));
    CHECK(operands(opset, "Equal", kind_of<op::Equal>));
  }
  for (const std::int64_t opset : {12, 16}) {
    CHECK(operands(opset, "GreaterOrEqual", kind_of<op::GreaterOrEqual>));
    CHECK_FALSE(operands(opset, "LessOrEqual", kind_of<op::GreaterOrEqual>));
  }
  CHECK(says(reason(11, "LessOrEqual", {"x", "high"}), "older than 12"));
  const Graph placed = mapped(6, "Less", {"x", "c"}, {A::of_int("broadcast", 1), A::of_int("axis", 1)});
  REQUIRE(placed.nodes.size() == 1);  // the channels of a constant are moved when loading
  CHECK(placed.value(placed.nodes[0].inputs[0]).constant.shape() == Shape{4, 1, 1});
}

TEST_CASE("comparisons, logic and casts of truth values compute what ONNX says") {
  const Tensor<float> x({4}, {-1.0f, 0.0f, 2.0f, 3.0f});
  const auto values = [&](const std::function<void(OnnxModel&)>& nodes) {
    OnnxModel model(16);
    model.input("x", {4}).initializer("y", {4}, std::vector<float>{-1, 1, 1, 4});
    model.initializer("zero", {}, std::vector<float>{0});
    model.node("Greater", {"x", "zero"}, "positive").node("Equal", {"x", "y"}, "same");
    nodes(model);
    model.node("Cast", {"truth"}, "z", {A::of_int("to", onnx_float)}).output("z");
    return values_of(model, x);
  };
  const auto logic = [&](const std::string& op) {
    return values([&](OnnxModel& model) { model.node(op, {"positive", "same"}, "truth"); });
  };
  const auto compared = [&](const std::string& op) {
    return values([&](OnnxModel& model) { model.node(op, {"x", "y"}, "truth"); });
  };
  using Doubles = std::vector<double>;  // positive: 0 0 1 1, same: 1 0 0 0
  CHECK(logic("And") == Doubles{0, 0, 0, 0});
  CHECK(logic("Or") == Doubles{1, 0, 1, 1});
  CHECK(logic("Xor") == Doubles{1, 0, 1, 1});
  CHECK(logic("Equal") == Doubles{0, 1, 0, 0});
  CHECK(values([](OnnxModel& model) { model.node("Not", {"same"}, "truth"); }) == Doubles{0, 1, 1, 1});
  CHECK(values([](OnnxModel& model) {
          model.node("Not", {"same"}, "not").node("And", {"not", "positive"}, "truth");
        }) == Doubles{0, 0, 1, 1});
  CHECK(values([](OnnxModel& model) { model.node("Cast", {"x"}, "truth", {A::of_int("to", onnx_bool)}); }) ==
        Doubles{1, 0, 1, 1});
  CHECK(compared("Less") == Doubles{0, 1, 0, 1});
  CHECK(compared("LessOrEqual") == Doubles{1, 1, 0, 1});
  CHECK(compared("Greater") == Doubles{0, 0, 1, 0});
  CHECK(compared("GreaterOrEqual") == Doubles{1, 0, 1, 0});
}

TEST_CASE("boolean inputs are the numbers 0 and 1, and conditions of any two types go together") {
  OnnxModel model(16);
  model.input("mask", {3}, onnx_bool)
      .input("x", {3})
      .input("wide", {3}, onnx_double)
      .initializer(onnx_tensor_header("two", onnx_double, {}).bytes(9, std::string("\0\0\0\0\0\0\0\x40", 8)))
      .initializer("nought", {}, std::vector<float>{0})
      .node("Less", {"wide", "two"}, "small")
      .node("And", {"mask", "small"}, "both")
      .node("Where", {"both", "x", "nought"}, "y")
      .output("y");
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  const Inputs inputs{{{"mask", StoredTensor(ElementType::boolean, {3}, {std::byte{1}, std::byte{1}, std::byte{0}})},
                       {"x", StoredTensor::from(Tensor<float>({3}, {5, 6, 7}))},
                       {"wide", StoredTensor::from(Tensor<double>({3}, {1, 2, 1}))}}};
  CHECK(evaluate_as<double>(graph, inputs).back().values == std::vector<double>{5, 0, 0});
}

TEST_CASE("truth values are no numbers to calculate with, and conditions are truth values") {
  const auto reasons = [](const std::function<void(OnnxModel&)>& nodes) {
    OnnxModel model(16);
    model.input("x", {4}).node("Greater", {"x", "x"}, "truth");
    nodes(model);
    const TemporaryFolder folder;
    const ModelDescription description = describe_model(model.output("z").save(folder / "m.onnx"));
    REQUIRE(description.unsupported.size() == 1);
    return description.unsupported[0].reason;
  };
  CHECK(says(reasons([](OnnxModel& model) { model.node("Add", {"truth", "truth"}, "z"); }), "computes in bool"));
  CHECK(says(reasons([](OnnxModel& model) { model.node("Cast", {"truth"}, "z", {A::of_int("to", onnx_int64)}); }),
             "casts computed values to int64"));
  OnnxModel model(16);
  model.input("x", {4}).node("Where", {"x", "x", "x"}, "z").output("z");
  const TemporaryFolder folder;
  CHECK_THROWS_AS(load_model(model.save(folder / "m.onnx")), ShapeMismatch);
}

TEST_CASE("Where takes a condition that is a constant or computed, Gather constant indices, Einsum its equation") {
  OnnxModel model(13);
  model.input("a", {3, 2})
      .input("b", {3, 2})
      .initializer(onnx_tensor_header("mask", onnx_bool, {2}).bytes(9, std::string("\1\0", 2)))
      .node("Where", {"mask", "a", "b"}, "y")
      .output("y");
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  REQUIRE(graph.nodes.size() == 1);
  const auto where = std::get<op::Where>(graph.nodes[0].op);
  CHECK(where.condition_shape == Shape{2});
  CHECK(where.condition == std::vector<bool>{true, false});
  CHECK(graph.nodes[0].inputs == graph.inputs);
  const auto gather = only_op<op::Gather>(13, "Gather", {"x", "parts"}, {A::of_int("axis", 2)});
  CHECK(gather.axis == 2);
  CHECK(gather.indices_shape == Shape{2});
  CHECK(gather.indices == Integers{1, 3});
  CHECK(only_op<op::Einsum>(12, "Einsum", {"x"}, {A::of_string("equation", "abcd->ab")}).equation == "abcd->ab");
}

TEST_CASE("RotaryEmbedding with positions takes their rows of the tables first") {
  OnnxModel model(23);
  model.input("x", {1, 2, 3, 4})
      .initializer("cos", {5, 2}, std::vector<float>(10, 1.0f))
      .initializer("sin", {5, 2}, std::vector<float>(10, 0.0f))
      .initializer("rows", {1, 3}, Integers{0, 2, 4})
      .node("RotaryEmbedding", {"x", "cos", "sin", "rows"}, "y")
      .output("y");
  const TemporaryFolder folder;
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  REQUIRE(graph.nodes.size() == 1);  // selections of constants are folded
  REQUIRE(std::holds_alternative<op::RotaryEmbedding>(graph.nodes[0].op));
  CHECK(graph.value(graph.nodes[0].inputs.at(1)).constant.shape() == Shape{1, 3, 2});
  CHECK(infer_shapes(graph, {{1, 2, 3, 4}})[graph.outputs[0]] == Shape{1, 2, 3, 4});
}

namespace {

/// An Attention of one head on q [1, 1, 2, 1], k and v [1, 1, 3, 1] with a mask and, where asked, a cache of one key.
Graph attention(const Message& mask, bool has_cache, const std::vector<A>& attributes,
                const std::vector<std::string>& outputs) {
  OnnxModel model(23);
  model.input("q", {1, 1, 2, 1}).input("k", {1, 1, 3, 1}).input("v", {1, 1, 3, 1}).initializer(mask);
  model.input("past_k", {1, 1, 1, 1}).input("past_v", {1, 1, 1, 1});
  std::vector<std::string> inputs = {"q", "k", "v", "mask"};
  if (has_cache) inputs.insert(inputs.end(), {"past_k", "past_v"});
  model.node("Attention", inputs, outputs, attributes);
  for (const std::string& output : outputs) model.output(output);
  const TemporaryFolder folder;
  return load_model(model.save(folder / "m.onnx"));
}

}  // namespace

TEST_CASE("exponents of Pow may be a constant tensor: every element takes its own power") {
  OnnxModel model(13);
  model.input("x", {3})
      .initializer("e", {2, 3}, std::vector<float>{2, 0.5f, 2, 0, -1, 2})
      .node("Pow", {"x", "e"}, "y")
      .output("y");
  CHECK(values_of(model, Tensor<float>({3}, {3, 4, -2})) == std::vector<double>{9, 2, 4, 1, 0.25, 4});
}

TEST_CASE("a Pad of a constant is folded where it adds zeros, and a layer where it adds others") {
  const auto padded = [](const std::vector<std::string>& inputs) {
    OnnxModel model(13);
    model.input("x", {3})
        .initializer("c", {1}, std::vector<float>{5})
        .initializer("pads", {2}, Integers{1, 1})
        .initializer("two", {}, std::vector<float>{2})
        .initializer("minus_zero", {}, std::vector<float>{-0.0f})
        .node("Pad", inputs, "p")
        .node("Add", {"x", "p"}, "y")
        .output("y");
    return values_of(model, Tensor<float>({3}, {-0.0f, -0.0f, -0.0f}));
  };
  CHECK(padded({"c", "pads"}) == std::vector<double>{0, 5, 0});
  CHECK(padded({"c", "pads", "two"}) == std::vector<double>{2, 5, 2});
  CHECK_FALSE(std::signbit(padded({"c", "pads"}).front()));
  CHECK(std::signbit(padded({"c", "pads", "minus_zero"}).front()));
}

TEST_CASE("an op is read from the opset on that introduced it") {
  std::map<std::string, std::int64_t, std::less<>> since;
  for (const OnnxOp& op : onnx_ops()) since.emplace(op.name, op.since);
  const std::map<std::string, std::int64_t, std::less<>> introduced = {// ONNX's docs/Changelog.md
                                                                       {"Abs", 1},
                                                                       {"Gather", 1},
                                                                       {"Sin", 7},
                                                                       {"Expand", 8},
                                                                       {"Where", 9},
                                                                       {"Erf", 9},
                                                                       {"Sinh", 9},
                                                                       {"ConstantOfShape", 9},
                                                                       {"Einsum", 12},
                                                                       {"Celu", 12},
                                                                       {"Mish", 18},
                                                                       {"GroupNormalization", 18},
                                                                       {"Gelu", 20},
                                                                       {"HardSwish", 14},
                                                                       {"Swish", 24},
                                                                       {"LayerNormalization", 17},
                                                                       {"Attention", 23},
                                                                       {"ThresholdedRelu", 10},
                                                                       {"RMSNormalization", 23},
                                                                       {"RotaryEmbedding", 23}};
  for (const auto& entry : introduced) {
    CAPTURE(entry.first);
    CHECK(since.at(entry.first) == entry.second);
  }
  CHECK(says(reason(19, "Gelu", {"x"}), "opset 19 is older than 20, the first that has this op"));
  only_op<op::Gelu>(20, "Gelu", {"x"});
}

TEST_CASE("what ops meant before opset 7") {
  CHECK(only_op<op::Selu>(1, "Selu", {"x"}).alpha == static_cast<double>(1.6732f));
  CHECK(only_op<op::Selu>(6, "Selu", {"x"}).alpha == op::Selu{}.alpha);
  CHECK(only_op<op::Conv>(1, "Conv", {"x", "W"}, {A::of_int("group", 2)}).groups == 2);
  CHECK(says(reason(6, "BatchNormalization", {"x", "c", "c", "c", "c"}), "training mode"));
  only_op<op::BatchNormalization>(6, "BatchNormalization", {"x", "c", "c", "c", "c"}, {A::of_int("is_test", 1)});
  CHECK(says(reason(5, "Tile", {"x", "two"}), "older than 6"));
  const Graph slopes = mapped(6, "PRelu", {"x", "c"});  // [4] belongs to the channels
  CHECK(slopes.value(slopes.nodes.back().inputs[1]).constant.shape() == Shape{4, 1, 1});
  CHECK(says(reason(6, "Pow", {"x", "c"}, {A::of_int("broadcast", 1), A::of_int("axis", 1)}), "placed by"));
}

TEST_CASE("the mask of a Dropout at inference keeps everything") {
  const Graph graph = mapped(13, "Dropout", {"x"}, {}, {"y", "kept"});
  const StoredTensor& kept = graph.value(graph.outputs.at(1)).constant;
  CHECK(kept.type() == ElementType::boolean);
  CHECK(kept.shape() == Shape{1, 4, 6, 6});
  CHECK(kept.to_double().values == std::vector<double>(144, 1.0));
}

TEST_CASE("a Resize to nearest neighbours by whole factors repeats elements") {
  OnnxModel model(13);
  model.input("x", {1, 1, 2, 2})
      .initializer("scales", {4}, std::vector<float>{1, 1, 2, 3})
      .node("Resize", {"x", "", "scales"}, "y")
      .output("y");
  CHECK(values_of(model, Tensor<float>({1, 1, 2, 2}, {1, 2, 3, 4})) ==
        std::vector<double>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  only_op<op::Identity>(13, "Resize", {"x", "", "c"}, {A::of_string("mode", "linear")});
  CHECK(says(reason(10, "Resize", {"x", "c"}, {A::of_string("mode", "linear")}), "opsets before 11"));
  CHECK(says(reason(13, "Resize", {"x", "", "two"}), "some axes"));
}

TEST_CASE("a mask of an Attention that is constant says which keys are seen") {
  const auto only = [](const Graph& graph) { return std::get<op::Attention>(graph.nodes.back().op); };
  const Message booleans = onnx_tensor_header("mask", onnx_bool, {2, 3}).bytes(9, std::string("\1\0\1\1\1\0", 6));
  const Graph boolean = attention(booleans, false, {}, {"y"});
  CHECK(only(boolean).visible == std::vector<bool>{true, false, true, true, true, false});
  CHECK(boolean.nodes.back().inputs.size() == 3);

  constexpr float hidden = -std::numeric_limits<float>::infinity();
  const Graph added =
      attention(onnx_tensor("mask", {2, 3}, std::vector<float>{1, hidden, 2, 3, 4, hidden}), false, {}, {"y"});
  CHECK(only(added).visible == only(boolean).visible);
  CHECK(added.value(added.nodes.back().inputs.at(3)).constant.to_double().values ==
        std::vector<double>{1, 0, 2, 3, 4, 0});

  const Graph shorter = attention(onnx_tensor("mask", {2, 2}, std::vector<float>(4, 1.0f)), false, {}, {"y"});
  CHECK(only(shorter).visible == std::vector<bool>{true, true, false});
  CHECK(shorter.value(shorter.nodes.back().inputs.at(3)).constant.shape() == Shape{2, 3});
}

TEST_CASE("an Attention with a cache joins it to its keys and values, and shows the step that is asked for") {
  const Message mask = onnx_tensor("mask", {2, 4}, std::vector<float>(8, 1.0f));
  const Graph graph = attention(mask, true, {A::of_int("is_causal", 1), A::of_int("qk_matmul_output_mode", 3)},
                                {"y", "keys", "values", "weights"});
  REQUIRE(graph.outputs.size() == 4);
  const std::vector<Shape> shapes =
      infer_shapes(graph, {{1, 1, 2, 1}, {1, 1, 3, 1}, {1, 1, 3, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  CHECK(shapes[graph.outputs[0]] == Shape{1, 1, 2, 1});
  CHECK(shapes[graph.outputs[1]] == Shape{1, 1, 4, 1});
  CHECK(shapes[graph.outputs[3]] == Shape{1, 1, 2, 4});
  const auto& keys = graph.nodes[*graph.producer(graph.outputs[1])];
  CHECK(graph.value(keys.inputs[0]).name == "past_k");
  const auto& weights = std::get<op::Attention>(graph.nodes[*graph.producer(graph.outputs[3])].op);
  CHECK(weights.first_query == 1);
  CHECK(weights.result == op::Attention::Result::weights);
  CHECK_THROWS_AS(
      attention(mask, true, {A::of_int("is_causal", 1), A::of_int("qk_matmul_output_mode", 2)}, {"y", "k2", "v2", "s"}),
      Unsupported);
}

TEST_CASE("integers of a mask of an Attention are added to the scores") {
  const Graph graph = attention(onnx_tensor("mask", {2, 3}, Integers{0, 5, -1, 5, 0, 2}), false, {}, {"y"});
  const StoredTensor& added = graph.value(graph.nodes.back().inputs.at(3)).constant;
  CHECK(added.type() == ElementType::f32);
  CHECK(added.to_double().values == std::vector<double>{0, 5, -1, 5, 0, 2});
  CHECK(std::get<op::Attention>(graph.nodes.back().op).visible.empty());
  const Message wide = onnx_tensor("mask", {1, 3}, Integers{0, 0, (1 << 24) + 1});
  CHECK_THROWS_WITH_AS(attention(wide, false, {}, {"y"}), doctest::Contains("is not exact in float32"), Unsupported);
  OnnxModel model(23);
  model.input("q", {1, 1, 2, 1}).input("k", {1, 1, 3, 1}).input("v", {1, 1, 3, 1}).input("m", {2, 3}, onnx_int32);
  const std::string message = load_error<Unsupported>(model.node("Attention", {"q", "k", "v", "m"}, "y").output("y"));
  CHECK(says(message, "its mask is computed, and int32"));
}

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/onnx_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

ModelDescription described(const std::string& bytes) {
  const TemporaryFolder folder;
  return describe_model(folder.write("m.onnx", bytes));
}

Graph loaded(const std::string& bytes) {
  const TemporaryFolder folder;
  return load_model(folder.write("m.onnx", bytes));
}

template <class Exception>
std::string error_of(const std::string& bytes) {
  try {
    loaded(bytes);
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

const std::vector<float> six = {1, 2, 3, 4, 5, 6};

/// x [N, 3] -> Gemm with W [3, 2] and b [2] -> Relu -> y
OnnxModel small_model(std::int64_t opset = 13, std::int64_t ir_version = 8) {
  OnnxModel model(opset, ir_version);
  model.input("x", {"N", 3})
      .initializer("W", {3, 2}, six)
      .initializer("b", {2}, std::vector<float>{7, 8})
      .node("Gemm", {"x", "W", "b"}, "h", {OnnxAttribute::of_float("alpha", 0.1f)}, "first")
      .node("Relu", {"h"}, "y")
      .output("y");
  return model;
}

}  // namespace

TEST_CASE("a small model becomes the graph it is") {
  const Graph graph = loaded(small_model().bytes());
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.nodes[0].name == "first");
  CHECK(graph.value(graph.nodes[0].output).name == "h");
  CHECK(graph.nodes[1].name == "y");  // a node without a name is called after its output
  const auto& gemm = std::get<op::Gemm>(graph.nodes[0].op);
  CHECK(gemm.alpha == static_cast<double>(0.1f));  // the number the file holds, not 0.1
  CHECK(gemm.beta == 1.0);
  CHECK_FALSE(gemm.transpose_b);
  CHECK(std::holds_alternative<op::Relu>(graph.nodes[1].op));
  REQUIRE(graph.inputs.size() == 1);
  const Value& x = graph.value(graph.inputs[0]);
  CHECK(x.name == "x");
  CHECK(x.type == ElementType::f32);
  REQUIRE(x.declared.size() == 2);
  CHECK(x.declared[0].extent == -1);
  CHECK(x.declared[0].symbol == "N");
  CHECK(x.declared[1].extent == 3);
  CHECK(graph.outputs == std::vector<ValueId>{graph.nodes[1].output});
  CHECK(graph.parameter_count() == 8);
  CHECK(graph.format == "onnx (IR 8, opset 13)");
  CHECK(contains(graph.source, "m.onnx"));
  CHECK(graph.value(graph.nodes[0].inputs[1]).constant.to_double().values == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("what a file says is described even where nothing is missing") {
  const ModelDescription model = described(small_model().bytes());
  CHECK(model.unsupported.empty());
  CHECK(model.operators == std::vector<std::string>{"Gemm", "Relu"});
  CHECK(model.producer == "driftbound tests");
}

TEST_CASE("initialisers that old files list as inputs are constants") {
  OnnxModel model(8, 3);
  model.input("x", {1, 3}).input("W", {3, 2}).initializer("W", {3, 2}, six).node("MatMul", {"x", "W"}, "y").output("y");
  const Graph graph = loaded(model.bytes());
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.is_constant(graph.nodes[0].inputs[1]));
}

TEST_CASE("constants keep their type and every bit, raw or typed") {
  struct Case {
    Message tensor;
    ElementType type;
    std::vector<double> values;
  };
  const auto header = [](int type) { return onnx_tensor_header("c", type, {2}); };
  const std::string packed_halves("\x80\x78\x80\xF0\x02", 5);  // varints 0x3C00 and 0xB800
  const std::vector<Case> cases = {
      {onnx_tensor("c", {2}, std::vector<float>{0.1f, -0.0f}), ElementType::f32, {static_cast<double>(0.1f), -0.0}},
      {onnx_tensor("c", {2}, std::vector<double>{0.1, 5e-324}), ElementType::f64, {0.1, 5e-324}},
      {header(onnx_float).fixed32(4, 0.1f).fixed32(4, 2.0f), ElementType::f32, {static_cast<double>(0.1f), 2}},
      {header(onnx_float).bytes(4, std::string("\0\0\x80\x3f\0\0\0\x40", 8)), ElementType::f32, {1, 2}},
      {header(onnx_double).fixed64(10, 0.1).fixed64(10, 2.0), ElementType::f64, {0.1, 2}},
      {header(onnx_float16).bytes(9, std::string("\x00\x3c\x01\x00", 4)), ElementType::f16, {1.0, 0x1p-24}},
      {header(onnx_float16).bytes(5, packed_halves), ElementType::f16, {1.0, -0.5}},
      {header(onnx_bfloat16).varint(5, 0x3F80).varint(5, 0x4000), ElementType::bf16, {1.0, 2.0}},
  };
  for (const Case& c : cases) {
    const int type = c.type == ElementType::f32   ? onnx_float
                     : c.type == ElementType::f64 ? onnx_double
                     : c.type == ElementType::f16 ? onnx_float16
                                                  : onnx_bfloat16;
    OnnxModel model;
    model.input("x", {2}, type).initializer(c.tensor).node("Add", {"x", "c"}, "y").output("y");
    const Graph graph = loaded(model.bytes());
    const StoredTensor& constant = graph.value(graph.nodes[0].inputs[1]).constant;
    CHECK(constant.type() == c.type);
    const std::vector<double> values = constant.to_double().values;
    CHECK(values == c.values);
    CHECK(std::signbit(values[1]) == std::signbit(c.values[1]));
    CHECK(graph.value(graph.outputs[0]).type == c.type);
  }
}

TEST_CASE("integer initialisers keep every value, negative ones too") {
  const auto header = [](int type) { return onnx_tensor_header("c", type, {2}); };
  const std::uint64_t minus_three = static_cast<std::uint64_t>(std::int64_t{-3});
  for (const Message& tensor :
       {onnx_tensor("c", {2}, std::vector<std::int64_t>{-3, 7}),
        onnx_tensor("c", {2}, std::vector<std::int32_t>{-3, 7}), header(onnx_int64).varint(7, minus_three).varint(7, 7),
        header(onnx_int32).varint(5, minus_three).varint(5, 7),
        header(onnx_int8).varint(5, minus_three).varint(5, 7)}) {
    OnnxModel model;
    model.input("x", {2})
        .initializer(tensor)
        .node("Cast", {"c"}, "f", {OnnxAttribute::of_int("to", onnx_float)})
        .node("Add", {"x", "f"}, "y")
        .output("y");
    const Graph graph = loaded(model.bytes());
    REQUIRE(graph.nodes.size() == 1);  // the cast is exact and folded
    CHECK(graph.value(graph.nodes[0].inputs[1]).constant.to_double().values == std::vector<double>{-3, 7});
  }
}

TEST_CASE("NaN and infinite weights load") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  OnnxModel model;
  model.input("x", {2})
      .initializer("c", {2}, std::vector<float>{nan, -infinity})
      .node("Mul", {"x", "c"}, "y")
      .output("y");
  const Graph graph = loaded(model.bytes());
  const std::vector<double> values = graph.value(graph.nodes[0].inputs[1]).constant.to_double().values;
  CHECK(std::isnan(values[0]));
  CHECK(values[1] == -std::numeric_limits<double>::infinity());
}

TEST_CASE("a constant is not copied out of the mapped file") {
  const TemporaryFolder folder;
  const std::string bytes = small_model().bytes();
  const Graph graph = load_model(folder.write("m.onnx", bytes));
  const auto* w = graph.value(graph.nodes[0].inputs[1]).constant.bytes().data();
  const auto* b = graph.value(graph.nodes[0].inputs[2]).constant.bytes().data();
  CHECK(b - w > 0);
  CHECK(b - w < static_cast<std::ptrdiff_t>(bytes.size()));
}

TEST_CASE("nodes in any order are put into one that computes") {
  OnnxModel model;
  model.input("x", {2}).node("Relu", {"b"}, "y").node("Exp", {"a"}, "b").node("Neg", {"x"}, "a").output("y");
  const Graph graph = loaded(model.bytes());
  REQUIRE(graph.nodes.size() == 3);
  CHECK(graph.nodes[0].name == "a");
  CHECK(graph.nodes[1].name == "b");
  CHECK(graph.nodes[2].name == "y");
}

TEST_CASE("layer names are unique") {
  OnnxModel model;
  model.input("x", {2})
      .node("Neg", {"x"}, "a", {}, "same")
      .node("Neg", {"a"}, "b", {}, "same")
      .node("Neg", {"b"}, "same#2")
      .node("Neg", {"same#2"}, "y", {}, "same")
      .output("y");
  const Graph graph = loaded(model.bytes());
  CHECK(graph.nodes[0].name == "same");
  CHECK(graph.nodes[1].name == "same#2");
  CHECK(graph.nodes[2].name == "same#2#2");
  CHECK(graph.nodes[3].name == "same#3");
}

TEST_CASE("exact ops of constants are folded, others stay layers") {
  OnnxModel model;
  model.input("x", {3, 2})
      .initializer("W", {2, 3}, six)
      .node("Transpose", {"W"}, "Wt", {OnnxAttribute::of_ints("perm", {1, 0})})
      .node("Identity", {"Wt"}, "same")
      .node("Unsqueeze", {"same", "axes"}, "lifted")
      .initializer("axes", {1}, std::vector<std::int64_t>{0})
      .node("Concat", {"lifted", "lifted"}, "pair", {OnnxAttribute::of_int("axis", 0)})
      .node("Cast", {"pair"}, "wide", {OnnxAttribute::of_int("to", onnx_double)})
      .node("Cast", {"wide"}, "narrow", {OnnxAttribute::of_int("to", onnx_float)})
      .node("Add", {"x", "narrow"}, "y")
      .output("y");
  const Graph graph = loaded(model.bytes());
  REQUIRE(graph.nodes.size() == 1);
  const StoredTensor& folded = graph.value(graph.nodes[0].inputs[1]).constant;
  CHECK(folded.type() == ElementType::f32);
  CHECK(folded.shape() == Shape{2, 3, 2});
  CHECK(folded.to_double().values == std::vector<double>{1, 4, 2, 5, 3, 6, 1, 4, 2, 5, 3, 6});

  OnnxModel rounding;
  rounding.input("x", {1}, onnx_float)
      .initializer("c", {1}, std::vector<double>{0.1})
      .node("Cast", {"c"}, "f", {OnnxAttribute::of_int("to", onnx_float)})
      .node("Add", {"x", "f"}, "y")
      .output("y");
  const Graph kept = loaded(rounding.bytes());
  REQUIRE(kept.nodes.size() == 2);
  CHECK(std::holds_alternative<op::Cast>(kept.nodes[0].op));
  CHECK(kept.value(kept.nodes[0].inputs[0]).constant.type() == ElementType::f64);
}

TEST_CASE("target shapes put together from constants are resolved") {
  OnnxModel model;
  model.input("x", {2, 3})
      .node("Constant", {}, "a", {OnnxAttribute::of_ints("value_ints", {3})})
      .node("Constant", {}, "b",
            {OnnxAttribute::of_tensor("value", onnx_tensor("", {1}, std::vector<std::int64_t>{2}))})
      .node("Concat", {"a", "b"}, "target", {OnnxAttribute::of_int("axis", 0)})
      .node("Reshape", {"x", "target"}, "y")
      .output("y");
  const Graph graph = loaded(model.bytes());
  REQUIRE(graph.nodes.size() == 1);
  CHECK(std::get<op::Reshape>(graph.nodes[0].op).target == std::vector<std::int64_t>{3, 2});
}

TEST_CASE("folding that would grow without end is left to evaluation") {
  OnnxModel model;
  model.input("x", {1}).initializer("c0", {1}, std::vector<float>{1});
  for (int i = 0; i < 38; ++i) {
    const std::string from = "c" + std::to_string(i);
    model.node("Concat", {from, from}, "c" + std::to_string(i + 1), {OnnxAttribute::of_int("axis", 0)});
  }
  model.node("Add", {"x", "c3"}, "y").output("y");
  const Graph graph = loaded(model.bytes());
  CHECK(graph.nodes.size() > 15);
  CHECK(graph.value(graph.nodes[0].inputs[0]).constant.size() < 10'000'000);
}

TEST_CASE("every unsupported node is listed at once") {
  OnnxModel model(11);
  model.input("x", {1, 1, 4, 4})
      .initializer("W", {1, 1, 3, 3}, std::vector<float>(9, 1.0f))
      .node("NonMaxSuppression", {"x", "W", "W"}, "a", {}, "recurrence")
      .node("Relu", {"a"}, "b")
      .node("Shape", {"b"}, "s")
      .node("Reshape", {"b", "s"}, "c", {}, "again")
      .node("Custom", {"c"}, "d", {}, "mine", "com.example")
      .node("Cast", {"d"}, "e", {OnnxAttribute::of_int("to", onnx_string)}, "to_text")
      .output("e");
  const ModelDescription description = described(model.bytes());
  REQUIRE(description.unsupported.size() == 4);
  CHECK(description.unsupported[0].node == "recurrence");
  CHECK(description.unsupported[0].op == "NonMaxSuppression");
  CHECK(description.unsupported[1].node == "again");
  CHECK(contains(description.unsupported[1].reason, "computed"));
  CHECK(description.unsupported[2].op == "com.example.Custom");
  CHECK(description.operators.size() == 6);
  CHECK(description.graph.parameter_count() == 9);

  const std::string message = error_of<Unsupported>(model.bytes());
  for (const std::string part :
       {"m.onnx", "opset 11", "4 nodes", "recurrence", "NonMaxSuppression", "again", "com.example", "to_text"}) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}

TEST_CASE("two versions of the default domain are refused, the same one twice is not") {
  const auto message = [](std::uint64_t second) {
    OnnxModel model(13);
    model.input("x", {2, 2, 2}).node("Softmax", {"x"}, "y").output("y");
    const Message import = Message().message(8, Message().bytes(1, "ai.onnx").varint(2, second));
    return error_of<ParseError>(model.bytes() + import.data());
  };
  CHECK(contains(message(11), "opsets 13 and 11 of the default domain"));
  CHECK(message(13).empty());
}

TEST_CASE("a used mask, a training mode, integer arithmetic and unknown attributes are unsupported, not misread") {
  const auto reason = [](const OnnxModel& model) {
    const ModelDescription description = described(model.bytes());
    REQUIRE(description.unsupported.size() == 1);
    return description.unsupported[0].reason;
  };
  OnnxModel mask(9);  // not a boolean before opset 10
  mask.input("x", {2}).node("Dropout", {"x"}, std::vector<std::string>{"y", "mask"}).output("y").output("mask");
  CHECK(contains(reason(mask), "mask"));
  OnnxModel training(13);
  training.input("x", {2})
      .initializer("r", {}, std::vector<float>{0.5f})
      .initializer(onnx_tensor_header("t", onnx_bool, {}).bytes(9, "\1"))
      .node("Dropout", {"x", "r", "t"}, "y")
      .output("y");
  CHECK(contains(reason(training), "training"));
  OnnxModel integers;
  integers.input("x", {2}, onnx_int32).node("Add", {"x", "x"}, "y").output("y");
  CHECK(contains(reason(integers), "int32"));
  OnnxModel attribute;
  attribute.input("x", {2}).node("Relu", {"x"}, "y", {OnnxAttribute::of_float("new_meaning", 1)}).output("y");
  CHECK(contains(reason(attribute), "new_meaning"));
  OnnxModel truncation;
  truncation.input("x", {2}).node("Cast", {"x"}, "y", {OnnxAttribute::of_int("to", onnx_int8)}).output("y");
  CHECK(contains(reason(truncation), "int8"));
}

TEST_CASE("element types that there is no tensor of are unsupported by name, where they are used") {
  const std::vector<std::pair<int, std::string>> types = {
      {8, "string"},          {14, "complex64"},        {15, "complex128"},     {17, "float8e4m3fn"},
      {18, "float8e4m3fnuz"}, {19, "float8e5m2"},       {20, "float8e5m2fnuz"}, {21, "uint4"},
      {22, "int4"},           {23, "float4e2m1"},       {24, "float8e8m0"},     {25, "uint2"},
      {26, "int2"},           {99, "number 99 of ONNX"}};
  for (const auto& [type, name] : types) {
    const Message tensor = onnx_tensor_header("c", type, {2}).bytes(9, "ab");
    OnnxModel used, unused, input;
    used.input("x", {2}).initializer(tensor).node("Add", {"x", "c"}, "y").output("y");
    unused.input("x", {2}).initializer(tensor).node("Relu", {"x"}, "y").output("y");
    input.input("x", {2}, type).node("Relu", {"x"}, "y").output("y");
    CHECK(contains(error_of<Unsupported>(used.bytes()), "initialiser 'c' has element type " + name));
    CHECK(contains(error_of<Unsupported>(input.bytes()), "input 'x' has element type " + name));
    CHECK(loaded(unused.bytes()).nodes.size() == 1);
  }
}

TEST_CASE("every opset is read") {
  CHECK(contains(error_of<ParseError>(small_model(-1, 8).bytes()), "no opset"));
  CHECK(contains(error_of<ParseError>(small_model(0).bytes()), "no opset 0"));
  CHECK(loaded(small_model(-1, 1).bytes()).format == "onnx (IR 1, opset 1)");
  for (std::int64_t opset = 1; opset < 30; ++opset) CHECK(loaded(small_model(opset).bytes()).nodes.size() == 2);
}

TEST_CASE("a file may have ops of other domains only") {
  const std::string none =
      small_model(-1).bytes() + Message().message(8, Message().bytes(1, "other").varint(2, 1)).data();
  CHECK(contains(error_of<ParseError>(none), "imports no opset of the default domain"));
  OnnxModel other(-1);
  other.input("x", {2}).node("Op", {"x"}, "y", {}, "", "other").output("y");
  const std::string bytes = other.bytes() + Message().message(8, Message().bytes(1, "other").varint(2, 1)).data();
  CHECK(contains(error_of<Unsupported>(bytes), "'other'"));
}

TEST_CASE("open dimensions in all the ways exporters write them") {
  OnnxModel model;
  model.input("x", {"batch", -1, 0, 4}).node("Relu", {"x"}, "y").output("y");
  const Graph graph = loaded(model.bytes());
  const auto& declared = graph.value(graph.inputs[0]).declared;
  REQUIRE(declared.size() == 4);
  CHECK(declared[0].symbol == "batch");
  for (std::size_t axis = 0; axis < 3; ++axis) CHECK(declared[axis].extent == -1);
  CHECK(declared[3].extent == 4);
  CHECK(graph.value(graph.inputs[0]).has_declared_shape);
}

TEST_CASE("models that contradict themselves say where") {
  const auto message = [](const OnnxModel& model) { return error_of<ParseError>(model.bytes()); };
  OnnxModel cycle;
  cycle.input("x", {2}).node("Add", {"x", "b"}, "a").node("Relu", {"a"}, "b").output("b");
  CHECK(contains(message(cycle), "depend on their own outputs"));
  OnnxModel self;
  self.input("x", {2}).node("Add", {"x", "a"}, "a").output("a");
  CHECK(contains(message(self), "depend on their own outputs"));
  OnnxModel twice;
  twice.input("x", {2}).node("Relu", {"x"}, "a").node("Neg", {"x"}, "a").output("a");
  CHECK(contains(message(twice), "'a'"));
  OnnxModel shadowed;
  shadowed.input("x", {2}).initializer("a", {2}, std::vector<float>{1, 2}).node("Relu", {"x"}, "a").output("a");
  CHECK(contains(message(shadowed), "'a'"));
  OnnxModel two_initializers;
  two_initializers.input("x", {2})
      .initializer("c", {1}, std::vector<float>{1})
      .initializer("c", {1}, std::vector<float>{2})
      .node("Add", {"x", "c"}, "y")
      .output("y");
  CHECK(contains(message(two_initializers), "'c'"));
  OnnxModel two_inputs;
  two_inputs.input("x", {2}).input("x", {2}).node("Relu", {"x"}, "y").output("y");
  CHECK(contains(message(two_inputs), "'x'"));
  OnnxModel undefined;
  undefined.input("x", {2}).node("Add", {"x", "nowhere"}, "y", {}, "adder").output("y");
  CHECK(contains(message(undefined), "'nowhere'"));
  CHECK(contains(message(undefined), "'adder'"));
  OnnxModel no_output;
  no_output.input("x", {2}).node("Relu", {"x"}, "y");
  CHECK(contains(message(no_output), "no output"));
  OnnxModel wrong_output;
  wrong_output.input("x", {2}).node("Relu", {"x"}, "y").output("z");
  CHECK(contains(message(wrong_output), "'z'"));
  OnnxModel arity;
  arity.input("x", {2}).node("Add", {"x"}, "y", {}, "adder").output("y");
  CHECK(contains(message(arity), "'adder'"));
  OnnxModel attribute;
  attribute.input("x", {2}).node("Concat", {"x"}, "y").output("y");
  CHECK(contains(message(attribute), "'axis'"));
  OnnxModel attribute_type;
  attribute_type.input("x", {2}).node("Concat", {"x"}, "y", {OnnxAttribute::of_float("axis", 0)}).output("y");
  CHECK(contains(message(attribute_type), "'axis'"));
  OnnxModel untyped;
  untyped.input("x", {2}, 0).node("Relu", {"x"}, "y").output("y");
  CHECK(contains(message(untyped), "element type"));
}

TEST_CASE("shapes and types that do not fit name the node or the tensor") {
  const auto message = [](const OnnxModel& model) { return error_of<ShapeMismatch>(model.bytes()); };
  OnnxModel product;
  product.input("x", {1, 4}).initializer("W", {3, 2}, six).node("MatMul", {"x", "W"}, "y", {}, "product").output("y");
  CHECK(contains(message(product), "'product'"));
  CHECK(contains(message(product), "m.onnx"));
  OnnxModel types;
  types.input("x", {2}, onnx_double)
      .initializer("c", {2}, std::vector<float>{1, 2})
      .node("Add", {"x", "c"}, "y", {}, "adder")
      .output("y");
  CHECK(contains(message(types), "float64"));
  CHECK(contains(message(types), "'adder'"));
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{3}, {1}, {-2}, {std::int64_t{1} << 40, std::int64_t{1} << 40}}) {
    OnnxModel data;
    data.input("x", {2}).initializer("c", shape, std::vector<float>{1, 2}).node("Add", {"x", "c"}, "y").output("y");
    CHECK(contains(message(data), "initialiser 'c'"));
    OnnxModel typed;
    typed.input("x", {2})
        .initializer(onnx_tensor_header("c", onnx_float, shape).fixed32(4, 1).fixed32(4, 2))
        .node("Add", {"x", "c"}, "y")
        .output("y");
    CHECK(contains(message(typed), "initialiser 'c'"));
    OnnxModel integers;
    integers.input("x", {2})
        .initializer(onnx_tensor_header("c", onnx_int64, shape).varint(7, 1).varint(7, 2))
        .node("Add", {"x", "c"}, "y")
        .output("y");
    CHECK(contains(message(integers), "initialiser 'c'"));
  }
}

TEST_CASE("typed data outside the range of their type are refused") {
  for (const auto& [type, value] : std::vector<std::pair<int, std::int64_t>>{
           {onnx_float16, 0x10000}, {onnx_int8, 128}, {onnx_uint8, -1}, {onnx_int32, std::int64_t{1} << 40}}) {
    OnnxModel model;
    model.input("x", {1})
        .initializer(onnx_tensor_header("c", type, {1}).varint(5, static_cast<std::uint64_t>(value)))
        .node("Relu", {"x"}, "y")
        .output("y");
    CHECK(contains(error_of<ParseError>(model.bytes()), "'c'"));
  }
}

TEST_CASE("names that are not text are made printable and stay apart") {
  const std::string first = "a\xff\x01", second = "a\xfe\n";
  OnnxModel model;
  model.input("x", {2}).node("Neg", {"x"}, first).node("Relu", {first}, second).output(second);
  const Graph graph = loaded(model.bytes());
  CHECK(graph.nodes[0].name == "a\\xff\\x01");
  CHECK(graph.nodes[1].name == "a\\xfe\\x0a");
}

TEST_CASE("unknown fields and groups of later versions are skipped") {
  const std::string bytes = small_model().bytes();
  Message unknown;
  unknown.varint(1000, 1).bytes(1001, "later").fixed32(1002, 1).fixed64(1003, 1);
  unknown.tag(1004, 3);
  unknown.varint(1, 1);
  unknown.tag(1005, 3);
  unknown.tag(1005, 4);
  unknown.tag(1004, 4);
  CHECK(loaded(bytes + unknown.data()).nodes.size() == 2);
}

TEST_CASE("a graph output may be an input or a constant") {
  OnnxModel model;
  model.input("x", {2})
      .initializer("c", {2}, std::vector<float>{1, 2})
      .node("Relu", {"x"}, "y")
      .output("x")
      .output("c")
      .output("y");
  const Graph graph = loaded(model.bytes());
  REQUIRE(graph.outputs.size() == 3);
  CHECK(graph.value(graph.outputs[0]).kind == ValueKind::input);
  CHECK(graph.value(graph.outputs[1]).kind == ValueKind::constant);
}

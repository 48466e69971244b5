#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

using Integers = std::vector<std::int64_t>;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// A model whose integer computations end in the value r, which is then added to the input as floats.
class Chain {
public:
  Chain() { model_.input("x", {2, 3, 4}); }
  Chain& constant(const std::string& name, const Integers& shape, const Integers& values) {
    model_.initializer(name, shape, values);
    return *this;
  }
  Chain& truth(const std::string& name, const Integers& shape, const std::string& bytes) {
    model_.initializer(onnx_tensor_header(name, onnx_bool, shape).bytes(9, bytes));
    return *this;
  }
  Chain& node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
              const std::vector<A>& attributes = {}) {
    model_.node(op, inputs, output, attributes);
    return *this;
  }
  OnnxModel& model() {
    model_.node("Cast", {"r"}, "real", {A::of_int("to", onnx_float)}).output("real");
    return model_;
  }
  /// Elements of r.
  std::vector<double> values() {
    const Graph graph = loaded(model());
    CHECK(graph.nodes.empty());
    result_shape = graph.value(graph.outputs.at(0)).constant.shape();
    return graph.value(graph.outputs[0]).constant.to_double().values;
  }
  Shape result_shape;

private:
  OnnxModel model_;
};

std::vector<double> binary(const std::string& op, const Integers& a, const Integers& b) {
  const auto extent = [](const Integers& values) { return Integers{static_cast<std::int64_t>(values.size())}; };
  return Chain().constant("a", extent(a), a).constant("b", extent(b), b).node(op, {"a", "b"}, "r").values();
}

std::string refusal(const std::string& op, std::int64_t a, std::int64_t b) {
  return load_error<Unsupported>(
      Chain().constant("a", {1}, {a}).constant("b", {1}, {b}).node(op, {"a", "b"}, "r").model());
}

using Doubles = std::vector<double>;

/// The target of the only Reshape of a model with x [N, 3, 4], whose target is `target`.
Integers reshape_target(OnnxModel& model) {
  model.node("Reshape", {"v", "target"}, "y", {}, "reshaped").output("y");
  const Graph graph = loaded(model);
  return std::get<op::Reshape>(graph.nodes.back().op).target;
}

OnnxModel open_model() {
  OnnxModel model;
  model.input("x", {"N", 3, 4})
      .initializer("zero", {}, Integers{0})
      .initializer("one", {}, Integers{1})
      .initializer("first", {1}, Integers{0})
      .initializer("twelve", {1}, Integers{12})
      .initializer("infer", {1}, Integers{-1});
  return model;
}

}  // namespace

TEST_CASE("shapes of inputs and of computed values are constants where they are fixed") {
  CHECK(Chain().node("Shape", {"x"}, "r").values() == Doubles{2, 3, 4});
  CHECK(Chain().node("Shape", {"x"}, "r", {A::of_int("start", 1)}).values() == Doubles{3, 4});
  CHECK(Chain().node("Shape", {"x"}, "r", {A::of_int("start", -1), A::of_int("end", 10)}).values() == Doubles{4});
  CHECK(Chain().node("Shape", {"x"}, "r", {A::of_int("start", 2), A::of_int("end", 1)}).values().empty());
  CHECK(Chain().node("Shape", {"x"}, "r", {A::of_int("start", -9), A::of_int("end", -2)}).values() == Doubles{2});
  CHECK(Chain().node("Size", {"x"}, "r").values() == Doubles{24});
  Chain computed;
  computed.node("Flatten", {"x"}, "f").node("Shape", {"f"}, "r");
  const Graph graph = loaded(computed.model());
  CHECK(graph.value(graph.outputs[0]).constant.to_double().values == Doubles{2, 12});
}

TEST_CASE("integer arithmetic on constants is exact, with the rounding of ONNX") {
  CHECK(binary("Add", {1, -5}, {2, 5}) == Doubles{3, 0});
  CHECK(binary("Sub", {1, -5}, {2, 5}) == Doubles{-1, -10});
  CHECK(binary("Mul", {3, -5}, {2}) == Doubles{6, -10});
  CHECK(binary("Div", {7, -7, 7, -7}, {2, 2, -2, -2}) == Doubles{3, -3, -3, 3});
  CHECK(binary("Mod", {7, -7, 7, -7}, {3, 3, -3, -3}) == Doubles{1, 2, -2, -1});
  CHECK(binary("Min", {7, -7}, {3}) == Doubles{3, -7});
  CHECK(binary("Max", {7, -7}, {3}) == Doubles{7, 3});
  CHECK(binary("Equal", {7, 3}, {3}) == Doubles{0, 1});
  CHECK(binary("Less", {7, 3, 1}, {3}) == Doubles{0, 0, 1});
  CHECK(binary("LessOrEqual", {7, 3, 1}, {3}) == Doubles{0, 1, 1});
  CHECK(binary("Greater", {7, 3, 1}, {3}) == Doubles{1, 0, 0});
  CHECK(binary("GreaterOrEqual", {7, 3, 1}, {3}) == Doubles{1, 1, 0});
  CHECK(Chain().constant("a", {2}, {3, -4}).node("Neg", {"a"}, "r").values() == Doubles{-3, 4});
}

TEST_CASE("integer arithmetic that leaves the type or divides by zero is refused") {
  CHECK(contains(refusal("Add", largest, 1), "64 bits"));
  CHECK(contains(refusal("Sub", -largest, 2), "64 bits"));
  CHECK(contains(refusal("Mul", largest, 2), "64 bits"));
  CHECK(contains(refusal("Div", std::numeric_limits<std::int64_t>::min(), -1), "64 bits"));
  CHECK(contains(refusal("Div", 1, 0), "by zero"));
  CHECK(contains(refusal("Mod", 1, 0), "by zero"));
  const auto narrow = [](const Message& a, const std::string& op) {
    OnnxModel model;
    model.input("x", {1})
        .initializer(a)
        .node(op, {"a", "a"}, "b")
        .node("Cast", {"b"}, "y", {A::of_int("to", onnx_float)});
    return load_error<Unsupported>(model.output("y"));
  };
  CHECK(contains(narrow(onnx_tensor("a", {1}, std::vector<std::int32_t>{1 << 30}), "Add"), "int32"));
  CHECK(contains(narrow(onnx_tensor("a", {1}, std::vector<std::uint8_t>{16}), "Mul"), "uint8"));
  CHECK(narrow(onnx_tensor("a", {1}, std::vector<std::uint8_t>{15}), "Mul").empty());
  const Message huge = onnx_tensor_header("a", onnx_uint64, {1}).varint(11, std::uint64_t{1} << 63);
  CHECK(contains(narrow(huge, "Add"), "2^63"));
}

TEST_CASE("a Where of integers of two types is refused") {
  OnnxModel model;
  model.input("x", {1}).initializer(onnx_boolean("c", true)).initializer("a", {1}, std::vector<std::int64_t>{1});
  model.initializer("b", {1}, std::vector<std::int32_t>{1}).node("Where", {"c", "a", "b"}, "i");
  model.node("Cast", {"i"}, "y", {A::of_int("to", onnx_float)}).output("y");
  CHECK(contains(load_error<ShapeMismatch>(model), "element types int64 and int32"));
}

TEST_CASE("elements are taken, cut and chosen as ONNX says") {
  Chain matrix;
  matrix.constant("a", {2, 3}, {1, 2, 3, 4, 5, 6}).constant("i", {2, 1}, {-1, 0});
  matrix.node("Gather", {"a", "i"}, "r", {A::of_int("axis", 1)});
  CHECK(matrix.values() == Doubles{3, 1, 6, 4});
  CHECK(matrix.result_shape == Shape{2, 2, 1});

  const auto sliced = [](const Integers& starts, const Integers& ends, const Integers& axes, const Integers& steps) {
    const Integers count = {static_cast<std::int64_t>(starts.size())};
    Chain chain;
    chain.constant("a", {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    chain.constant("s", count, starts)
        .constant("e", count, ends)
        .constant("d", count, axes)
        .constant("p", count, steps);
    return chain.node("Slice", {"a", "s", "e", "d", "p"}, "r").values();
  };
  CHECK(sliced({1}, {3}, {1}, {1}) == Doubles{1, 2, 6, 7});
  CHECK(sliced({-2}, {largest}, {-1}, {1}) == Doubles{3, 4, 8, 9});
  CHECK(sliced({0, 4}, {1, -largest}, {0, 1}, {1, -2}) == Doubles{4, 2, 0});
  CHECK(sliced({3}, {0}, {1}, {-1}) == Doubles{3, 2, 1, 8, 7, 6});
  CHECK(sliced({0}, {5}, {1}, {3}) == Doubles{0, 3, 5, 8});
  CHECK(sliced({0}, {5}, {1}, {largest}) == Doubles{0, 5});
  CHECK(sliced({4}, {-6}, {1}, {-largest}) == Doubles{4, 9});
  CHECK(sliced({3}, {3}, {1}, {1}).empty());
  CHECK(sliced({9}, {20}, {1}, {1}).empty());
  CHECK(sliced({-largest}, {1}, {1}, {1}) == Doubles{0, 5});
  CHECK(sliced({-5}, {-largest}, {1}, {-1}) == Doubles{0, 5});

  Chain chosen;
  chosen.truth("c", {2, 1}, std::string("\1\0", 2)).constant("a", {2}, {1, 2}).constant("b", {}, {9});
  CHECK(chosen.node("Where", {"c", "a", "b"}, "r").values() == Doubles{1, 2, 9, 9});
  CHECK(Chain().constant("a", {1}, {7}).constant("t", {2}, {2, 3}).node("Expand", {"a", "t"}, "r").values() ==
        Doubles(6, 7.0));
  CHECK(Chain().constant("a", {3}, {2, 3, 4}).node("ReduceProd", {"a"}, "r").values() == Doubles{24});
}

TEST_CASE("Slice took attributes before opset 10") {
  OnnxModel model(9);
  model.input("x", {1})
      .initializer("a", {4}, Integers{1, 2, 3, 4})
      .node("Slice", {"a"}, "b", {A::of_ints("starts", {1}), A::of_ints("ends", {3}), A::of_ints("axes", {0})})
      .node("Cast", {"b"}, "y", {A::of_int("to", onnx_float)})
      .output("y");
  const Graph graph = loaded(model);
  CHECK(graph.value(graph.outputs[0]).constant.to_double().values == Doubles{2, 3});
}

TEST_CASE("ranges count up and down, and none is larger than the file justifies") {
  const auto range = [](std::int64_t start, std::int64_t limit, std::int64_t delta) {
    Chain chain;
    chain.constant("a", {}, {start}).constant("b", {}, {limit}).constant("c", {}, {delta});
    chain.node("Range", {"a", "b", "c"}, "r");
    return chain;
  };
  CHECK(range(0, 5, 2).values() == Doubles{0, 2, 4});
  CHECK(range(5, 0, -2).values() == Doubles{5, 3, 1});
  CHECK(range(5, 0, 2).values().empty());
  CHECK(range(-5, -4, largest).values() == Doubles{-5});
  CHECK(contains(load_error<Unsupported>(range(-largest, largest, 1).model()), "justifies"));
  CHECK(contains(load_error<Unsupported>(range(0, std::int64_t{1} << 31, 1).model()), "justifies"));
  CHECK(contains(load_error<ParseError>(range(0, 5, 0).model()), "delta"));
}

TEST_CASE("ConstantOfShape fills a shape with its value, within what the file justifies") {
  const auto filled = [](const Integers& shape, const std::vector<A>& attributes) {
    OnnxModel model;
    model.input("x", {2}).initializer("s", {static_cast<std::int64_t>(shape.size())}, shape);
    return model.node("ConstantOfShape", {"s"}, "c", attributes, "fill").node("Add", {"x", "c"}, "y").output("y");
  };
  const auto constant = [](const Graph& graph) { return graph.value(graph.nodes.at(0).inputs[1]).constant; };
  CHECK(constant(loaded(filled({2}, {}))).to_double().values == Doubles{0, 0});
  const A half = A::of_tensor("value", onnx_tensor("", {1}, std::vector<float>{0.5f}));
  CHECK(constant(loaded(filled({3, 2}, {half}))).to_double().values == Doubles(6, 0.5));
  CHECK(constant(loaded(filled({}, {half}))).shape().empty());
  CHECK(contains(load_error<Unsupported>(filled({1 << 28}, {})), "ConstantOfShape ('fill')"));
  CHECK(contains(load_error<ShapeMismatch>(filled({-1}, {})), "negative"));
  const A two = A::of_tensor("value", onnx_tensor("", {2}, std::vector<float>{1, 2}));
  CHECK(contains(load_error<ParseError>(filled({2}, {two})), "one element"));
}

TEST_CASE("the chain that exporters write for a view is resolved") {
  OnnxModel model;
  model.input("x", {2, 3, 4})
      .initializer("zero", {}, Integers{0})
      .initializer("axes", {1}, Integers{0})
      .initializer("rest", {1}, Integers{-1})
      .node("Relu", {"x"}, "v")
      .node("Shape", {"v"}, "s")
      .node("Gather", {"s", "zero"}, "batch")
      .node("Unsqueeze", {"batch", "axes"}, "batch1")
      .node("Concat", {"batch1", "rest"}, "target", {A::of_int("axis", 0)});
  CHECK(reshape_target(model) == Integers{2, -1});
}

TEST_CASE("an open batch axis is copied or inferred where that is certainly the same") {
  OnnxModel copied = open_model();
  copied.node("Relu", {"x"}, "v")
      .node("Shape", {"v"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "infer"}, "target", {A::of_int("axis", 0)});
  CHECK(reshape_target(copied) == Integers{0, -1});

  // [N, 12] from [3, N, 4]: not the input's axis 0, but the only extent that is open
  OnnxModel inferred = open_model();
  inferred.node("Transpose", {"x"}, "v", {A::of_ints("perm", {1, 0, 2})})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "twelve"}, "target", {A::of_int("axis", 0)});
  CHECK(reshape_target(inferred) == Integers{-1, 12});

  // [3 N, 4], as for attention over heads
  OnnxModel multiple = open_model();
  multiple.initializer("three", {1}, Integers{3})
      .initializer("four", {1}, Integers{4})
      .node("Relu", {"x"}, "v")
      .node("Shape", {"v"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Mul", {"batch", "three"}, "rows")
      .node("Concat", {"rows", "four"}, "target", {A::of_int("axis", 0)});
  CHECK(reshape_target(multiple) == Integers{-1, 4});

  // -1 in an expanded shape: compared with what is never negative
  OnnxModel replaced = open_model();
  replaced.initializer("ones", {2}, Integers{-1, -1})
      .node("Relu", {"x"}, "v")
      .node("Shape", {"v"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "twelve"}, "wanted", {A::of_int("axis", 0)})
      .node("Equal", {"wanted", "ones"}, "is_one")
      .node("Where", {"is_one", "ones", "wanted"}, "target");
  CHECK(reshape_target(replaced) == Integers{0, 12});
}

TEST_CASE("the batch axis is followed through layers that work row by row") {
  OnnxModel model;
  model.input("x", {"N", 3, 4})
      .initializer("W", {12, 6}, std::vector<float>(72, 1.0f))
      .initializer("first", {1}, Integers{0})
      .initializer("infer", {1}, Integers{-1})
      .initializer("two", {1}, Integers{2})
      .node("Flatten", {"x"}, "f")
      .node("Gemm", {"f", "W"}, "g")
      .node("Softmax", {"g"}, "v")
      .node("Shape", {"v"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "two", "infer"}, "target", {A::of_int("axis", 0)});
  CHECK(reshape_target(model) == Integers{0, 2, -1});
  const Graph graph = loaded(model.node("Relu", {"y"}, "z"));
  CHECK(batch_layout(graph).batched);
  CHECK(infer_shapes(graph, {{7, 3, 4}}).at(graph.outputs[0]) == Shape{7, 2, 3});
}

TEST_CASE("a constant expands to as many rows as an input has, of any type, and keeps samples apart") {
  OnnxModel model;
  model.input("x", {"N", 2, 3})
      .initializer("token", {1, 1, 3}, std::vector<float>{7, 8, 9})
      .initializer("first", {1}, Integers{0})
      .initializer("rest", {2}, Integers{1, 3})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "rest"}, "target", {A::of_int("axis", 0)})
      .node("Expand", {"token", "target"}, "tokens", {}, "expanded")
      .node("Concat", {"tokens", "x"}, "y", {A::of_int("axis", 1)})
      .output("y");
  const Graph joined = loaded(model);
  CHECK(batch_layout(joined).batched);
  CHECK(infer_shapes(joined, {{5, 2, 3}}).at(joined.outputs[0]) == Shape{5, 3, 3});
  Tensor<float> x({2, 2, 3});
  x.values.front() = std::numeric_limits<float>::quiet_NaN();  // not to be seen in what is expanded
  const std::vector<double> y = evaluate_as<double>(joined, Inputs{{{"x", StoredTensor::from(x)}}}).back().values;
  for (const std::size_t start : {std::size_t{0}, std::size_t{9}}) {
    for (std::size_t i = 0; i < 3; ++i) CHECK(y.at(start + i) == 7.0 + static_cast<double>(i));
  }

  OnnxModel of_ids;  // rows of an input of another type
  of_ids.input("ids", {"N", 2}, onnx_int64)
      .initializer("token", {3}, std::vector<float>{7, 8, 9})
      .initializer("first", {1}, Integers{0})
      .initializer("three", {1}, Integers{3})
      .node("Shape", {"ids"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "three"}, "target", {A::of_int("axis", 0)})
      .node("Expand", {"token", "target"}, "y")
      .output("y");
  const Graph graph = loaded(of_ids);
  CHECK(batch_layout(graph).batched);
  CHECK(infer_shapes(graph, {{5, 2}}).at(graph.outputs[0]) == Shape{5, 3});
}

TEST_CASE("extents that stay open are refused by node, with what to do") {
  const auto message = [](OnnxModel& model) { return load_error<Unsupported>(model); };
  OnnxModel two = open_model();
  two.node("Transpose", {"x"}, "v", {A::of_ints("perm", {1, 0, 2})})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("Concat", {"batch", "infer"}, "target", {A::of_int("axis", 0)})
      .node("Reshape", {"v", "target"}, "y", {}, "reshaped")
      .output("y");
  CHECK(contains(message(two), "Reshape ('reshaped')"));
  CHECK(contains(message(two), "fixed input shapes"));

  OnnxModel used = open_model();
  used.node("Shape", {"x"}, "s")
      .node("Gather", {"s", "zero"}, "batch")
      .node("Cast", {"batch"}, "scale", {A::of_int("to", onnx_float)}, "count")
      .node("Div", {"x", "scale"}, "y")
      .output("y");
  CHECK(contains(message(used), "Cast ('count')"));
  CHECK(contains(message(used), "fixed input shapes"));

  OnnxModel output = open_model();
  output.node("Shape", {"x"}, "y").output("y");
  CHECK(contains(message(output), "fixed input shapes"));

  OnnxModel sum = open_model();
  sum.initializer("z", {1}, std::vector<float>{1})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "first"}, "batch")
      .node("ConstantOfShape", {"batch"}, "c", {}, "fill")
      .output("c");
  CHECK(contains(message(sum), "ConstantOfShape ('fill')"));
}

TEST_CASE("indices outside an axis and lists that do not fit are refused") {
  const auto message = [](Chain chain) { return load_error<Error>(chain.model()); };
  CHECK(contains(message(Chain().constant("i", {}, {3}).node("Shape", {"x"}, "s").node("Gather", {"s", "i"}, "r")),
                 "index 3"));
  CHECK(contains(message(Chain().constant("i", {}, {-4}).node("Shape", {"x"}, "s").node("Gather", {"s", "i"}, "r")),
                 "index -4"));
  CHECK(contains(message(Chain()
                             .constant("b", {1}, {0})
                             .constant("e", {2}, {1, 1})
                             .node("Shape", {"x"}, "s")
                             .node("Slice", {"s", "b", "e"}, "r")),
                 "differ in number"));
  CHECK(contains(message(Chain()
                             .constant("b", {1}, {0})
                             .constant("z", {1}, {0})
                             .node("Shape", {"x"}, "s")
                             .node("Slice", {"s", "b", "b", "z", "z"}, "r")),
                 "step of 0"));
  CHECK(contains(message(Chain()
                             .constant("b", {1}, {-4})
                             .constant("e", {1}, {-largest})
                             .constant("z", {1}, {0})
                             .constant("p", {1}, {-1})
                             .node("Shape", {"x"}, "s")
                             .node("Slice", {"s", "b", "e", "z", "p"}, "r")),
                 "a negative step from start -4 of an axis of 3"));
  CHECK(contains(message(Chain()
                             .constant("b", {1}, {0})
                             .constant("e", {1}, {1})
                             .node("Shape", {"x"}, "s")
                             .node("Slice", {"s", "b", "e"}, "r", {A::of_ints("axes", {0})})),
                 "attribute 'axes' has been input 3"));
  CHECK(contains(message(Chain().constant("a", {2}, {1, 2}).constant("b", {3}, {1, 2, 3}).node("Add", {"a", "b"}, "r")),
                 "broadcast"));
}

TEST_CASE("NonZero of constants gives the places of what is not 0, axis by axis") {
  CHECK(Chain().constant("a", {2, 3}, {0, 7, 0, -1, 0, 2}).node("NonZero", {"a"}, "r").values() ==
        Doubles{0, 1, 1, 1, 0, 2});
  CHECK(Chain().truth("a", {3}, std::string("\1\0\1", 3)).node("NonZero", {"a"}, "r").values() == Doubles{0, 2});
  CHECK(Chain().constant("a", {2}, {0, 0}).node("NonZero", {"a"}, "r").values().empty());
  CHECK(contains(load_error<Unsupported>(Chain().node("NonZero", {"x"}, "r").model()), "NonZero"));
}

TEST_CASE("integer constants cannot be blown up beyond what the file justifies") {
  Chain expanded;
  expanded.constant("a", {1}, {7}).constant("t", {3}, {1 << 20, 1 << 20, 1 << 20}).node("Expand", {"a", "t"}, "r");
  CHECK(contains(load_error<Unsupported>(expanded.model()), "justifies"));
  Chain outer;
  outer.constant("a", {1}, {1 << 20}).constant("o", {}, {0}).constant("d", {}, {1}).constant("n", {}, {100'000});
  outer.constant("shape", {2}, {-1, 1})
      .node("Range", {"o", "n", "d"}, "row")
      .node("Reshape", {"row", "shape"}, "column");
  CHECK(contains(load_error<Unsupported>(outer.node("Add", {"row", "column"}, "r").model()), "justifies"));
}

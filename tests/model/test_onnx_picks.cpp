#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference.hpp"
#include "model/onnx_case.hpp"

// ArgMax, ArgMin, TopK, casts to integers, GridSample, loops, and quantised convolutions: values by ONNX's definitions,
// what is undecided, and what is refused.

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

namespace {

/// Numbers of a few values, so that many are equal.
Tensor<float> few_values(const Shape& shape, std::mt19937_64& random, int values) {
  Tensor<float> result(shape);
  for (float& x : result.values)
    x = static_cast<float>(static_cast<int>(random() % static_cast<std::uint64_t>(values)) - values / 2) * 0.25f;
  return result;
}

/// Indices along axis 1 of [rows, n], the best first; of equal elements the first, or the last, comes first.
std::vector<std::size_t> ranked(const Tensor<float>& x, std::size_t row, bool smallest, bool last) {
  const std::size_t n = static_cast<std::size_t>(x.shape[1]);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    const float a = x.values[row * n + i], b = x.values[row * n + j];
    if (a != b) return smallest ? a < b : a > b;
    return last && i > j;
  });
  return order;
}

Message with_inputs(Message graph, const std::vector<std::string>& names) {
  for (const std::string& name : names) graph.message(11, Message().bytes(1, name));
  return graph;
}

}  // namespace

TEST_CASE("ArgMax and ArgMin give the first of equal elements, or the last") {
  std::mt19937_64 random(5);
  for (const std::int64_t n : {1, 2, 3, 5, 8, 13, 100}) {
    for (const bool smallest : {false, true}) {
      for (const bool last : {false, true}) {
        for (const bool keeps : {false, true}) {
          Case one(13, {4, n});
          one.x = few_values({4, n}, random, 5);
          one.node(smallest ? "ArgMin" : "ArgMax", {"x"},
                   {A::of_int("axis", -1), A::of_int("keepdims", keeps ? 1 : 0),
                    A::of_int("select_last_index", last ? 1 : 0)});
          const Tensor<double> found = one.value();
          CHECK(found.shape == (keeps ? Shape{4, 1} : Shape{4}));
          for (std::size_t row = 0; row < 4; ++row)
            CHECK(found.values[row] == static_cast<double>(ranked(one.x, row, smallest, last)[0]));
        }
      }
    }
  }
}

TEST_CASE("TopK gives the largest or smallest elements in order, and the first of equal ones first") {
  std::mt19937_64 random(6);
  for (const std::int64_t n : {1, 2, 3, 7, 16, 21, 50}) {
    for (const std::int64_t count : std::set<std::int64_t>{1, 2, 3, 5, 8, n / 2 + 1, n}) {
      if (count > n) continue;
      for (const bool smallest : {false, true}) {
        for (const bool asks_for_indices : {false, true}) {
          const Tensor<float> x = few_values({3, n}, random, 9);
          OnnxModel model(13);
          model.input("x", {std::int64_t{3}, n}).initializer("k", {1}, std::vector<std::int64_t>{count});
          model.node("TopK", {"x", "k"}, std::vector<std::string>{"v", "i"}, {A::of_int("largest", smallest ? 0 : 1)});
          model.output(asks_for_indices ? "i" : "v");
          const Graph graph = loaded(model);
          const std::vector<double> found =
              evaluate_as<double>(graph, Inputs{{{"x", StoredTensor::from(x)}}}).back().values;
          CAPTURE(n);
          CAPTURE(count);
          REQUIRE(found.size() == static_cast<std::size_t>(3 * count));
          for (std::size_t row = 0; row < 3; ++row) {
            const std::vector<std::size_t> order = ranked(x, row, smallest, false);
            for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
              const double index = static_cast<double>(order[i]);
              const double value = x.values[row * static_cast<std::size_t>(n) + order[i]];
              CHECK(found[row * static_cast<std::size_t>(count) + i] == (asks_for_indices ? index : value));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("indices are integers: moved, but not computed with, and no operand of a Gather") {
  OnnxModel model(13);
  model.input("x", {2, 3}).initializer("table", {3}, std::vector<float>{1, 2, 3});
  model.node("ArgMax", {"x"}, "i", {A::of_int("axis", 1)}).node("Gather", {"table", "i"}, "y", {}, "look").output("y");
  CHECK(holds(load_error<Unsupported>(model), "Gather ('look')"));
  OnnxModel sum(13);
  sum.input("x", {2, 3}).node("ArgMax", {"x"}, "i").node("Add", {"i", "i"}, "y", {}, "twice").output("y");
  CHECK(holds(load_error<Unsupported>(sum), "computes in int64"));
}

TEST_CASE("more elements than there are, and computed numbers of elements, are refused by name") {
  OnnxModel model(13);
  model.input("x", {2, 3}).initializer("k", {1}, std::vector<std::int64_t>{4});
  model.node("TopK", {"x", "k"}, std::vector<std::string>{"v", "i"}, {}, "best").output("v");
  CHECK(holds(load_error<ParseError>(model), "it takes 4 elements of 3"));
}

namespace {

/// What a report knows of the index of the larger of two numbers that a product computed: these differ by `apart`.
std::pair<Ball, double> index_of_larger(double apart) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const std::vector<float> weights = {1.0f / 3.0f, 1.0f / 3.0f, 0.1f, 0.1f + static_cast<float>(apart)};
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 2}, weights)));
  const ValueId scores = graph.add_node("scores", op::MatMul{}, {x, w});
  graph.outputs = {graph.add_node("index", op::ArgMax{1, false, false}, {scores})};
  Inputs inputs{{{"x", StoredTensor::from(Tensor<float>({1, 2}, {1.7f, 0.3f}))}}};
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  const Bounds bounds = bound(graph, trace);
  const auto forward = std::find_if(bounds.layers[1].accumulated.begin(), bounds.layers[1].accumulated.end(),
                                    [](const BoundResult& result) { return result.kind == BoundKind::forward; });
  return {certified_reference(graph, inputs).layers[1].values[0], forward->values.values[0]};
}

}  // namespace

TEST_CASE("an index is exact where no rounding can change it, and open where one may") {
  const auto [far, far_bound] = index_of_larger(0.01);
  CHECK(far.hi == 1.0);
  CHECK(far.radius == Magnitude());
  CHECK(far_bound == 0.0);
  const auto [near, near_bound] = index_of_larger(0.0);
  CHECK(near_bound >= 1.0);
}

TEST_CASE("a cast to an integer drops what follows the point") {
  Case one(13, {6});
  one.x.values = {-2.75f, -0.5f, -0.0f, 0.99f, 3.0f, 100.5f};
  one.node("Cast", {"x"}, {A::of_int("to", 7)});
  CHECK(one.values() == Doubles{-2, 0, 0, 0, 3, 100});
  Case narrow(13, {2});
  narrow.node("Cast", {"x"}, {A::of_int("to", 2)});
  CHECK(holds(narrow.refusal(), "uint8"));
}

TEST_CASE("a number beyond the range of its integer type has no value") {
  for (const std::int64_t type : {6, 7}) {
    Case one(13, {3});
    const float range = type == 6 ? 0x1p31f : 0x1p63f;
    one.x.values = {range / 2, -range / 2, 2 * range};
    one.node("Cast", {"x"}, {A::of_int("to", type)});
    const Doubles found = one.values();
    CHECK(found[0] == static_cast<double>(range) / 2);
    CHECK(found[1] == -static_cast<double>(range) / 2);
    CHECK(std::isnan(found[2]));
    const Graph graph = loaded(one.model);
    const Inputs given{{{"x", StoredTensor::from(one.x)}}};
    const Tensor<Ball> exact = certified_reference(graph, given).layers.at(0);
    CHECK(exact.values[0].radius == Magnitude());
    CHECK_FALSE(exact.values[2].is_finite());
  }
}

TEST_CASE("TopK in no order is refused, as no two runs of it compare") {
  OnnxModel model(13);
  model.input("x", {2, 3}).initializer("k", {1}, std::vector<std::int64_t>{2});
  model.node("TopK", {"x", "k"}, std::vector<std::string>{"v", "i"}, {A::of_int("sorted", 0)}, "best").output("v");
  CHECK(holds(load_error<Unsupported>(model), "sorted = 0"));
}

TEST_CASE("no real number is NaN or infinite") {
  for (const char* op : {"IsNaN", "IsInf"}) {
    Case one(13, {3});
    one.node(op, {"x"});
    CHECK(one.values() == Doubles{0, 0, 0});
  }
}

namespace {

/// The pixel that stands for pixel i of an axis.
std::int64_t pixel_inside(std::int64_t i, std::int64_t extent, bool aligned, const std::string& outside) {
  if (outside == "border") return std::clamp<std::int64_t>(i, 0, extent - 1);
  while (outside == "reflection" && (i < 0 || i >= extent))
    i = aligned ? (i < 0 ? -i : 2 * (extent - 1) - i) : (i < 0 ? -1 - i : 2 * extent - 1 - i);
  return i;
}

/// One pixel of a map; 0, a copy or a reflection outside.
double pixel(const Tensor<float>& x, std::int64_t channel, std::int64_t row, std::int64_t column, bool aligned = true,
             const std::string& outside = "zeros") {
  const std::int64_t rows = x.shape[2], columns = x.shape[3];
  row = pixel_inside(row, rows, aligned, outside);
  column = pixel_inside(column, columns, aligned, outside);
  if (row < 0 || row >= rows || column < 0 || column >= columns) return 0.0;
  return x.values[static_cast<std::size_t>((channel * rows + row) * columns + column)];
}

double place_in_pixels(double at, std::int64_t extent, bool aligned, const std::string& outside, bool is_cubic) {
  const auto size = static_cast<double>(extent);
  double x = aligned ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
  if (outside == "border") return std::clamp(x, 0.0, size - 1);
  if (outside != "reflection") return x;
  const double low = aligned ? 0.0 : -0.5, high = aligned ? size - 1 : size - 0.5;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return is_cubic ? x : std::clamp(x, 0.0, size - 1);
}

double cubic_weight(double d) {
  constexpr double a = -0.75;
  d = std::abs(d);
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0.0;
}

double sampled(const Tensor<float>& x, std::int64_t channel, double row, double column, const std::string& mode,
               bool aligned, const std::string& outside) {
  if (mode == "nearest")
    return pixel(x, channel, static_cast<std::int64_t>(std::nearbyint(row)),
                 static_cast<std::int64_t>(std::nearbyint(column)));
  double sum = 0.0;
  const auto first_row = static_cast<std::int64_t>(std::floor(row)),
             first = static_cast<std::int64_t>(std::floor(column));
  for (std::int64_t i = first_row - 1; i <= first_row + 2; ++i) {
    for (std::int64_t j = first - 1; j <= first + 2; ++j) {
      const double down = row - static_cast<double>(i), across = column - static_cast<double>(j);
      const double weight = mode == "cubic" ? cubic_weight(down) * cubic_weight(across)
                                            : std::max(0.0, 1 - std::abs(down)) * std::max(0.0, 1 - std::abs(across));
      sum += weight * pixel(x, channel, i, j, aligned, mode == "cubic" ? outside : "zeros");
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("GridSample reads between pixels, outside of them too") {
  std::mt19937_64 random(7);
  for (const std::string mode : {"linear", "nearest", "cubic"}) {
    for (const std::string outside : {"zeros", "border", "reflection"}) {
      for (const bool aligned : {false, true}) {
        const bool is_cubic = mode == "cubic";
        if (is_cubic && outside == "border" && !aligned) continue;
        Case one(20, {1, 2, 4, 5});
        Tensor<float> places({1, 3, 4, 2});
        for (float& place : places.values)
          place = static_cast<float>(static_cast<double>(random() % 40'001) / 10'000.0 - 2.0);
        one.also("grid", places);
        one.node("GridSample", {"x", "grid"},
                 {A::of_string("mode", mode), A::of_string("padding_mode", outside),
                  A::of_int("align_corners", aligned ? 1 : 0)});
        Doubles expected;
        for (std::int64_t channel = 0; channel < 2; ++channel)
          for (std::size_t i = 0; i < 12; ++i)
            expected.push_back(
                sampled(one.x, channel, place_in_pixels(places.values[2 * i + 1], 4, aligned, outside, is_cubic),
                        place_in_pixels(places.values[2 * i], 5, aligned, outside, is_cubic), mode, aligned, outside));
        CAPTURE(mode);
        CAPTURE(outside);
        CAPTURE(aligned);
        check_near(one.values(), expected);
      }
    }
  }
  Case cubic(20, {1, 1, 2, 2});
  cubic.also("grid", counted({1, 1, 1, 2}));
  cubic.node("GridSample", {"x", "grid"}, {A::of_string("mode", "cubic"), A::of_string("padding_mode", "border")});
  CHECK(holds(cubic.refusal(), "padding_mode border"));
}

TEST_CASE("places on the last pixel are decided, where outside is reflected there") {
  Case one(20, {1, 1, 2, 3});
  one.also("grid", Tensor<float>({1, 1, 2, 2}, {1.0f, 1.0f, -1.0f, 1.0f}));
  one.node("GridSample", {"x", "grid"}, {A::of_string("padding_mode", "reflection"), A::of_int("align_corners", 1)});
  CHECK(one.values() == Doubles{6, 4});
  Inputs given{{{"x", StoredTensor::from(one.x)}}};
  given.tensors.insert(given.tensors.end(), one.others.begin(), one.others.end());
  const Tensor<Ball> exact = certified_reference(loaded(one.model), given).layers.at(0);
  for (const Ball& value : exact.values) CHECK(value.is_finite());
}

// ---- loops ----------------------------------------------------------------------------------------------------------

TEST_CASE("a Loop with a constant number of turns becomes its body that many times") {
  // s = tanh(s w + x), with every s put together
  OnnxModel model(13);
  model.input("x", {2, 2}).initializer("w", {2, 2}, std::vector<float>{0.5f, -1.0f, 0.25f, 0.75f});
  model.initializer("n", {}, std::vector<std::int64_t>{3});
  const Message body = with_inputs(
      onnx_graph({onnx_node("Identity", {"go"}, {"goes"}), onnx_node("MatMul", {"s", "w"}, {"sw"}, {}, "product"),
                  onnx_node("Add", {"sw", "x"}, {"sum"}), onnx_node("Tanh", {"sum"}, {"t"}),
                  onnx_node("Identity", {"t"}, {"seen"})},
                 {"goes", "t", "seen"}),
      {"turn", "go", "s"});
  model.node("Loop", {"n", "", "x"}, std::vector<std::string>{"last", "all"}, {A::of_graph("body", body)}, "again");
  model.output("last").output("all");
  const Graph graph = loaded(model);
  const Tensor<float> x = counted({2, 2}, -1.0f);
  const std::vector<Tensor<double>> outputs = evaluate_as<double>(graph, Inputs{{{"x", StoredTensor::from(x)}}});
  Doubles state(x.values.begin(), x.values.end()), all;
  const double w[2][2] = {{0.5, -1.0}, {0.25, 0.75}};
  for (int turn = 0; turn < 3; ++turn) {
    Doubles next(4);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        next[2 * i + j] =
            std::tanh(state[2 * i] * w[0][j] + state[2 * i + 1] * w[1][j] + static_cast<double>(x.values[2 * i + j]));
    state = next;
    all.insert(all.end(), state.begin(), state.end());
  }
  check_near(outputs[outputs.size() - 1].values, all);
  CHECK(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                    [](const Node& node) { return node.name == "again/2/product"; }));
}

TEST_CASE("a Loop ends where its condition, a constant of the turn, says so") {
  OnnxModel model(13);
  model.input("x", {2}).initializer("two", {}, std::vector<std::int64_t>{2});
  const Message body =
      with_inputs(onnx_graph({onnx_node("Less", {"turn", "two"}, {"goes"}), onnx_node("Add", {"s", "s"}, {"twice"})},
                             {"goes", "twice"}),
                  {"turn", "go", "s"});
  model.node("Loop", {"", "", "x"}, "y", {A::of_graph("body", body)}).output("y");
  const Graph graph = loaded(model);
  const Tensor<float> x = counted({2});
  CHECK(evaluate_as<double>(graph, Inputs{{{"x", StoredTensor::from(x)}}}).back().values == Doubles{8, 16});
}

TEST_CASE("a Scan takes its inputs apart and puts its outputs together, in either direction") {
  for (const std::int64_t backward : {0, 1}) {
    OnnxModel model(13);
    model.input("x", {3, 2}).initializer("zero", {2}, std::vector<float>{0, 0});
    const Message body = with_inputs(
        onnx_graph({onnx_node("Add", {"s", "e"}, {"sum"}), onnx_node("Identity", {"sum"}, {"seen"})}, {"sum", "seen"}),
        {"s", "e"});
    model.node("Scan", {"zero", "x"}, std::vector<std::string>{"last", "all"},
               {A::of_graph("body", body), A::of_int("num_scan_inputs", 1),
                A::of_ints("scan_input_directions", {backward}), A::of_ints("scan_output_axes", {1})});
    model.output("all");
    const Graph graph = loaded(model);
    const Doubles found =
        evaluate_as<double>(graph, Inputs{{{"x", StoredTensor::from(counted({3, 2}))}}}).back().values;
    CHECK(found == (backward == 0 ? Doubles{1, 4, 9, 2, 6, 12} : Doubles{5, 8, 9, 6, 10, 12}));
  }
}

TEST_CASE("names inside of a loop's body are its own: of its inputs, of later nodes outside, of other bodies") {
  OnnxModel model(13);
  model.input("x", {2}).initializer("n", {}, std::vector<std::int64_t>{2});
  const Message inner =
      with_inputs(onnx_graph({onnx_node("Identity", {"c"}, {"d"}), onnx_node("Add", {"s", "s"}, {"y"})}, {"d", "y"}),
                  {"i", "c", "s"});
  const Message outer = with_inputs(onnx_graph({onnx_node("Identity", {"c"}, {"d"}),
                                                onnx_node("Loop", {"n", "", "s"}, {"y"}, {A::of_graph("body", inner)})},
                                               {"d", "y"}),
                                    {"i", "c", "s"});
  model.node("Loop", {"n", "", "x"}, "s", {A::of_graph("body", outer)}).node("Neg", {"s"}, "y").output("y");
  const Tensor<float> x = counted({2});
  CHECK(evaluate_as<double>(loaded(model), Inputs{{{"x", StoredTensor::from(x)}}}).back().values == Doubles{-16, -32});
}

TEST_CASE("scales of 16 bits quantise and give numbers of their type") {
  OnnxModel model(19);
  model.input("x", {3}, onnx_float16).initializer("zero", {}, std::vector<std::uint8_t>{3});
  model.initializer(onnx_tensor_header("half", onnx_float16, {}).bytes(9, std::string("\x00\x38", 2)));
  model.node("QuantizeLinear", {"x", "half", "zero"}, "q").node("DequantizeLinear", {"q", "half", "zero"}, "y");
  model.output("y");
  const Graph graph = loaded(model);
  CHECK(graph.value(graph.outputs.at(0)).type == ElementType::f16);
  const Inputs given{{{"x", StoredTensor::from(Tensor<float>({3}, {1.25f, -0.75f, 2.0f}))}}};
  CHECK(evaluate_as<double>(graph, given).back().values == Doubles{1.0, -1.0, 2.0});
}

TEST_CASE("loops whose number of turns is computed, or that hand on other values than they take, are refused") {
  const Message body = with_inputs(
      onnx_graph({onnx_node("Greater", {"s", "s"}, {"goes"}), onnx_node("Identity", {"s"}, {"t"})}, {"goes", "t"}),
      {"turn", "go", "s"});
  OnnxModel computed(13);
  computed.input("x", {}).initializer("n", {}, std::vector<std::int64_t>{3});
  computed.node("Loop", {"n", "", "x"}, "y", {A::of_graph("body", body)}, "again").output("y");
  CHECK(holds(load_error<Unsupported>(computed), "number of turns follows from constants"));
  OnnxModel two(13);
  two.input("x", {}).node("Loop", {"", "", "x", "x"}, "y", {A::of_graph("body", body)}, "again").output("y");
  CHECK(holds(load_error<ParseError>(two), "for 2 values that turns hand on"));
  OnnxModel missing(13);
  missing.input("x", {}).node("Loop", {"", "", "x"}, "y", {}, "again").output("y");
  CHECK(holds(load_error<ParseError>(missing), "its body is missing"));
}

// ---- quantised convolutions -----------------------------------------------------------------------------------------

TEST_CASE("a convolution of quantised numbers pads with their zero point, and scales and rounds its sums") {
  // x - 3 = (-2, -1, 0, 1), w - 1 = (1, 2), padded by one: sums (-4, -4, -1, 2, 1)
  const auto quantised = [](OnnxModel& model) {
    model.input("x", {1, 1, 4});
    model.initializer("one", {}, std::vector<float>{1.0f});
    model.initializer("three", {}, std::vector<std::uint8_t>{3})
        .initializer("w", {1, 1, 2}, std::vector<std::uint8_t>{2, 3});
    model.initializer("w0", {}, std::vector<std::uint8_t>{1});
    model.node("QuantizeLinear", {"x", "one", "three"}, "q");
  };
  const Tensor<float> x({1, 1, 4}, {-2, -1, 0, 1});
  OnnxModel integer(13);
  quantised(integer);
  integer.node("ConvInteger", {"q", "w", "three", "w0"}, "c", {A::of_ints("pads", {1, 1})});
  integer.node("Cast", {"c"}, "y", {A::of_int("to", 1)}).output("y");
  const Inputs given{{{"x", StoredTensor::from(x)}}};
  CHECK(evaluate_as<double>(loaded(integer), given).back().values == Doubles{-4, -4, -1, 2, 1});

  OnnxModel linear(13);
  quantised(linear);
  linear.initializer("half", {}, std::vector<float>{0.5f}).initializer("bias", {1}, std::vector<std::int32_t>{7});
  linear.initializer("ten", {}, std::vector<std::uint8_t>{10});
  linear.node("QLinearConv", {"q", "half", "three", "w", "one", "w0", "one", "ten", "bias"}, "c",
              {A::of_ints("pads", {1, 1})});
  linear.node("DequantizeLinear", {"c", "one", "ten"}, "y").output("y");
  // (sum + 7) / 2, rounded to even: 1.5, 1.5, 3, 4.5, 4
  CHECK(evaluate_as<double>(loaded(linear), given).back().values == Doubles{2, 2, 3, 4, 4});
}

TEST_CASE("LRN in float16 computes in float32, as alpha is no number of its type, and gives float16") {
  OnnxModel model(13);
  model.input("x", {1, 3, 1}, onnx_float16).node("LRN", {"x"}, "y", {A::of_int("size", 3)}).output("y");
  const Graph graph = loaded(model);
  CHECK(graph.value(graph.outputs.at(0)).type == ElementType::f16);
  const Inputs given{{{"x", StoredTensor::from(Tensor<float>({1, 3, 1}, {1.0f, 2.0f, 4.0f}))}}};
  const Doubles found = evaluate_as<double>(graph, given).back().values;
  const auto alpha = static_cast<double>(1e-4f) / 3.0;
  const Doubles squares = {5.0, 21.0, 20.0}, x = {1.0, 2.0, 4.0};
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(found[i] == doctest::Approx(x[i] / std::pow(1.0 + alpha * squares[i], 0.75)).epsilon(1e-9));
}

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "model/graphs.hpp"

using namespace driftbound;
using graphs::declared;
using graphs::message_of;

namespace {

Shape shape_of(const Op& op, const std::vector<Shape>& inputs) {
  const Graph graph = graphs::one_node(op, inputs);
  return infer_shapes(graph, inputs)[graph.outputs[0]];
}

/// The complaint about shapes that do not fit; it must name the node, the op and every input shape.
std::string complaint(const Op& op, const std::vector<Shape>& inputs) {
  const std::string message = message_of<ShapeMismatch>([&] { (void)shape_of(op, inputs); });
  CAPTURE(message);
  CHECK(contains(message, "node 'layer' (" + std::string(name_of(op)) + ")"));
  for (const Shape& input : inputs) CHECK(contains(message, to_string(input)));
  return message;
}

op::Gemm gemm(bool transpose_a, bool transpose_b) {
  return {1.0, 1.0, transpose_a, transpose_b};
}

}  // namespace

TEST_CASE("Gemm multiplies matrices, transposed on demand") {
  CHECK(shape_of(gemm(false, false), {{4, 3}, {3, 5}}) == Shape{4, 5});
  CHECK(shape_of(gemm(true, false), {{3, 4}, {3, 5}}) == Shape{4, 5});
  CHECK(shape_of(gemm(false, true), {{4, 3}, {5, 3}}) == Shape{4, 5});
  CHECK(shape_of(gemm(true, true), {{3, 4}, {5, 3}}) == Shape{4, 5});
  CHECK(shape_of(gemm(false, false), {{0, 3}, {3, 5}}) == Shape{0, 5});
  CHECK(contains(complaint(gemm(false, false), {{4, 3}, {5, 3}}), "inner dimensions"));
  CHECK(contains(complaint(gemm(false, true), {{4, 3}, {3, 5}}), "[3, 5]^T"));
  CHECK(shape_of(gemm(false, false), {{2, 4, 3}, {3, 5}}) == Shape{2, 4, 5});
  CHECK(shape_of(gemm(true, true), {{2, 1, 3, 4}, {6, 5, 3}}) == Shape{2, 6, 4, 5});
  CHECK(contains(complaint(gemm(false, false), {{3}, {3, 5}}), "matrices"));
  CHECK(contains(complaint(gemm(false, false), {{4, 0}, {0, 5}}), "without terms"));
}

TEST_CASE("Gemm's C broadcasts to the product, never the product to C") {
  for (const Shape& c : {Shape{4, 5}, Shape{1, 5}, Shape{4, 1}, Shape{5}, Shape{1}, Shape{}}) {
    CAPTURE(to_string(c));
    CHECK(shape_of(gemm(false, false), {{4, 3}, {3, 5}, c}) == Shape{4, 5});
  }
  for (const Shape& c : {Shape{4}, Shape{5, 5}, Shape{1, 4, 5}, Shape{2, 4, 5}}) {
    CAPTURE(to_string(c));
    CHECK(contains(complaint(gemm(false, false), {{4, 3}, {3, 5}, c}), "does not broadcast"));
  }
  CHECK(contains(complaint(gemm(false, false), {{1, 3}, {3, 5}, {4, 5}}), "does not broadcast"));
}

TEST_CASE("MatMul follows numpy.matmul") {
  CHECK(shape_of(op::MatMul{}, {{4, 3}, {3, 5}}) == Shape{4, 5});
  CHECK(shape_of(op::MatMul{}, {{3}, {3, 5}}) == Shape{5});
  CHECK(shape_of(op::MatMul{}, {{4, 3}, {3}}) == Shape{4});
  CHECK(shape_of(op::MatMul{}, {{3}, {3}}) == Shape{});
  CHECK(shape_of(op::MatMul{}, {{2, 4, 3}, {3, 5}}) == Shape{2, 4, 5});
  CHECK(shape_of(op::MatMul{}, {{4, 3}, {2, 3, 5}}) == Shape{2, 4, 5});
  CHECK(shape_of(op::MatMul{}, {{7, 1, 4, 3}, {2, 3, 5}}) == Shape{7, 2, 4, 5});
  CHECK(shape_of(op::MatMul{}, {{3}, {7, 2, 3, 5}}) == Shape{7, 2, 5});
  CHECK(shape_of(op::MatMul{}, {{7, 2, 4, 3}, {3}}) == Shape{7, 2, 4});
  CHECK(contains(complaint(op::MatMul{}, {{4, 3}, {4, 3}}), "inner dimensions"));
  CHECK(contains(complaint(op::MatMul{}, {{4, 3}, {4}}), "inner dimensions"));
  CHECK(contains(complaint(op::MatMul{}, {{}, {3}}), "scalars"));
  CHECK(contains(complaint(op::MatMul{}, {{2, 4, 3}, {3, 3, 5}}), "broadcast"));
  CHECK(contains(complaint(op::MatMul{}, {{4, 0}, {0, 5}}), "without terms"));
}

TEST_CASE("arithmetic broadcasts both operands") {
  for (const Op& op : {Op(op::Add{}), Op(op::Sub{}), Op(op::Mul{}), Op(op::Div{})}) {
    CHECK(shape_of(op, {{4, 1}, {3}}) == Shape{4, 3});
    CHECK(shape_of(op, {{}, {2, 3}}) == Shape{2, 3});
    CHECK(contains(complaint(op, {{4, 2}, {3}}), "do not broadcast"));
  }
}

TEST_CASE("elementwise functions keep the shape") {
  for (const Op& op : {Op(op::Neg{}), Op(op::Relu{}), Op(op::LeakyRelu{}), Op(op::Elu{}), Op(op::Tanh{}),
                       Op(op::Sigmoid{}), Op(op::Softplus{}), Op(op::Sin{}), Op(op::Cos{}), Op(op::Exp{}),
                       Op(op::Erf{}), Op(op::Sqrt{}), Op(op::Identity{}), Op(op::Cast{})}) {
    CHECK(shape_of(op, {{2, 3, 4}}) == Shape{2, 3, 4});
    CHECK(shape_of(op, {{}}) == Shape{});
  }
}

TEST_CASE("Softmax needs an axis that is there") {
  CHECK(shape_of(op::Softmax{-1, false}, {{2, 3}}) == Shape{2, 3});
  CHECK(shape_of(op::Softmax{0, true}, {{2, 3}}) == Shape{2, 3});
  CHECK(contains(complaint(op::Softmax{2, false}, {{2, 3}}), "no axis 2"));
  CHECK(contains(complaint(op::Softmax{-3, true}, {{2, 3}}), "no axis -3"));
  CHECK(contains(complaint(op::Softmax{0, false}, {{}}), "no axis 0"));
}

TEST_CASE("Concat adds extents on its axis and wants the others equal") {
  CHECK(shape_of(op::Concat{0}, {{2, 3}, {4, 3}}) == Shape{6, 3});
  CHECK(shape_of(op::Concat{-1}, {{2, 3}, {2, 1}, {2, 0}}) == Shape{2, 4});
  CHECK(shape_of(op::Concat{0}, {{5}}) == Shape{5});
  CHECK(contains(complaint(op::Concat{0}, {{2, 3}, {2, 4}}), "more than axis 0"));
  CHECK(contains(complaint(op::Concat{0}, {{2, 3}, {2}}), "more than axis 0"));
  CHECK(contains(complaint(op::Concat{2}, {{2, 3}, {2, 3}}), "no axis 2"));
  CHECK(contains(complaint(op::Concat{0}, {{}, {}}), "no axis 0"));
}

TEST_CASE("Reshape copies zeros and infers one extent") {
  CHECK(shape_of(op::Reshape{{3, 2}, false}, {{2, 3}}) == Shape{3, 2});
  CHECK(shape_of(op::Reshape{{-1}, false}, {{2, 3, 4}}) == Shape{24});
  CHECK(shape_of(op::Reshape{{0, -1}, false}, {{2, 3, 4}}) == Shape{2, 12});
  CHECK(shape_of(op::Reshape{{}, false}, {{1, 1}}) == Shape{});
  CHECK(shape_of(op::Reshape{{0, 7}, true}, {{3, 0}}) == Shape{0, 7});
  CHECK(shape_of(op::Reshape{{0, 0}, false}, {{3, 0}}) == Shape{3, 0});
  CHECK(contains(complaint(op::Reshape{{4, 2}, false}, {{2, 3}}), "cannot reshape"));
  CHECK(contains(complaint(op::Reshape{{4, -1}, false}, {{2, 3}}), "cannot reshape"));
  CHECK(contains(complaint(op::Reshape{{-1, -1}, false}, {{2, 3}}), "cannot reshape"));
  CHECK(contains(complaint(op::Reshape{{-2, 3}, false}, {{2, 3}}), "cannot reshape"));
  CHECK(contains(complaint(op::Reshape{{0, -1}, true}, {{0, 3}}), "cannot reshape"));
  CHECK(contains(complaint(op::Reshape{{2, 3, 0}, false}, {{2, 3}}), "copies axis 2"));
  CHECK_THROWS_AS(shape_of(op::Reshape{{std::int64_t{1} << 40, std::int64_t{1} << 40}, false}, {{2, 3}}),
                  ShapeMismatch);
}

TEST_CASE("Flatten makes a matrix") {
  CHECK(shape_of(op::Flatten{1}, {{2, 3, 4}}) == Shape{2, 12});
  CHECK(shape_of(op::Flatten{0}, {{2, 3, 4}}) == Shape{1, 24});
  CHECK(shape_of(op::Flatten{3}, {{2, 3, 4}}) == Shape{24, 1});
  CHECK(shape_of(op::Flatten{-1}, {{2, 3, 4}}) == Shape{6, 4});
  CHECK(shape_of(op::Flatten{0}, {{}}) == Shape{1, 1});
  CHECK(contains(complaint(op::Flatten{4}, {{2, 3, 4}}), "axis 4"));
  CHECK(contains(complaint(op::Flatten{-4}, {{2, 3, 4}}), "axis -4"));
}

TEST_CASE("Squeeze drops extents of 1 only") {
  CHECK(shape_of(op::Squeeze{{0, -2}}, {{1, 3, 1, 4}}) == Shape{3, 4});
  CHECK(shape_of(op::Squeeze{{}}, {{1, 3, 1}}) == Shape{3});
  CHECK(contains(complaint(op::Squeeze{{1}}, {{1, 3}}), "axis 1"));
  CHECK(contains(complaint(op::Squeeze{{2}}, {{1, 3}}), "no axis 2"));
  CHECK(contains(complaint(op::Squeeze{{0, -2}}, {{1, 3}}), "twice"));
}

TEST_CASE("Unsqueeze counts its axes in the output") {
  CHECK(shape_of(op::Unsqueeze{{0, 3}}, {{2, 3}}) == Shape{1, 2, 3, 1});
  CHECK(shape_of(op::Unsqueeze{{-1}}, {{2, 3}}) == Shape{2, 3, 1});
  CHECK(shape_of(op::Unsqueeze{{-4, 1}}, {{2, 3}}) == Shape{1, 1, 2, 3});
  CHECK(shape_of(op::Unsqueeze{{0}}, {{}}) == Shape{1});
  CHECK(contains(complaint(op::Unsqueeze{{3}}, {{2, 3}}), "no axis 3"));
  CHECK(contains(complaint(op::Unsqueeze{{1, -3}}, {{2, 3}}), "twice"));
}

TEST_CASE("Transpose permutes, by default to the reversed order") {
  CHECK(shape_of(op::Transpose{{}}, {{2, 3, 4}}) == Shape{4, 3, 2});
  CHECK(shape_of(op::Transpose{{1, 2, 0}}, {{2, 3, 4}}) == Shape{3, 4, 2});
  CHECK(contains(complaint(op::Transpose{{0, 0, 1}}, {{2, 3, 4}}), "no permutation"));
  CHECK(contains(complaint(op::Transpose{{0, 1}}, {{2, 3, 4}}), "no permutation"));
  CHECK(contains(complaint(op::Transpose{{0, 1, 3}}, {{2, 3, 4}}), "no axis 3"));
}

TEST_CASE("reductions drop or keep their axes") {
  for (const bool keep : {false, true}) {
    for (const Op& op :
         {Op(op::ReduceSum{{1, -1}, keep}), Op(op::ReduceMax{{1, -1}, keep}), Op(op::ReduceMin{{1, -1}, keep}),
          Op(op::ReduceMean{{1, -1}, keep}), Op(op::ReduceL2{{1, -1}, keep}), Op(op::ReduceLogSumExp{{1, -1}, keep})}) {
      CAPTURE(name_of(op));
      CHECK(shape_of(op, {{2, 3, 4}}) == (keep ? Shape{2, 1, 1} : Shape{2}));
    }
  }
  CHECK(shape_of(op::ReduceSum{{}, false}, {{2, 3}}) == Shape{});
  CHECK(contains(complaint(op::ReduceSum{{2}, true}, {{2, 3}}), "no axis 2"));
  CHECK_THROWS_AS(shape_of(op::ReduceMax{{0, -2}, true}, {{2, 3}}), ShapeMismatch);
}

TEST_CASE("Slice clamps its bounds and counts negative ones from the end") {
  const auto extent = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    return shape_of(op::Slice{{start}, {end}, {1}, {step}}, {{2, 10}})[1];
  };
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  CHECK(extent(1, 4, 1) == 3);
  CHECK(extent(-3, most, 1) == 3);
  CHECK(extent(-1, least, -1) == 10);
  CHECK(extent(most, least, -3) == 4);
  CHECK(extent(0, 10, 4) == 3);
  CHECK(extent(4, 4, 1) == 0);
  CHECK(extent(7, 2, 1) == 0);
  CHECK(extent(0, 10, most) == 1);
  CHECK(extent(9, least, least) == 1);
  CHECK(shape_of(op::Slice{{1, 0}, {2, 1}, {}, {}}, {{4, 5, 6}}) == Shape{1, 1, 6});
  CHECK(contains(complaint(op::Slice{{0}, {1}, {0}, {0}}, {{4}}), "step of 0"));
  CHECK(contains(complaint(op::Slice{{0, 0}, {1, 1}, {0, -1}, {}}, {{4}}), "sliced twice"));
  CHECK(contains(complaint(op::Slice{{0, 0}, {1}, {}, {}}, {{4, 4}}), "differ in length"));
  CHECK(contains(complaint(op::Slice{{0}, {1}, {3}, {}}, {{4}}), "no axis 3"));
}

TEST_CASE("Gather, Expand, Tile and Where put their extents in place") {
  CHECK(shape_of(op::Gather{1, {2, 2}, {0, 1, -1, 2}}, {{4, 3, 5}}) == Shape{4, 2, 2, 5});
  CHECK(shape_of(op::Gather{-1, {}, {0}}, {{4, 3}}) == Shape{4});
  CHECK(contains(complaint(op::Gather{0, {1}, {4}}, {{4, 3}}), "index 4 is outside"));
  CHECK(contains(complaint(op::Gather{0, {1}, {-5}}, {{4, 3}}), "index -5 is outside"));
  CHECK(contains(complaint(op::Gather{0, {2}, {1}}, {{4, 3}}), "fill their shape"));
  CHECK(shape_of(op::Expand{{2, 1, 4}}, {{3, 1}}) == Shape{2, 3, 4});
  CHECK(shape_of(op::Expand{{1}}, {{3, 4}}) == Shape{3, 4});
  CHECK_THROWS_AS(shape_of(op::Expand{{3}}, {{2}}), ShapeMismatch);
  CHECK(shape_of(op::Tile{{2, 0}}, {{3, 4}}) == Shape{6, 0});
  CHECK(contains(complaint(op::Tile{{2}}, {{3, 4}}), "1 repeats"));
  CHECK_THROWS_AS(shape_of(op::Tile{{-1}}, {{3}}), ShapeMismatch);
  CHECK(shape_of(op::Where{{2, 1}, {true, false}}, {{3}, {1, 1, 1}}) == Shape{1, 2, 3});
  CHECK(contains(complaint(op::Where{{2}, {true}}, {{2}, {2}}), "fill its shape"));
  CHECK(shape_of(op::Choice{}, {{2, 1}, {3}, {1, 1, 1}}) == Shape{1, 2, 3});
  CHECK(contains(complaint(op::Choice{}, {{2}, {3}, {1}}), "[2]"));
}

TEST_CASE("a maximum over a window that lies entirely in the padding is refused, a mean is not") {
  using AutoPad = op::WindowGeometry::AutoPad;
  const auto pooled = [](std::int64_t kernel, std::int64_t dilation, std::int64_t before, std::int64_t after) {
    return op::WindowGeometry{{kernel}, {1}, {dilation}, {before}, {after}, AutoPad::none, false};
  };
  for (const op::WindowGeometry& geometry : {pooled(2, 1, 2, 0), pooled(2, 1, 0, 2), pooled(2, 3, 2, 2)}) {
    const std::string why = complaint(op::MaxPool{geometry}, {{1, 1, 2}});
    CHECK(contains(why, "(MaxPool)"));
    CHECK(contains(why, "lies entirely in the padding of an extent of 2"));
    CHECK(contains(why, "its inputs are [1, 1, 2]"));
    CHECK(shape_of(op::AveragePool{geometry, true}, {{1, 1, 2}}).size() == 3);
  }
  CHECK(shape_of(op::MaxPool{pooled(2, 1, 1, 1)}, {{1, 1, 2}}) == Shape{1, 1, 3});
  CHECK(shape_of(op::MaxPool{pooled(2, 2, 2, 2)}, {{1, 1, 2}}) == Shape{1, 1, 4});
}

TEST_CASE("Pad adds and cuts, and copies from nothing only zeros") {
  const auto padded = [](std::int64_t before, std::int64_t after) {
    return op::Pad{op::Pad::Mode::constant, {0, before}, {0, after}, 0.0};
  };
  CHECK(shape_of(padded(1, 2), {{2, 3}}) == Shape{2, 6});
  CHECK(shape_of(padded(-1, -2), {{2, 3}}) == Shape{2, 0});
  CHECK(contains(complaint(padded(-2, -2), {{2, 3}}), "do not fit"));
  CHECK(contains(complaint(padded(1, 1), {{3}}), "rank 1"));
  CHECK(shape_of(padded(1, 1), {{2, 0}}) == Shape{2, 2});
  CHECK(contains(complaint(op::Pad{op::Pad::Mode::edge, {1}, {1}, 0.0}, {{0}}), "empty"));
}

TEST_CASE("windows move by their strides and reach as far as their geometry says") {
  using AutoPad = op::WindowGeometry::AutoPad;
  const auto outputs = [](const op::WindowGeometry& geometry, std::int64_t extent) {
    return shape_of(op::MaxPool{geometry}, {{1, 2, extent}}).at(2);
  };
  CHECK(outputs({{3}, {}, {}, {}, {}, AutoPad::none, false}, 8) == 6);
  CHECK(outputs({{3}, {2}, {}, {1}, {1}, AutoPad::none, false}, 8) == 4);
  CHECK(outputs({{3}, {2}, {}, {}, {}, AutoPad::none, false}, 8) == 3);
  CHECK(outputs({{3}, {2}, {}, {}, {}, AutoPad::none, true}, 8) == 4);
  CHECK(outputs({{1}, {3}, {}, {}, {}, AutoPad::none, true}, 6) == 2);  // no window starts behind the input
  CHECK(outputs({{3}, {}, {2}, {}, {}, AutoPad::none, false}, 8) == 4);
  CHECK(outputs({{3}, {2}, {}, {}, {}, AutoPad::same_upper, false}, 7) == 4);
  CHECK(outputs({{3}, {2}, {}, {}, {}, AutoPad::same_lower, false}, 8) == 4);
  CHECK(outputs({{3}, {2}, {}, {9}, {9}, AutoPad::valid, false}, 8) == 3);
  CHECK(shape_of(op::Windows{{{2, 2}, {}, {}, {}, {}, AutoPad::none, false}}, {{3, 4, 5, 6}}) == Shape{3, 4, 4, 20});
  const op::WindowGeometry wide{{9}, {}, {}, {}, {}, AutoPad::none, false};
  CHECK(contains(complaint(op::MaxPool{wide}, {{1, 2, 8}}), "does not fit extent 8"));
  CHECK(contains(complaint(op::MaxPool{wide}, {{1, 2}}), "no axes behind"));
  CHECK(contains(complaint(op::MaxPool{wide}, {{1, 2, 9, 9}}), "2 spatial axes"));
  CHECK(contains(complaint(op::MaxPool{{{2}, {0}, {}, {}, {}, AutoPad::none, false}}, {{1, 2, 8}}), "strides 0"));
}

TEST_CASE("Conv and ConvTranspose want weights for their channels") {
  op::Conv grouped;
  grouped.groups = 2;
  CHECK(shape_of(op::Conv{}, {{2, 3, 8, 8}, {5, 3, 3, 2}, {5}}) == Shape{2, 5, 6, 7});
  CHECK(shape_of(grouped, {{2, 4, 8}, {6, 2, 3}}) == Shape{2, 6, 6});
  CHECK(contains(complaint(op::Conv{}, {{2, 3, 8}, {5, 4, 3}}), "3 channels"));
  CHECK(contains(complaint(grouped, {{2, 4, 8}, {5, 2, 3}}), "2 groups"));
  CHECK(contains(complaint(op::Conv{}, {{2, 3, 8}, {5, 3, 3, 3}}), "weights"));
  CHECK(contains(complaint(op::Conv{}, {{2, 3, 8}, {5, 3, 3}, {1}}), "a bias [1] for the 5 channels of [2, 5, 6]"));
  const op::WindowGeometry of_two{{2}, {}, {}, {}, {}, op::WindowGeometry::AutoPad::none, false};
  CHECK(contains(complaint(op::Conv{of_two}, {{2, 3, 8}, {5, 3, 3}}), "kernel_shape [2] for weights [5, 3, 3]"));
  CHECK(contains(complaint(op::ConvTranspose{of_two, 1, {}, {}}, {{2, 3, 8}, {3, 5, 3}}), "kernel_shape [2]"));
  CHECK(contains(complaint(op::ConvTranspose{}, {{2, 3, 4}, {3, 5, 3}, {1}}), "a bias [1] for the 5 channels"));
  op::ConvTranspose transposed;
  transposed.geometry.strides = {2};
  CHECK(shape_of(transposed, {{2, 3, 4}, {3, 5, 3}}) == Shape{2, 5, 9});
  transposed.output_padding = {1};
  transposed.geometry.pads_before = transposed.geometry.pads_after = {1};
  CHECK(shape_of(transposed, {{2, 3, 4}, {3, 5, 3}}) == Shape{2, 5, 8});
  transposed.output_padding = {};
  transposed.output_shape = {7};
  CHECK(shape_of(transposed, {{2, 3, 4}, {3, 5, 3}}) == Shape{2, 5, 7});
  CHECK(contains(complaint(transposed, {{2, 3, 4}, {4, 5, 3}}), "weights"));
  transposed.geometry.strides = {std::int64_t{1} << 39};
  CHECK(contains(complaint(transposed, {{2, 3, 4}, {3, 5, 3}}), "more than 2^40"));
  transposed.geometry.strides = {INT64_MAX};
  CHECK(contains(complaint(transposed, {{2, 3, 4}, {3, 5, 3}}), "strides"));
  transposed.geometry.strides = {1, 1};
  CHECK(contains(complaint(transposed, {{2, 3, 4}, {3, 5, 3}}), "2 strides for 1 spatial axes"));
}

TEST_CASE("a composite has the shape of its body and complains in its own name") {
  CHECK(shape_of(op::Gelu{}, {{2, 3}}) == Shape{2, 3});
  CHECK(shape_of(op::LayerNormalization{}, {{2, 3}, {3}}) == Shape{2, 3});
  CHECK(shape_of(op::BatchNormalization{}, {{2, 3, 4}, {3}, {3}, {3}, {3}}) == Shape{2, 3, 4});
  CHECK(shape_of(op::GlobalAveragePool{}, {{2, 3, 4, 5}}) == Shape{2, 3, 1, 1});
  CHECK(shape_of(op::Attention{}, {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 6}}) == Shape{1, 2, 3, 6});
  CHECK(shape_of(op::Attention{false, 0.0, 0.0, 4, 2, 0, {}, {}}, {{1, 3, 8}, {1, 5, 4}, {1, 5, 4}}) == Shape{1, 3, 8});
  CHECK(shape_of(op::Einsum{"bij,bjk->bik"}, {{2, 3, 4}, {2, 4, 5}}) == Shape{2, 3, 5});
  CHECK(shape_of(op::Einsum{"ij,jk"}, {{3, 4}, {4, 5}}) == Shape{3, 5});
  CHECK(contains(complaint(op::GroupNormalization{3}, {{2, 4, 3}, {4}, {4}}), "3 groups"));
  const std::string numbers = "numbers [1] for the";
  CHECK(contains(complaint(op::BatchNormalization{}, {{2, 3, 4}, {3}, {3}, {3}, {1}}), numbers + " 3 channels"));
  CHECK(contains(complaint(op::InstanceNormalization{}, {{2, 3, 4}, {3}, {1}}), numbers + " 3 channels"));
  CHECK(contains(complaint(op::GroupNormalization{2}, {{2, 4, 3}, {1}, {4}}), numbers + " 4 channels"));
  CHECK(contains(complaint(op::LayerNormalization{2}, {{2, 3}, {3}}), "no axis 2"));
  CHECK(contains(complaint(op::Attention{false, 0.0, 0.0, 3, 3, 0, {}, {}}, {{1, 3, 8}, {1, 3, 8}, {1, 3, 8}}),
                 "3 heads"));
  CHECK(contains(complaint(op::RotaryEmbedding{}, {{1, 2, 3, 5}, {1, 3, 2}, {1, 3, 2}}), "pairs"));
  CHECK(contains(complaint(op::Einsum{"ij,jk->ik"}, {{3, 4}, {5, 6}}), "index 'j' has extents 4 and 5"));
  CHECK(contains(complaint(op::Einsum{"ii->i"}, {{3, 3}}), "each once an operand"));
  CHECK(contains(complaint(op::Einsum{"ij->k"}, {{3, 4}}), "no operand has"));
}

TEST_CASE("shapes travel through a graph") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 4}));
  const ValueId w = graph.add_constant("w", graphs::ones({3, 4}));
  const ValueId y = graph.add_node("fc", gemm(false, true), {x, w});
  const ValueId z = graph.add_node("wide", op::Unsqueeze{{1}}, {y});
  graph.outputs = {z};
  CHECK(infer_shapes(graph, {{7, 4}}) == std::vector<Shape>{{7, 4}, {3, 4}, {7, 3}, {7, 1, 3}});
}

TEST_CASE("input shapes must be those declared") {
  Graph graph;
  graph.add_input("x", ElementType::f32, declared({-1, 4}));
  CHECK_THROWS_AS(infer_shapes(graph, {}), ShapeMismatch);
  CHECK_THROWS_AS(infer_shapes(graph, {{7, 4, 1}}), ShapeMismatch);
  CHECK_THROWS_AS(infer_shapes(graph, {{-7, 4}}), ShapeMismatch);
  const std::string message = message_of<ShapeMismatch>([&] { (void)infer_shapes(graph, {{7, 5}}); });
  CHECK(contains(message, "'x'"));
  CHECK(contains(message, "[7, 5]"));
}

TEST_CASE("values of absurd size are refused before anything is allocated") {
  const std::int64_t big = std::int64_t{1} << 21;
  CHECK(contains(complaint(op::Add{}, {{big, 1}, {1, big}}), "2^40"));
  CHECK(contains(complaint(op::MatMul{}, {{big, 1, 1, 1}, {big, 1, 1}}), "2^40"));
  CHECK(contains(complaint(gemm(false, false), {{big, 1}, {1, big}}), "2^40"));
  CHECK_THROWS_AS(shape_of(op::MatMul{}, {{big, 1, big, 1}, {big, 1, big}}), ShapeMismatch);
}

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "driftbound/model/inputs.hpp"
#include "model/graphs.hpp"
#include "model/naive.hpp"
#include "model/rows.hpp"

using namespace driftbound;
using graphs::declared;
using graphs::message_of;
using graphs::ones;
using naive::pick;
using rows::naive_run;

namespace {

/// The op on an open input [N, tail...] and constants of the shapes given.
Graph op_on_rows(const Op& op, const Shape& tail, const std::vector<Shape>& constants = {}, bool input_first = true) {
  Graph graph;
  Shape shape = {-1};
  shape.insert(shape.end(), tail.begin(), tail.end());
  std::vector<ValueId> operands = {graph.add_input("x", ElementType::f32, declared(shape))};
  for (const Shape& constant : constants) operands.push_back(graph.add_constant("c", ones(constant)));
  if (!input_first) std::swap(operands[0], operands[1]);
  graph.outputs = {graph.add_node("layer", op, operands)};
  return graph;
}

bool batched(const Graph& graph) {
  return batch_layout(graph).batched;
}

op::Gemm transposed_gemm(bool a, bool b) {
  return {1.0, 1.0, a, b};
}

/// Two open inputs [N, tail...] into one op.
bool batched_pair(const Op& op, const Shape& first_tail, const Shape& second_tail) {
  Graph graph;
  std::vector<ValueId> operands;
  for (const Shape& tail : {first_tail, second_tail}) {
    Shape shape = {-1};
    shape.insert(shape.end(), tail.begin(), tail.end());
    operands.push_back(graph.add_input("x" + std::to_string(operands.size()), ElementType::f32, declared(shape)));
  }
  graph.outputs = {graph.add_node("layer", op, operands)};
  return batched(graph);
}

/// Whether every row of every value that depends on the input is what that row alone gives.
bool rows_are_independent(const Graph& graph, std::mt19937_64& random, const Shape& tail) {
  const std::int64_t samples = 4;
  Shape shape = {samples};
  shape.insert(shape.end(), tail.begin(), tail.end());
  const Tensor<double> all = naive::integers(random, shape);
  const std::vector<bool> depends = depends_on_input(graph);
  try {
    const std::vector<Tensor<double>> together = naive_run(graph, all);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      shape[0] = 1;
      const std::int64_t row = naive::count(shape);
      const Tensor<double> one(shape, {all.values.begin() + sample * row, all.values.begin() + (sample + 1) * row});
      const std::vector<Tensor<double>> alone = naive_run(graph, one);
      for (std::size_t id = 0; id < alone.size(); ++id) {
        if (!depends[id]) continue;
        const Tensor<double>& rows = together[id];
        if (alone[id].shape.empty() || rows.shape.empty() || rows.shape[0] != samples) return false;
        Shape one_row = rows.shape;
        one_row[0] = 1;
        if (alone[id].shape != one_row) return false;
        const auto first = rows.values.begin() + sample * static_cast<std::int64_t>(alone[id].size());
        if (!std::equal(alone[id].values.begin(), alone[id].values.end(), first)) return false;
      }
    }
    return true;
  } catch (const ShapeMismatch&) {
    return false;
  }
}

Shape extents(const Graph& graph, ValueId id) {
  return infer_shapes(graph, batch_layout(graph).sample_shapes)[id];
}

/// Appends a random op to the last value (unless that is a scalar or empty); it mostly fits for one sample.
void append_random_op(Graph& graph, std::mt19937_64& random, ValueId earlier) {
  const ValueId x = graph.nodes.empty() ? graph.inputs[0] : graph.nodes.back().output;
  const Shape shape = extents(graph, x);
  if (naive::count(shape) == 0 || shape.empty()) return;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto constant = [&](const Shape& s) {
    return graph.add_constant("c" + std::to_string(graph.values.size()),
                              StoredTensor::from(naive::integers(random, s)));
  };
  const auto extent = [&] { return pick(random, 1, 4); };
  const std::string name = "n" + std::to_string(graph.nodes.size());
  switch (pick(random, 0, 17)) {
    case 0:
      graph.add_node(name, op::Gemm{}, {x, constant({shape.back(), extent()})});
      break;
    case 1:
      graph.add_node(name, transposed_gemm(true, false), {x, constant({shape[0], extent()})});
      break;
    case 2:
      graph.add_node(name, transposed_gemm(false, true), {constant({extent(), shape.back()}), x});
      break;
    case 3:
      graph.add_node(name, op::MatMul{}, {x, constant({shape.back(), extent()})});
      break;
    case 4:
      graph.add_node(name, op::MatMul{}, {x, constant({extent(), shape.back(), extent()})});
      break;
    case 5:
      graph.add_node(name, op::MatMul{}, {constant({shape[shape.size() > 1 ? shape.size() - 2 : 0]}), x});
      break;
    case 6:
      graph.add_node(name, op::Add{}, {x, constant({shape.back()})});
      break;
    case 7:
      graph.add_node(name, op::Add{}, {x, earlier});
      break;
    case 8:
      graph.add_node(name, op::Relu{}, {x});
      break;
    case 9:
      graph.add_node(name, op::Concat{pick(random, -rank, rank - 1)}, {x, x});
      break;
    case 10:
      graph.add_node(name, op::Flatten{pick(random, 0, rank)}, {x});
      break;
    case 11:
      graph.add_node(name, op::Unsqueeze{{pick(random, 0, rank)}}, {x});
      break;
    case 12:
      graph.add_node(name, pick(random, 0, 1) == 0 ? op::Squeeze{} : op::Squeeze{{pick(random, 0, rank - 1)}}, {x});
      break;
    case 13: {
      op::Transpose transpose;
      for (std::int64_t axis = 0; axis < rank; ++axis) transpose.permutation.push_back(axis);
      naive::shuffle(random, transpose.permutation, pick(random, 0, 1));
      graph.add_node(name, transpose, {x});
      break;
    }
    case 14: {
      const std::int64_t start = pick(random, -4, 3), end = pick(random, -4, 4),
                         step = pick(random, 0, 1) == 0 ? 1 : -1;
      graph.add_node(name, op::Slice{{start}, {end}, {pick(random, -rank, rank - 1)}, {step}}, {x});
      break;
    }
    case 15: {
      const std::int64_t axis = pick(random, 0, rank - 1), last = shape[static_cast<std::size_t>(axis)] - 1;
      graph.add_node(name, op::Gather{axis, {2}, {pick(random, 0, last), pick(random, 0, last)}}, {x});
      break;
    }
    case 16: {
      op::Pad pad;
      pad.mode = pick(random, 0, 1) == 0 ? op::Pad::Mode::constant : op::Pad::Mode::wrap;
      pad.before.assign(shape.size(), 0);
      pad.after = pad.before;
      const auto axis = static_cast<std::size_t>(pick(random, 0, rank - 1));
      pad.before[axis] = pick(random, -1, 2);
      pad.after[axis] = pick(random, -1, 2);
      graph.add_node(name, pad, {x});
      break;
    }
    case 17: {
      op::Tile tile{std::vector<std::int64_t>(shape.size(), 1)};
      tile.repeats[static_cast<std::size_t>(pick(random, 0, rank - 1))] = pick(random, 1, 2);
      graph.add_node(name, tile, {x});
      break;
    }
    default:
      break;
  }
}

}  // namespace

TEST_CASE("an open axis 0 that every layer keeps apart is the batch") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 3}));
  const ValueId y = graph.add_node("fc1", transposed_gemm(false, true),
                                   {x, graph.add_constant("w", ones({8, 3})), graph.add_constant("b", ones({8}))});
  graph.outputs = {graph.add_node("p", op::Softmax{}, {graph.add_node("relu", op::Relu{}, {y})})};
  const BatchLayout layout = batch_layout(graph);
  CHECK(layout.batched);
  CHECK(layout.sample_shapes == std::vector<Shape>{{1, 3}});
}

TEST_CASE("a missing name makes an extent no less open") {
  Graph graph;
  graph.outputs = {graph.add_node("relu", op::Relu{}, {graph.add_input("x", ElementType::f32, {{-1, ""}, {3, ""}})})};
  CHECK(batched(graph));
}

TEST_CASE("a fixed axis 0 of more than one row is one evaluation") {
  for (const std::int64_t extent : {2, 64}) {
    Graph graph;
    graph.outputs = {
        graph.add_node("relu", op::Relu{}, {graph.add_input("x", ElementType::f32, declared({extent, 3}))})};
    CHECK_FALSE(batched(graph));
    CHECK(batch_layout(graph).sample_shapes == std::vector<Shape>{{extent, 3}});
  }
  Graph scalar;
  scalar.outputs = {scalar.add_node("relu", op::Relu{}, {scalar.add_input("x", ElementType::f32, {})})};
  CHECK_FALSE(batched(scalar));
  CHECK(batch_layout(scalar).sample_shapes == std::vector<Shape>{{}});
}

TEST_CASE("every input must have the batch") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 3}));
  const ValueId scale = graph.add_input("scale", ElementType::f32, declared({3}));
  graph.outputs = {graph.add_node("mul", op::Mul{}, {x, scale})};
  CHECK_FALSE(batched(graph));
  CHECK(batch_layout(graph).sample_shapes == std::vector<Shape>{{1, 3}, {3}});
}

TEST_CASE("an open extent other than axis 0 is refused with the input's name and what to do") {
  Graph graph;
  graph.source = "model.onnx";
  graph.add_input("tokens", ElementType::f32, {{-1, "batch"}, {-1, "length"}});
  const std::string message = message_of<Unsupported>([&] { (void)batch_layout(graph); });
  CHECK(contains(message, "'tokens'"));
  CHECK(contains(message, "model.onnx"));
  CHECK(contains(message, "axis 1 ('length')"));
  CHECK(contains(message, "fixed extent"));
}

TEST_CASE("an input of unknown rank is refused") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {});
  graph.values[x].has_declared_shape = false;
  CHECK(contains(message_of<Unsupported>([&] { (void)batch_layout(graph); }), "'x' declares no shape"));
}

TEST_CASE("Gemm keeps samples apart as rows of A alone") {
  CHECK(batched(op_on_rows(op::Gemm{}, {3}, {{3, 5}})));
  CHECK(batched(op_on_rows(op::Gemm{}, {3}, {{3, 5}, {5}})));
  CHECK(batched(op_on_rows(op::Gemm{}, {3}, {{3, 5}, {1, 5}})));
  CHECK_FALSE(batched(op_on_rows(op::Gemm{}, {3}, {{3, 5}, {3, 5}})));            // a bias for three samples
  CHECK_FALSE(batched(op_on_rows(transposed_gemm(true, false), {3}, {{3, 5}})));  // sums over samples
  CHECK_FALSE(batched(op_on_rows(op::Gemm{}, {5}, {{3, 3}}, false)));
  CHECK_FALSE(batched(op_on_rows(transposed_gemm(false, true), {3}, {{4, 3}}, false)));  // samples become columns
  CHECK_FALSE(batched_pair(transposed_gemm(false, true), {3}, {3}));  // every sample with every other
}

TEST_CASE("MatMul keeps samples apart as rows of A or as a batch axis") {
  CHECK(batched(op_on_rows(op::MatMul{}, {3}, {{3, 5}})));
  CHECK(batched(op_on_rows(op::MatMul{}, {3}, {{3}})));
  CHECK(batched(op_on_rows(op::MatMul{}, {4, 3}, {{3, 5}})));
  CHECK(batched(op_on_rows(op::MatMul{}, {4, 3}, {{1, 3, 5}})));
  CHECK(batched(op_on_rows(op::MatMul{}, {3, 5}, {{4, 3}}, false)));
  CHECK(batched(op_on_rows(op::MatMul{}, {3, 5}, {{3}}, false)));
  CHECK(batched_pair(op::MatMul{}, {4, 3}, {3, 5}));
  CHECK_FALSE(batched(op_on_rows(op::MatMul{}, {3}, {{2, 3, 5}})));     // samples on axis 1
  CHECK_FALSE(batched(op_on_rows(op::MatMul{}, {4, 3}, {{3, 3, 5}})));  // a weight for each of three samples
  CHECK_FALSE(batched(op_on_rows(op::MatMul{}, {5}, {{4, 3}}, false)));
  CHECK_FALSE(batched(op_on_rows(op::MatMul{}, {}, {{3, 5}})));  // samples are the inner dimension
  CHECK_FALSE(batched_pair(op::MatMul{}, {4, 3}, {5}));
  CHECK_FALSE(batched_pair(op::MatMul{}, {2, 4, 3}, {3, 5}));  // samples meet on different axes
}

TEST_CASE("arithmetic keeps samples apart where they lie on the same axis") {
  CHECK(batched(op_on_rows(op::Add{}, {3}, {{3}})));
  CHECK(batched(op_on_rows(op::Add{}, {3}, {{}})));
  CHECK(batched(op_on_rows(op::Sub{}, {3}, {{1, 3}}, false)));
  CHECK(batched_pair(op::Mul{}, {3}, {1}));
  CHECK(batched_pair(op::Mul{}, {3}, {3}));
  CHECK_FALSE(batched(op_on_rows(op::Add{}, {3}, {{3, 3}})));     // fits three samples only
  CHECK_FALSE(batched(op_on_rows(op::Add{}, {3}, {{2, 1, 3}})));  // samples on axis 1
  CHECK_FALSE(batched(op_on_rows(op::Add{}, {}, {{2, 1}})));      // [2, 1] + [N]: samples become columns
  CHECK_FALSE(batched_pair(op::Mul{}, {1}, {}));                  // [N, 1] * [N]: every pair of samples
}

TEST_CASE("Softmax, Concat and Transpose must leave axis 0 alone") {
  CHECK(batched(op_on_rows(op::Softmax{-1, false}, {3})));
  CHECK(batched(op_on_rows(op::Softmax{1, true}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Softmax{0, false}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::Softmax{-2, false}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::Softmax{0, true}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::Softmax{-1, false}, {})));
  CHECK(batched_pair(op::Concat{1}, {3}, {4}));
  CHECK(batched_pair(op::Concat{-1}, {3}, {4}));
  CHECK_FALSE(batched_pair(op::Concat{0}, {3}, {3}));
  CHECK_FALSE(batched(op_on_rows(op::Concat{1}, {3}, {{3, 3}})));
  CHECK(batched(op_on_rows(op::Transpose{{0, 2, 1}}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Transpose{{1, 0, 2}}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Transpose{}, {3})));
}

TEST_CASE("reductions and selections must leave axis 0 alone") {
  CHECK(batched(op_on_rows(op::ReduceSum{{1}, false}, {3, 4})));
  CHECK(batched(op_on_rows(op::ReduceMax{{-1}, true}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::ReduceSum{{0}, true}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::ReduceMin{{}, true}, {3})));
  CHECK(batched(op_on_rows(op::Slice{{1}, {3}, {1}, {}}, {4})));
  CHECK_FALSE(batched(op_on_rows(op::Slice{{0}, {1}, {0}, {}}, {4})));
  CHECK_FALSE(batched(op_on_rows(op::Slice{{-1}, {-100}, {0}, {-1}}, {4})));  // samples in reverse
  CHECK(batched(op_on_rows(op::Gather{1, {2}, {0, 2}}, {4})));
  CHECK_FALSE(batched(op_on_rows(op::Gather{0, {1}, {0}}, {4})));
  CHECK(batched(op_on_rows(op::Tile{{1, 2}}, {4})));
  CHECK_FALSE(batched(op_on_rows(op::Tile{{2, 1}}, {4})));
  CHECK(batched(op_on_rows(op::Expand{{1, 5}}, {1})));
  CHECK_FALSE(batched(op_on_rows(op::Expand{{2, 1, 5}}, {5})));
  using Mode = op::Pad::Mode;
  for (const Mode mode : {Mode::constant, Mode::edge, Mode::reflect, Mode::wrap}) {
    CHECK(batched(op_on_rows(op::Pad{mode, {0, 2}, {0, 1}, 0.0}, {4})));
    CHECK_FALSE(batched(op_on_rows(op::Pad{mode, {1, 0}, {0, 0}, 0.0}, {4})));
    CHECK_FALSE(batched(op_on_rows(op::Pad{mode, {1, 0}, {-1, 0}, 0.0}, {4})));  // rows move by one
  }
  CHECK(batched_pair(op::Where{{4}, {true, false, true, false}}, {4}, {4}));
  CHECK_FALSE(batched_pair(op::Where{{3, 1}, {true, false, true}}, {4}, {4}));  // a choice for each of three samples
  CHECK(batched(op_on_rows(op::Choice{}, {4}, {{4}, {}})));
  CHECK_FALSE(batched(op_on_rows(op::Choice{}, {4}, {{3, 1}, {}})));
  CHECK_FALSE(batched(op_on_rows(op::Choice{}, {}, {{2, 1}, {}})));  // samples become columns
}

TEST_CASE("composites keep samples apart where every step of their bodies does") {
  CHECK(batched(op_on_rows(op::Gelu{}, {3})));
  CHECK(batched(op_on_rows(op::LayerNormalization{}, {3}, {{3}, {3}})));
  CHECK(batched(op_on_rows(op::LogSoftmax{}, {3})));
  CHECK(batched(op_on_rows(op::Conv{}, {2, 5, 5}, {{3, 2, 2, 2}, {3}})));
  CHECK(batched(op_on_rows(op::MaxPool{{{2}, {}, {}, {}, {}, op::WindowGeometry::AutoPad::none, false}}, {2, 5})));
  CHECK(batched(op_on_rows(op::GlobalAveragePool{}, {2, 5})));
  CHECK(batched(op_on_rows(op::BatchNormalization{}, {2, 5}, {{2}, {2}, {2}, {2}})));
  CHECK(batched_pair(op::Einsum{"bij,bjk->bik"}, {3, 4}, {4, 5}));
  CHECK(batched_pair(op::MeanOf{}, {3}, {1}));
  CHECK_FALSE(batched(op_on_rows(op::LayerNormalization{0}, {3}, {{3, 3}})));
  CHECK_FALSE(batched(op_on_rows(op::LpNormalization{0, 2}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::ReduceMean{{0}, true}, {3})));
  CHECK_FALSE(batched(op_on_rows(op::Einsum{"bi,ij->jb"}, {3}, {{3, 4}})));
  CHECK_FALSE(batched_pair(op::Einsum{"bi,ci->bc"}, {3}, {3}));
  CHECK_FALSE(batched_pair(op::SumOf{}, {1}, {}));
}

TEST_CASE("Reshape, Flatten, Squeeze and Unsqueeze keep the batch where its extent stays in front") {
  CHECK(batched(op_on_rows(op::Reshape{{-1, 12}, false}, {3, 4})));
  CHECK(batched(op_on_rows(op::Reshape{{0, -1}, false}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Reshape{{-1, 3}, false}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Reshape{{1, -1}, false}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Reshape{{3, -1}, false}, {3, 4})));
  CHECK(batched(op_on_rows(op::Flatten{1}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Flatten{0}, {3, 4})));
  CHECK_FALSE(batched(op_on_rows(op::Flatten{2}, {3, 4})));
  CHECK(batched(op_on_rows(op::Flatten{2}, {1, 4})));
  CHECK(batched(op_on_rows(op::Squeeze{{1}}, {1, 4})));
  CHECK(batched(op_on_rows(op::Squeeze{{-1}}, {4, 1})));
  CHECK_FALSE(batched(op_on_rows(op::Squeeze{}, {1, 4})));  // of one sample it drops the batch axis, too
  CHECK_FALSE(batched(op_on_rows(op::Squeeze{{0}}, {4})));
  CHECK(batched(op_on_rows(op::Unsqueeze{{1}}, {4})));
  CHECK_FALSE(batched(op_on_rows(op::Unsqueeze{{0}}, {4})));
}

TEST_CASE("outputs that no sample reaches have no batch") {
  Graph graph = op_on_rows(op::Relu{}, {3});
  graph.outputs.push_back(graph.add_constant("version", ones({1})));
  CHECK_FALSE(batched(graph));
}

TEST_CASE("a layer that mixes samples counts even where no output needs it") {
  Graph graph = op_on_rows(op::Relu{}, {3});
  graph.add_node("unused", op::Softmax{0, false}, {graph.inputs[0]});
  CHECK_FALSE(batched(graph));
}

TEST_CASE("random graphs: batched means that every row is what the row alone gives") {
  std::mt19937_64 random(20261121);
  int apart = 0;
  int mixed = 0;
  int missed = 0;
  for (int trial = 0; trial < 3000 * graphs::multiplier(); ++trial) {
    Graph graph;
    Shape tail(static_cast<std::size_t>(pick(random, 1, 2)));
    for (std::int64_t& extent : tail) extent = pick(random, 1, 4);
    Shape shape = {pick(random, 0, 1) == 0 ? -1 : 1};  // open, or declared for one sample
    shape.insert(shape.end(), tail.begin(), tail.end());
    const ValueId x = graph.add_input("x", ElementType::f64, declared(shape));
    try {
      const std::int64_t length = pick(random, 1, 5);
      for (std::int64_t i = 0; i < length; ++i) append_random_op(graph, random, x);
      graph.outputs = {graph.nodes.back().output};
      (void)extents(graph, graph.outputs[0]);
    } catch (const ShapeMismatch&) {
      continue;
    }
    const bool independent = rows_are_independent(graph, random, tail);
    if (batched(graph)) {
      REQUIRE(independent);
      ++apart;
    } else {
      ++(independent ? missed : mixed);
    }
  }
  MESSAGE(apart << " batched, " << mixed << " mixed, " << missed << " not seen to be apart");
  CHECK(apart > 200);
  CHECK(mixed > 200);
  CHECK(missed <= apart / 100);
}

namespace {

/// Tokens and channels change places with the samples, as in PyTorch's attention.
Graph heads_before_samples(std::int64_t softmax_axis) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, declared({-1, 2, 6}));
  const ValueId split = graph.add_node("split", op::Reshape{{-1, 2, 3, 2}, false}, {x});
  const ValueId moved = graph.add_node("moved", op::Transpose{{2, 0, 1, 3}}, {split});
  const ValueId q = graph.add_node("q", op::Gather{0, {}, {0}}, {moved});
  const ValueId k = graph.add_node("k", op::Gather{0, {}, {1}}, {moved});
  const ValueId turned = graph.add_node("turned", op::Transpose{{0, 2, 1}}, {k});
  const ValueId scores = graph.add_node("scores", op::MatMul{}, {q, turned});
  const ValueId weights = graph.add_node("weights", op::Softmax{softmax_axis, false}, {scores});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {weights, q})};
  return graph;
}

}  // namespace

TEST_CASE(
    "an open axis 0 whose rows stay apart in other axes is evaluated row by row, and one that does not names the "
    "node") {
  const Graph apart = heads_before_samples(-1);
  CHECK_FALSE(batched(apart));
  CHECK_FALSE(node_that_mixes_samples(apart, 4).has_value());
  CHECK(batch_layout(apart).sample_shapes[0] == Shape{1, 2, 6});
  const Graph mixed = heads_before_samples(0);
  REQUIRE(node_that_mixes_samples(mixed, 4).has_value());
  CHECK(mixed.nodes[*node_that_mixes_samples(mixed, 4)].name == "weights");
}

TEST_CASE("random graphs: where no node mixes rows, every row stays what it is alone, in one axis or another") {
  std::mt19937_64 random(20261122);
  int moved = 0, named = 0;
  for (int trial = 0; trial < 3000 * graphs::multiplier(); ++trial) {
    Graph graph;
    const Shape shape = {-1, pick(random, 1, 3), pick(random, 1, 4)};
    const ValueId x = graph.add_input("x", ElementType::f64, declared(shape));
    try {
      ValueId last = x;
      for (std::int64_t i = pick(random, 0, 1); i < 2; ++i) {
        std::vector<std::int64_t> order(extents(graph, last).size());
        std::iota(order.begin(), order.end(), 0);
        naive::shuffle(random, order, 0);
        graph.add_node("t" + std::to_string(graph.nodes.size()), op::Transpose{order}, {last});
        append_random_op(graph, random, x);
        last = graph.nodes.back().output;
      }
      graph.outputs = {last};
      for (const std::int64_t samples : {1, 3, 4, 5}) (void)infer_shapes(graph, {{samples, shape[1], shape[2]}});
      if (batched(graph)) continue;
    } catch (const ShapeMismatch&) {
      continue;
    }
    if (node_that_mixes_samples(graph, 4)) {
      ++named;
      continue;
    }
    ++moved;
    REQUIRE(rows::stay_apart(graph, random, shape, 4));
  }
  MESSAGE(moved << " with rows in other axes, " << named << " that name a node");
  CHECK(moved > 100);
  CHECK(named > 100);
}

namespace {

/// Appends arithmetic with a constant of few elements, which may be as many as there are rows, or a random op.
void append_op_that_may_meet_rows(Graph& graph, std::mt19937_64& random) {
  const ValueId last = graph.nodes.empty() ? graph.inputs[0] : graph.nodes.back().output;
  if (pick(random, 0, 1) == 0) return append_random_op(graph, random, graph.inputs[0]);
  Shape shape(static_cast<std::size_t>(pick(random, 1, 3)), 1);
  shape[0] = pick(random, 2, 5);
  const ValueId constant =
      graph.add_constant("c" + std::to_string(graph.values.size()), StoredTensor::from(naive::integers(random, shape)));
  graph.add_node("n" + std::to_string(graph.nodes.size()), op::Add{}, {last, constant});
}

bool accepts_rows(const Graph& graph, const Shape& shape) {
  try {
    (void)sample_count(graph, batch_layout(graph), {{{"x", StoredTensor::from(Tensor<double>(shape))}}});
    return true;
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace

TEST_CASE("random graphs: rows that are accepted compute together what each computes alone") {
  std::mt19937_64 random(20261127);
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 3000 * graphs::multiplier(); ++trial) {
    Graph graph;
    Shape shape = {-1, pick(random, 1, 3), pick(random, 1, 4)};
    graph.add_input("x", ElementType::f64, declared(shape));
    try {
      for (std::int64_t i = pick(random, 1, 4); i > 0; --i) append_op_that_may_meet_rows(graph, random);
      if (graph.nodes.empty()) continue;
      graph.outputs = {graph.nodes.back().output};
      shape[0] = 1;
      (void)infer_shapes(graph, {shape});
    } catch (const ShapeMismatch&) {
      continue;
    }
    REQUIRE(accepts_rows(graph, shape));
    for (shape[0] = 2; shape[0] <= 5; ++shape[0]) {
      try {
        (void)infer_shapes(graph, {shape});
      } catch (const ShapeMismatch&) {
        continue;
      }
      if (accepts_rows(graph, shape)) {
        REQUIRE(rows::stay_apart(graph, random, shape, shape[0]));
        ++accepted;
      } else {
        ++refused;
      }
    }
  }
  MESSAGE(accepted << " runs accepted, " << refused << " refused");
  CHECK(accepted > 200);
  CHECK(refused > 200);
}

TEST_CASE("samples of a batched model are rows") {
  const Graph graph = op_on_rows(op::Relu{}, {2});
  const BatchLayout layout = batch_layout(graph);
  const Inputs inputs{{{"x", StoredTensor::from(Tensor<float>({3, 2}, {0, 1, 2, 3, 4, 5}))}}};
  CHECK(sample_count(graph, layout, inputs) == 3);
  const Inputs part = slice(graph, layout, inputs, 1, 2);
  CHECK(part.at("x").shape() == Shape{2, 2});
  CHECK(part.at("x").to_double().values == std::vector<double>{2, 3, 4, 5});
  CHECK_THROWS_AS(slice(graph, layout, inputs, 2, 2), InvalidArgument);
  CHECK_THROWS_AS(slice(graph, layout, inputs, -1, 1), InvalidArgument);
  CHECK_THROWS_AS(slice(graph, layout, inputs, 0, 0), InvalidArgument);
  for (const Shape& wrong : {Shape{2}, Shape{3, 3}, Shape{3, 2, 2}, Shape{}, Shape{0, 2}}) {
    CAPTURE(to_string(wrong));
    CHECK_THROWS_AS(sample_count(graph, layout, Inputs{{{"x", ones(wrong)}}}), ShapeMismatch);
  }
  const std::string message = message_of<ShapeMismatch>([&] {
    (void)sample_count(graph, layout, Inputs{{{"x", ones({3, 3})}}});
  });
  CHECK(contains(message, "[3, 3]"));
  CHECK(contains(message, "[N, 2]"));
}

TEST_CASE("samples of a model that takes one may lie on a leading axis") {
  const auto samples_of = [](const Shape& declared_shape, const Shape& data) {
    Graph graph;
    graph.outputs = {
        graph.add_node("relu", op::Relu{}, {graph.add_input("x", ElementType::f32, declared(declared_shape))})};
    const Inputs inputs{{{"x", ones(data)}}};
    const std::int64_t samples = sample_count(graph, batch_layout(graph), inputs);
    const Inputs last = slice(graph, batch_layout(graph), inputs, samples - 1, 1);
    CHECK(last.at("x").shape() == declared_shape);
    return samples;
  };
  CHECK(samples_of({1, 3}, {1, 3}) == 1);
  CHECK(samples_of({1, 3}, {7, 3}) == 7);
  CHECK(samples_of({1, 3}, {7, 1, 3}) == 7);
  CHECK(samples_of({2, 3}, {2, 3}) == 1);
  CHECK(samples_of({2, 3}, {7, 2, 3}) == 7);
  CHECK(samples_of({}, {}) == 1);
  CHECK(samples_of({}, {7}) == 7);
  CHECK(samples_of({3}, {3}) == 1);
  CHECK(samples_of({3}, {7, 3}) == 7);
  CHECK_THROWS_AS(samples_of({2, 3}, {4, 3}), ShapeMismatch);
  CHECK_THROWS_AS(samples_of({1, 3}, {3}), ShapeMismatch);
  CHECK_THROWS_AS(samples_of({2, 3}, {0, 2, 3}), ShapeMismatch);
}

TEST_CASE("slices of one sample hold its bytes") {
  Graph graph;
  graph.outputs = {graph.add_node("relu", op::Relu{}, {graph.add_input("x", ElementType::f32, declared({2}))})};
  Inputs part;
  {
    const Inputs inputs{{{"x", StoredTensor::from(Tensor<float>({3, 2}, {0, 1, 2, 3, 4, 5}))}}};
    part = slice(graph, batch_layout(graph), inputs, 1, 1);
    CHECK_THROWS_AS(slice(graph, batch_layout(graph), inputs, 0, 2), InvalidArgument);
  }
  CHECK(part.at("x").to_double().values == std::vector<double>{2, 3});
}

TEST_CASE("inputs must agree on the number of samples and be there") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 2}));
  const ValueId y = graph.add_input("y", ElementType::f32, declared({-1, 2}));
  graph.outputs = {graph.add_node("add", op::Add{}, {x, y})};
  const BatchLayout layout = batch_layout(graph);
  REQUIRE(layout.batched);
  const std::string message = message_of<ShapeMismatch>([&] {
    (void)sample_count(graph, layout, Inputs{{{"x", ones({3, 2})}, {"y", ones({4, 2})}}});
  });
  CHECK(contains(message, "'x' has 3 samples"));
  CHECK(contains(message, "'y' has 4"));
  const std::string missing = message_of<InvalidArgument>([&] {
    (void)sample_count(graph, layout, Inputs{{{"x", ones({3, 2})}, {"z", ones({3, 2})}}});
  });
  CHECK(contains(missing, "'y'"));
  CHECK(contains(missing, "'x', 'z'"));
}

TEST_CASE("a slice of axis 0 keeps samples apart only where it takes every number of them") {
  const auto is_batched = [](const op::Slice& slice) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
    graph.outputs = {graph.add_node("y", slice, {x})};
    return batch_layout(graph).batched;
  };
  CHECK(is_batched({{0}, {2147483647}, {0}, {}}));
  CHECK(is_batched({{1}, {3}, {1}, {}}));
  CHECK(!is_batched({{0}, {5}, {0}, {}}));
  CHECK(!is_batched({{-5}, {2147483647}, {0}, {}}));
  CHECK(!is_batched({{-1}, {-2147483648LL}, {0}, {-1}}));
}

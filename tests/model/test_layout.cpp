#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <random>

#include "driftbound/model/layout.hpp"
#include "model/graphs.hpp"
#include "model/naive.hpp"

using namespace driftbound;
using naive::pick;

namespace {

Shape random_shape(std::mt19937_64& random, std::size_t rank, std::int64_t largest = 4) {
  Shape shape(rank);
  for (std::int64_t& extent : shape) extent = pick(random, 1, largest);
  return shape;
}

/// A shape that broadcasts to `result`: leading axes missing, others 1 at random.
Shape random_operand(std::mt19937_64& random, const Shape& result) {
  const auto missing = pick(random, 0, static_cast<std::int64_t>(result.size()));
  Shape operand(result.begin() + missing, result.end());
  for (std::int64_t& extent : operand) extent = pick(random, 0, 2) == 0 ? 1 : extent;
  return operand;
}

Shape inferred(const Op& op, const std::vector<Shape>& inputs) {
  const Graph graph = graphs::one_node(op, inputs);
  return infer_shapes(graph, inputs)[graph.outputs[0]];
}

template <class Product>
void check_product(const Product& product, const Tensor<double>& a, const Tensor<double>& b) {
  CAPTURE(to_string(a.shape));
  CAPTURE(to_string(b.shape));
  const ProductPlan plan = plan_product(product, a.shape, b.shape);
  std::vector<double> result;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t j = 0; j < plan.n; ++j) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < plan.k; ++k) {
          sum += a.values.at(plan.a_index(batch, i, k)) * b.values.at(plan.b_index(batch, k, j));
        }
        result.push_back(sum);
      }
    }
  }
  CHECK(result == naive::evaluate(product, {a, b}, inferred(product, {a.shape, b.shape})).values);
}

void check_selection(const Op& op, const std::vector<Tensor<double>>& inputs) {
  std::vector<Shape> shapes;
  std::vector<const Tensor<double>*> pointers;
  for (const Tensor<double>& input : inputs) {
    shapes.push_back(input.shape);
    pointers.push_back(&input);
  }
  CAPTURE(name_of(op));
  CAPTURE(to_string(shapes[0]));
  const Shape output = inferred(op, shapes);
  const Tensor<double> selected = select<double>(op, pointers, output);
  CHECK(selected.shape == output);
  CHECK(selected.values == naive::evaluate(op, inputs, output).values);
}

/// 0, 1, 2 … so that every element tells where it came from.
Tensor<double> numbered(const Shape& shape, double first = 0.0) {
  Tensor<double> tensor(shape);
  std::iota(tensor.values.begin(), tensor.values.end(), first);
  return tensor;
}

}  // namespace

TEST_CASE("BroadcastIndex reads the operand that the result's index names") {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300 * graphs::multiplier(); ++trial) {
    const Shape result = random_shape(random, static_cast<std::size_t>(pick(random, 0, 4)));
    const Shape operand = random_operand(random, result);
    CAPTURE(to_string(result));
    CAPTURE(to_string(operand));
    const BroadcastIndex index(operand, result);
    CHECK(index.is_identity() == (operand == result));
    for (std::int64_t i = 0; i < naive::count(result); ++i) {
      const auto expected = naive::ravel(naive::broadcast_index(naive::unravel(i, result), operand), operand);
      REQUIRE(index(static_cast<std::size_t>(i)) == expected);
    }
  }
}

TEST_CASE("BroadcastIndex refuses operands that do not broadcast to the result") {
  CHECK_THROWS_AS(BroadcastIndex({3}, {4}), ShapeMismatch);
  CHECK_THROWS_AS(BroadcastIndex({2, 3}, {3}), ShapeMismatch);
  CHECK_THROWS_AS(BroadcastIndex({4}, {1}), ShapeMismatch);
  CHECK_NOTHROW(BroadcastIndex({1}, {0, 3}));
}

TEST_CASE("a Gemm plan visits the matrices as the transpositions say") {
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    const std::int64_t m = pick(random, 1, 5);
    const std::int64_t n = pick(random, 1, 5);
    const std::int64_t k = pick(random, 1, 5);
    const op::Gemm gemm = {1.0, 1.0, pick(random, 0, 1) == 1, pick(random, 0, 1) == 1};
    check_product(gemm, naive::integers(random, gemm.transpose_a ? Shape{k, m} : Shape{m, k}),
                  naive::integers(random, gemm.transpose_b ? Shape{n, k} : Shape{k, n}));
  }
}

TEST_CASE("a MatMul plan broadcasts batches and takes vectors") {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300 * graphs::multiplier(); ++trial) {
    const Shape batch = random_shape(random, static_cast<std::size_t>(pick(random, 0, 3)), 3);
    const std::int64_t k = pick(random, 1, 4);
    Shape a = {k};
    Shape b = {k};
    if (pick(random, 0, 4) != 0) {
      a = random_operand(random, batch);
      a.insert(a.end(), {pick(random, 1, 4), k});
    }
    if (pick(random, 0, 4) != 0) {
      b = random_operand(random, batch);
      b.insert(b.end(), {k, pick(random, 1, 4)});
    }
    check_product(op::MatMul{}, naive::integers(random, a), naive::integers(random, b));
  }
}

TEST_CASE("a reduction plan lists every element once, group by group") {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    const Shape shape = random_shape(random, static_cast<std::size_t>(pick(random, 1, 4)));
    const auto rank = static_cast<std::int64_t>(shape.size());
    const op::Softmax softmax = {pick(random, -rank, rank - 1), pick(random, 0, 1) == 1};
    CAPTURE(to_string(shape));
    CAPTURE(softmax.axis);
    CAPTURE(softmax.all_trailing_axes);
    const ReductionPlan plan = plan_reduction(softmax, shape);
    const auto axis = static_cast<std::size_t>(softmax.axis < 0 ? softmax.axis + rank : softmax.axis);
    std::vector<int> visits(static_cast<std::size_t>(naive::count(shape)), 0);
    for (std::int64_t o = 0; o < plan.outer; ++o) {
      for (std::int64_t i = 0; i < plan.inner; ++i) {
        naive::Index group = naive::unravel(static_cast<std::int64_t>(plan.index(o, 0, i)), shape);
        for (std::int64_t j = 0; j < plan.length; ++j) {
          ++visits.at(plan.index(o, j, i));
          naive::Index index = naive::unravel(static_cast<std::int64_t>(plan.index(o, j, i)), shape);
          for (std::size_t a = 0; a < index.size(); ++a) {
            const bool reduced = softmax.all_trailing_axes ? a >= axis : a == axis;
            if (!reduced) REQUIRE(index[a] == group[a]);
          }
        }
      }
    }
    REQUIRE(visits == std::vector<int>(visits.size(), 1));
  }
}

TEST_CASE("selections move every element to its place") {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    const Shape shape = random_shape(random, static_cast<std::size_t>(pick(random, 1, 4)));
    const auto rank = static_cast<std::int64_t>(shape.size());
    std::vector<std::int64_t> permutation(shape.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    naive::shuffle(random, permutation);
    check_selection(op::Transpose{permutation}, {numbered(shape)});
    check_selection(op::Transpose{}, {numbered(shape)});
    check_selection(op::Flatten{pick(random, -rank, rank)}, {numbered(shape)});
    check_selection(op::Reshape{{-1}, false}, {numbered(shape)});
    check_selection(op::Squeeze{}, {numbered(shape)});
    check_selection(op::Unsqueeze{{pick(random, -rank - 1, rank)}}, {numbered(shape)});
    check_selection(op::Identity{}, {numbered(shape)});

    const std::int64_t axis = pick(random, -rank, rank - 1);
    std::vector<Tensor<double>> parts;
    for (int part = 0; part < 3; ++part) {
      Shape extents = shape;
      extents[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = pick(random, 0, 3);
      parts.push_back(numbered(extents, 1000.0 * part));
    }
    check_selection(op::Concat{axis}, parts);
  }
}

TEST_CASE("selections that leave out, repeat, fill and choose read what their definitions name") {
  std::mt19937_64 random(6);
  using Mode = op::Pad::Mode;
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    const Shape shape = random_shape(random, static_cast<std::size_t>(pick(random, 1, 4)));
    const auto rank = static_cast<std::int64_t>(shape.size());
    op::Slice slice;
    std::vector<std::int64_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), -rank);
    naive::shuffle(random, axes);
    for (std::int64_t i = 0; i < pick(random, 0, rank); ++i) {
      slice.starts.push_back(pick(random, -6, 6));
      slice.ends.push_back(pick(random, -6, 6));
      slice.axes.push_back(axes[static_cast<std::size_t>(i)] + rank * pick(random, 0, 1));
      slice.steps.push_back(pick(random, 1, 3) * (pick(random, 0, 1) == 0 ? -1 : 1));
    }
    check_selection(slice, {numbered(shape)});

    op::Gather gather{
        pick(random, -rank, rank - 1), random_shape(random, static_cast<std::size_t>(pick(random, 0, 2))), {}};
    const std::int64_t extent = shape[static_cast<std::size_t>(gather.axis < 0 ? gather.axis + rank : gather.axis)];
    for (std::int64_t i = 0; i < naive::count(gather.indices_shape); ++i) {
      gather.indices.push_back(pick(random, -extent, extent - 1));
    }
    check_selection(gather, {numbered(shape)});

    op::Tile tile;
    op::Pad pad;
    pad.mode = std::array{Mode::constant, Mode::reflect, Mode::edge, Mode::wrap}[static_cast<std::size_t>(trial % 4)];
    pad.value = -0.5;
    for (const std::int64_t length : shape) {
      tile.repeats.push_back(pick(random, 0, 3));
      pad.before.push_back(pick(random, -1, 6));
      pad.after.push_back(pick(random, -length - pad.before.back() > -1 ? 0 : -1, 6));
    }
    check_selection(tile, {numbered(shape)});
    check_selection(pad, {numbered(shape)});

    const Shape operand = random_operand(random, shape);
    check_selection(op::Expand{shape}, {numbered(operand)});
    op::Where where{random_operand(random, shape), {}};
    for (std::int64_t i = 0; i < naive::count(where.condition_shape); ++i) {
      where.condition.push_back(pick(random, 0, 1) == 1);
    }
    check_selection(where, {numbered(operand), numbered(shape, 1000.0)});
  }
}

TEST_CASE("windows hold the elements that a correlation reads, zeros outside") {
  std::mt19937_64 random(7);
  const auto two = [&](std::int64_t least, std::int64_t most) {
    return std::vector<std::int64_t>{pick(random, least, most), pick(random, least, most)};
  };
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    op::Windows windows;
    windows.geometry.kernel = two(1, 3);
    windows.geometry.strides = two(1, 3);
    windows.geometry.dilations = two(1, 2);
    windows.geometry.pads_before = two(0, 3);
    windows.geometry.pads_after = two(0, 3);
    check_selection(windows,
                    {numbered({pick(random, 1, 2), pick(random, 1, 2), pick(random, 5, 8), pick(random, 5, 8)})});
  }
}

TEST_CASE("windows that take the nearest element inside have the maximum of what lies inside") {
  std::mt19937_64 random(8);
  op::Windows windows;
  windows.outside = op::Windows::Outside::nearest;
  windows.geometry.pads_before = windows.geometry.pads_after = {2};
  windows.geometry.dilations = {2};
  windows.geometry.kernel = {3};
  const Tensor<double> x = naive::integers(random, {1, 1, 6});
  const Tensor<double>* const input[] = {&x};
  const Tensor<double> y = select<double>(windows, input, inferred(windows, {x.shape}));
  REQUIRE(y.shape == Shape{1, 1, 3, 6});
  for (std::int64_t window = 0; window < 6; ++window) {
    double expected = -100.0, largest = -100.0;
    for (std::int64_t tap = 0; tap < 3; ++tap) {
      const std::int64_t i = window + 2 * tap - 2;
      if (i >= 0 && i < 6) expected = std::max(expected, x.values[static_cast<std::size_t>(i)]);
      largest = std::max(largest, y.values[static_cast<std::size_t>(tap * 6 + window)]);
    }
    CHECK(largest == expected);
  }
}

TEST_CASE("groups of a reduction hold the elements whose other indices agree, in row-major order") {
  std::mt19937_64 random(9);
  for (int trial = 0; trial < 200 * graphs::multiplier(); ++trial) {
    const Shape shape = random_shape(random, static_cast<std::size_t>(pick(random, 1, 4)));
    std::vector<std::int64_t> axes;
    std::vector<bool> reduced(shape.size(), false);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      reduced[axis] = pick(random, 0, 1) == 1;
      if (reduced[axis]) axes.push_back(static_cast<std::int64_t>(axis) - static_cast<std::int64_t>(shape.size()));
    }
    if (axes.empty()) reduced.assign(shape.size(), true);
    naive::shuffle(random, axes);
    const Shape kept = inferred(op::ReduceSum{axes, true}, {shape});
    const GroupPlan plan = plan_groups(axes, shape);
    REQUIRE(plan.groups.size() == static_cast<std::size_t>(naive::count(kept)));
    std::vector<std::vector<std::size_t>> expected(plan.groups.size());
    for (std::int64_t i = 0; i < naive::count(shape); ++i) {
      naive::Index index = naive::unravel(i, shape);
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (reduced[axis]) index[axis] = 0;
      }
      expected[naive::ravel(index, kept)].push_back(static_cast<std::size_t>(i));
    }
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      std::vector<std::size_t> elements;
      for (const std::size_t element : plan.elements) elements.push_back(plan.groups[g] + element);
      REQUIRE(elements == expected[g]);
    }
  }
}

TEST_CASE("only ops that move elements are selections") {
  CHECK(is_selection(op::Pad{}));
  CHECK(is_selection(op::Windows{}));
  CHECK_FALSE(is_selection(op::Conv{}));
  CHECK(is_selection(op::Concat{}));
  CHECK(is_selection(op::Transpose{}));
  CHECK(is_selection(op::Identity{}));
  CHECK_FALSE(is_selection(op::Cast{}));
  CHECK_FALSE(is_selection(op::Relu{}));
  CHECK_FALSE(is_selection(op::Gemm{}));
  CHECK_FALSE(is_selection(op::Softmax{}));
  CHECK_FALSE(is_selection(op::Add{}));
  CHECK_THROWS_AS(plan_selection(op::Relu{}, {{2}}, {2}), InvalidArgument);
  CHECK_THROWS_AS(plan_selection(op::Transpose{}, {{2, 3}}, {2, 3}), ShapeMismatch);
}

TEST_CASE("values without elements are planned at once, however large their other extents") {
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK(plan_selection(op::Concat{1}, {{huge, 0}, {huge, 0}}, {huge, 0}).empty());
  CHECK(plan_product(op::MatMul{}, {huge, 0, 2}, {2, 3}).batches == 0);
  CHECK(plan_product(op::MatMul{}, {huge, 1, 2}, {2, 0}).batches == 0);
  const ReductionPlan plan = plan_reduction(op::Softmax{0, false}, {3, huge, 0});
  CHECK(plan.outer == 0);
  CHECK(plan.length == 3);
  CHECK(plan_reduction(op::Softmax{1, false}, {huge, 0}).outer == 0);
}

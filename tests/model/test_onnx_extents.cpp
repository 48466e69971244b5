#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/onnx_extents.hpp"

using namespace driftbound;
using namespace driftbound::onnx;

namespace {

const Extent n = Extent::open(0);
const Extent other = Extent::open(1);
const Extent unknown = Extent::unknown();

Extent number(std::int64_t value) {
  return Extent::number(value);
}

std::optional<OpenShape> shape_of(const Op& op, const std::vector<OpenShape>& operands) {
  std::vector<const OpenShape*> pointers;
  for (const OpenShape& operand : operands) pointers.push_back(&operand);
  return output_extents(op, pointers);
}

/// Unknown extents stand for themselves here.
bool same(const std::optional<OpenShape>& shape, const OpenShape& expected) {
  if (!shape || shape->size() != expected.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool are_unknown = !(*shape)[i].is_known() && !expected[i].is_known();
    if (!are_unknown && !certainly_equal((*shape)[i], expected[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("what is not known is equal to nothing, not even to itself") {
  CHECK(certainly_equal(n, n));
  CHECK_FALSE(certainly_equal(n, other));
  CHECK_FALSE(certainly_equal(n, number(1)));
  CHECK_FALSE(certainly_equal(n, Extent::open(0, 2)));
  CHECK_FALSE(certainly_equal(unknown, unknown));
}

TEST_CASE("sums and products of extents are multiples of one open extent, or unknown") {
  CHECK(certainly_equal(plus(n, n), Extent::open(0, 2)));
  CHECK(certainly_equal(plus(n, number(0)), n));
  CHECK_FALSE(plus(n, number(1)).is_known());
  CHECK_FALSE(plus(n, other).is_known());
  CHECK(certainly_equal(times(n, number(6)), Extent::open(0, 6)));
  CHECK(certainly_equal(times(number(0), unknown), number(0)));
  CHECK_FALSE(times(n, n).is_known());
  CHECK_FALSE(times(n, number(-1)).is_known());
  const Extent large = number(std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(plus(large, number(1)), Unsupported);
  CHECK_THROWS_AS(times(large, number(2)), Unsupported);
}

TEST_CASE("an open axis passes through ops that keep or move it") {
  CHECK(same(shape_of(op::Relu{}, {{n, number(3)}}), {n, number(3)}));
  CHECK(same(shape_of(op::Transpose{{1, 0}}, {{n, number(3)}}), {number(3), n}));
  CHECK(same(shape_of(op::Unsqueeze{{0}}, {{n, number(3)}}), {number(1), n, number(3)}));
  CHECK(same(shape_of(op::Squeeze{{1}}, {{n, number(1)}}), {n}));
  CHECK(same(shape_of(op::Concat{1}, {{n, number(3)}, {n, number(4)}}), {n, number(7)}));
  CHECK(same(shape_of(op::Concat{0}, {{n, number(3)}, {n, number(3)}}), {Extent::open(0, 2), number(3)}));
  CHECK(same(shape_of(op::Flatten{1}, {{n, number(3), number(4)}}), {n, number(12)}));
  CHECK(same(shape_of(op::MatMul{}, {{n, number(3), number(4)}, {number(4), number(5)}}), {n, number(3), number(5)}));
}

TEST_CASE("broadcasting an open extent") {
  CHECK(same(shape_of(op::Add{}, {{n, number(3)}, {number(3)}}), {n, number(3)}));
  CHECK(same(shape_of(op::Add{}, {{n}, {number(1)}}), {n}));
  CHECK(same(shape_of(op::Add{}, {{n}, {number(5)}}), {number(5)}));  // the open one is 1 or 5
  CHECK(same(shape_of(op::Add{}, {{n}, {other}}), {unknown}));
  CHECK(same(shape_of(op::Greater{}, {{n, number(3)}, {number(3)}}), {n, number(3)}));
  CHECK(same(shape_of(op::Choice{}, {{number(1), number(3)}, {n, number(1)}, {}}), {n, number(3)}));
}

TEST_CASE("a reshaped open axis is divided exactly or not at all") {
  const OpenShape input = {n, number(3), number(4)};
  CHECK(same(shape_of(op::Reshape{{0, -1}, false}, {input}), {n, number(12)}));
  CHECK(same(shape_of(op::Reshape{{-1, 4}, false}, {input}), {Extent::open(0, 3), number(4)}));
  CHECK(same(shape_of(op::Reshape{{-1, 5}, false}, {input}), {unknown, number(5)}));
  CHECK(same(shape_of(op::Reshape{{0, 3, -1}, false}, {input}), {n, number(3), number(4)}));
  CHECK_FALSE(shape_of(op::Reshape{{-1, -1}, false}, {input}));
  CHECK_FALSE(shape_of(op::Reshape{{-2, 6}, false}, {input}));
}

TEST_CASE("nothing is said where rows mix or where the rank is not known") {
  CHECK_FALSE(shape_of(op::Gemm{1, 1, true, false}, {{n, number(3)}, {n, number(3)}}));
  CHECK_FALSE(shape_of(op::Flatten{0}, {{n, number(3)}}));
  CHECK_FALSE(shape_of(op::MatMul{}, {{number(3), n}, {n, number(3)}}));
  CHECK_FALSE(shape_of(op::Squeeze{}, {{n, number(1)}}));
  CHECK_FALSE(shape_of(op::MatMul{}, {{n, unknown}, {number(4), number(5)}}));
  const OpenShape known = {n};
  CHECK_FALSE(output_extents(op::Add{}, {&known, nullptr}));
}

TEST_CASE("shapes that are numbers must fit") {
  CHECK(same(shape_of(op::MatMul{}, {{number(2), number(3)}, {number(3), number(4)}}), {number(2), number(4)}));
  CHECK_THROWS_AS(shape_of(op::MatMul{}, {{number(2), number(3)}, {number(4), number(4)}}), ShapeMismatch);
}

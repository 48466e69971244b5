#include <doctest/doctest.h>

#include <random>

#include "driftbound/num/errors.hpp"
#include "evaluate/device/views.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::device;

/// Offsets of a view's elements in the order of its indices.
std::vector<std::int64_t> offsets_of(const driftbound_view& view) {
  std::vector<std::int64_t> offsets = {view.offset};
  for (std::int32_t d = 0; d < view.rank; ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < view.extent[d]; ++i) next.push_back(offset + i * view.stride[d]);
    }
    offsets = next;
  }
  return offsets;
}

TEST_CASE("a merged broadcast names the elements that broadcasting names, in fewer dimensions") {
  std::mt19937_64 random(31);
  for (int round = 0; round < 300; ++round) {
    Shape result, a, b;
    for (std::size_t d = random() % 6; d-- > 0;) result.push_back(static_cast<std::int64_t>(1 + random() % 3));
    const auto operand = [&] {
      Shape shape(result.begin() + static_cast<std::ptrdiff_t>(random() % (result.size() + 1)), result.end());
      for (std::int64_t& extent : shape) {
        if (random() % 3 == 0) extent = 1;
      }
      return shape;
    };
    a = operand(), b = operand();
    CAPTURE(to_string(result));
    CAPTURE(to_string(a));
    CAPTURE(to_string(b));
    const auto views = merged_views(result, {broadcast_strides(a, result), broadcast_strides(b, result)});
    const BroadcastIndex in_a(a, result), in_b(b, result);
    const std::vector<std::int64_t> of_a = offsets_of(views[0]), of_b = offsets_of(views[1]);
    REQUIRE(of_a.size() == static_cast<std::size_t>(element_count(result)));
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      CHECK(of_a[i] == static_cast<std::int64_t>(in_a(i)));
      CHECK(of_b[i] == static_cast<std::int64_t>(in_b(i)));
    }
  }
}

TEST_CASE("equal shapes are one dimension, a scalar is one element") {
  const Shape shape = {2, 3, 1, 4};
  const auto views = merged_views(shape, {broadcast_strides(shape, shape), broadcast_strides({}, shape)});
  CHECK(views[0].rank == 1);
  CHECK(views[0].extent[0] == 24);
  CHECK(views[0].stride[0] == 1);
  CHECK(views[1].stride[0] == 0);
  CHECK(merged_views({}, {broadcast_strides({}, {})})[0].rank == 1);
}

TEST_CASE("more dimensions than a device takes are unsupported, unless they merge") {
  Shape many, alternating;
  for (int d = 0; d < DRIFTBOUND_DEVICE_MAX_RANK + 1; ++d) {
    many.push_back(2);
    alternating.push_back(d % 2 == 0 ? 2 : 1);
  }
  CHECK(merged_views(many, {broadcast_strides(many, many)})[0].rank == 1);
  CHECK_THROWS_AS(merged_views(many, {broadcast_strides(alternating, many)}), Unsupported);
}

TEST_CASE("matrices without gaps fit a BLAS by rows and by columns, whatever their extents") {
  for (const std::int64_t rows : {1, 2, 5}) {
    for (const std::int64_t cols : {1, 2, 5}) {
      const MatrixStrides by_rows = matrix_strides(rows, cols, cols, 1),
                          by_columns = matrix_strides(rows, cols, 1, rows);
      for (const MatrixStrides& strides : {by_rows, by_columns}) {
        CHECK(strides.fits_blas);
        CHECK((strides.col == 1 ? strides.row >= cols : strides.row == 1 && strides.col >= rows));
      }
    }
  }
  CHECK(matrix_strides(1, 4, 0, 1).row == 4);  // the stride over one row is free
  CHECK_FALSE(matrix_strides(3, 4, 8, 2).fits_blas);
  CHECK_FALSE(matrix_strides(3, 4, 0, 1).fits_blas);
}

TEST_CASE("batches are stacked where they share B and A goes on without a gap") {
  const op::MatMul matmul;
  const auto parts = [&](const Shape& a, const Shape& b) { return stacked_products(plan_product(matmul, a, b)); };
  CHECK(parts({6, 3, 4}, {4, 5}).size() == 1);
  CHECK(parts({6, 3, 4}, {4, 5})[0].batches == 6);
  CHECK(parts({2, 3, 4}, {2, 4, 5}).size() == 2);
  CHECK(parts({3, 4}, {2, 4, 5}).size() == 2);
  CHECK(parts({3, 2, 1, 4}, {3, 1, 4, 5}).size() == 3);
  CHECK(parts({4}, {4, 5}).size() == 1);
}

}  // namespace

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"

using namespace driftbound;

namespace {

std::uint16_t bits16(double x, ElementType type) {
  const StoredTensor tensor = converted(StoredTensor::from(Tensor<double>({1}, {x})), type, "x");
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.bytes().data(), 2);
  return bits;
}

StoredTensor doubles(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return StoredTensor::from(Tensor<double>({n}, std::move(values)));
}

}  // namespace

TEST_CASE("every float16 and bfloat16 number survives the way to double and back") {
  for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto stored = static_cast<std::uint16_t>(bits);
      std::vector<std::byte> raw(2);
      std::memcpy(raw.data(), &stored, 2);
      const double x = StoredTensor(type, {1}, raw).to_double().values[0];
      if (std::isnan(x)) {
        CHECK(std::isnan(converted(doubles({x}), type, "x").to_double().values[0]));
      } else {
        REQUIRE(bits16(x, type) == stored);
      }
    }
  }
}

TEST_CASE("conversion rounds to nearest, ties to even, and overflows to infinity") {
  CHECK(bits16(1.0 + 0x1p-11, ElementType::f16) == 0x3C00);
  CHECK(bits16(1.0 + 0x3p-11, ElementType::f16) == 0x3C02);
  CHECK(bits16(0x1p-25, ElementType::f16) == 0);
  CHECK(bits16(-0x1p-25, ElementType::f16) == 0x8000);
  CHECK(bits16(std::nextafter(0x1p-25, 1.0), ElementType::f16) == 1);
  CHECK(bits16(65519.99, ElementType::f16) == 0x7BFF);
  CHECK(bits16(65520.0, ElementType::f16) == 0x7C00);
  CHECK(bits16(0x1p-14 - 0x1p-26, ElementType::f16) == 0x0400);
  CHECK(bits16(1.0 + 0x1p-8, ElementType::bf16) == 0x3F80);
  CHECK(bits16(1.0 + 0x3p-8, ElementType::bf16) == 0x3F82);
  const StoredTensor f32 = converted(doubles({0.1, 1e39, -1e-46}), ElementType::f32, "x");
  CHECK(f32.to_double().values ==
        std::vector<double>{static_cast<double>(0.1f), std::numeric_limits<double>::infinity(), -0.0});
}

TEST_CASE("integer targets take exact values in range only") {
  CHECK(converted(doubles({-128, 127}), ElementType::i8, "x").to_int64().values ==
        std::vector<std::int64_t>{-128, 127});
  CHECK(converted(doubles({0, 1}), ElementType::boolean, "x").to_int64().values == std::vector<std::int64_t>{0, 1});
  for (const double x : {128.0, -129.0, 0.5, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(converted(doubles({x}), ElementType::i8, "x"), ShapeMismatch);
  }
  CHECK_THROWS_AS(converted(doubles({-1}), ElementType::u64, "x"), ShapeMismatch);
  CHECK_THROWS_AS(converted(doubles({0x1p63}), ElementType::i64, "x"), ShapeMismatch);
  CHECK_THROWS_AS(converted(doubles({2}), ElementType::boolean, "x"), ShapeMismatch);
}

TEST_CASE("exact conversions are told from those that lose something") {
  CHECK(converts_exactly(doubles({0.5, -0.0, std::nan("")}), ElementType::f16));
  CHECK_FALSE(converts_exactly(doubles({0.1}), ElementType::f32));
  CHECK_FALSE(converts_exactly(doubles({1e300}), ElementType::f32));
  CHECK_FALSE(converts_exactly(doubles({0.5}), ElementType::i32));
  const StoredTensor large = StoredTensor::from(Tensor<std::int64_t>({1}, {(std::int64_t{1} << 24) + 1}));
  CHECK_FALSE(converts_exactly(large, ElementType::f32));
  CHECK(converts_exactly(large, ElementType::f64));
}

TEST_CASE("rows and reshaped tensors share the bytes they came from") {
  StoredTensor rows;
  {
    const StoredTensor whole = doubles({1, 2, 3, 4, 5, 6});
    rows = rows_of(reshaped(whole, {3, 2}), 1, 2);
    CHECK(rows.bytes().data() == whole.bytes().data() + 16);
  }
  CHECK(rows.shape() == Shape{2, 2});
  CHECK(rows.to_double().values == std::vector<double>{3, 4, 5, 6});
  CHECK(rows_of(rows, 2, 0).size() == 0);
  CHECK_THROWS_AS(rows_of(rows, 1, 2), ShapeMismatch);
  CHECK_THROWS_AS(rows_of(rows, -1, 1), ShapeMismatch);
  CHECK_THROWS_AS(rows_of(rows, 1, std::numeric_limits<std::int64_t>::max()), ShapeMismatch);
  CHECK_THROWS_AS(reshaped(rows, {5}), ShapeMismatch);
}

#include <doctest/doctest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "model/graphs.hpp"

using namespace driftbound;
using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;
using graphs::message_of;

namespace {

template <class Stored>
StoredTensor stored(ElementType type, const std::vector<Stored>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(Stored));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return StoredTensor(type, {static_cast<std::int64_t>(values.size())}, std::move(bytes));
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(1 << 16);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

cpp_rational power_of_two(int exponent) {
  const cpp_int power = cpp_int(1) << std::abs(exponent);
  return exponent < 0 ? cpp_rational(1, power) : cpp_rational(power);
}

/// Bits as IEEE 754 defines them, over the rationals; for finite patterns.
cpp_rational rational_value(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const cpp_rational fraction = cpp_rational(bits & ((1 << fraction_bits) - 1)) * power_of_two(-fraction_bits);
  const cpp_rational magnitude =
      exponent == 0 ? fraction * power_of_two(1 - bias) : (1 + fraction) * power_of_two(exponent - bias);
  return (bits & 0x8000) != 0 ? cpp_rational(-magnitude) : magnitude;
}

void check_every_pattern(ElementType type, int exponent_bits, int fraction_bits) {
  const std::vector<std::uint16_t> patterns = all_patterns();
  const Tensor<double> values = stored(type, patterns).to_double();
  const int largest_exponent = (1 << exponent_bits) - 1;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    CAPTURE(patterns[i]);
    const int exponent = (patterns[i] >> fraction_bits) & largest_exponent;
    const int fraction = patterns[i] & ((1 << fraction_bits) - 1);
    const double x = values.values[i];
    REQUIRE(std::isnan(x) == (exponent == largest_exponent && fraction != 0));
    REQUIRE(std::isinf(x) == (exponent == largest_exponent && fraction == 0));
    if (!std::isnan(x)) REQUIRE(std::signbit(x) == ((patterns[i] & 0x8000) != 0));
    if (std::isfinite(x)) REQUIRE(cpp_rational(x) == rational_value(patterns[i], exponent_bits, fraction_bits));
  }
}

}  // namespace

TEST_CASE("element_count multiplies the extents and refuses what does not fit") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({64, 3}) == 192);
  CHECK(element_count({5, 0, 7}) == 0);
  CHECK(element_count({std::int64_t{1} << 31, std::int64_t{1} << 31}) == std::int64_t{1} << 62);
  CHECK_THROWS_AS(element_count({std::int64_t{1} << 31, (std::int64_t{1} << 31) + 1}), ShapeMismatch);
  CHECK_THROWS_AS(element_count({std::numeric_limits<std::int64_t>::max(), 2}), ShapeMismatch);
  CHECK_THROWS_AS(element_count({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), ShapeMismatch);
  CHECK(contains(message_of<ShapeMismatch>([] { (void)element_count({3, -1}); }), "[3, -1]"));
}

TEST_CASE("shapes print as lists") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{7}) == "[7]");
  CHECK(to_string(Shape{64, 3}) == "[64, 3]");
}

TEST_CASE("broadcast matches axes from the last one and stretches extents of 1") {
  CHECK(broadcast({}, {}) == Shape{});
  CHECK(broadcast({}, {4}) == Shape{4});
  CHECK(broadcast({5, 1}, {3}) == Shape{5, 3});
  CHECK(broadcast({2, 1, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(broadcast({1}, {0}) == Shape{0});
  CHECK_THROWS_AS(broadcast({3}, {4}), ShapeMismatch);
  CHECK_THROWS_AS(broadcast({0}, {2}), ShapeMismatch);
  const std::string message = message_of<ShapeMismatch>([] { (void)broadcast({2, 3}, {2, 4}); });
  CHECK(contains(message, "[2, 3]"));
  CHECK(contains(message, "[2, 4]"));
}

TEST_CASE("every float16 and bfloat16 pattern converts to exactly its value") {
  check_every_pattern(ElementType::f16, 5, 10);
  check_every_pattern(ElementType::bf16, 8, 7);
}

TEST_CASE("float16 and bfloat16 landmarks") {
  const auto half = stored<std::uint16_t>(ElementType::f16, {0x3c00, 0x7bff, 0x0001, 0x0400, 0xc000}).to_double();
  CHECK(half.values == std::vector<double>{1.0, 65504.0, 0x1p-24, 0x1p-14, -2.0});
  const auto brain = stored<std::uint16_t>(ElementType::bf16, {0x3f80, 0x7f7f, 0x0001, 0x0080, 0xc000}).to_double();
  CHECK(brain.values == std::vector<double>{1.0, 0x1.fep127, 0x1p-133, 0x1p-126, -2.0});
}

TEST_CASE("float32 and float64 convert exactly, subnormals and infinities included") {
  const std::vector<float> singles = {0.1f, -0.0f, 0x1p-149f, 0x1.fffffep127f, std::numeric_limits<float>::infinity()};
  const Tensor<double> values = stored(ElementType::f32, singles).to_double();
  for (std::size_t i = 0; i < singles.size(); ++i) CHECK(values.values[i] == static_cast<double>(singles[i]));
  CHECK(std::signbit(values.values[1]));
  CHECK(values.values[2] == 0x1p-149);
  const std::vector<double> doubles = {0.1, 0x1p-1074, -0x1.fffffffffffffp1023};
  CHECK(stored(ElementType::f64, doubles).to_double().values == doubles);
}

TEST_CASE("integers convert exactly or not at all") {
  CHECK(stored<std::int8_t>(ElementType::i8, {-128, 127}).to_double().values == std::vector<double>{-128, 127});
  CHECK(stored<std::uint8_t>(ElementType::u8, {255}).to_double().values == std::vector<double>{255});
  CHECK(stored<std::int16_t>(ElementType::i16, {-32768}).to_double().values == std::vector<double>{-32768});
  CHECK(stored<std::uint16_t>(ElementType::u16, {65535}).to_double().values == std::vector<double>{65535});
  CHECK(stored<std::int32_t>(ElementType::i32, {-2147483647 - 1}).to_double().values == std::vector<double>{-0x1p31});
  CHECK(stored<std::uint32_t>(ElementType::u32, {4294967295u}).to_double().values == std::vector<double>{0x1p32 - 1});
  const std::int64_t edge = std::int64_t{1} << 53;
  CHECK(stored<std::int64_t>(ElementType::i64, {edge, -edge}).to_double().values ==
        std::vector<double>{0x1p53, -0x1p53});
  CHECK_THROWS_AS(stored<std::int64_t>(ElementType::i64, {edge + 1}).to_double(), Unsupported);
  CHECK_THROWS_AS(stored<std::int64_t>(ElementType::i64, {-edge - 1}).to_double(), Unsupported);
  CHECK_THROWS_AS(stored<std::int64_t>(ElementType::i64, {std::numeric_limits<std::int64_t>::min()}).to_double(),
                  Unsupported);
  const auto beyond = static_cast<std::uint64_t>(edge) + 1;
  CHECK(contains(message_of<Unsupported>([&] { (void)stored<std::uint64_t>(ElementType::u64, {beyond}).to_double(); }),
                 "9007199254740993"));
}

TEST_CASE("booleans are 0 and 1 whatever byte says true") {
  const StoredTensor flags = stored<std::uint8_t>(ElementType::boolean, {0, 1, 255});
  CHECK(flags.to_double().values == std::vector<double>{0, 1, 1});
  CHECK(flags.to_int64().values == std::vector<std::int64_t>{0, 1, 1});
}

TEST_CASE("to_int64 reads integers of every width and no floats") {
  const std::vector<std::int64_t> edges = {std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::int64_t>::max()};
  CHECK(stored(ElementType::i64, edges).to_int64().values == edges);
  CHECK(stored<std::uint32_t>(ElementType::u32, {4294967295u}).to_int64().values ==
        std::vector<std::int64_t>{4294967295});
  CHECK(stored<std::int8_t>(ElementType::i8, {-1}).to_int64().values == std::vector<std::int64_t>{-1});
  CHECK_THROWS_AS(stored<std::uint64_t>(ElementType::u64, {std::uint64_t{1} << 63}).to_int64(), Unsupported);
  CHECK_THROWS_AS(stored<float>(ElementType::f32, {1.0f}).to_int64(), Unsupported);
  CHECK_THROWS_AS(stored<std::uint16_t>(ElementType::bf16, {0}).to_int64(), Unsupported);
}

TEST_CASE("all_finite sees NaN and infinity in every float type") {
  CHECK(stored<double>(ElementType::f64, {1e308}).all_finite());
  CHECK_FALSE(stored<double>(ElementType::f64, {1.0, std::nan("")}).all_finite());
  CHECK_FALSE(stored<float>(ElementType::f32, {-std::numeric_limits<float>::infinity()}).all_finite());
  CHECK(stored<std::uint16_t>(ElementType::f16, {0x7bff}).all_finite());
  CHECK_FALSE(stored<std::uint16_t>(ElementType::f16, {0x7c00}).all_finite());
  CHECK_FALSE(stored<std::uint16_t>(ElementType::bf16, {0xffc0}).all_finite());
  CHECK(stored<std::uint64_t>(ElementType::u64, {~std::uint64_t{0}}).all_finite());
}

TEST_CASE("a stored tensor holds as many bytes as its shape and type need") {
  CHECK_THROWS_AS(StoredTensor(ElementType::f32, {2}, std::vector<std::byte>(7)), ShapeMismatch);
  CHECK_THROWS_AS(StoredTensor(ElementType::f64, {3}, std::vector<std::byte>(16)), ShapeMismatch);
  const std::string message = message_of<ShapeMismatch>([] {
    StoredTensor(ElementType::f32, {2, 2}, std::vector<std::byte>(8));
  });
  CHECK(contains(message, "[2, 2]"));
  CHECK(contains(message, "float32"));
  CHECK(StoredTensor(ElementType::f32, {0, 3}, std::vector<std::byte>()).size() == 0);
  CHECK(StoredTensor(ElementType::f32, {}, std::vector<std::byte>(4)).size() == 1);
}

TEST_CASE("bytes outlive the tensor they came with and need no alignment") {
  StoredTensor copy;
  {
    const StoredTensor original = StoredTensor::from(Tensor<double>({2}, {1.5, -2.5}));
    copy = original;
  }
  CHECK(copy.to_double().values == std::vector<double>{1.5, -2.5});

  auto buffer = std::make_shared<std::vector<std::byte>>(9);
  const double value = 0.1;
  std::memcpy(buffer->data() + 1, &value, sizeof value);
  const StoredTensor view(ElementType::f64, {1}, std::span<const std::byte>(*buffer).subspan(1), buffer);
  buffer.reset();
  CHECK(view.to_double().values == std::vector<double>{0.1});
}

TEST_CASE("identical compares type, shape and bits") {
  const StoredTensor zero = StoredTensor::from(Tensor<double>({1}, {0.0}));
  CHECK(zero.identical(StoredTensor::from(Tensor<double>({1}, {0.0}))));
  CHECK_FALSE(zero.identical(StoredTensor::from(Tensor<double>({1}, {-0.0}))));
  CHECK_FALSE(zero.identical(StoredTensor::from(Tensor<double>({1, 1}, {0.0}))));
  CHECK_FALSE(zero.identical(StoredTensor::from(Tensor<std::int64_t>({1}, {0}))));
  const double nan = std::nan("");
  CHECK(StoredTensor::from(Tensor<double>({1}, {nan})).identical(StoredTensor::from(Tensor<double>({1}, {nan}))));
}

TEST_CASE("element types know their names and widths") {
  CHECK(name_of(ElementType::f32) == "float32");
  CHECK(name_of(ElementType::bf16) == "bfloat16");
  CHECK(name_of(ElementType::boolean) == "bool");
  CHECK(bytes_per_element(ElementType::f64) == 8);
  CHECK(bytes_per_element(ElementType::f16) == 2);
  CHECK(bytes_per_element(ElementType::boolean) == 1);
  CHECK(is_float(ElementType::bf16));
  CHECK_FALSE(is_float(ElementType::i8));
}

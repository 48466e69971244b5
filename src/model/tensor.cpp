#include "driftbound/model/tensor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

static_assert(std::endian::native == std::endian::little, "stored tensors are little-endian");

constexpr std::int64_t max_element_count = std::int64_t{1} << 62;
constexpr std::int64_t max_exact_integer = std::int64_t{1} << 53;

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Boolean {
  std::uint8_t byte;
};

double to_real(double x) {
  return x;
}
double to_real(float x) {
  return static_cast<double>(x);
}

double to_real(Float16 x) {
  const bool negative = (x.bits & 0x8000u) != 0;
  const int exponent = (x.bits >> 10) & 0x1f;
  const int fraction = x.bits & 0x3ff;
  double magnitude = 0.0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 0x400, exponent - 25);
  }
  return negative ? -magnitude : magnitude;
}

double to_real(BFloat16 x) {
  return to_real(std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16));
}

double to_real(Boolean x) {
  return x.byte != 0 ? 1.0 : 0.0;
}

template <class Integer>
requires std::is_integral_v<Integer>
double to_real(Integer x) {
  if constexpr (sizeof(Integer) == 8) {
    if (std::cmp_greater(x, max_exact_integer) || std::cmp_less(x, -max_exact_integer)) {
      throw Unsupported(fmt::format(
          "integer {} is larger than 2^53 in magnitude and has no exact double; store the tensor as a float type", x));
    }
  }
  return static_cast<double>(x);
}

std::int64_t to_integer(Boolean x) {
  return x.byte != 0 ? 1 : 0;
}

template <class Integer>
requires std::is_integral_v<Integer> std::int64_t to_integer(Integer x) {
  if (std::cmp_greater(x, std::numeric_limits<std::int64_t>::max())) {
    throw Unsupported(fmt::format("integer {} does not fit in 64 bits with a sign", x));
  }
  return static_cast<std::int64_t>(x);
}

/// Calls f with a value of the C++ type that stores elements of `type`.
template <class Function>
auto with_stored_type(ElementType type, Function f) {
  switch (type) {
    case ElementType::f64:
      return f(double{});
    case ElementType::f32:
      return f(float{});
    case ElementType::f16:
      return f(Float16{});
    case ElementType::bf16:
      return f(BFloat16{});
    case ElementType::i64:
      return f(std::int64_t{});
    case ElementType::i32:
      return f(std::int32_t{});
    case ElementType::i16:
      return f(std::int16_t{});
    case ElementType::i8:
      return f(std::int8_t{});
    case ElementType::u64:
      return f(std::uint64_t{});
    case ElementType::u32:
      return f(std::uint32_t{});
    case ElementType::u16:
      return f(std::uint16_t{});
    case ElementType::u8:
      return f(std::uint8_t{});
    case ElementType::boolean:
      return f(Boolean{});
  }
  throw InvalidArgument("not an element type");
}

/// Element i of unaligned storage.
template <class Stored>
Stored load(std::span<const std::byte> bytes, std::size_t i) {
  Stored value;
  std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
  return value;
}

template <class Element>
StoredTensor stored_copy(ElementType type, const Tensor<Element>& tensor) {
  std::vector<std::byte> bytes(tensor.values.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), tensor.values.data(), bytes.size());
  return StoredTensor(type, tensor.shape, std::move(bytes));
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw ShapeMismatch(fmt::format("shape {} has a negative extent", to_string(shape)));
  }
  std::int64_t count = 1;  // with every 0 taken for 1, so that strides do not overflow either
  for (const std::int64_t extent : shape) {
    if (extent > max_element_count / count) {
      throw ShapeMismatch(fmt::format("shape {} has more than 2^62 elements", to_string(shape)));
    }
    count *= std::max<std::int64_t>(extent, 1);
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? count : 0;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  const auto extent = [rank](const Shape& shape, std::size_t axis) {
    const std::size_t missing = rank - shape.size();
    return axis < missing ? std::int64_t{1} : shape[axis - missing];
  };
  Shape result(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t in_a = extent(a, axis);
    const std::int64_t in_b = extent(b, axis);
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      throw ShapeMismatch(fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    }
    result[axis] = in_a == 1 ? in_b : in_a;
  }
  return result;
}

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return "float64";
    case ElementType::f32:
      return "float32";
    case ElementType::f16:
      return "float16";
    case ElementType::bf16:
      return "bfloat16";
    case ElementType::i64:
      return "int64";
    case ElementType::i32:
      return "int32";
    case ElementType::i16:
      return "int16";
    case ElementType::i8:
      return "int8";
    case ElementType::u64:
      return "uint64";
    case ElementType::u32:
      return "uint32";
    case ElementType::u16:
      return "uint16";
    case ElementType::u8:
      return "uint8";
    case ElementType::boolean:
      return "bool";
  }
  throw InvalidArgument("not an element type");
}

std::size_t bytes_per_element(ElementType type) {
  return with_stored_type(type, [](auto stored) { return sizeof stored; });
}

std::optional<FormatId> float_format(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return FormatId::fp64;
    case ElementType::f32:
      return FormatId::fp32;
    case ElementType::f16:
      return FormatId::fp16;
    case ElementType::bf16:
      return FormatId::bf16;
    default:
      return std::nullopt;
  }
}

bool is_float(ElementType type) {
  return type == ElementType::f64 || type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

StoredTensor::StoredTensor(ElementType type, Shape shape, std::vector<std::byte> bytes)
    : StoredTensor([&] {
        auto owned = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
        return StoredTensor(type, std::move(shape), std::span<const std::byte>(*owned), owned);
      }()) {}

StoredTensor::StoredTensor(ElementType type, Shape shape, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner)
    : type_(type), shape_(std::move(shape)), bytes_(bytes), owner_(std::move(owner)) {
  const auto elements = static_cast<std::size_t>(element_count(shape_));
  const std::size_t width = bytes_per_element(type_);
  if (bytes_.size() % width != 0 || bytes_.size() / width != elements) {
    throw ShapeMismatch(fmt::format("{} bytes do not hold shape {} of {} ({} bytes each)", bytes_.size(),
                                    to_string(shape_), name_of(type_), width));
  }
}

StoredTensor StoredTensor::from(const Tensor<double>& values) {
  return stored_copy(ElementType::f64, values);
}
StoredTensor StoredTensor::from(const Tensor<float>& values) {
  return stored_copy(ElementType::f32, values);
}
StoredTensor StoredTensor::from(const Tensor<std::int64_t>& values) {
  return stored_copy(ElementType::i64, values);
}

std::size_t StoredTensor::size() const {
  return bytes_.size() / bytes_per_element(type_);
}

Tensor<double> StoredTensor::to_double() const {
  std::vector<double> values(size());
  with_stored_type(type_, [&](auto stored) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_real(load<decltype(stored)>(bytes_, i));
  });
  return Tensor<double>(shape_, std::move(values));
}

Tensor<std::int64_t> StoredTensor::to_int64() const {
  if (is_float(type_)) throw Unsupported(fmt::format("a tensor of {} where integers are needed", name_of(type_)));
  std::vector<std::int64_t> values(size());
  with_stored_type(type_, [&](auto stored) {
    if constexpr (requires { to_integer(stored); }) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_integer(load<decltype(stored)>(bytes_, i));
    }
  });
  return Tensor<std::int64_t>(shape_, std::move(values));
}

bool StoredTensor::all_finite() const {
  if (!is_float(type_)) return true;
  return with_stored_type(type_, [&](auto stored) {
    for (std::size_t i = 0; i < size(); ++i) {
      if (!std::isfinite(to_real(load<decltype(stored)>(bytes_, i)))) return false;
    }
    return true;
  });
}

bool StoredTensor::identical(const StoredTensor& other) const {
  return type_ == other.type_ && shape_ == other.shape_ &&
         std::equal(bytes_.begin(), bytes_.end(), other.bytes_.begin(), other.bytes_.end());
}

}  // namespace driftbound

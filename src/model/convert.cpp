#include "model/convert.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound {
namespace {

/// Bits of a number of a 16-bit format (all finite elements, infinities, NaN) with `fraction_bits` stored bits.
std::uint16_t encode16(double x, const Format& f) {
  const int fraction_bits = f.precision - 1;
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const unsigned infinity = 0x7FFFu >> fraction_bits << fraction_bits;
  const auto bits = [&](unsigned magnitude) { return static_cast<std::uint16_t>(sign | magnitude); };
  if (std::isnan(x)) return bits(infinity | 1u << (fraction_bits - 1));
  if (std::isinf(x)) return bits(infinity);
  // In units of the smallest subnormal, every binade above the first normal one doubles the unit.
  const int exponent = x == 0.0 ? f.min_exponent : std::max(std::ilogb(x), f.min_exponent);
  const auto significand = static_cast<unsigned>(std::ldexp(std::fabs(x), fraction_bits - exponent));
  return bits((static_cast<unsigned>(exponent - f.min_exponent) << fraction_bits) + significand);
}

template <class Stored>
void put(std::vector<std::byte>& bytes, std::size_t i, Stored value) {
  std::memcpy(bytes.data() + i * sizeof(Stored), &value, sizeof(Stored));
}

template <class Integer>
Integer exact_integer(double x, const std::string& where) {
  // 2^digits is a double and the first integer that does not fit.
  const double beyond = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  const double least = std::is_signed_v<Integer> ? -beyond : 0.0;
  if (!(x >= least && x < beyond && x == std::floor(x))) {
    throw ShapeMismatch(where + ": " + std::to_string(x) + " is not an integer of the type the model declares");
  }
  return static_cast<Integer>(x);
}

void put_as(std::vector<std::byte>& bytes, std::size_t i, double x, ElementType type, const std::string& where) {
  constexpr Rounding nearest = Rounding::nearest_even;
  switch (type) {
    case ElementType::f64:
      return put(bytes, i, x);
    case ElementType::f32:
      return put(bytes, i, static_cast<float>(round_to(x, format(FormatId::fp32), nearest)));
    case ElementType::f16:
      return put(bytes, i, encode16(round_to(x, format(FormatId::fp16), nearest), format(FormatId::fp16)));
    case ElementType::bf16:
      return put(bytes, i, encode16(round_to(x, format(FormatId::bf16), nearest), format(FormatId::bf16)));
    case ElementType::i64:
      return put(bytes, i, exact_integer<std::int64_t>(x, where));
    case ElementType::i32:
      return put(bytes, i, exact_integer<std::int32_t>(x, where));
    case ElementType::i16:
      return put(bytes, i, exact_integer<std::int16_t>(x, where));
    case ElementType::i8:
      return put(bytes, i, exact_integer<std::int8_t>(x, where));
    case ElementType::u64:
      return put(bytes, i, exact_integer<std::uint64_t>(x, where));
    case ElementType::u32:
      return put(bytes, i, exact_integer<std::uint32_t>(x, where));
    case ElementType::u16:
      return put(bytes, i, exact_integer<std::uint16_t>(x, where));
    case ElementType::u8:
      return put(bytes, i, exact_integer<std::uint8_t>(x, where));
    case ElementType::boolean:
      if (x != 0.0 && x != 1.0) throw ShapeMismatch(where + ": " + std::to_string(x) + " is not a boolean");
      return put(bytes, i, static_cast<std::uint8_t>(x));
  }
}

}  // namespace

StoredTensor converted(const StoredTensor& tensor, ElementType type, const std::string& where) {
  if (tensor.type() == type) return tensor;
  const Tensor<double> values = tensor.to_double();
  std::vector<std::byte> bytes(values.size() * bytes_per_element(type));
  for (std::size_t i = 0; i < values.size(); ++i) put_as(bytes, i, values.values[i], type, where);
  return StoredTensor(type, tensor.shape(), std::move(bytes));
}

bool converts_exactly(const StoredTensor& tensor, ElementType type) {
  if (tensor.type() == type) return true;
  try {
    const Tensor<double> before = tensor.to_double();
    const Tensor<double> after = converted(tensor, type, "").to_double();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double a = before.values[i], b = after.values[i];
      const bool same = (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
      if (!same) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

StoredTensor reshaped(const StoredTensor& tensor, Shape shape) {
  auto owner = std::make_shared<const StoredTensor>(tensor);
  const std::span<const std::byte> bytes = owner->bytes();
  return StoredTensor(tensor.type(), std::move(shape), bytes, std::move(owner));
}

StoredTensor rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t count) {
  Shape shape = tensor.shape();
  if (shape.empty() || first < 0 || count < 0 || first > shape[0] || count > shape[0] - first) {
    throw ShapeMismatch("no " + std::to_string(count) + " rows from row " + std::to_string(first) + " on in shape " +
                        to_string(shape));
  }
  const std::size_t row = shape[0] == 0 ? 0 : tensor.bytes().size() / static_cast<std::size_t>(shape[0]);
  shape[0] = count;
  auto owner = std::make_shared<const StoredTensor>(tensor);
  const auto bytes =
      owner->bytes().subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  return StoredTensor(tensor.type(), std::move(shape), bytes, std::move(owner));
}

}  // namespace driftbound

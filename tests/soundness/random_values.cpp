#include "soundness/random_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "driftbound/num/format.hpp"

namespace driftbound::soundness {
namespace {

/// A significand in [1, 2) of which few, some or all bits are random.
double random_significand(Random& random) {
  const int kept = random.pick(std::vector<int>{0, 1, 4, 11, 23, 23, 52});
  return 1.0 + std::floor(std::ldexp(random.uniform(), kept)) * std::ldexp(1.0, -kept);
}

double random_with_exponent(Random& random, std::int64_t lower, std::int64_t upper) {
  return random.sign() * std::ldexp(random_significand(random), static_cast<int>(random.integer(lower, upper)));
}

double bfloat16(double x) {
  return round_to(x, format(FormatId::bf16), Rounding::nearest_even);
}

double draw_one(Random& random, Family family, Role role, double fan_in) {
  const double spread = role == Role::weight ? 1.0 / std::sqrt(fan_in) : 1.0;
  switch (family) {
    case Family::integers:
      return static_cast<double>(random.integer(-8, 8));
    case Family::powers_of_two:
      return random.sign() * std::ldexp(1.0, static_cast<int>(random.integer(-6, 3)));
    case Family::log_normal:
      return random_with_exponent(random, -1, 1) *
             std::ldexp(spread, static_cast<int>(std::lround(3.0 * random.normal())));
    case Family::subnormal:
      return role == Role::weight ? random_with_exponent(random, -149, -115) : random_with_exponent(random, -24, 2);
    case Family::huge:
      return role == Role::weight ? random_with_exponent(random, 50, 126) : random_with_exponent(random, -60, 60);
    case Family::spread:
      return random_with_exponent(random, -60, 60);
    case Family::sparse:
      return random.chance(0.8) ? (random.chance(0.5) ? 0.0 : -0.0) : random.normal();
    case Family::bf16_valued:
      return bfloat16(spread * random.normal());
    case Family::constant:
      return random.chance(0.9) ? 0.1 : -0.1;
    default:
      return spread * random.normal();
  }
}

/// Applies `change(first, other)` to neighbours 2 i and 2 i + 1 along an axis.
template <class Change>
void for_pairs(std::vector<double>& values, const Shape& shape, std::size_t axis, const Change& change) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const auto length = static_cast<std::size_t>(shape[axis]);
  for (std::size_t i = 0; i < values.size(); ++i)
    if ((i / inner) % length % 2 == 1) values[i] = change(values[i - inner]);
}

void make_cancelling(Random& random, Role role, const Shape& shape, std::size_t axis, std::vector<double>& values) {
  const double gap = random.pick(std::vector<double>{0.0, 0x1p-23, 0x1p-20, 0x1p-11, 0x1p-4});
  for_pairs(values, shape, axis, [&](double first) { return role == Role::weight ? -first * (1.0 + gap) : first; });
}

void make_stagnating(Random& random, const Shape& shape, std::size_t axis, std::vector<double>& values) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const auto length = static_cast<std::size_t>(shape[axis]);
  const double tiny = random.pick(std::vector<double>{0x1p-24, 0x1.8p-25, 0x1.fffffep-25, 0x1p-12, 0x1p-30});
  for (std::size_t i = 0; i < values.size(); ++i)
    if ((i / inner) % length > 0)
      values[i] = random.chance(0.9) ? tiny : -tiny;
    else
      values[i] = 1.0;
}

void make_outliers(Random& random, const Shape& shape, std::size_t axis, std::vector<double>& values) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const auto length = static_cast<std::size_t>(shape[axis]);
  for (std::size_t row = 0; row < values.size() / length; ++row) {
    const auto place = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(length) - 1));
    values[(row / inner * length + place) * inner + row % inner] *=
        std::ldexp(1.0, static_cast<int>(random.integer(8, 40)));
  }
}

double saturate(double x, const Format& f) {
  return std::clamp(round_to(x, f, Rounding::nearest_even), -f.largest, f.largest);
}

/// Bits of a float16 that `x` already is.
std::uint16_t float16_bits(double x) {
  const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  const double magnitude = std::abs(x);
  if (std::isnan(x)) return 0x7e00u;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(magnitude * 0x1p24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  const auto significand = static_cast<std::uint32_t>((2.0 * fraction - 1.0) * 1024.0);
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(exponent + 14) << 10) | significand);
}

template <class Bits>
void append(std::vector<std::byte>& bytes, Bits bits) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof bits);
  std::memcpy(bytes.data() + at, &bits, sizeof bits);
}

}  // namespace

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = {Family::gaussian,   Family::integers,   Family::powers_of_two,
                                               Family::log_normal, Family::subnormal,  Family::huge,
                                               Family::cancelling, Family::sparse,     Family::bf16_valued,
                                               Family::constant,   Family::stagnating, Family::mixed};
  return families;
}

const std::vector<Family>& reference_families() {
  static const std::vector<Family> families = [] {
    std::vector<Family> more = all_families();
    more.insert(more.end(), {Family::outliers, Family::spread});
    return more;
  }();
  return families;
}

std::string_view family_name(Family family) {
  switch (family) {
    case Family::gaussian:
      return "gaussian";
    case Family::integers:
      return "integers";
    case Family::powers_of_two:
      return "powers-of-two";
    case Family::log_normal:
      return "log-normal";
    case Family::subnormal:
      return "subnormal";
    case Family::huge:
      return "huge";
    case Family::cancelling:
      return "cancelling";
    case Family::sparse:
      return "sparse";
    case Family::bf16_valued:
      return "bf16-valued";
    case Family::constant:
      return "constant";
    case Family::stagnating:
      return "stagnating";
    case Family::mixed:
      return "mixed";
    case Family::outliers:
      return "outliers";
    case Family::spread:
      return "spread";
  }
  return "";
}

ElementType random_element_type(Random& random, double share_of_f32) {
  if (random.chance(share_of_f32)) return ElementType::f32;
  return random.pick(std::vector<ElementType>{ElementType::f64, ElementType::f16, ElementType::bf16});
}

std::vector<double> draw_values(Random& random, Family family, Role role, const Shape& shape, std::size_t axis) {
  if (family == Family::mixed) {
    const std::vector<Family>& families = all_families();
    family = families[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(families.size()) - 2))];
  }
  const double fan_in = shape.empty() ? 1.0 : static_cast<double>(shape[axis]);
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) value = draw_one(random, family, role, fan_in);
  if (shape.empty()) return values;
  if (family == Family::outliers && !values.empty()) make_outliers(random, shape, axis, values);
  if (family == Family::cancelling) make_cancelling(random, role, shape, axis, values);
  if (family == Family::stagnating && role == Role::input) make_stagnating(random, shape, axis, values);
  return values;
}

StoredTensor store(ElementType type, const Shape& shape, std::vector<double> values) {
  for (double& value : values) value = saturate(value, format(float_format(type).value_or(FormatId::fp32)));
  return store_exactly(type, shape, values);
}

StoredTensor store_exactly(ElementType type, const Shape& shape, const std::vector<double>& values) {
  std::vector<std::byte> bytes;
  for (const double x : values) {
    switch (type) {
      case ElementType::f64:
        append(bytes, x);
        break;
      case ElementType::f16:
        append(bytes, float16_bits(x));
        break;
      case ElementType::bf16:
        append(bytes, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16));
        break;
      default:
        append(bytes, static_cast<float>(x));
        break;
    }
  }
  return StoredTensor(type, shape, std::move(bytes));
}

}  // namespace driftbound::soundness

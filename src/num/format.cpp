#include "driftbound/num/format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "num/power_of_two.hpp"

namespace driftbound {
namespace {

constexpr std::array<Format, 7> formats{{
    // id, name, precision, min_exponent, max_exponent, largest, smallest_normal, smallest_subnormal, has_infinity
    {FormatId::fp64, "fp64", 53, -1022, 1023, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074, true},
    {FormatId::fp32, "fp32", 24, -126, 127, 0x1.fffffep127, 0x1p-126, 0x1p-149, true},
    {FormatId::tf32, "tf32", 11, -126, 127, 0x1.ffcp127, 0x1p-126, 0x1p-136, true},
    {FormatId::bf16, "bf16", 8, -126, 127, 0x1.fep127, 0x1p-126, 0x1p-133, true},
    {FormatId::fp16, "fp16", 11, -14, 15, 0x1.ffcp15, 0x1p-14, 0x1p-24, true},
    {FormatId::fp8_e4m3, "fp8_e4m3", 4, -6, 8, 0x1.cp8, 0x1p-6, 0x1p-9, false},
    {FormatId::fp8_e5m2, "fp8_e5m2", 3, -14, 15, 0x1.cp15, 0x1p-14, 0x1p-16, true},
}};

constexpr bool formats_are_in_order_of_their_ids() {
  for (std::size_t i = 0; i < formats.size(); ++i) {
    if (static_cast<std::size_t>(formats[i].id) != i) return false;
  }
  return true;
}
static_assert(formats_are_in_order_of_their_ids());

bool is_to_nearest(Rounding rounding) {
  return rounding == Rounding::nearest_even || rounding == Rounding::nearest_away;
}

}  // namespace

const Format& format(FormatId id) {
  return formats[static_cast<std::size_t>(id)];
}

std::optional<FormatId> find_format(std::string_view name) {
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const Format& f) { return f.name == name; });
  if (found == formats.end()) return std::nullopt;
  return found->id;
}

std::string format_names() {
  std::string names;
  for (const Format& f : formats) names += (names.empty() ? "" : ", ") + std::string(f.name);
  return names;
}

bool holds_all_of(const Format& wide, const Format& narrow) {
  return wide.precision >= narrow.precision && wide.largest >= narrow.largest &&
         wide.smallest_subnormal <= narrow.smallest_subnormal;
}

double unit_roundoff(const Format& f, Rounding rounding) {
  return std::ldexp(1.0, is_to_nearest(rounding) ? -f.precision : 1 - f.precision);
}

double underflow_unit(const Format& f, Rounding rounding, bool flushes_subnormals) {
  if (flushes_subnormals) return f.smallest_normal;
  const bool half_is_a_double = f.smallest_subnormal > std::numeric_limits<double>::denorm_min();
  return is_to_nearest(rounding) && half_is_a_double ? f.smallest_subnormal / 2.0 : f.smallest_subnormal;
}

bool representable(double x, const Format& f) {
  if (std::isnan(x)) return true;
  if (std::isinf(x)) return f.has_infinity;
  if (f.id == FormatId::fp32) return static_cast<double>(static_cast<float>(x)) == x;
  return std::abs(x) <= f.largest && round_to(x, f, Rounding::toward_zero) == x;
}

double ulp(double x, const Format& f) {
  if (!std::isfinite(x)) return std::abs(x);
  if (std::abs(x) < f.smallest_normal) return f.smallest_subnormal;
  return num::power_of_two_in(x) * std::bit_cast<double>(static_cast<std::uint64_t>(1024 - f.precision) << 52);
}

}  // namespace driftbound

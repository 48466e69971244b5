#include "bounds/theorems/roundings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "num/power_of_two.hpp"

namespace driftbound::bounds::inline theorems {

bool fits(double x, const Format& format, const Machine& machine) {
  const bool is_flushed = machine.flushes && x != 0.0 && std::abs(x) < format.smallest_normal;
  return representable(x, format) && !is_flushed;
}

namespace {

/// Whether a result may saturate at the largest number: in directed roundings, and in formats of 8 bits, where
/// conversions often saturate in any rounding.
bool may_stop_at_largest(const Format& format, const Machine& machine) {
  constexpr int most_digits_in_8_bits = 4;
  return !machine.to_nearest() || format.precision <= most_digits_in_8_bits;
}

}  // namespace

Magnitude cast_error(double y, const Format& format, const Machine& machine) {
  if (!std::isfinite(y)) return Magnitude::infinite();
  if (machine.flushes && y == 0.0) return Magnitude(format.smallest_normal);
  if (std::abs(y) >= format.largest && may_stop_at_largest(format, machine)) return Magnitude::infinite();
  const double gap = ulp(y, format);
  return Magnitude(machine.to_nearest() ? mul_up(0.5, gap) : gap);
}

Magnitude rounding_error(double y, const Machine& machine) {
  if (!machine.stores_narrower()) return cast_error(y, *machine.accumulator, machine);
  const Magnitude stored = cast_error(y, *machine.output, machine);
  const Magnitude before_storing = Magnitude(y) + stored;
  const Magnitude rounded = cast_error(before_storing.value(), *machine.accumulator, machine);
  return machine.flushes ? stored + rounded + Magnitude(machine.accumulator->smallest_normal) : stored + rounded;
}

Magnitude addition_error(double y, const Machine& machine) {
  const bool is_exact =
      !machine.flushes && !machine.stores_narrower() && std::abs(y) < 2.0 * machine.accumulator->smallest_normal;
  return is_exact ? Magnitude() : rounding_error(y, machine);
}

Magnitude inner_rounding(Magnitude largest, const Machine& machine) {
  return Magnitude(machine.u) * largest + Magnitude(machine.eta);
}

Magnitude storing_error(double y, const Machine& machine) {
  return machine.stores_narrower() ? cast_error(y, *machine.output, machine) : Magnitude();
}

double ufp(double x) {
  return x == 0.0 ? 0.0 : std::max(num::power_of_two_in(x), std::numeric_limits<double>::min());
}

namespace {

/// The smallest magnitude that rounding to nearest makes infinite: half a unit above the largest number.
double first_overflow(const Format& format) {
  const double half_unit = std::ldexp(ufp(format.largest), -format.precision);
  return format.largest + half_unit;
}

/// Bound of the error of one rounding to nearest without flushing; 0 for 0.
double nearest_error(double largest, const Format& format) {
  if (largest == 0.0) return 0.0;
  const double u = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - format.precision) << 52);  // 2^-precision
  const double eta = std::max(0.5 * format.smallest_subnormal, std::numeric_limits<double>::denorm_min());
  const bool overflows = !(largest < first_overflow(format));
  return overflows ? std::numeric_limits<double>::infinity()
                   : std::max(u * ufp(std::min(largest, format.largest)), eta);
}

}  // namespace

Magnitude unrecorded_cast(Magnitude largest, const Format& format, const Machine& machine) {
  if (machine.to_nearest() && !machine.flushes) return Magnitude(nearest_error(largest.value(), format));
  if (!(largest.value() <= format.largest)) return Magnitude::infinite();
  const double farthest = round_to(largest.value(), format, Rounding::up);
  return std::max(cast_error(farthest, format, machine), cast_error(0.0, format, machine));
}

Magnitude unrecorded_rounding(Magnitude largest, const Machine& machine) {
  const Magnitude rounded = unrecorded_cast(largest, *machine.accumulator, machine);
  return machine.stores_narrower() ? rounded + unrecorded_storing(largest + rounded, machine) : rounded;
}

Magnitude unrecorded_storing(Magnitude largest, const Machine& machine) {
  if (!(largest.value() <= machine.accumulator->largest)) return Magnitude::infinite();
  return machine.stores_narrower() ? unrecorded_cast(largest, *machine.output, machine) : Magnitude();
}

double operand_error(double recorded, double used) {
  return Magnitude(std::max(sub_up(recorded, used), sub_up(used, recorded))).value();
}

bool may_read_zero(double x, const Format& format, const Machine& machine) {
  if (!machine.flushes || x == 0.0 || !(std::abs(x) < format.smallest_normal)) return false;
  // The number may be flushed before or after it is rounded.
  return !machine.flushing_is_certain ||
         !(std::abs(round_to(x, format, machine.operand_rounding)) < format.smallest_normal);
}

Magnitude constant_error(double constant, const Machine& machine) {
  if (std::isinf(constant)) return Magnitude();
  const double used = round_to(constant, *machine.accumulator, machine.rounding);
  const Magnitude rounded(operand_error(constant, used));
  const double smaller = std::min(std::abs(used), std::abs(constant));
  const bool may_be_flushed = machine.flushes && smaller < machine.accumulator->smallest_normal;
  return may_be_flushed ? std::max(rounded, Magnitude(constant)) : rounded;
}

}  // namespace driftbound::bounds::inline theorems

#include "bounds/theorems/matrix_unit_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/theorems/roundings.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// Constants of the accumulator, a float32.
constexpr int accumulator_fraction_bits = 23;
constexpr double smallest_normal = 0x1p-126;

Magnitude count(std::int64_t n) {
  return Magnitude(static_cast<double>(std::max<std::int64_t>(n, 0)));
}

std::int64_t steps_in_all(std::int64_t length, const TensorCore& unit) {
  return length / unit.block + (length % unit.block != 0 ? 1 : 0);
}

Magnitude alignment_unit(const TensorCore& unit) {
  return Magnitude(std::max(std::ldexp(1.0, -unit.fraction_bits), std::numeric_limits<double>::denorm_min()));
}

Magnitude cutting_unit(const TensorCore& unit) {
  return Magnitude(std::ldexp(1.0, -kept_bits(unit)));
}

/// Whether an exact product loses no bits when it is the largest addend of a step.
bool keeps_products(const Machine& machine) {
  return machine.tensor_core->fraction_bits >= 2 * (machine.input->precision - 1);
}

}  // namespace

Magnitude cost_of_parts(std::int64_t parts, const TensorCore& unit) {
  return count(parts) * Magnitude(std::max(0.0, 0x1p-24 - alignment_unit(unit).value()));
}

Magnitude with_own_growth(Magnitude factor, Magnitude largest, Magnitude rest) {
  if (!(factor.value() < 0.5)) return Magnitude::infinite();
  return divide_up(factor * largest + rest, sub_down(1.0, factor.value()));
}

std::int64_t block_steps(std::int64_t length, std::int64_t products, const TensorCore& unit) {
  return std::min(products, steps_in_all(length, unit));
}

Magnitude alignment_factor(std::int64_t products, std::int64_t steps, const Machine& machine) {
  const std::int64_t cuts = products - 1 + (keeps_products(machine) ? 0 : steps);
  return count(cuts) * alignment_unit(*machine.tensor_core);
}

int kept_bits(const TensorCore& unit) {
  return std::min(unit.fraction_bits, unit.sum_bits);
}

Magnitude cutting_factor(std::int64_t steps, const Machine& machine) {
  return count(steps) * cutting_unit(*machine.tensor_core);
}

PartSize longest_part(const BlockSum& sum, std::int64_t steps, const TensorCore& unit) {
  if (unit.promotion == 0) return {sum.products, steps};
  return {std::min<std::int64_t>(sum.products, unit.promotion), std::min(steps, steps_in_all(unit.promotion, unit))};
}

Magnitude alignment_reach(const LineRange& row, const LineRange& column, double smallest_normal_operand) {
  const Magnitude omega(smallest_normal_operand);
  Magnitude reach = std::max(omega * omega, Magnitude(smallest_normal));
  if (row.has_small) reach = std::max(reach, omega * Magnitude(column.largest));
  if (column.has_small) reach = std::max(reach, omega * Magnitude(row.largest));
  return reach;
}

Magnitude alignment_term(const BlockSum& sum, std::int64_t steps, const Machine& machine) {
  if (sum.products <= 0) return Magnitude();
  const TensorCore& unit = *machine.tensor_core;
  const Magnitude cuts = count(sum.products + 2 * steps_in_all(sum.length, unit)) * alignment_unit(unit);
  return (cuts + cutting_unit(unit)) * sum.reach + count(steps) * Magnitude(smallest_normal) * cutting_unit(unit);
}

Magnitude last_cut_error(double y, const Machine& machine) {
  const Magnitude stored = storing_error(y, machine);
  const Magnitude before_storing = Magnitude(y) + stored;
  const int never_kept = accumulator_fraction_bits - kept_bits(*machine.tensor_core);
  return stored + Magnitude(std::ldexp(ulp(before_storing.value(), *machine.accumulator), never_kept));
}

}  // namespace driftbound::bounds::inline theorems

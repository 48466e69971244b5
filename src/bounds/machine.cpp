#include "bounds/machine.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {

bool Machine::stores_narrower() const {
  return output->precision < accumulator->precision || output->min_exponent > accumulator->min_exponent ||
         output->largest < accumulator->largest;
}

namespace {

double eta_of(const Machine& machine) {
  return std::max(underflow_unit(*machine.accumulator, machine.rounding, machine.flushes),
                  std::numeric_limits<double>::denorm_min());
}

/// Units that align fp8 products with fewer bits than a float32 has also cut their sums to fewer.
void require_float32_sums(const Machine& machine, const ArithmeticModel& arithmetic) {
  constexpr int float32_fraction_bits = 23, most_digits_of_fp8 = 4;
  if (machine.input->precision > most_digits_of_fp8 || machine.tensor_core->fraction_bits >= float32_fraction_bits)
    return;
  throw Unsupported(
      "bounds: arithmetic '" + arithmetic.name + "' has a matrix unit that keeps " +
      std::to_string(machine.tensor_core->fraction_bits) +
      " fraction bits of products of fp8 numbers; such units (Ada, Hopper) cut their sums to 13 bits too, "
      "which is not covered, those with 23 bits or more (Blackwell) are; docs/arithmetic.md has a table");
}

void require_float32_unit(const Machine& machine, const ArithmeticModel& arithmetic) {
  if (!machine.tensor_core) return;
  const bool is_covered = machine.accumulator->id == FormatId::fp32 && machine.to_nearest() &&
                          machine.tensor_core->fraction_bits >= 1 && machine.tensor_core->block >= 1;
  if (is_covered) return require_float32_sums(machine, arithmetic);
  throw Unsupported("bounds: arithmetic '" + arithmetic.name +
                    "' has a matrix unit; those are covered that add to float32, round everything else to nearest, and "
                    "have at least 1 fraction bit and 1 product a step");
}

}  // namespace

Machine machine_of(const ArithmeticModel& arithmetic) {
  Machine machine;
  machine.input = &format(arithmetic.input);
  machine.accumulator = &format(arithmetic.accumulator);
  machine.output = &format(arithmetic.output);
  machine.rounding = arithmetic.rounding;
  machine.operand_rounding = arithmetic.rounding;
  machine.flushes = arithmetic.flushes_subnormals;
  machine.products_may_flush = arithmetic.products_may_flush;
  machine.order = arithmetic.order;
  machine.tensor_core = arithmetic.tensor_core;
  machine.products_reduce = arithmetic.reduced_reduction;
  machine.u = unit_roundoff(*machine.accumulator, machine.rounding);
  machine.eta = eta_of(machine);
  require_float32_unit(machine, arithmetic);
  return machine;
}

Machine product_machine(Machine machine) {
  machine.reduced = machine.products_reduce;
  if (machine.tensor_core) machine.operand_rounding = Rounding::nearest_away;
  if (machine.flushes || !machine.products_may_flush) return machine;
  machine.flushes = true;
  machine.flushing_is_certain = false;
  machine.eta = eta_of(machine);
  return machine;
}

}  // namespace driftbound::bounds

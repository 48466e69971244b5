#include "bounds/machine.hpp"

#include <algorithm>
#include <limits>

namespace driftbound::bounds {

bool Machine::stores_narrower() const {
  return output->precision < accumulator->precision || output->min_exponent > accumulator->min_exponent ||
         output->largest < accumulator->largest;
}

Machine machine_of(const ArithmeticModel& arithmetic) {
  Machine machine;
  machine.input = &format(arithmetic.input);
  machine.accumulator = &format(arithmetic.accumulator);
  machine.output = &format(arithmetic.output);
  machine.rounding = arithmetic.rounding;
  machine.flushes = arithmetic.flushes_subnormals;
  machine.order = arithmetic.order;
  machine.u = unit_roundoff(*machine.accumulator, machine.rounding);
  machine.eta = std::max(underflow_unit(*machine.accumulator, machine.rounding, machine.flushes),
                         std::numeric_limits<double>::denorm_min());
  return machine;
}

}  // namespace driftbound::bounds

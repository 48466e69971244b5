#include "bounds/arithmetic/machine.hpp"

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

bool has_covered_sizes(const TensorCore& unit) {
  const bool has_sum_of_float32 = unit.sum_bits >= 1 && unit.sum_bits <= TensorCore().sum_bits;
  const bool ends_parts_after_steps = unit.promotion == 0 || unit.promotion >= unit.block;
  return unit.fraction_bits >= 1 && unit.block >= 1 && has_sum_of_float32 && ends_parts_after_steps;
}

void require_float32_unit(const Machine& machine, const ArithmeticModel& arithmetic) {
  if (!machine.tensor_core) return;
  const TensorCore& unit = *machine.tensor_core;
  const bool is_covered = machine.accumulator->id == FormatId::fp32 && machine.to_nearest();
  if (unit.cuts_operands && machine.input->min_exponent != format(FormatId::fp32).min_exponent) {
    throw Unsupported("bounds: arithmetic '" + arithmetic.name + "' has a matrix unit that cuts operands to " +
                      std::string(machine.input->name) +
                      "; those are covered that cut them to a format with the range of float32 (tf32, bf16)");
  }
  if (is_covered && has_covered_sizes(unit)) return;
  throw Unsupported("bounds: arithmetic '" + arithmetic.name +
                    "' has a matrix unit; those are covered that add to float32, round everything else to nearest, "
                    "have at least 1 fraction bit and 1 product a step, keep 1 to 23 fraction bits of their sums, and "
                    "promote them, if at all, after a whole step or more");
}

/// The accumulator, or the format of a result that the graph declares narrower.
const Format* narrowest_output(const Machine& machine, const Graph& graph) {
  for (const Node& node : graph.nodes) {
    const Machine at = machine_at(machine, graph.value(node.output).type, false);
    if (at.stores_narrower()) return at.output;
  }
  return machine.accumulator;
}

}  // namespace

Machine machine_of(const ArithmeticModel& arithmetic, const Graph* graph) {
  if (arithmetic.stores_declared_types && graph == nullptr)
    throw InvalidArgument("bounds: arithmetic '" + arithmetic.name +
                          "' stores results in the types that a model declares; give the model's graph");
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
  machine.stores_declared_types = arithmetic.stores_declared_types;
  if (machine.stores_declared_types) machine.output = narrowest_output(machine, *graph);
  return machine;
}

Machine machine_at(Machine machine, ElementType declared, bool is_inside_composite) {
  const std::optional<FormatId> own = float_format(declared);
  if (!own || (is_inside_composite && !machine.stores_inside)) {
    machine.output = machine.accumulator;
  } else if (machine.stores_declared_types) {
    const bool is_narrower = !holds_all_of(format(*own), *machine.accumulator);
    machine.output = is_narrower ? &format(*own) : machine.accumulator;
  }
  return machine;
}

Machine product_machine(Machine machine) {
  machine.reduced = machine.products_reduce;
  if (machine.tensor_core)
    machine.operand_rounding = machine.tensor_core->cuts_operands ? Rounding::toward_zero : Rounding::nearest_away;
  if (machine.flushes || !machine.products_may_flush) return machine;
  machine.flushes = true;
  machine.flushing_is_certain = false;
  machine.eta = eta_of(machine);
  return machine;
}

}  // namespace driftbound::bounds

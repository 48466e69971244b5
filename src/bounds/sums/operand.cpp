#include "bounds/sums/operand.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "bounds/theorems/roundings.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "num/power_of_two.hpp"

namespace driftbound::bounds {

const Format& format_of(ElementType type) {
  if (const auto id = float_format(type)) return format(*id);
  throw Unsupported("bounds: a Cast to " + std::string(name_of(type)) + " is no exact identity; remove it");
}

namespace {

double round_as_operand(double x, const Format& format, const Machine& machine) {
  const double rounded = round_to(x, format, machine.operand_rounding);
  return machine.flushes && machine.flushing_is_certain && std::abs(rounded) < format.smallest_normal ? 0.0 : rounded;
}

}  // namespace

bool are_read_as_they_are(const std::vector<double>& values, const Format& format, const Machine& machine) {
  if (format.id != FormatId::fp32 || machine.flushes) return false;
  bool all = true;
  for (const double x : values) all &= (static_cast<double>(static_cast<float>(x)) == x) | (x != x);
  return all;
}

Operand round_operand(const Tensor<double>& recorded, const Format& format, const Machine& machine) {
  Operand operand;
  operand.used = recorded.values;
  if (are_read_as_they_are(recorded.values, format, machine)) return operand;
  for (std::size_t i = 0; i < operand.used.size(); ++i) {
    const double x = recorded.values[i];
    if (!std::isfinite(x)) continue;
    operand.used[i] = round_as_operand(x, format, machine);
    const bool may_be_zero = theorems::may_read_zero(x, format, machine);
    if (operand.used[i] == x && !may_be_zero) continue;
    if (operand.error.empty()) operand.error.assign(operand.used.size(), 0.0);
    operand.error[i] = theorems::operand_error(x, operand.used[i]);
    if (!may_be_zero) continue;
    operand.error[i] = std::max(operand.error[i], theorems::operand_error(x, 0.0));
    operand.used_or_zero.resize(operand.used.size(), 0.0);
    operand.used_or_zero[i] = std::abs(operand.used[i]);
  }
  return operand;
}

}  // namespace driftbound::bounds

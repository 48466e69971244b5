#include "bounds/own_run.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace driftbound::bounds {

bool is_own_run(const Trace& trace) {
  constexpr std::array<std::string_view, 7> own_names = {"fp64", "fp32",     "tf32",    "bf16",
                                                         "fp16", "fp8_e4m3", "fp8_e5m2"};
  const ArithmeticModel& stated = trace.arithmetic;
  if (!trace.provenance.program.starts_with("driftbound ") || trace.provenance.backend != "cpu") return false;
  if (stated.order.kind == SummationOrder::Kind::unknown) return false;
  if (std::find(own_names.begin(), own_names.end(), stated.name) == own_names.end()) return false;
  return to_json(stated) == to_json(cpu_arithmetic(stated.name, stated.order));
}

}  // namespace driftbound::bounds

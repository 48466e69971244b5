#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// A device whose products can be simulated, and where its matrix units were measured.
struct SimulatedDevice {
  std::string_view name;  ///< "h100"
  std::string_view text;  ///< "NVIDIA Hopper (H100, H200)"
};
const std::vector<SimulatedDevice>& simulated_devices();

/// What a kernel does with the matrix unit of a device, beside the order of its parts.
struct UnitUse {
  int block = 0;  ///< products that a step adds, as an instruction of the device does; 0: the most
  int promotion =
      0;  ///< products after which the unit's sum is added to a float32, and the unit starts from 0; 0: never
  bool rounds_parts = false;  ///< the sums of parts, to the operands' format, before they are added
  bool rounds_sums = false;   ///< with rounds_parts: every sum of them, too

  friend bool operator==(const UnitUse&, const UnitUse&) = default;
};

/// The arithmetic of products on a device as its matrix unit computes them: operands rounded to nearest even, steps of the
/// unit, parts as the order says, added in float32. "fp32" and "fp64" are chains of multiply-adds, no unit. Functions and
/// every other op are those of cpu_arithmetic(). With promotion a chain becomes slices of so many products.
/// Throws:    InvalidArgument listing the devices, or the blocks, that there are, for a use of a unit where there is none,
///            for a promotion that is no multiple of the block, and for rounded parts of operands other than bf16 and fp16;
///            NotAvailable where the device has no unit for the arithmetic; Unsupported where kernel_of() throws it for
///            every number of terms
/// Source:    docs/arithmetic.md, "Tensor cores"
ArithmeticModel simulated_arithmetic(std::string_view device, std::string_view arithmetic, const SummationOrder& order,
                                     const UnitUse& use = {});

/// The device whose matrix unit for these operands keeps the fewest bits and adds the fewest products at once. A bound of
/// its sums holds for those of every device there is (docs/theory.md T-21, monotone). Empty: none has such a unit.
std::optional<SimulatedDevice> weakest_device(FormatId operands);

}  // namespace driftbound

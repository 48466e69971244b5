#pragma once

#include <cstdint>

namespace driftbound::device {

/// Asks the NVIDIA driver, before anything else of CUDA is touched, whether a device can be used.
/// Returns the CUDA version that the driver supports, as the vendor counts (13000). Within a major version of CUDA
/// older drivers serve newer modules.
/// Throws:    Failure where there is no driver, an older driver than `needed_version`, no device, or none of the number
int require_device(std::int32_t ordinal, int needed_version);

}  // namespace driftbound::device

#pragma once

#include <string>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// What went wrong, on its way to the C interface, where exceptions end.
struct Failure {
  driftbound_device_status status;
  std::string sentence;
};

/// Throws:    Failure where there is no algorithm of this number among so many
inline void require_algorithm(std::int32_t algorithm, std::size_t count) {
  if (algorithm >= 0 && static_cast<std::size_t>(algorithm) < count) return;
  const std::string offered = count == 0   ? "none for this product"
                              : count == 1 ? "algorithm 0 alone for this product"
                                           : "algorithms 0 to " + std::to_string(count - 1) + " for this product";
  throw Failure{DRIFTBOUND_DEVICE_UNSUPPORTED,
                "there is no algorithm " + std::to_string(algorithm) + ": cuBLASLt offers " + offered};
}

}  // namespace driftbound::device

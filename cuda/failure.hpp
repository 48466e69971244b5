#pragma once

#include <string>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// What went wrong, on its way to the C interface, where exceptions end.
struct Failure {
  driftbound_device_status status;
  std::string sentence;
};

}  // namespace driftbound::device

// A module of the next interface: it does not know the one it is asked for.
#include "evaluate/device/interface.h"

extern "C" const driftbound_device_functions* driftbound_device_entry(uint32_t interface_version) {
  static const driftbound_device_functions functions{};
  return interface_version == DRIFTBOUND_DEVICE_INTERFACE + 1 ? &functions : nullptr;
}

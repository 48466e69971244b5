// The double of the CUDA module for tests on machines without a GPU: the same table and the same code of every
// element (cuda/*.inl.hpp), on host memory. Its matrix products in narrow formats follow the model of a tensor core.
#include "cuda/module.inl.hpp"
#include "support/host_module/host_machine.hpp"

#define DRIFTBOUND_EXPORT __attribute__((visibility("default")))

extern "C" {

DRIFTBOUND_EXPORT const driftbound_device_functions* driftbound_device_entry(std::uint32_t interface_version) {
  return driftbound::device::Module<driftbound::device::HostMachine>::table(interface_version);
}

/// Bytes of device memory allocated and not released, over all devices.
DRIFTBOUND_EXPORT std::uint64_t driftbound_host_module_live_bytes() {
  return driftbound::device::HostMachine::live_bytes();
}
}

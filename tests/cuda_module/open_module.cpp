// open_module FILE ORDINAL: opens a device by a module and prints "STATUS: MESSAGE".
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "evaluate/device/interface.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  const auto entry = reinterpret_cast<driftbound_device_entry_function>(dlsym(library, "driftbound_device_entry"));
  const driftbound_device_functions* const functions = entry(DRIFTBOUND_DEVICE_INTERFACE);
  driftbound_device* device = nullptr;
  driftbound_device_info info{};
  const int status = functions->open(std::atoi(arguments[2]), &device, &info);
  std::printf("%d: %s\n", status, status == DRIFTBOUND_DEVICE_OK ? info.name : functions->message());
  if (status == DRIFTBOUND_DEVICE_OK) functions->close(device);
  return 0;
}

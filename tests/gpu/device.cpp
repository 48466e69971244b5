#include "gpu/device.hpp"

#include <dlfcn.h>

#include <stdexcept>

namespace gpu_tests {
namespace {

// So that the log of a run that is cut off ends where the run did.
[[maybe_unused]] const int by_lines = std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);

std::string module_file() {
  const char* const named = std::getenv("DRIFTBOUND_GPU_MODULE");
  return named != nullptr ? named : DRIFTBOUND_HOST_MODULE_FOLDER "/libdriftbound_cuda.so";
}

}  // namespace

const driftbound_device_functions& functions_of(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto entry = reinterpret_cast<driftbound_device_entry_function>(dlsym(library, "driftbound_device_entry"));
  if (entry == nullptr) throw std::runtime_error(file + " is no module");
  const driftbound_device_functions* const functions = entry(DRIFTBOUND_DEVICE_INTERFACE);
  if (functions == nullptr) throw std::runtime_error(file + " has another interface");
  return *functions;
}

Device::Device() : functions_(&functions_of(module_file())) {
  check(functions_->open(0, &device_, &info_));
  std::printf("device: %s (%s), module %s\n", info_.name, info_.build_flags, module_file().c_str());
}

bool Device::is_double() const {
  return std::string(info_.name) == "host double";
}

Device& Device::opened() {
  static Device device;
  return device;
}

void Device::check(int status) const {
  if (status != DRIFTBOUND_DEVICE_OK) throw std::runtime_error(functions_->message());
}

}  // namespace gpu_tests

#include "cuda/driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "cuda/failure.hpp"

namespace driftbound::device {
namespace {

// The driver's interface is declared here as far as it is used: its results are ints, 0 for success.
constexpr int error_no_device = 100;
constexpr int error_stub_library = 34;  // the toolkit's stand-in for a driver, to link with

[[noreturn]] void unavailable(const std::string& sentence) {
  throw Failure{DRIFTBOUND_DEVICE_NOT_AVAILABLE, sentence};
}

void* loaded_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver != nullptr) return driver;
  const std::string why = dlerror();
  if (why.find("cannot open shared object file") != std::string::npos) {
    unavailable("no NVIDIA driver: libcuda.so.1 was not found");
  }
  unavailable("the NVIDIA driver could not be loaded: " + why);
}

template <class Function>
Function* symbol(void* driver, const char* name) {
  void* const address = dlsym(driver, name);
  if (address == nullptr) unavailable("the NVIDIA driver could not be loaded: libcuda.so.1 lacks " + std::string(name));
  return reinterpret_cast<Function*>(address);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string no_device() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string why = visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "')";
  return "there is an NVIDIA driver, but no CUDA device" + why;
}

}  // namespace

int require_device(std::int32_t ordinal, int needed_version) {
  void* const driver = loaded_driver();
  int version = 0;
  const int version_status = symbol<int(int*)>(driver, "cuDriverGetVersion")(&version);
  if (version_status == error_stub_library) unavailable("no NVIDIA driver: libcuda.so.1 is the toolkit's stub");
  if (version_status == 0 && version / 1000 < needed_version / 1000) {
    unavailable("the NVIDIA driver supports CUDA " + version_text(version) + ", this module needs " +
                std::to_string(needed_version / 1000) + ".0 or newer: update the driver");
  }
  const int status = symbol<int(unsigned)>(driver, "cuInit")(0);
  if (status == error_no_device) unavailable(no_device());
  if (status != 0) unavailable("the NVIDIA driver does not start: cuInit gives error " + std::to_string(status));
  int devices = 0;
  if (symbol<int(int*)>(driver, "cuDeviceGetCount")(&devices) != 0 || devices == 0) unavailable(no_device());
  if (ordinal < 0 || ordinal >= devices) {
    unavailable("there is no CUDA device " + std::to_string(ordinal) + ": this machine has " + std::to_string(devices));
  }
  return version;
}

}  // namespace driftbound::device

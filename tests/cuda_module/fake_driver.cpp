// A libcuda.so.1 that answers as the environment tells it, for tests of what the CUDA module says where something is
// missing. It drives nothing.
#include <cstdlib>

namespace {

int number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = number("FAKE_DRIVER_VERSION", 99000);
  return 0;
}

int cuInit(unsigned) {
  return number("FAKE_DRIVER_INIT", 0);
}

int cuDeviceGetCount(int* count) {
  *count = number("FAKE_DRIVER_DEVICES", 1);
  return 0;
}
}

#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "evaluate/device/interface.h"

namespace gpu_tests {

/// The functions of a module's file. Throws std::runtime_error.
const driftbound_device_functions& functions_of(const std::string& file);

/// A module and its first device: the module named by $DRIFTBOUND_GPU_MODULE, or else the host double.
class Device {
public:
  /// The device all tests use. Throws std::runtime_error saying what is missing.
  static Device& opened();

  const driftbound_device_functions& module() const { return *functions_; }
  driftbound_device* handle() const { return device_; }
  const driftbound_device_info& info() const { return info_; }
  /// Whether it is the host double, for which tests take smaller matrices.
  bool is_double() const;
  /// Throws std::runtime_error with the module's message where the status is not OK.
  void check(int status) const;

private:
  Device();
  const driftbound_device_functions* functions_ = nullptr;
  driftbound_device* device_ = nullptr;
  driftbound_device_info info_{};
};

/// Elements in the device's memory.
template <class Element>
class Buffer {
public:
  explicit Buffer(std::size_t count) : count_(count) {
    Device& device = Device::opened();
    device.check(device.module().allocate(device.handle(), count * sizeof(Element), &memory_));
  }
  explicit Buffer(const std::vector<Element>& values) : Buffer(values.size()) {
    Device& device = Device::opened();
    device.check(device.module().upload(device.handle(), memory_, values.data(), count_ * sizeof(Element)));
  }
  ~Buffer() { Device::opened().module().release(Device::opened().handle(), memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* memory() const { return memory_; }
  std::vector<Element> values() const {
    std::vector<Element> result(count_);
    Device& device = Device::opened();
    device.check(device.module().download(device.handle(), result.data(), memory_, count_ * sizeof(Element)));
    return result;
  }

private:
  std::size_t count_;
  void* memory_ = nullptr;
};

template <class Real>
constexpr driftbound_real real_of = sizeof(Real) == sizeof(float) ? DRIFTBOUND_F32 : DRIFTBOUND_F64;

inline std::string hex(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", x);
  return text;
}

/// Empty where both hold the same bits; else the first index where they do not, with both numbers.
template <class Element>
std::string difference(const std::vector<Element>& computed, const std::vector<Element>& expected) {
  if (computed.size() != expected.size()) return "the sizes differ";
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (std::memcmp(&computed[i], &expected[i], sizeof(Element)) == 0) continue;
    return "element " + std::to_string(i) + " is " + hex(static_cast<double>(computed[i])) + " instead of " +
           hex(static_cast<double>(expected[i]));
  }
  return "";
}

inline std::int64_t multiplier() {
  const char* const text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

/// Numbers of many magnitudes, both signs.
template <class Real>
std::vector<Real> awkward(std::size_t count, std::mt19937_64& random, int spread = 15) {
  std::vector<Real> values(count);
  for (Real& x : values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    x = static_cast<Real>(std::ldexp(unit, static_cast<int>(random() % static_cast<unsigned>(2 * spread)) - spread));
  }
  return values;
}

/// All elements in order, without gaps.
inline driftbound_view whole(const std::vector<std::int64_t>& extents) {
  driftbound_view view{};
  view.rank = static_cast<std::int32_t>(extents.size());
  std::int64_t stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    view.extent[d] = extents[d];
    view.stride[d] = stride;
    stride *= extents[d];
  }
  return view;
}

/// Where every element of a view lies, in order.
inline std::vector<std::size_t> positions(const driftbound_view& view) {
  std::vector<std::size_t> result = {static_cast<std::size_t>(view.offset)};
  for (int d = 0; d < view.rank; ++d) {
    std::vector<std::size_t> finer;
    for (const std::size_t start : result) {
      for (std::int64_t i = 0; i < view.extent[d]; ++i) {
        finer.push_back(start + static_cast<std::size_t>(i * view.stride[d]));
      }
    }
    result = std::move(finer);
  }
  return result;
}

}  // namespace gpu_tests

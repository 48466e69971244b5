#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// A call of the module that failed, before anybody has said at which layer.
struct DeviceFailure {
  int status = DRIFTBOUND_DEVICE_FAILED;
  std::string message;
  std::uint64_t bytes_asked_for = 0;  ///< where an allocation ran out of memory, as the two below; else 0
  std::uint64_t bytes_free = 0;
  std::uint64_t bytes_in_all = 0;
};

class Device;

/// Memory on a device. The device must outlive it.
class Buffer {
public:
  /// Throws:    DeviceFailure
  Buffer(Device& device, std::uint64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }  ///< nullptr for 0 bytes

private:
  Device& device_;
  void* data_ = nullptr;
};

/// An open device.
class Device {
public:
  /// Throws:    DeviceFailure
  Device(const driftbound_device_functions& functions, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const driftbound_device_info& info() const { return info_; }
  const driftbound_device_functions& functions() const { return *functions_; }

  /// One function of the table applied to this device.
  /// Throws:    DeviceFailure
  template <class... Parameters>
  void call(int (*function)(driftbound_device*, Parameters...), std::type_identity_t<Parameters>... arguments) {
    require(function(handle_, arguments...));
  }

  std::shared_ptr<const Buffer> allocate(std::uint64_t bytes) { return std::make_shared<const Buffer>(*this, bytes); }
  std::shared_ptr<const Buffer> uploaded(const void* from, std::uint64_t bytes);
  void download(void* to, const void* from, std::uint64_t bytes);

private:
  friend class Buffer;
  void require(int status) const;

  const driftbound_device_functions* functions_;
  driftbound_device* handle_ = nullptr;
  driftbound_device_info info_{};
};

/// Throws what any failure to open a device means to a user: NotAvailable with the module's sentence. There is no layer
/// and no name of the device to tell of yet.
[[noreturn]] void throw_not_opened(const DeviceFailure& failure);

/// Throws what a failed call means to a user: NotAvailable (no device, out of memory, lost, failed) or Unsupported.
/// `where` completes "at …": "layer 'stem/Gemm'".
[[noreturn]] void throw_failure(const DeviceFailure& failure, const driftbound_device_info& info,
                                const std::string& where);

}  // namespace driftbound::device

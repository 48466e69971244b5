#include "evaluate/device/device.hpp"

#include "driftbound/num/errors.hpp"

namespace driftbound::device {
namespace {

/// Nothing where it was the vendor's library that asked for memory: it does not say how much.
std::string figures(const DeviceFailure& failure) {
  if (failure.bytes_asked_for == 0) return "";
  return ": " + std::to_string(failure.bytes_asked_for) + " bytes asked for, " + std::to_string(failure.bytes_free) +
         " free of " + std::to_string(failure.bytes_in_all);
}

}  // namespace

Buffer::Buffer(Device& device, std::uint64_t bytes) : device_(device) {
  if (bytes == 0) return;
  const driftbound_device_functions& functions = device.functions();
  const int status = functions.allocate(device.handle_, bytes, &data_);
  if (status == DRIFTBOUND_DEVICE_OK) return;
  DeviceFailure failure{status, functions.message(), bytes, 0, 0};
  if (status == DRIFTBOUND_DEVICE_OUT_OF_MEMORY)
    functions.memory(device.handle_, &failure.bytes_free, &failure.bytes_in_all);
  throw failure;
}

Buffer::~Buffer() {
  if (data_ != nullptr) device_.functions().release(device_.handle_, data_);
}

Device::Device(const driftbound_device_functions& functions, int ordinal) : functions_(&functions) {
  require(functions.open(ordinal, &handle_, &info_));
}

Device::~Device() {
  functions_->close(handle_);
}

std::shared_ptr<const Buffer> Device::uploaded(const void* from, std::uint64_t bytes) {
  auto buffer = allocate(bytes);
  if (bytes > 0) call(functions_->upload, buffer->data(), from, bytes);
  return buffer;
}

void Device::download(void* to, const void* from, std::uint64_t bytes) {
  if (bytes > 0) call(functions_->download, to, from, bytes);
}

void Device::require(int status) const {
  if (status != DRIFTBOUND_DEVICE_OK) throw DeviceFailure{status, functions_->message(), 0, 0, 0};
}

void throw_not_opened(const DeviceFailure& failure) {
  throw NotAvailable("no CUDA device can be used: " + failure.message);
}

void throw_failure(const DeviceFailure& failure, const driftbound_device_info& info, const std::string& where) {
  const std::string device = "the device '" + std::string(info.name) + "' ";
  switch (failure.status) {
    case DRIFTBOUND_DEVICE_NOT_AVAILABLE:
      throw_not_opened(failure);
    case DRIFTBOUND_DEVICE_OUT_OF_MEMORY:
      throw NotAvailable(device + "ran out of memory at " + where + figures(failure) + " (" + failure.message +
                         "); use a smaller --batch");
    case DRIFTBOUND_DEVICE_LOST:
      throw NotAvailable(device + "was lost at " + where + " (" + failure.message + "): start the program again");
    case DRIFTBOUND_DEVICE_UNSUPPORTED:
      throw Unsupported(device + "cannot compute " + where + ": " + failure.message);
    default:
      throw NotAvailable(device + "failed at " + where + ": " + failure.message);
  }
}

}  // namespace driftbound::device

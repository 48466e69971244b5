#include <doctest/doctest.h>

#include "gpu/device.hpp"

namespace {

using namespace gpu_tests;

TEST_CASE("a device says what it is") {
  const driftbound_device_info& info = Device::opened().info();
  CHECK(std::string(info.backend) == "cuda");
  CHECK(std::string(info.name) != "");
  CHECK(std::string(info.build_flags) != "");
  CHECK(info.compute_major > 0);
  CHECK(info.multiprocessors > 0);
  CHECK(info.driver_version > 0);
  CHECK(info.runtime_version > 0);
  CHECK(info.blas_version > 0);
  CHECK(info.memory_bytes > 0);
}

TEST_CASE("what does not fit into the device's memory is refused, and the device goes on") {
  Device& device = Device::opened();
  void* memory = nullptr;
  CHECK(device.module().allocate(device.handle(), std::uint64_t{1} << 50, &memory) == DRIFTBOUND_DEVICE_OUT_OF_MEMORY);
  CHECK(std::string(device.module().message()).find("1125899906842624 bytes") != std::string::npos);
  CHECK(Buffer<float>(std::vector<float>{1.0f, 2.0f}).values() == std::vector<float>{1.0f, 2.0f});
}

TEST_CASE("allocated memory is no longer free") {
  Device& device = Device::opened();
  std::uint64_t before = 0, after = 0, all = 0;
  device.check(device.module().memory(device.handle(), &before, &all));
  const Buffer<char> buffer(std::size_t{64} << 20);
  device.check(device.module().memory(device.handle(), &after, &all));
  CHECK(after < before);
  CHECK(before <= all);
}

TEST_CASE("a device that does not exist is not available") {
  Device& device = Device::opened();
  driftbound_device* other = nullptr;
  driftbound_device_info info{};
  CHECK(device.module().open(1000, &other, &info) == DRIFTBOUND_DEVICE_NOT_AVAILABLE);
  CHECK(std::string(device.module().message()).find("no CUDA device 1000") != std::string::npos);
}

TEST_CASE("nothing is done to no elements") {
  Device& device = Device::opened();
  const Buffer<float> x(std::vector<float>{1.0f});
  const driftbound_view view = whole({0, 3});
  device.check(device.module().unary(device.handle(), DRIFTBOUND_F32, DRIFTBOUND_NEG, 0, x.memory(), x.memory(), 0));
  device.check(device.module().move(device.handle(), 4, x.memory(), &view, x.memory(), &view));
  device.check(device.module().synchronize(device.handle()));
  CHECK(x.values() == std::vector<float>{1.0f});
}

TEST_CASE("what the module does not know is refused with a sentence") {
  Device& device = Device::opened();
  const Buffer<float> x(4);
  const driftbound_view line = whole({4}), square = whole({2, 2});
  driftbound_view endless = line;
  endless.rank = DRIFTBOUND_DEVICE_MAX_RANK + 1;
  const auto refused = [&](int status) {
    return status == DRIFTBOUND_DEVICE_UNSUPPORTED && std::string(device.module().message()) != "";
  };
  CHECK(refused(device.module().move(device.handle(), 3, x.memory(), &line, x.memory(), &line)));
  CHECK(refused(device.module().move(device.handle(), 4, x.memory(), &line, x.memory(), &square)));
  CHECK(refused(device.module().move(device.handle(), 4, x.memory(), &endless, x.memory(), &endless)));
  CHECK(refused(device.module().narrow(device.handle(), DRIFTBOUND_FORMAT_TF32, x.memory(), x.memory(), 1)));
  const driftbound_product empty{0, 1, 1, x.memory(), 1, 1, x.memory(), 1, 1, x.memory()};
  CHECK(refused(device.module().ordered_product(device.handle(), DRIFTBOUND_F32, &empty, 1, 0)));
}

}  // namespace

// What our own product in its declared order costs on a GPU, against cuBLAS in the same run (docs/performance.md):
//   ordered/MxKxN   time of a product on the device, without transfers, the mean of 20 in a row, the median of 9 such
//   means
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "evaluate/device/device.hpp"
#include "evaluate/device/loader.hpp"

namespace {

using namespace driftbound;
using device::Buffer;
using device::Device;

struct Size {
  std::int64_t m, k, n;
};

class Product {
public:
  Product(Device& gpu, Size size) : gpu_(gpu), size_(size) {
    a_ = filled(size.m * size.k);
    b_ = filled(size.k * size.n);
    c_ = gpu.allocate(static_cast<std::uint64_t>(size.m * size.n) * sizeof(float));
    product_ = {size.m, size.n, size.k, a_->data(), size.k, 1, b_->data(), size.n, 1, c_->data()};
  }

  /// Seconds of one product, the mean of `times`.
  double ordered(int times) {
    return seconds(times, [&] { gpu_.call(gpu_.functions().ordered_product, DRIFTBOUND_F32, &product_, 8, 1); });
  }
  double vendor(driftbound_gemm_mode mode, int times) {
    return seconds(times, [&] { gpu_.call(gpu_.functions().gemm, mode, &product_); });
  }

private:
  template <class Work>
  double seconds(int times, Work work) {
    gpu_.call(gpu_.functions().synchronize);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) work();
    gpu_.call(gpu_.functions().synchronize);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
  }

  std::shared_ptr<const Buffer> filled(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::uint64_t state = 1;
    for (float& value : values) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      value = static_cast<float>(state >> 40U) * 0x1p-23F - 1.0F;
    }
    return gpu_.uploaded(values.data(), values.size() * sizeof(float));
  }

  Device& gpu_;
  Size size_;
  std::shared_ptr<const Buffer> a_, b_, c_;
  driftbound_product product_{};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void bench(Device& gpu, Size size, driftbound_gemm_mode mode, const std::string& against, int rounds, int times) {
  Product product(gpu, size);
  product.ordered(1);
  product.vendor(mode, 1);
  std::vector<double> ours, theirs;
  for (int round = 0; round < rounds; ++round) {
    ours.push_back(product.ordered(times));
    theirs.push_back(product.vendor(mode, times));
  }
  fmt::print(
      "{{\"bench\":\"gpu\",\"case\":\"ordered/{}x{}x{}\",\"ratio\":{:.4g},\"against\":\"{}\",\"median_s\":{:.4g},"
      "\"machine\":\"{}\"}}\n",
      size.m, size.k, size.n, median(ours) / median(theirs), against, median(ours), gpu.info().name);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const std::vector<Size> sizes =
      quick ? std::vector<Size>{{16, 16, 16}}
            : std::vector<Size>{{10000, 64, 64}, {10000, 256, 256}, {4096, 1024, 1024}, {4096, 4096, 4096}};
  try {
    Device gpu(device::load_cuda_module(device::module_folders()), 0);
    for (const Size& size : sizes) {
      bench(gpu, size, DRIFTBOUND_GEMM_F32, "cublas-fp32", quick ? 1 : 9, quick ? 1 : 20);
      bench(gpu, size, DRIFTBOUND_GEMM_F32_PEDANTIC, "cublas-fp32-pedantic", quick ? 1 : 9, quick ? 1 : 20);
    }
  } catch (const NotAvailable& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 4;
  } catch (const device::DeviceFailure& failure) {
    fmt::print(stderr, "bench_gpu: {}\n", failure.message);
    return 4;
  }
}

// What the device's matrix unit is seen to do, next to what is declared of it (docs/theory.md T-21).
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/num/format.hpp"
#include "evaluate/device/arithmetic.hpp"
#include "gpu/device.hpp"
#include "gpu/matrix.hpp"
#include "num/narrow.inl.hpp"

namespace {

using namespace gpu_tests;
using namespace driftbound;

/// One product of a mode: rows of A against columns of B.
struct UnitProduct {
  std::string arithmetic;
  std::int64_t m = 0, n = 0, k = 0;

  std::string name() const {
    return arithmetic + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  }
  CudaOptions options() const {
    CudaOptions options;
    options.arithmetic = arithmetic;
    return options;
  }
  ArithmeticModel declared() const { return device::cuda_arithmetic(options(), Device::opened().info()); }
};

using Entry = std::function<double(std::int64_t row, std::int64_t column)>;

/// Of numbers that the mode's operands hold.
template <class Element>
Matrix<Element> matrix_of(const UnitProduct& product, std::int64_t rows, std::int64_t columns, const Entry& entry) {
  Matrix<Element> matrix(rows, columns, false, 0);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto x = static_cast<float>(entry(i, j));
      if constexpr (sizeof(Element) == 2)
        matrix.set(i, j, product.arithmetic == "bf16" ? narrow::to_bf16(x) : narrow::to_fp16(x));
      else
        matrix.set(i, j, x);
    }
  return matrix;
}

template <class Element>
std::vector<float> multiplied_as(const UnitProduct& product, const Entry& a, const Entry& b) {
  Device& device = Device::opened();
  const DeviceProduct<Element, float> on_device(matrix_of<Element>(product, product.m, product.k, a),
                                                matrix_of<Element>(product, product.k, product.n, b));
  device.check(device.module().gemm(device.handle(), device::gemm_mode(product.options()), &on_device.product));
  return on_device.c.values();
}

std::vector<float> multiplied(const UnitProduct& product, const Entry& a, const Entry& b) {
  return product.arithmetic == "tf32" ? multiplied_as<float>(product, a, b)
                                      : multiplied_as<std::uint16_t>(product, a, b);
}

double one(std::int64_t, std::int64_t) {
  return 1.0;
}

constexpr int largest = 15;                      // exponent of what the others are held against, a number of fp16
constexpr int fewest_bits = 20, most_bits = 29;  // behind it, normal numbers of fp16

/// Bits behind the leading bit of a product and its opposite, `p` and the one after it, down to which a third product
/// is still in the sum, by its place: most_bits where nothing of it is ever lost.
std::vector<int> bits_kept(const UnitProduct& product, std::int64_t p) {
  std::vector<int> kept;
  for (std::int64_t r = 0; r < product.k; ++r) kept.push_back(fewest_bits - 1);
  for (int bits = fewest_bits; bits <= most_bits; ++bits) {
    const double small = std::ldexp(1.0, largest - bits), large = std::ldexp(1.0, largest);
    const Entry a = [&](std::int64_t row, std::int64_t k) {
      if (k == p || k == p + 1) return k == p ? large : -large;
      return k == row % product.k ? small : 0.0;
    };
    const std::vector<float> c = multiplied(product, a, one);
    for (std::int64_t r = 0; r < std::min(product.k, product.m); ++r) {
      const double sum = static_cast<double>(c[static_cast<std::size_t>(r * product.n)]);
      if (sum == small && kept[static_cast<std::size_t>(r)] == bits - 1) kept[static_cast<std::size_t>(r)] = bits;
    }
  }
  kept[static_cast<std::size_t>(p)] = kept[static_cast<std::size_t>(p + 1)] = -1;
  return kept;
}

std::string runs_of(const std::vector<int>& kept) {
  std::string text;
  for (std::size_t first = 0, last; first < kept.size(); first = last) {
    for (last = first; last < kept.size() && kept[last] == kept[first];) ++last;
    const std::string bits = kept[first] == most_bits ? "all" : std::to_string(kept[first]);
    if (kept[first] < 0) continue;
    text += (text.empty() ? "" : ", ") + bits + " at " + std::to_string(first);
    if (last - first > 1) text += "-" + std::to_string(last - 1);
  }
  return text;
}

/// What 1 + 3 2^-25, its parts in the places 0 and 1, comes out as.
std::string last_step(const UnitProduct& product) {
  const Entry a = [](std::int64_t, std::int64_t k) { return k == 0 ? 1.0 : k == 1 ? 0x3p-13 : 0.0; };
  const Entry b = [](std::int64_t k, std::int64_t) { return k == 1 ? 0x1p-12 : 1.0; };
  const float sum = multiplied(product, a, b).front();
  if (sum == 1.0f) return "cut";
  return sum == 1.0f + 0x1p-23f ? "rounded" : hex(static_cast<double>(sum));
}

std::vector<UnitProduct> unit_products() {
  const bool is_double = Device::opened().is_double();
  std::vector<UnitProduct> products;
  for (const char* arithmetic : {"tf32", "bf16", "fp16"}) {
    products.push_back({arithmetic, 128, 128, 64});
    if (is_double) continue;
    products.push_back({arithmetic, 256, 256, 256});
    products.push_back({arithmetic, 10000, 64, 64});
    products.push_back({arithmetic, 4096, 1024, 1024});
  }
  return products;
}

/// T-21 (a), or what float32 additions in any order may do, without terms for subnormal numbers: factor of S.
double declared_factor(const TensorCore& unit, std::int64_t products, std::int64_t k) {
  const double n = static_cast<double>(products);
  const double steps = std::min(n, std::ceil(static_cast<double>(k) / unit.block));
  const int g = std::min(unit.fraction_bits, unit.sum_bits);
  const double by_unit = (n - 1.0) * std::ldexp(1.0, -unit.fraction_bits) + steps * std::ldexp(1.0, -g);
  return std::max(by_unit, n * 0x1p-24);
}

/// Rows of one large product and many that are cut off beside it, just below 2^-t of it.
double below_a_quantum(std::int64_t row, std::int64_t k) {
  if (k == 0) return std::ldexp(1.0, largest);
  const int bits = 22 + static_cast<int>(row % 6);
  return std::ldexp(1.0 - 0x1p-8, largest - bits);
}

/// Rows of products of both signs whose sizes have nothing in common.
double of_any_size(std::int64_t row, std::int64_t k) {
  const auto bits = static_cast<std::uint64_t>(row * 8191 + k * 131 + 17) * 0x9e3779b97f4a7c15u;
  const double significand = 1.0 + static_cast<double>((bits >> 40) & 0x7f) * 0x1p-7;
  const int exponent = static_cast<int>((bits >> 50) % 16) - 8;
  return std::ldexp((bits >> 60) % 2 == 0 ? significand : -significand, exponent);
}

/// The largest share of the declared bound that errors of a product take up.
double used(const UnitProduct& product, const Entry& a) {
  const std::vector<float> c = multiplied(product, a, one);
  const TensorCore unit = *product.declared().tensor_core;
  double most = 0.0;
  for (std::int64_t i = 0; i < product.m; ++i) {
    double exact = 0.0, size = 0.0;  // without rounding: multiples of 2^-20 below 2^27
    for (std::int64_t k = 0; k < product.k; ++k) {
      exact += a(i, k);
      size += std::abs(a(i, k));
    }
    const double error = std::abs(static_cast<double>(c[static_cast<std::size_t>(i * product.n)]) - exact);
    const double share = error / (declared_factor(unit, product.k, product.k) * size);
    most = !(share <= most) ? share : most;
  }
  return most;
}

TEST_CASE("the vendor's matrix unit adds up no worse than is declared of it (T-21)") {
  for (const UnitProduct& product : unit_products()) {
    CAPTURE(product.name());
    const TensorCore unit = *product.declared().tensor_core;
    const double quantum = used(product, below_a_quantum), any_size = used(product, of_any_size);
    std::printf(
        "%s: declared %d bits, blocks of %d; kept beside places 0 and 1: %s; beside 32 and 33: %s; sums are %s; "
        "used of T-21: %.2f, %.2f\n",
        product.name().c_str(), unit.fraction_bits, unit.block, runs_of(bits_kept(product, 0)).c_str(),
        runs_of(bits_kept(product, 32)).c_str(), last_step(product).c_str(), quantum, any_size);
    CHECK(quantum <= 1.0);
    CHECK(any_size <= 1.0);
  }
}

}  // namespace

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/num/format.hpp"
#include "evaluate/device/arithmetic.hpp"
#include "gpu/device.hpp"
#include "gpu/matrix.hpp"
#include "linalg/ordered_product.hpp"
#include "linalg/summation.hpp"
#include "num/narrow.inl.hpp"

namespace {

using namespace gpu_tests;
using namespace driftbound;

template <class Real>
std::vector<Real> device_ordered(const Matrix<Real>& a, const Matrix<Real>& b, const SummationOrder& order) {
  Device& device = Device::opened();
  const DeviceProduct<Real, Real> on_device(a, b);
  const auto chain = static_cast<std::int64_t>(chain_length(order, a.columns));
  device.check(
      device.module().ordered_product(device.handle(), real_of<Real>, &on_device.product, chain, order.fma ? 1 : 0));
  return on_device.c.values();
}

template <class Real>
Tensor<Real> as_tensor(const Matrix<Real>& matrix) {
  return Tensor<Real>({static_cast<std::int64_t>(matrix.values.size())}, matrix.values);
}

template <class Real>
std::vector<Real> cpu_ordered(const Matrix<Real>& a, const Matrix<Real>& b, const SummationOrder& order) {
  ProductPlan plan;
  plan.m = a.rows;
  plan.n = b.columns;
  plan.k = a.columns;
  plan.a_batch = plan.b_batch = {0};
  plan.a_row = a.row_stride;
  plan.a_col = a.column_stride;
  plan.b_row = b.row_stride;
  plan.b_col = b.column_stride;
  PackedMatrices<Real> packed;
  pack_missing(plan, as_tensor(b), packed);
  return multiply(plan, as_tensor(a), packed, order, 1);
}

const std::string orders[] = {"sequential", "sequential+fma", "pairwise",   "pairwise+fma", "blocked:1",
                              "blocked:8",  "blocked:8+fma",  "blocked:17", "split-k:3",    "split-k:3+fma"};

template <class Real>
void check_orders() {
  std::mt19937_64 random(51);
  const std::int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 2}, {65, 63, 16}, {64, 130, 17}, {7, 65, 100}, {130, 3, 33}};
  for (const auto& shape : shapes) {
    const std::int64_t m = shape[0], n = shape[1], k = shape[2];
    for (const int layout : {0, 1, 2, 3}) {
      Matrix<Real> a(m, k, layout % 2 != 0, 3), b(k, n, layout / 2 != 0, 1);
      a.values = awkward<Real>(a.values.size(), random);
      b.values = awkward<Real>(b.values.size(), random);
      for (const std::string& name : orders) {
        const SummationOrder order = parse_summation_order(name);
        CAPTURE(name);
        CAPTURE(layout);
        CAPTURE(k);
        CHECK(difference(device_ordered(a, b, order), cpu_ordered(a, b, order)) == "");
      }
    }
  }
}

TEST_CASE("the ordered product has the CPU's bits in float, in every order, shape and layout") {
  check_orders<float>();
}

TEST_CASE("the ordered product has the CPU's bits in double, in every order, shape and layout") {
  check_orders<double>();
}

TEST_CASE("a row of the ordered product does not depend on the rows beside it") {
  std::mt19937_64 random(52);
  Matrix<float> a(200, 50, false, 0), b(50, 70, true, 0);
  a.values = awkward<float>(a.values.size(), random);
  b.values = awkward<float>(b.values.size(), random);
  for (const std::string& name : orders) {
    const SummationOrder order = parse_summation_order(name);
    const std::vector<float> together = device_ordered(a, b, order);
    for (const std::int64_t row : {0, 1, 63, 64, 199}) {
      Matrix<float> alone(1, 50, false, 0);
      for (std::int64_t k = 0; k < 50; ++k) alone.values[static_cast<std::size_t>(k)] = a.at(row, k);
      const auto first = together.begin() + row * 70;
      CAPTURE(name);
      CHECK(difference(device_ordered(alone, b, order), std::vector<float>(first, first + 70)) == "");
    }
  }
}

TEST_CASE("a sum of opposite infinities is the one quiet NaN") {
  Matrix<float> a(1, 2, false, 0), b(2, 1, false, 0);
  a.values = {INFINITY, 1.0f};
  b.values = {1.0f, -INFINITY};
  for (const std::string& name : orders) {
    CAPTURE(name);
    const std::vector<float> expected = {std::numeric_limits<float>::quiet_NaN()};
    CHECK(difference(device_ordered(a, b, parse_summation_order(name)), expected) == "");
  }
}

struct Mode {
  const char* name;
  driftbound_gemm_mode id;
  FormatId operands;
  double relative;  ///< error of a product by rounding its operands
};

template <class Element>
double number(Element x, FormatId format) {
  if constexpr (sizeof(Element) == 2) {
    return static_cast<double>(format == FormatId::bf16 ? narrow::from_bf16(x) : narrow::from_fp16(x));
  } else {
    return static_cast<double>(x);
  }
}

template <class Element>
std::vector<Element> random_elements(std::size_t count, FormatId format, std::mt19937_64& random) {
  std::vector<Element> values(count);
  for (Element& x : values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-52 - 1.0;
    if constexpr (sizeof(Element) == 2) {
      const auto wide = static_cast<float>(unit);
      x = format == FormatId::bf16 ? narrow::to_bf16(wide) : narrow::to_fp16(wide);
    } else {
      x = static_cast<Element>(unit);
    }
  }
  return values;
}

/// Element (i, j) is within a crude bound of the product computed in double. For double products that is no more
/// exact than the device is, which the bound allows for.
template <class Element, class Result>
void check_element(const Mode& mode, const Matrix<Element>& a, const Matrix<Element>& b, std::int64_t i, std::int64_t j,
                   Result computed) {
  double exact = 0.0, size = 0.0;
  for (std::int64_t k = 0; k < a.columns; ++k) {
    const double term = number(a.at(i, k), mode.operands) * number(b.at(k, j), mode.operands);
    exact += term;
    size += std::abs(term);
  }
  const double unit = sizeof(Result) == sizeof(float) ? 0x1p-22 : 0x1p-50;
  const double bound = (static_cast<double>(a.columns) * unit + mode.relative) * size;
  const double error = std::abs(static_cast<double>(computed) - exact);
  if (!(error <= bound)) {
    FAIL_CHECK(mode.name << ", k = " << a.columns << ", element " << i << ", " << j << ": "
                         << hex(static_cast<double>(computed)) << ", not " << hex(exact));
  }
}

/// The algorithms offered for a product.
std::vector<driftbound_algorithm> offered(const Mode& mode, const driftbound_product& product) {
  Device& device = Device::opened();
  std::vector<driftbound_algorithm> found(DRIFTBOUND_DEVICE_MAX_ALGORITHMS);
  std::int32_t count = -1;
  device.check(device.module().algorithms(device.handle(), mode.id, &product, found.data(), &count));
  REQUIRE(count >= 0);
  REQUIRE(count <= DRIFTBOUND_DEVICE_MAX_ALGORITHMS);
  found.resize(static_cast<std::size_t>(count));
  return found;
}

template <class Element, class Result>
void check_elements(const Mode& mode, const Matrix<Element>& a, const Matrix<Element>& b,
                    const DeviceProduct<Element, Result>& on_device) {
  const std::vector<Result> c = on_device.c.values();
  for (std::int64_t e = 0; e < std::ssize(c); ++e)
    check_element(mode, a, b, e / b.columns, e % b.columns, c[static_cast<std::size_t>(e)]);
}

/// The first, the last and one in between of the algorithms.
template <class Element, class Result>
void check_algorithms(const Mode& mode, const Matrix<Element>& a, const Matrix<Element>& b) {
  Device& device = Device::opened();
  const DeviceProduct<Element, Result> on_device(a, b);
  const std::vector<driftbound_algorithm> all = offered(mode, on_device.product);
  if (device.is_double()) CHECK(all.size() == (a.columns >= 4 ? 3 : 1));
  for (std::size_t i = 0; i < all.size(); i += std::max<std::size_t>(1, (all.size() - 1) / 2)) {
    CAPTURE(i);
    driftbound_algorithm used{};
    const int status =
        device.module().gemm_by(device.handle(), mode.id, &on_device.product, static_cast<std::int32_t>(i), &used);
    device.check(status);
    CHECK(used.id == all[i].id);
    CHECK(used.split_k == all[i].split_k);
    CHECK(std::string(used.tile) == all[i].tile);
    check_elements(mode, a, b, on_device);
  }
  driftbound_algorithm none{};
  for (const std::int32_t wrong : {-1, static_cast<std::int32_t>(all.size()), 1000}) {
    CHECK(device.module().gemm_by(device.handle(), mode.id, &on_device.product, wrong, &none) ==
          DRIFTBOUND_DEVICE_UNSUPPORTED);
    CHECK(std::string(device.module().message()).find("there is no algorithm " + std::to_string(wrong)) == 0);
  }
}

template <class Element, class Result>
void check_gemm(const Mode& mode) {
  Device& device = Device::opened();
  std::mt19937_64 random(53);
  const std::int64_t rows = device.is_double() ? 25 : 100;
  const std::int64_t shapes[][3] = {{1, 1, 1}, {1, 24, 40}, {17, 1, 33}, {33, 65, 129}, {rows, 64, 256}, {5, 7, 1}};
  for (const auto& shape : shapes) {
    const std::int64_t m = shape[0], n = shape[1], k = shape[2];
    for (const int layout : {0, 1, 2, 3}) {
      Matrix<Element> a(m, k, layout % 2 != 0, 0), b(k, n, layout / 2 != 0, 8);
      a.values = random_elements<Element>(a.values.size(), mode.operands, random);
      b.values = random_elements<Element>(b.values.size(), mode.operands, random);
      const DeviceProduct<Element, Result> on_device(a, b);
      device.check(device.module().gemm(device.handle(), mode.id, &on_device.product));
      check_elements(mode, a, b, on_device);
      check_algorithms<Element, Result>(mode, a, b);
    }
  }
}

TEST_CASE("the vendor's product multiplies, in every mode, shape and layout, and by algorithm") {
  check_gemm<float, float>({"F32", DRIFTBOUND_GEMM_F32, FormatId::fp32, 0.0});
  check_gemm<float, float>({"F32 pedantic", DRIFTBOUND_GEMM_F32_PEDANTIC, FormatId::fp32, 0.0});
  check_gemm<float, float>({"TF32", DRIFTBOUND_GEMM_TF32, FormatId::tf32, 0x1p-9});
  check_gemm<std::uint16_t, float>({"BF16", DRIFTBOUND_GEMM_BF16, FormatId::bf16, 0.0});
  check_gemm<std::uint16_t, float>({"FP16", DRIFTBOUND_GEMM_FP16, FormatId::fp16, 0.0});
  check_gemm<double, double>({"F64", DRIFTBOUND_GEMM_F64, FormatId::fp64, 0.0});
  check_gemm<double, double>({"F64 pedantic", DRIFTBOUND_GEMM_F64_PEDANTIC, FormatId::fp64, 0.0});
}

struct Extents {
  std::int64_t m, n, k;
};

/// How a product whose operand was x came out: its bits, and where.
using Answers = std::map<std::uint32_t, std::vector<std::string>>;

/// Every element of the product has one term that is not 0: x * 1, x in a place of every row of A, or 1 * x, x in a
/// place of every column of B.
void multiply_alone(driftbound_gemm_mode mode, Extents size, int layout, bool left, float x, Answers& answers) {
  Device& device = Device::opened();
  const auto [m, n, k] = size;
  Matrix<float> a(m, k, layout % 2 != 0, 0), b(k, n, layout / 2 != 0, 0);
  std::vector<float>& ones = (left ? b : a).values;
  ones.assign(ones.size(), 1.0f);
  for (std::int64_t i = 0; left && i < m; ++i) a.set(i, (7 * i + 5) % k, x);
  for (std::int64_t j = 0; !left && j < n; ++j) b.set((7 * j + 5) % k, j, x);
  const DeviceProduct<float, float> on_device(a, b);
  device.check(device.module().gemm(device.handle(), mode, &on_device.product));

  const std::string where = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                            (left ? " in A" : " in B") + ", layout " + std::to_string(layout);
  const std::vector<float> c = on_device.c.values();
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(c[i]);
    if (i > 0 && bits == std::bit_cast<std::uint32_t>(c[i - 1])) continue;
    std::vector<std::string>& places = answers[bits];
    if (places.empty() || places.back() != where) places.push_back(where);
  }
}

float cut_to_tf32(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~std::uint32_t{0x1fff});
}
float nearest_tf32_away(float x) {
  return cut_to_tf32(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + 0x1000u));
}
float nearest_tf32_even(float x) {
  return narrow::rounded(x, narrow::tf32);
}

/// What makes y of x.
std::string reading(float x, float y) {
  if (y == x) return "as it is";
  std::string names;
  const auto offer = [&](const char* name, float value) {
    if (y == value) names += (names.empty() ? "" : " or ") + std::string(name);
  };
  offer("to nearest, ties to even", nearest_tf32_even(x));
  offer("to nearest, ties away", nearest_tf32_away(x));
  offer("cut", cut_to_tf32(x));
  offer("taken for 0", 0.0f);
  return names.empty() ? "none of the ways known" : names;
}

/// Whether a product by 1 may read x as y. Where operands are rounded some products may take them as they are.
bool is_declared(const ArithmeticModel& declared, float x, float y) {
  if (y == x) return true;
  if (y == 0.0f) return declared.products_may_flush && std::abs(x) < 0x1p-126f;
  if (declared.input != FormatId::tf32) return false;
  if (declared.tensor_core && declared.tensor_core->cuts_operands) return y == cut_to_tf32(x);
  return y == nearest_tf32_even(x) || y == nearest_tf32_away(x);
}

void check_reading(const CudaOptions& options, float x) {
  const Device& device = Device::opened();
  const std::int64_t most = device.is_double() ? 24 : 10000;
  Answers answers;
  for (const Extents size : {Extents{10000, 64, 64}, Extents{10000, 128, 128}, Extents{10000, 256, 256},
                             Extents{10000, 64, 3}, Extents{10000, 16, 16}, Extents{10000, 2, 16}, Extents{256, 16, 16},
                             Extents{256, 128, 128}, Extents{16, 64, 64}, Extents{1, 64, 64}}) {
    const Extents taken = {std::min(size.m, most), std::min(size.n, most), std::min(size.k, most)};
    for (const int layout : {0, 1, 2, 3}) {
      for (const bool left : {true, false}) multiply_alone(device::gemm_mode(options), taken, layout, left, x, answers);
    }
  }
  const ArithmeticModel declared = device::cuda_arithmetic(options, device.info());
  for (const auto& [bits, places] : answers) {
    const float y = std::bit_cast<float>(bits);
    std::string where = answers.size() == 1 ? "everywhere" : "";
    for (std::size_t i = 0; answers.size() > 1 && i < places.size(); ++i) where += (i == 0 ? "" : "; ") + places[i];
    const std::string line = device::math_mode(options) + " reads " + hex(double{x}) + " as " + hex(double{y}) + " (" +
                             reading(x, y) + "): " + where;
    if (declared.input == FormatId::tf32 || y != x) std::printf("%s\n", line.c_str());
    if (!is_declared(declared, x, y)) FAIL_CHECK(line << ", which is not declared of " << declared.source);
  }
}

TEST_CASE("the vendor's product reads its operands as its arithmetic declares") {
  CudaOptions fp32, pedantic, tf32;
  pedantic.product = CudaProduct::vendor_pedantic;
  tf32.arithmetic = "tf32";
  for (const CudaOptions& options : {tf32, fp32, pedantic}) {
    for (const float x : {0x1.0028p+0f, -0x1.0028p+0f, 0x1.002p+0f, -0x1.002p+0f, 0x1.006p+0f, 0x1.8p-127f})
      check_reading(options, x);
  }
}

TEST_CASE("the vendor's product refuses matrices whose rows and columns both have gaps") {
  Device& device = Device::opened();
  const Buffer<float> a(100), b(100), c(100);
  const driftbound_product product{3, 3, 3, a.memory(), 8, 2, b.memory(), 3, 1, c.memory()};
  CHECK(device.module().gemm(device.handle(), DRIFTBOUND_GEMM_F32, &product) == DRIFTBOUND_DEVICE_UNSUPPORTED);
  CHECK(std::string(device.module().message()) != "");
}

}  // namespace

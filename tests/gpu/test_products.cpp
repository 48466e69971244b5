#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "driftbound/num/format.hpp"
#include "evaluate/product.hpp"
#include "evaluate/summation.hpp"
#include "gpu/device.hpp"
#include "num/narrow.inl.hpp"

namespace {

using namespace gpu_tests;
using namespace driftbound;

/// A matrix row by row or, transposed, column by column, with a gap between these.
template <class Element>
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  std::vector<Element> values;

  Matrix(std::int64_t row_count, std::int64_t column_count, bool transposed, std::int64_t gap)
      : rows(row_count),
        columns(column_count),
        row_stride(transposed ? 1 : columns + gap),
        column_stride(transposed ? rows + gap : 1),
        values(static_cast<std::size_t>(transposed ? columns * (rows + gap) : rows * (columns + gap))) {}

  Element at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * row_stride + j * column_stride)];
  }
};

/// A product of matrices in the device's memory, into C.
template <class Element, class Result>
struct DeviceProduct {
  Buffer<Element> a, b;
  Buffer<Result> c;
  driftbound_product product;

  DeviceProduct(const Matrix<Element>& left, const Matrix<Element>& right)
      : a(left.values), b(right.values), c(static_cast<std::size_t>(left.rows * right.columns)) {
    product = {left.rows,          right.columns, left.columns,     a.memory(),          left.row_stride,
               left.column_stride, b.memory(),    right.row_stride, right.column_stride, c.memory()};
  }
};

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

template <class Element, class Result>
void check_gemm(const Mode& mode) {
  Device& device = Device::opened();
  std::mt19937_64 random(53);
  const std::int64_t shapes[][3] = {{1, 1, 1}, {1, 24, 40}, {17, 1, 33}, {33, 65, 129}, {100, 64, 256}, {5, 7, 1}};
  for (const auto& shape : shapes) {
    const std::int64_t m = shape[0], n = shape[1], k = shape[2];
    for (const int layout : {0, 1, 2, 3}) {
      Matrix<Element> a(m, k, layout % 2 != 0, 0), b(k, n, layout / 2 != 0, 8);
      a.values = random_elements<Element>(a.values.size(), mode.operands, random);
      b.values = random_elements<Element>(b.values.size(), mode.operands, random);
      const DeviceProduct<Element, Result> on_device(a, b);
      device.check(device.module().gemm(device.handle(), mode.id, &on_device.product));
      const std::vector<Result> c = on_device.c.values();
      for (std::int64_t e = 0; e < m * n; ++e) check_element(mode, a, b, e / n, e % n, c[static_cast<std::size_t>(e)]);
    }
  }
}

TEST_CASE("the vendor's product multiplies, in every mode, shape and layout") {
  check_gemm<float, float>({"F32", DRIFTBOUND_GEMM_F32, FormatId::fp32, 0.0});
  check_gemm<float, float>({"F32 pedantic", DRIFTBOUND_GEMM_F32_PEDANTIC, FormatId::fp32, 0.0});
  check_gemm<float, float>({"TF32", DRIFTBOUND_GEMM_TF32, FormatId::tf32, 0x1p-9});
  check_gemm<std::uint16_t, float>({"BF16", DRIFTBOUND_GEMM_BF16, FormatId::bf16, 0.0});
  check_gemm<std::uint16_t, float>({"FP16", DRIFTBOUND_GEMM_FP16, FormatId::fp16, 0.0});
  check_gemm<double, double>({"F64", DRIFTBOUND_GEMM_F64, FormatId::fp64, 0.0});
  check_gemm<double, double>({"F64 pedantic", DRIFTBOUND_GEMM_F64_PEDANTIC, FormatId::fp64, 0.0});
}

TEST_CASE("the vendor's product refuses matrices whose rows and columns both have gaps") {
  Device& device = Device::opened();
  const Buffer<float> a(100), b(100), c(100);
  const driftbound_product product{3, 3, 3, a.memory(), 8, 2, b.memory(), 3, 1, c.memory()};
  CHECK(device.module().gemm(device.handle(), DRIFTBOUND_GEMM_F32, &product) == DRIFTBOUND_DEVICE_UNSUPPORTED);
  CHECK(std::string(device.module().message()) != "");
}

}  // namespace

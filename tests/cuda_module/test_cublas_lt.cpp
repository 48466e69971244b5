#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cublas_lt.hpp"
#include "cuda/failure.hpp"

// How the module calls cuBLASLt, against a library on host memory that is loaded in its place.

using namespace driftbound::device;

namespace {

template <class Function>
Function* of_library(const char* name) {
  static void* const library = dlopen(DRIFTBOUND_FAKE_CUBLAS_LT, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

/// Row by row, or column by column; rows or columns have gaps of 2.
template <class Real>
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  std::vector<Real> values;

  Matrix(std::int64_t m, std::int64_t n, bool by_columns, Real first)
      : rows(m), columns(n), row_stride(by_columns ? 1 : n + 2), column_stride(by_columns ? m + 2 : 1) {
    for (std::int64_t i = 0; i < (m + 2) * (n + 2); ++i) values.push_back(first + static_cast<Real>(i % 11) / 4);
  }
  Real at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * row_stride + j * column_stride)];
  }
};

template <class Real>
driftbound_product product_of(const Matrix<Real>& a, const Matrix<Real>& b, std::vector<Real>& c) {
  return {a.rows,          b.columns,       a.columns,    a.values.data(), a.row_stride,
          a.column_stride, b.values.data(), b.row_stride, b.column_stride, c.data()};
}

template <class Real>
void check_products(driftbound_gemm_mode mode) {
  alignas(256) static char workspace[4096];
  const CublasLt library(nullptr, workspace, sizeof workspace);
  for (const int layout : {0, 1, 2, 3})
    for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{3, 5, 4}, {1, 6, 2}, {4, 1, 1}, {7, 2, 7}}) {
      CAPTURE(layout);
      CAPTURE(m);
      const Matrix<Real> a(m, k, layout % 2 != 0, 1), b(k, n, layout / 2 != 0, -2);
      std::vector<Real> c(static_cast<std::size_t>(m * n), -1);
      const driftbound_product product = product_of(a, b, c);
      for (const std::int32_t algorithm : {0, 1}) {
        const driftbound_algorithm used = library.multiply(mode, product, algorithm);
        CHECK(used.id == (algorithm == 0 ? 6 : 66));
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            Real sum = i == 0 && j == 0 ? static_cast<Real>(algorithm) : 0;
            for (std::int64_t t = 0; t < k; ++t) sum += a.at(i, t) * b.at(t, j);
            CHECK(c[static_cast<std::size_t>(i * n + j)] == sum);
          }
      }
      CHECK_THROWS_AS(library.multiply(mode, product, 2), Failure);
    }
}

}  // namespace

TEST_CASE("cuBLASLt is given every layout so that it multiplies, by the algorithm that is asked for") {
  const auto live = of_library<int()>("fake_cublas_lt_live");
  check_products<float>(DRIFTBOUND_GEMM_F32);
  check_products<float>(DRIFTBOUND_GEMM_TF32);
  check_products<double>(DRIFTBOUND_GEMM_F64);
  CHECK(live() == 0);
}

TEST_CASE("what cuBLASLt says of its algorithms is read as it is, within the workspace and the alignment") {
  const auto alignment = of_library<std::uint32_t(int)>("fake_cublas_lt_alignment");
  alignas(256) static char workspace[2048];
  const CublasLt library(nullptr, workspace, sizeof workspace);
  alignas(256) static float memory[256];
  driftbound_product product{2, 3, 4, memory, 4, 1, memory + 64, 3, 1, memory + 128};
  const std::vector<driftbound_algorithm> all = library.algorithms(DRIFTBOUND_GEMM_BF16, product);
  REQUIRE(all.size() == 2);
  CHECK(std::string(all[0].tile) == "128x64");
  CHECK(std::string(all[0].stages) == "32x3");
  CHECK(std::string(all[0].cluster) == "AUTO");
  CHECK(all[0].reduction == DRIFTBOUND_SPLIT_NONE);
  CHECK(std::string(all[1].tile) == "");
  CHECK(std::string(all[1].stages) == "no. 60000");
  CHECK(std::string(all[1].cluster) == "2x1x1");
  CHECK(all[1].split_k == 4);
  CHECK(all[1].reduction == DRIFTBOUND_SPLIT_IN_RESULT_TYPE);
  CHECK((all[1].swizzle == 1 && all[1].custom == 2));
  CHECK(all[1].workspace_bytes == 1024);
  CHECK(alignment(0) == 256);
  product.b = memory + 1;  // which is the first operand there
  product.a = memory + 2;
  product.c = memory + 4;
  CHECK(library.algorithms(DRIFTBOUND_GEMM_F32, product).size() == 1);
  CHECK(alignment(0) == 4);
  CHECK(alignment(1) == 8);
  CHECK(alignment(2) == 16);
  CHECK(alignment(3) == 16);
  const CublasLt small(nullptr, workspace, 1000);
  product.b = nullptr;
  CHECK(small.algorithms(DRIFTBOUND_GEMM_F32, product).size() == 1);
  CHECK(alignment(0) == 256);
}

#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/target.hpp"

namespace driftbound {

/// Columns of B that are packed together: one cache line.
template <class Real>
inline constexpr std::size_t panel_width = 64 / sizeof(Real);

/// C = A B in a declared order of summation (trace/arithmetic.hpp), operands packed.
template <class Real>
struct PackedProduct {
  const Real* a = nullptr;  ///< [m, k] row-major
  const Real* b = nullptr;  ///< [ceil(n / panel_width), k, panel_width], zero beyond column n
  Real* c = nullptr;        ///< [m, n] row-major
  std::size_t m = 0, n = 0, k = 0;
  std::size_t chain = 0;  ///< length of every chain but the last; 0: pairwise
  bool fma = false;
};

/// Rows of A that are 0 outside of the same columns.
struct SparseRows {
  const std::uint32_t* rows = nullptr;     ///< which rows of A and C
  const std::uint32_t* columns = nullptr;  ///< of A, ascending
  std::size_t row_count = 0, column_count = 0;
};

/// C = A B for some rows, each sum one fused chain over the columns named.
template <class Real>
struct SparseProduct {
  const Real* a = nullptr;  ///< [m, k] row-major
  const Real* b = nullptr;  ///< packed as in PackedProduct
  Real* c = nullptr;        ///< [m, n] row-major
  std::size_t n = 0, k = 0;
  const SparseRows* groups = nullptr;
  std::size_t group_count = 0;
};

/// One build of the product for one instruction set. Every build computes each element of C by the same
/// operations in the same order, so that all give the same bits; they differ in how many columns they do at once.
struct ProductKernels {
  const char* name;
  /// Rows [first, last) of C.
  void (*f32)(const PackedProduct<float>& product, std::size_t first, std::size_t last);
  void (*f64)(const PackedProduct<double>& product, std::size_t first, std::size_t last);
  void (*sparse_f32)(const SparseProduct<float>& product);
  void (*sparse_f64)(const SparseProduct<double>& product);

  void multiply(const PackedProduct<float>& product, std::size_t first, std::size_t last) const {
    f32(product, first, last);
  }
  void multiply(const PackedProduct<double>& product, std::size_t first, std::size_t last) const {
    f64(product, first, last);
  }
  void multiply(const SparseProduct<float>& product) const { sparse_f32(product); }
  void multiply(const SparseProduct<double>& product) const { sparse_f64(product); }
};

DRIFTBOUND_SIMD_BUILDS(ProductKernels, product);

}  // namespace driftbound

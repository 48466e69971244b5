#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "simd/target.hpp"

namespace driftbound::simd_test {

/// Operations on one vector of numbers T: operands and results are arrays of `lanes` numbers.
template <class T>
struct Operations {
  using Integer = std::conditional_t<sizeof(T) == sizeof(double), std::int64_t, std::int32_t>;
  using Other = std::conditional_t<sizeof(T) == sizeof(double), float, double>;
  using Unary = void (*)(const T* a, T* y);
  using Binary = void (*)(const T* a, const T* b, T* y);
  using Comparison = void (*)(const T* a, const T* b, Integer* y);

  std::size_t lanes;
  Unary copy, negative, magnitude, root, halves_swapped;
  Binary sum, difference, product, quotient, smaller, larger, with_sign_of;
  Comparison equal, unequal, less, at_most, greater, at_least;
  void (*fma)(const T* a, const T* b, const T* c, T* y);
  void (*multiply_add)(const T* a, const T* b, const T* c, T* y);
  void (*where)(const Integer* mask, const T* a, const T* b, T* y);
  void (*constant)(T x, T* y);
  void (*load_part)(const T* p, std::size_t count, T* y);
  void (*store_part)(const T* x, std::size_t count, T* p);
  /// y = the sums of neighbours, read and written by vectors and what is left of n.
  void (*add_up)(const T* a, const T* b, std::size_t n, T* y);
  T (*sum_of)(const T* a);
  T (*largest_of)(const T* a);
  bool (*any)(const Integer* mask);
  bool (*every)(const Integer* mask);
  void (*converted)(const T* a, Other* y);
  void (*truncated)(const T* a, Integer* y);
  void (*from_integers)(const Integer* a, T* y);
  /// and, or, exclusive or, not, both shifts by `places`: six results one after the other.
  void (*bits)(const Integer* a, const Integer* b, int places, Integer* y);
};

/// Vectors of several widths: a register or less, a register, more than one on some processors.
struct OperationTable {
  const char* name;
  bool has_fma;
  Operations<double> doubles[4];
  Operations<float> floats[4];
  void (*gathered)(const double* table, const std::int64_t* index, double* y);  ///< eight numbers
};

DRIFTBOUND_SIMD_BUILDS(OperationTable, operations);

}  // namespace driftbound::simd_test

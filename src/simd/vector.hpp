#pragma once

// A vector type for kernel sources, which are compiled once per instruction set. Include this header in kernel sources
// only: all of it has internal linkage, so that the linker cannot use code for a newer processor elsewhere. Operators
// act lane by lane and round to nearest as IEEE 754 specifies, so that results are bitwise equal on all instruction
// sets. The exception is multiply_add().

#include <cstddef>
#include <cstdint>
#include <utility>

#include "simd/instructions.hpp"

namespace driftbound::simd {
namespace {

/// The number of lanes of type T in a vector register.
template <class T>
constexpr std::size_t native_lanes = register_bytes / sizeof(T);

template <std::size_t bytes>
struct SignedInteger;
template <>
struct SignedInteger<2> {
  using Type = std::int16_t;
  static constexpr Type largest = INT16_MAX;
};
template <>
struct SignedInteger<4> {
  using Type = std::int32_t;
  static constexpr Type largest = INT32_MAX;
};
template <>
struct SignedInteger<8> {
  using Type = std::int64_t;
  static constexpr Type largest = INT64_MAX;
};

/// The count n as a type. An overload for it handles a full vector without a test at run time.
template <std::size_t n>
struct Whole {
  constexpr operator std::size_t() const { return n; }
};

template <class T, std::size_t n>
constexpr bool fits_register = n * sizeof(T) <= register_bytes;

#define DRIFTBOUND_SIMD_INLINE [[gnu::always_inline]]
// Members of both versions of Vector: the one in a single register, and the one of two halves.
// clang-format off
#define DRIFTBOUND_SIMD_MEMBERS(UNARY, BINARY, COMPARISON, SHIFT)                                                     \
  UNARY(-) UNARY(~) SHIFT(<<) SHIFT(>>)                                                                               \
  BINARY(+) BINARY(-) BINARY(*) BINARY(/) BINARY(&) BINARY(|) BINARY(^)                                               \
  COMPARISON(==) COMPARISON(!=) COMPARISON(<) COMPARISON(<=) COMPARISON(>) COMPARISON(>=)                             \
  DRIFTBOUND_SIMD_INLINE Vector& operator+=(Vector b) { return *this = *this + b; }                                   \
  DRIFTBOUND_SIMD_INLINE Vector& operator*=(Vector b) { return *this = *this * b; }                                   \
  DRIFTBOUND_SIMD_INLINE Vector& operator&=(Vector b) { return *this = *this & b; }                                   \
  DRIFTBOUND_SIMD_INLINE Vector& operator|=(Vector b) { return *this = *this | b; }                                   \
  DRIFTBOUND_SIMD_INLINE static Vector load(const T* p, Whole<n>) { return load(p); }                                 \
  DRIFTBOUND_SIMD_INLINE void store(T* p, Whole<n>) const { store(p); }                                               \
  DRIFTBOUND_SIMD_INLINE void store(T* p, std::size_t count) const {                                                  \
    if (count == n) return store(p);                                                                                  \
    __builtin_memcpy(p, this, count * sizeof(T));                                                                     \
  }
// clang-format on

/// n numbers of type T; n is a power of two. A vector that is wider than a register consists of two halves, as
/// compilers split such vectors into single numbers.
template <class T, std::size_t n>
struct Vector {
  static constexpr std::size_t lanes = n;
  using Number = T;
  using Half = Vector<T, n / 2>;
  using Mask = Vector<typename SignedInteger<sizeof(T)>::Type, n>;

  Half low, high;

  Vector() = default;
  /// Sets all lanes to x.
  DRIFTBOUND_SIMD_INLINE Vector(T x) : low(x), high(x) {}  // NOLINT(google-explicit-constructor)
  DRIFTBOUND_SIMD_INLINE Vector(Half first, Half second) : low(first), high(second) {}

  DRIFTBOUND_SIMD_INLINE static Vector load(const T* p) { return {Half::load(p), Half::load(p + n / 2)}; }
  /// Loads `count` numbers and sets the remaining lanes to 0. No memory beyond them is read.
  DRIFTBOUND_SIMD_INLINE static Vector load(const T* p, std::size_t count) {
    if (count == n) return load(p);
    if constexpr (has_partial_load<T, n / 2>) {
      const std::size_t first = count < n / 2 ? count : n / 2;
      return {Half::load(p, first), Half::load(p + first, count - first)};
    }
    Vector x{};
    __builtin_memcpy(&x, p, count * sizeof(T));
    return x;
  }
  DRIFTBOUND_SIMD_INLINE void store(T* p) const {
    low.store(p);
    high.store(p + n / 2);
  }
  DRIFTBOUND_SIMD_INLINE T operator[](std::size_t i) const { return i < n / 2 ? low[i] : high[i - n / 2]; }

#define DRIFTBOUND_SIMD_BINARY(op)                                       \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a, Vector b) { \
    return {a.low op b.low, a.high op b.high};                           \
  }
#define DRIFTBOUND_SIMD_COMPARISON(op)                                 \
  DRIFTBOUND_SIMD_INLINE friend Mask operator op(Vector a, Vector b) { \
    return {a.low op b.low, a.high op b.high};                         \
  }
#define DRIFTBOUND_SIMD_UNARY(op)                              \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a) { \
    return {op a.low, op a.high};                              \
  }
#define DRIFTBOUND_SIMD_SHIFT(op)                                          \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a, int places) { \
    return {a.low op places, a.high op places};                            \
  }
  DRIFTBOUND_SIMD_MEMBERS(DRIFTBOUND_SIMD_UNARY, DRIFTBOUND_SIMD_BINARY, DRIFTBOUND_SIMD_COMPARISON,
                          DRIFTBOUND_SIMD_SHIFT)
#undef DRIFTBOUND_SIMD_UNARY
#undef DRIFTBOUND_SIMD_BINARY
#undef DRIFTBOUND_SIMD_COMPARISON
#undef DRIFTBOUND_SIMD_SHIFT

  /// Per lane: a if the mask is true, else b.
  DRIFTBOUND_SIMD_INLINE friend Vector where(Mask mask, Vector a, Vector b) {
    return {where(mask.low, a.low, b.low), where(mask.high, a.high, b.high)};
  }
  /// Per lane: a if a < b, else b. The result is b if either is NaN, or if both are zeros.
  DRIFTBOUND_SIMD_INLINE friend Vector smaller(Vector a, Vector b) {
    return {smaller(a.low, b.low), smaller(a.high, b.high)};
  }
  /// Per lane: a if a > b, else b.
  DRIFTBOUND_SIMD_INLINE friend Vector larger(Vector a, Vector b) {
    return {larger(a.low, b.low), larger(a.high, b.high)};
  }
};

template <class T, std::size_t n>
requires fits_register<T, n>
struct Vector<T, n> {
  static constexpr std::size_t lanes = n;
  using Number = T;
  using Mask = Vector<typename SignedInteger<sizeof(T)>::Type, n>;
  typedef T Native __attribute__((vector_size(n * sizeof(T))));

  Native v;

  Vector() = default;
  DRIFTBOUND_SIMD_INLINE Vector(T x) : v(x - Native{}) {}  // NOLINT(google-explicit-constructor): x - 0 keeps -0.0
  DRIFTBOUND_SIMD_INLINE static Vector of(Native native) {
    Vector x;
    x.v = native;
    return x;
  }

  DRIFTBOUND_SIMD_INLINE static Vector load(const T* p) {
    Native native;
    __builtin_memcpy(&native, p, sizeof native);
    return of(native);
  }
  DRIFTBOUND_SIMD_INLINE static Vector load(const T* p, std::size_t count) {
    if (count == n) return load(p);
    if constexpr (has_partial_load<T, n>) return of(instruction_load(p, count, Native{}));
    Vector x{};
    __builtin_memcpy(&x, p, count * sizeof(T));
    return x;
  }
  DRIFTBOUND_SIMD_INLINE void store(T* p) const { __builtin_memcpy(p, &v, sizeof v); }
  DRIFTBOUND_SIMD_INLINE T operator[](std::size_t i) const { return v[i]; }

#define DRIFTBOUND_SIMD_BINARY(op)                                       \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a, Vector b) { \
    return of(a.v op b.v);                                               \
  }
#define DRIFTBOUND_SIMD_COMPARISON(op)                                    \
  DRIFTBOUND_SIMD_INLINE friend Mask operator op(Vector a, Vector b) {    \
    return Mask::of(reinterpret_cast<typename Mask::Native>(a.v op b.v)); \
  }
#define DRIFTBOUND_SIMD_UNARY(op)                              \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a) { \
    return of(op a.v);                                         \
  }
#define DRIFTBOUND_SIMD_SHIFT(op)                                          \
  DRIFTBOUND_SIMD_INLINE friend Vector operator op(Vector a, int places) { \
    return of(a.v op places);                                              \
  }
  DRIFTBOUND_SIMD_MEMBERS(DRIFTBOUND_SIMD_UNARY, DRIFTBOUND_SIMD_BINARY, DRIFTBOUND_SIMD_COMPARISON,
                          DRIFTBOUND_SIMD_SHIFT)
#undef DRIFTBOUND_SIMD_UNARY
#undef DRIFTBOUND_SIMD_BINARY
#undef DRIFTBOUND_SIMD_COMPARISON
#undef DRIFTBOUND_SIMD_SHIFT

  DRIFTBOUND_SIMD_INLINE friend Vector where(Mask mask, Vector a, Vector b) {
    return of(mask.v ? a.v : b.v);
  }
  DRIFTBOUND_SIMD_INLINE friend Vector smaller(Vector a, Vector b) {
    if constexpr (has_instructions<T, n>) return of(instruction_min(a.v, b.v));
    return where(a < b, a, b);
  }
  DRIFTBOUND_SIMD_INLINE friend Vector larger(Vector a, Vector b) {
    if constexpr (has_instructions<T, n>) return of(instruction_max(a.v, b.v));
    return where(a > b, a, b);
  }
};

/// A vector that fills one register.
template <class T>
using Native = Vector<T, native_lanes<T>>;

/// Returns the lanes first, first + 1, ... of the concatenation of a and b; the number of indices i is the number of
/// lanes.
template <std::size_t first, class Native, std::size_t... i>
DRIFTBOUND_SIMD_INLINE inline auto neighbours(Native a, Native b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + i)...);
}

/// low_half(), high_half(): one half of a vector. joined(): the concatenation of two vectors.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n / 2> low_half(Vector<T, n> x) {
  if constexpr (fits_register<T, n>) {
    return Vector<T, n / 2>::of(neighbours<0>(x.v, x.v, std::make_index_sequence<n / 2>()));
  } else {
    return x.low;
  }
}
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n / 2> high_half(Vector<T, n> x) {
  if constexpr (fits_register<T, n>) {
    return Vector<T, n / 2>::of(neighbours<n / 2>(x.v, x.v, std::make_index_sequence<n / 2>()));
  } else {
    return x.high;
  }
}
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, 2 * n> joined(Vector<T, n> low, Vector<T, n> high) {
  if constexpr (fits_register<T, 2 * n>) {
    return Vector<T, 2 * n>::of(neighbours<0>(low.v, high.v, std::make_index_sequence<2 * n>()));
  } else {
    return {low, high};
  }
}

/// Reinterprets the bits of each lane as a number of another type of the same size.
template <class U, class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<U, n> bits_as(Vector<T, n> x) {
  static_assert(sizeof(U) == sizeof(T));
  if constexpr (fits_register<T, n>) {
    return Vector<U, n>::of(reinterpret_cast<typename Vector<U, n>::Native>(x.v));
  } else {
    return {bits_as<U>(x.low), bits_as<U>(x.high)};
  }
}
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline typename Vector<T, n>::Mask bits_of(Vector<T, n> x) {
  return bits_as<typename SignedInteger<sizeof(T)>::Type>(x);
}

/// Converts each lane to another type: rounds to nearest to a floating-point type, and toward zero from floating point
/// to integers.
template <class U, class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<U, n> converted(Vector<T, n> x) {
  if constexpr (fits_register<T, n> && fits_register<U, n> && has_conversion<T, U, n>) {
    return Vector<U, n>::of(instruction_convert(x.v));
  } else if constexpr (fits_register<T, n> && fits_register<U, n>) {
    return Vector<U, n>::of(__builtin_convertvector(x.v, typename Vector<U, n>::Native));
  } else {
    return joined(converted<U>(low_half(x)), converted<U>(high_half(x)));
  }
}

/// The square root, rounded to nearest.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n> square_root(Vector<T, n> x) {
  if constexpr (!fits_register<T, n>) {
    return {square_root(x.low), square_root(x.high)};
  } else if constexpr (has_instructions<T, n>) {
    return Vector<T, n>::of(instruction_sqrt(x.v));
  } else {
    for (std::size_t i = 0; i < n; ++i) x.v[i] = static_cast<T>(__builtin_sqrt(x.v[i]));
    return x;
  }
}

/// a b + c with one rounding, on every processor.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n> fma(Vector<T, n> a, Vector<T, n> b, Vector<T, n> c) {
  if constexpr (!fits_register<T, n>) {
    return {fma(a.low, b.low, c.low), fma(a.high, b.high, c.high)};
  } else if constexpr (has_fma && has_instructions<T, n>) {
    return Vector<T, n>::of(instruction_fma(a.v, b.v, c.v));
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (sizeof(T) == sizeof(float)) {
        c.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
      } else {
        c.v[i] = __builtin_fma(a.v[i], b.v[i], c.v[i]);
      }
    }
    return c;
  }
}

/// a b + c with one rounding if the instruction set has a fused multiply-add, else with two. Results depend on the
/// instruction set.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n> multiply_add(Vector<T, n> a, Vector<T, n> b, Vector<T, n> c) {
  if constexpr (has_fma) {
    return fma(a, b, c);
  } else {
    return a * b + c;
  }
}

/// Returns table[index] for each lane.
template <std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<double, n> gathered(const double* table, Vector<std::int64_t, n> index) {
  if constexpr (!fits_register<double, n>) {
    return {gathered(table, index.low), gathered(table, index.high)};
  } else {
    // The masked intrinsics are used because GCC 12 warns about its own header for the others.
#ifdef __AVX512F__
    if constexpr (n == 8) {
      const __m512i places = reinterpret_cast<__m512i>(index.v);
      return Vector<double, n>::of(_mm512_mask_i64gather_pd(_mm512_setzero_pd(), 0xff, places, table, 8));
    }
#endif
#ifdef __AVX2__
    if constexpr (n == 4) {
      const __m256d every = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
      const __m256i places = reinterpret_cast<__m256i>(index.v);
      return Vector<double, n>::of(_mm256_mask_i64gather_pd(_mm256_setzero_pd(), table, places, every, 8));
    }
#endif
    Vector<double, n> x{};
    for (std::size_t i = 0; i < n; ++i) x.v[i] = table[index.v[i]];
    return x;
  }
}

template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n> magnitude(Vector<T, n> x) {
  return bits_as<T>(bits_of(x) & SignedInteger<sizeof(T)>::largest);
}
/// Returns |size| with the sign of `sign`.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline Vector<T, n> with_sign_of(Vector<T, n> size, Vector<T, n> sign) {
  using Integer = SignedInteger<sizeof(T)>;
  return bits_as<T>((bits_of(size) & Integer::largest) | (bits_of(sign) & ~Integer::largest));
}

/// any(): whether a mask is true in at least one lane. every(): whether it is true in all lanes.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline bool any(Vector<T, n> mask) {
  if constexpr (n * sizeof(T) > 16) {
    return any(low_half(mask) | high_half(mask));
  } else {
    T some = 0;
    for (std::size_t i = 0; i < n; ++i) some |= mask[i];
    return some != 0;
  }
}
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline bool every(Vector<T, n> mask) {
  return !any(~mask);
}

/// The sum of all lanes by pairwise summation: the two halves are added until two lanes remain, then these.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline T sum_of(Vector<T, n> x) {
  if constexpr (n == 2) {
    return x[0] + x[1];
  } else {
    return sum_of(low_half(x) + high_half(x));
  }
}
/// The maximum of 0 and all lanes; NaN lanes are ignored.
template <class T, std::size_t n>
DRIFTBOUND_SIMD_INLINE inline T largest_of(Vector<T, n> x) {
  T largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

/// Calls body(first, count) for consecutive ranges of the indices 0 to n - 1. For ranges of `lanes` indices, count is a
/// Whole<lanes>; for a last, shorter range it is a std::size_t.
template <std::size_t lanes, class Body>
inline void in_vectors(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(i, Whole<lanes>());
  if (i < n) body(i, n - i);
}

}  // namespace
}  // namespace driftbound::simd

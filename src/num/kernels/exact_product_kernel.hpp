#pragma once

// Error-free accumulation of products (T-83, T-84), written once and compiled once per instruction set. Everything
// here has internal linkage and calls no inline function of another header: code compiled for a newer processor must
// not be shared with the rest of the program. Loops over the vectors of a tile are unrolled, so that accumulators stay in
// registers: gcc writes an array that a loop runs over to memory in every step.

#include <cstddef>
#include <cstdint>

#include "num/kernels/exact_product.hpp"

namespace driftbound::num {
namespace {

/// S takes the product in; what it could not hold comes back.
template <class Vector>
Vector left_over(Vector a, Vector b, Vector& high) {
  const Vector next = fma(a, b, high);
  const Vector taken = sub(next, high);
  high = next;
  return fms(a, b, taken);
}

template <class Vector>
void renormalise(Vector& high, Vector& low) {
  const Vector sum = add(high, low);
  low = sub(low, sub(sum, high));
  high = sum;
}

/// Vector holds Vector::lanes neighbouring columns; its operations act on each lane alone, one IEEE rounding each.
template <class Vector, std::size_t rows, std::size_t vectors>
struct ExactTile {
  static constexpr std::size_t lanes = Vector::lanes, columns = vectors * lanes, size = rows * columns;

  struct Level {
    Vector v[rows][vectors];

    explicit Level(const double* state) {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < vectors; ++i) v[r][i] = Vector::load(state + (r * vectors + i) * lanes);
      }
    }
    void store(double* state) const {
#pragma GCC unroll 8
      for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < vectors; ++i) v[r][i].store(state + (r * vectors + i) * lanes);
      }
    }
  };

  static void load(const double* b, Vector (&column)[vectors]) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < vectors; ++i) column[i] = Vector::load(b + i * lanes);
  }

  static void two(const double* a, const double* b, std::size_t steps, double* state) {
    Level high(state), low(state + size);
    for (std::size_t l = 0; l < steps; ++l) {
      Vector column[vectors];
      load(b + l * columns, column);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < rows; ++r) {
        const Vector factor = Vector::all(a[l * rows + r]);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < vectors; ++i) {
          low.v[r][i] = add(low.v[r][i], left_over(factor, column[i], high.v[r][i]));
        }
      }
    }
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < vectors; ++i) renormalise(high.v[r][i], low.v[r][i]);
    }
    high.store(state);
    low.store(state + size);
  }

  static void three(const double* a, const double* b, std::size_t steps, double* state) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < vectors; ++i) {
        double* const place = state + (r * vectors + i) * lanes;
        Vector high = Vector::load(place), middle = Vector::load(place + size), low = Vector::load(place + 2 * size);
        for (std::size_t l = 0; l < steps; ++l) {
          const Vector t = left_over(Vector::all(a[l * rows + r]), Vector::load(b + l * columns + i * lanes), high);
          const Vector next = add(middle, t);
          low = add(low, sub(t, sub(next, middle)));
          middle = next;
        }
        high.store(place);
        middle.store(place + size);
        low.store(place + 2 * size);
      }
    }
  }

  template <bool has_a_low, bool has_b_low>
  static void pairs_of(const double* a, const double* a_low, const double* b, const double* b_low, std::size_t steps,
                       double* state) {
    Level high(state), low(state + size);
    for (std::size_t first = 0; first < steps; first += pair_steps_between) {
      const std::size_t last = steps - first < pair_steps_between ? steps : first + pair_steps_between;
      for (std::size_t l = first; l < last; ++l) {
        Vector column[vectors], column_low[vectors];
        load(b + l * columns, column);
        if constexpr (has_b_low) load(b_low + l * columns, column_low);
#pragma GCC unroll 8
        for (std::size_t r = 0; r < rows; ++r) {
          const Vector factor = Vector::all(a[l * rows + r]);
#pragma GCC unroll 8
          for (std::size_t i = 0; i < vectors; ++i) {
            Vector sum = add(low.v[r][i], left_over(factor, column[i], high.v[r][i]));
            if constexpr (has_a_low) sum = fma(Vector::all(a_low[l * rows + r]), column[i], sum);
            if constexpr (has_b_low) sum = fma(factor, column_low[i], sum);
            low.v[r][i] = sum;
          }
        }
      }
#pragma GCC unroll 8
      for (std::size_t r = 0; r < rows; ++r) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < vectors; ++i) renormalise(high.v[r][i], low.v[r][i]);
      }
    }
    high.store(state);
    low.store(state + size);
  }

  static void pairs(const double* a, const double* a_low, const double* b, const double* b_low, std::size_t steps,
                    double* state) {
    if (a_low != nullptr) {
      if (b_low != nullptr) return pairs_of<true, true>(a, a_low, b, b_low, steps, state);
      return pairs_of<true, false>(a, a_low, b, b_low, steps, state);
    }
    if (b_low != nullptr) return pairs_of<false, true>(a, a_low, b, b_low, steps, state);
    pairs_of<false, false>(a, a_low, b, b_low, steps, state);
  }

  static void finish(const double* state, const double* scale_a, const double* scale_b, double* high, double* low) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < vectors; ++i) {
        const std::size_t place = (r * vectors + i) * lanes;
        const Vector x = sub(Vector::load(state + place), Vector::all(3.0)), y = Vector::load(state + size + place);
        const Vector sum = add(x, y), y_part = sub(sum, x), x_part = sub(sum, y_part);
        const Vector error = add(sub(x, x_part), sub(y, y_part));
        const Vector scale = mul(Vector::all(scale_a[r]), Vector::load(scale_b + i * lanes));
        mul(sum, scale).store(high + place);
        mul(error, scale).store(low + place);
      }
    }
  }
};

/// Set: Floats and Integers of 32 bits in one vector register, Shorts of 16 bits, as many of them.
template <class Set>
struct LastBits {
  using Floats = typename Set::Floats;
  using Integers = typename Set::Integers;
  using Shorts = typename Set::Shorts;
  static constexpr std::size_t lanes = sizeof(Integers) / sizeof(std::int32_t);

  template <class V, class T>
  static V load(const T* p) {
    V x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }

  /// Exponents of the last bits that are not 0, less `exponent`; no_unit for 0.
  static Integers last_bits(Floats x, std::int32_t exponent) {
    const Integers magnitude = __builtin_bit_cast(Integers, x) & 0x7fffffff, biased = magnitude >> 23;
    const Integers subnormal = biased == 0;  // -1 or 0
    const Integers mantissa =
        (magnitude & 0x7fffff) | 0x800000;  // a bit too many in subnormal numbers, never their last
    const auto lowest = __builtin_convertvector(mantissa & -mantissa, Floats);  // at most 2^23: exact
    const Integers place = __builtin_bit_cast(Integers, lowest) >> 23;
    const Integers unit = place + biased - subnormal - (277 + exponent), zero = magnitude == 0;
    return (zero & std::int32_t{no_unit}) | (~zero & unit);
  }

  static Integers smaller(Integers x, Integers y) {
    const Integers less = x < y;
    return (less & x) | (~less & y);
  }

  static std::int32_t lower_units(const float* row, std::size_t length, std::int32_t exponent, std::int16_t* units) {
    Integers lowest = Integers{} + std::int32_t{no_unit};
    for (std::size_t l = 0; l < length; l += lanes) {
      const std::size_t count = length - l < lanes ? length - l : lanes;
      Floats x{};
      Shorts before{};
      if (count == lanes) {
        x = load<Floats>(row + l), before = load<Shorts>(units + l);
      } else {
        __builtin_memcpy(&x, row + l, count * sizeof(float)),
            __builtin_memcpy(&before, units + l, count * sizeof(std::int16_t));
      }
      const Integers unit = last_bits(x, exponent);
      lowest = smaller(lowest, unit);
      const Shorts after = __builtin_convertvector(smaller(unit, __builtin_convertvector(before, Integers)), Shorts);
      __builtin_memcpy(units + l, &after, count * sizeof(std::int16_t));
    }
    std::int32_t result = no_unit;
    for (std::size_t i = 0; i < lanes; ++i) result = lowest[i] < result ? lowest[i] : result;
    return result;
  }
};

inline double sum_of_squares(const float* row, std::size_t length) {
  constexpr std::size_t chains = 16;
  double sums[chains] = {};
  std::size_t l = 0;
  for (; l + chains <= length; l += chains) {
    for (std::size_t i = 0; i < chains; ++i) {
      const double x = row[l + i];
      sums[i] += x * x;
    }
  }
  for (; l < length; ++l) sums[0] += static_cast<double>(row[l]) * static_cast<double>(row[l]);
  double sum = 0.0;
  for (const double part : sums) sum += part;
  return sum;
}

inline std::int32_t lowest_sum(const std::int16_t* a, const std::int16_t* b, std::size_t length) {
  std::int16_t lowest = 2 * no_unit;
  for (std::size_t l = 0; l < length; ++l) {
    const auto sum = static_cast<std::int16_t>(a[l] + b[l]);
    lowest = sum < lowest ? sum : lowest;
  }
  return lowest;
}

template <class Vector, std::size_t width>
void pack(const float* const* rows, const double* factors, std::size_t length, double* panel) {
  constexpr std::size_t lanes = Vector::lanes;
  double piece[width][lanes];
  for (std::size_t l = 0; l < length; l += lanes) {
    const std::size_t count = length - l < lanes ? length - l : lanes;
    for (std::size_t r = 0; r < width; ++r) {
      if (count == lanes) {
        mul(Vector::widen(rows[r] + l), Vector::all(factors[r])).store(piece[r]);
      } else {
        for (std::size_t i = 0; i < count; ++i) piece[r][i] = static_cast<double>(rows[r][l + i]) * factors[r];
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t r = 0; r < width; ++r) panel[(l + i) * width + r] = piece[r][i];
    }
  }
}

template <class Vector, std::size_t rows, std::size_t vectors>
constexpr ExactKernels exact_kernels(const char* name) {
  using Tile = ExactTile<Vector, rows, vectors>;
  return {name,
          rows,
          Tile::columns,
          &Tile::two,
          &Tile::three,
          &Tile::pairs,
          &Tile::finish,
          &sum_of_squares,
          &LastBits<Vector>::lower_units,
          &lowest_sum,
          &pack<Vector, rows>,
          &pack<Vector, Tile::columns>};
}

}  // namespace
}  // namespace driftbound::num

#pragma once

// Error-free accumulation of products (T-83, T-84), written once and compiled once per instruction set. Everything
// here has internal linkage and calls no inline function of another header: code compiled for a newer processor must
// not be shared with the rest of the program.

#include <cstddef>
#include <cstdint>

#include "num/kernels/exact_product.hpp"

namespace driftbound::num {
namespace {

/// Vector holds Vector::lanes neighbouring columns; its operations act on each lane alone, one IEEE rounding each.
template <class Vector, std::size_t rows, std::size_t vectors>
struct ExactTile {
  static constexpr std::size_t lanes = Vector::lanes, columns = vectors * lanes, size = rows * columns;

  struct Level {
    Vector v[rows][vectors];

    explicit Level(const double* state) {
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < vectors; ++i) v[r][i] = Vector::load(state + (r * vectors + i) * lanes);
      }
    }
    void store(double* state) const {
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < vectors; ++i) v[r][i].store(state + (r * vectors + i) * lanes);
      }
    }
  };

  static void load(const double* b, Vector (&column)[vectors]) {
    for (std::size_t i = 0; i < vectors; ++i) column[i] = Vector::load(b + i * lanes);
  }

  /// S takes the product in; what it could not hold comes back.
  static Vector left_over(Vector a, Vector b, Vector& high) {
    const Vector next = fma(a, b, high);
    const Vector taken = sub(next, high);
    high = next;
    return fms(a, b, taken);
  }

  static void two(const double* a, const double* b, std::size_t steps, double* state) {
    Level high(state), low(state + size);
    for (std::size_t l = 0; l < steps; ++l) {
      Vector column[vectors];
      load(b + l * columns, column);
      for (std::size_t r = 0; r < rows; ++r) {
        const Vector factor = Vector::all(a[l * rows + r]);
        for (std::size_t i = 0; i < vectors; ++i) {
          low.v[r][i] = add(low.v[r][i], left_over(factor, column[i], high.v[r][i]));
        }
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < vectors; ++i) {
        const Vector sum = add(high.v[r][i], low.v[r][i]);
        low.v[r][i] = sub(low.v[r][i], sub(sum, high.v[r][i]));
        high.v[r][i] = sum;
      }
    }
    high.store(state);
    low.store(state + size);
  }

  static void three(const double* a, const double* b, std::size_t steps, double* state) {
    for (std::size_t r = 0; r < rows; ++r) {
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

/// Exponent of the last bit that is not 0.
inline std::int32_t last_bit(float x) {
  const std::uint32_t magnitude = __builtin_bit_cast(std::uint32_t, x) & 0x7fffffffu;
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | (exponent != 0 ? 0x800000u : 0u);
  const auto lowest = static_cast<float>(static_cast<std::int32_t>(mantissa & (0u - mantissa)));  // at most 2^23: exact
  const std::int32_t place = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, lowest) >> 23) - 127;
  const std::int32_t unit = place - 150 + static_cast<std::int32_t>(exponent != 0 ? exponent : 1u);
  return magnitude == 0 ? no_unit : unit;
}

inline ExactRow describe_row(const float* row, std::size_t length) {
  constexpr std::size_t chains = 16;
  double sums[chains] = {};
  std::size_t l = 0;
  for (; l + chains <= length; l += chains) {
    for (std::size_t i = 0; i < chains; ++i)
      sums[i] += static_cast<double>(row[l + i]) * static_cast<double>(row[l + i]);
  }
  for (; l < length; ++l) sums[0] += static_cast<double>(row[l]) * static_cast<double>(row[l]);
  ExactRow result;
  for (const double sum : sums) result.squares += sum;
  result.unit = no_unit;
  for (l = 0; l < length; ++l) {
    const std::int32_t unit = last_bit(row[l]);
    result.unit = unit < result.unit ? unit : result.unit;
  }
  return result;
}

inline void lower_row_units(const float* row, std::size_t length, std::int32_t exponent, std::int16_t* units) {
  for (std::size_t l = 0; l < length; ++l) {
    const std::int32_t unit = last_bit(row[l]);
    const std::int32_t scaled = unit == no_unit ? no_unit : unit - exponent;
    const std::int32_t before = units[l];
    units[l] = static_cast<std::int16_t>(scaled < before ? scaled : before);
  }
}

inline std::int32_t lowest_sum(const std::int16_t* a, const std::int16_t* b, std::size_t length) {
  std::int16_t lowest = 2 * no_unit;
  for (std::size_t l = 0; l < length; ++l) {
    const auto sum = static_cast<std::int16_t>(a[l] + b[l]);
    lowest = sum < lowest ? sum : lowest;
  }
  return lowest;
}

inline void place_row(const float* row, std::size_t length, double scale, std::size_t width, double* panel) {
  for (std::size_t l = 0; l < length; ++l) panel[l * width] = static_cast<double>(row[l]) * scale;
}

template <class Vector, std::size_t rows, std::size_t vectors>
constexpr ExactKernels exact_kernels(const char* name) {
  using Tile = ExactTile<Vector, rows, vectors>;
  return {name,          rows,          Tile::columns,    &Tile::two,  &Tile::three,
          &Tile::finish, &describe_row, &lower_row_units, &lowest_sum, &place_row};
}

}  // namespace
}  // namespace driftbound::num

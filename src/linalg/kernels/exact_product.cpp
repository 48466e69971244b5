// Error-free accumulation of products (T-83, T-84). Loops over the vectors of a tile are unrolled, so that accumulators
// stay in registers: gcc writes an array that a loop runs over to memory in every step.

#include "linalg/kernels/exact_product.hpp"

#include <cstddef>
#include <cstdint>

#include "simd/vector.hpp"

namespace driftbound::linalg {
namespace {

/// Neighbouring columns.
using Vector = simd::Native<double>;
constexpr std::size_t lanes = Vector::lanes;

/// S takes the product in; what it could not hold comes back.
Vector left_over(Vector a, Vector b, Vector& high) {
  const Vector next = fma(a, b, high), taken = next - high;
  high = next;
  return fma(a, b, -taken);
}

void renormalise(Vector& high, Vector& low) {
  const Vector sum = high + low;
  low = low - (sum - high);
  high = sum;
}

template <std::size_t rows, std::size_t vectors>
struct ExactTile {
  static constexpr std::size_t columns = vectors * lanes, size = rows * columns;

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
        const Vector factor = Vector(a[l * rows + r]);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < vectors; ++i) {
          low.v[r][i] += left_over(factor, column[i], high.v[r][i]);
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
          const Vector t = left_over(Vector(a[l * rows + r]), Vector::load(b + l * columns + i * lanes), high);
          const Vector next = middle + t;
          low += t - (next - middle);
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
          const Vector factor = Vector(a[l * rows + r]);
#pragma GCC unroll 8
          for (std::size_t i = 0; i < vectors; ++i) {
            Vector sum = low.v[r][i] + left_over(factor, column[i], high.v[r][i]);
            if constexpr (has_a_low) sum = fma(Vector(a_low[l * rows + r]), column[i], sum);
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
        const Vector x = Vector::load(state + place) - 3.0, y = Vector::load(state + size + place);
        const Vector sum = x + y, y_part = sum - x, x_part = sum - y_part;
        const Vector error = (x - x_part) + (y - y_part);
        const Vector scale = scale_a[r] * Vector::load(scale_b + i * lanes);
        (sum * scale).store(high + place);
        (error * scale).store(low + place);
      }
    }
  }
};

using Floats = simd::Native<float>;
using Integers = Floats::Mask;
using Shorts = simd::Vector<std::int16_t, Floats::lanes>;

/// Exponents of the last bits that are not 0, less `exponent`; no_unit for 0.
Integers last_bits(Floats x, std::int32_t exponent) {
  const Integers magnitude = bits_of(simd::magnitude(x)), biased = magnitude >> 23;
  const Integers subnormal = biased == 0;                       // -1 or 0
  const Integers mantissa = (magnitude & 0x7fffff) | 0x800000;  // a bit too many in subnormal numbers, never their last
  const Floats lowest = simd::converted<float>(mantissa & -mantissa);  // at most 2^23: exact
  const Integers unit = (bits_of(lowest) >> 23) + biased - subnormal - (277 + exponent);
  return where(magnitude == 0, std::int32_t{no_unit}, unit);
}

std::int32_t lower_units(const float* row, std::size_t length, std::int32_t exponent, std::int16_t* units) {
  Integers lowest = std::int32_t{no_unit};
  simd::in_vectors<Floats::lanes>(length, [&](std::size_t l, auto count) {
    const Integers unit = last_bits(Floats::load(row + l, count), exponent);
    lowest = smaller(lowest, unit);
    const Integers before = simd::converted<std::int32_t>(Shorts::load(units + l, count));
    simd::converted<std::int16_t>(smaller(unit, before)).store(units + l, count);
  });
  std::int32_t result = no_unit;
  for (std::size_t i = 0; i < Integers::lanes; ++i) result = lowest[i] < result ? lowest[i] : result;
  return result;
}

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

/// `count` elements as doubles.
template <class Count>
Vector widened(const float* p, Count count) {
  return simd::converted<double>(simd::Vector<float, lanes>::load(p, count));
}

template <std::size_t width>
void pack(const float* const* rows, const double* factors, std::size_t length, double* panel) {
  double piece[width][lanes];
  simd::in_vectors<lanes>(length, [&](std::size_t l, auto count) {
    for (std::size_t r = 0; r < width; ++r) (widened(rows[r] + l, count) * factors[r]).store(piece[r]);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t r = 0; r < width; ++r) panel[(l + i) * width + r] = piece[r][i];
    }
  });
}

/// Accumulators that the processor's registers hold.
constexpr std::size_t rows = simd::register_bytes == 16 ? 2 : simd::register_bytes == 32 ? 3 : 6;
using Tile = ExactTile<rows, 2>;

}  // namespace

const ExactKernels DRIFTBOUND_SIMD_NAME(exact) = {DRIFTBOUND_SIMD_TARGET_NAME,
                                                  rows,
                                                  Tile::columns,
                                                  &Tile::two,
                                                  &Tile::three,
                                                  &Tile::pairs,
                                                  &Tile::finish,
                                                  &sum_of_squares,
                                                  &lower_units,
                                                  &lowest_sum,
                                                  &pack<rows>,
                                                  &pack<Tile::columns>};

}  // namespace driftbound::linalg

#pragma once

// T-68 for rows of sums.

#include "bounds/kernels/doubles.hpp"
#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {
namespace {

/// u ufp(t) or eta.
inline Doubles rounding_at(const Doubles& t, const RowFormat& format) {
  return larger(format.u * ufp(t), format.eta);
}

template <class Count>
inline Doubles sums_at(const CoarseSums& row, std::size_t i, Count count) {
  const Doubles sums = doubles_of(load(row.sums + i, count));
  return sums * (row.scale * load(row.column_scales + i, count));  // column scales make up for the rounding
}

/// Half the binary digits of the number of terms, and two: after as many binades next to nothing is left.
inline std::size_t binades_of(double leaves) {
  std::size_t binades = 2;
  for (double n = 1.0; n < leaves; n *= 4.0) ++binades;
  return binades;
}

/// Squares of the terms of one sign, at most: `difference` is that of both signs, off by so much of all squares.
inline Doubles squares_of_one_sign(const Doubles& squares, const Doubles& difference, double error) {
  const Doubles half = 0.5 * (squares + (magnitude(difference) + error * squares));
  return smaller(half, squares);  // in this order: half may be no number
}

/// Numbers below which partial sums of n terms stay: k terms below `most` and sqrt(k) times the root of `reach`, all
/// but k below that and `offset`.
struct PartialSums {
  Doubles most, reach, offset;
};

/// Partial sums of terms that add up to `exact`, with magnitudes that add up to `total`, where every partial sum is off
/// by less than (growth - 1) times the magnitudes, and underflow by less than h. `squares` are those of one sign.
inline PartialSums partial_sums_of(const Doubles& exact, const Doubles& total, const Doubles& squares,
                                   const Doubles& growth, const Doubles& h) {
  const Doubles half = 0.5 * (total + exact);
  return {(growth * half + h) * many_up + lost,
          (growth * growth * squares * many_up + (0x1p41 * h) * h) * many_up + lost,
          (exact + (growth - 1.0) * half + h) * many_up + lost};
}

/// First places of what nodes round, and their squares, added up.
struct FirstPlaces {
  Doubles sum, squares;
};

/// One node of a sum of three terms or more rounds a number of any size below `most`, but for its root.
inline Doubles one_at_most(const Doubles& leaves) {
  return where(leaves < 3.0, Doubles(0.0), 1.0);
}

/// The nodes with k = 2 ... n - 2 of n terms, and `at_most` whose numbers are below `most`: what lies below a binade is
/// at most half of it.
inline FirstPlaces ufps_of(const PartialSums& sums, const Doubles& n, const Doubles& at_most, std::size_t binades) {
  Doubles binade = ufp(sums.most), last = larger(n - 3.0, 0.0);
  const Doubles inverse = (1.0 - 0x1p-40) / sums.reach;
  Doubles from_left = smaller(binade * inverse * binade, 0x1p50);
  FirstPlaces places = {at_most * binade, at_most * (binade * binade)};
  const auto add = [&](const Doubles& count) {
    places.sum += count * binade;
    places.squares += count * (binade * binade);
  };
  for (std::size_t j = 0; j < binades; ++j) {
    const Doubles rest = larger(binade - sums.offset, 0.0);
    const Doubles from_right = smaller(rest * inverse * rest, 0x1p50);
    const Doubles left = larger(integer_up_to(from_left), 1.0);
    const Doubles right = larger(integer_up_to(from_right), 1.0);
    const Doubles below = smaller((left - 1.0) + (right - 1.0), last);
    add(last - below);
    last = below;
    binade *= 0.5;
    from_left *= 0.25;
  }
  add(last);
  return places;
}

}  // namespace
}  // namespace driftbound::bounds

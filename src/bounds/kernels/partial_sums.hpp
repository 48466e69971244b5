#pragma once

// T-68 for rows of sums, written once and compiled once per instruction set (doubles.hpp).

#include "bounds/kernels/doubles.hpp"

namespace driftbound::bounds {
namespace {

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

/// First places of what nodes round, and their squares, added up.
struct FirstPlaces {
  Doubles sum, squares;
};

/// One node of a sum of three terms or more rounds a number of any size below `most`, but for its root.
inline Doubles one_at_most(const Doubles& leaves) {
  return where(leaves < 3.0, all(0.0), all(1.0));
}

/// The nodes with k = 2 ... n - 2 of n terms, and `at_most` whose numbers are below `most`: what lies below a binade is
/// at most half of it.
inline FirstPlaces first_places_of(const PartialSums& sums, const Doubles& n, const Doubles& at_most,
                                   std::size_t binades) {
  Doubles binade = first_place(sums.most), last = larger(n - 3.0, all(0.0));
  const Doubles inverse = (1.0 - 0x1p-40) / sums.reach;
  Doubles from_left = smaller(binade * inverse * binade, all(0x1p50));
  FirstPlaces places = {at_most * binade, at_most * (binade * binade)};
  const auto add = [&](const Doubles& count) {
    places.sum += count * binade;
    places.squares += count * (binade * binade);
  };
  for (std::size_t j = 0; j < binades; ++j) {
    const Doubles rest = larger(binade - sums.offset, all(0.0));
    const Doubles from_right = smaller(rest * inverse * rest, all(0x1p50));
    const Doubles left = larger(integer_up_to(from_left), all(1.0));
    const Doubles right = larger(integer_up_to(from_right), all(1.0));
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

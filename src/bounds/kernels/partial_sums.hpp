#pragma once

// The bound of T-68 (sums in any order) for vectors of sums, evaluated by binades as in T-81.

#include "bounds/kernels/doubles.hpp"
#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {
namespace {

/// max(u ufp(t), eta): the error of one rounding to nearest of a number of magnitude at most t.
inline Doubles rounding_at(const Doubles& t, const RowFormat& format) {
  return larger(format.u * ufp(t), format.eta);
}

/// Upper bounds of the true sums: the scaled sums in single precision times the scale factors of row and columns.
template <class Count>
inline Doubles sums_at(const CoarseSums& row, std::size_t i, Count count) {
  const Doubles sums = doubles_of(load(row.sums + i, count));
  return sums * (row.scale * load(row.column_scales + i, count));  // the column scales cover these roundings
}

/// 2 + ceil(log2(leaves) / 2), the number of binades that T-81 evaluates; the terms below them are negligible.
inline std::size_t binades_of(double leaves) {
  std::size_t binades = 2;
  for (double n = 1.0; n < leaves; n *= 4.0) ++binades;
  return binades;
}

/// Upper bound of the sum of squares of the terms of one sign: (Q + |D|) / 2, Q = squares; D = difference is the sum of
/// squares with the signs of the terms, with an error of at most `error` Q.
inline Doubles squares_of_one_sign(const Doubles& squares, const Doubles& difference, double error) {
  const Doubles half = 0.5 * (squares + (magnitude(difference) + error * squares));
  return smaller(half, squares);  // smaller() returns its second argument if `half` is NaN
}

/// Bounds of the computed partial sums of n terms: |sum of k terms| <= min(most, sqrt(k reach)), and
/// |sum of n - k terms| <= offset + sqrt(k reach). In T-81: t, R and o.
struct PartialSums {
  Doubles most, reach, offset;
};

/// The bounds of T-81 for |s| = exact, S = total, c = growth, Q = squares (of the terms of one sign) and the underflow
/// term h.
inline PartialSums partial_sums_of(const Doubles& exact, const Doubles& total, const Doubles& squares,
                                   const Doubles& growth, const Doubles& h) {
  const Doubles half = 0.5 * (total + exact);
  return {(growth * half + h) * many_up + lost,
          (growth * growth * squares * many_up + (0x1p41 * h) * h) * many_up + lost,
          (exact + (growth - 1.0) * half + h) * many_up + lost};
}

/// Sums of ufp(g) and of ufp(g)^2 over the nodes of a sum, g the bound of the number that a node rounds.
struct FirstPlaces {
  Doubles sum, squares;
};

/// The number of nodes whose bound is sums.most (T-68): 1 for three terms or more, 0 for fewer.
inline Doubles one_at_most(const Doubles& leaves) {
  return where(leaves < 3.0, Doubles(0.0), 1.0);
}

/// Upper bounds for the nodes with k = 2 ... n - 2 of n terms, and for `at_most` nodes with the bound sums.most. Counts
/// the nodes in each binade from above (T-81); the ufp of a number below a binade is at most half of it.
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

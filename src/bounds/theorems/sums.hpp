#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

/// Factors of up to so many times the largest one of their row are set apart as small (T-68).
constexpr double small_share(double u) {
  return 4.0 * u;
}

/// What is known of the terms of a sum: products and stored leaves, none of them 0.
struct TermSizes {
  std::int64_t leaves = 0;             ///< upper bound of their number
  std::int64_t small = 0;              ///< all but so many are others than those set apart as small
  Magnitude small_total;               ///< the magnitudes of those summed
  Magnitude total;                     ///< their magnitudes summed
  Magnitude rounded;                   ///< of the products alone
  Magnitude sum;                       ///< |exact sum|
  Magnitude norm;                      ///< their 2-norm
  std::optional<Magnitude> one_sided;  ///< the larger of those of the positive and of the negative ones, where known
  Magnitude underflow;                 ///< what underflow adds (T-12)
};

inline namespace theorems {

/// Leaves of a summation tree: products and stored addends (a bias), none of them exactly 0.
/// Source:    docs/theory.md T-10
std::int64_t leaf_count(std::int64_t products, std::int64_t stored);

/// c with |computed - exact| <= c S for every order of a sum with `leaves` leaves, S the sum of their
/// magnitudes: n u to nearest, (1 + u)^n - 1 in other roundings.
/// Source:    docs/theory.md T-10
Magnitude any_order_factor(std::int64_t leaves, const Machine& machine);

/// (1 + u)^length - 1: growth along one path of the declared order.
/// Source:    docs/theory.md T-11
Magnitude path_factor(std::int64_t roundings, const Machine& machine);

/// Roundings that each product meets until the sum is complete, its own included; exact zeros (nonzero[k]
/// == 0) meet none and cause none. Where only a height is known they are at most so many.
/// Shapes:    nonzero [n], roundings [n]
/// Domain:    a known order
/// Source:    docs/theory.md T-11
void path_lengths(const SummationOrder& order, std::span<const char> nonzero, std::span<std::int64_t> roundings);

/// What underflow adds to a sum of `products` rounded products with `leaves` leaves in all.
/// Source:    docs/theory.md T-12
Magnitude underflow_term(std::int64_t products, std::int64_t leaves, const Machine& machine);

/// From c with |computed - exact| <= c S to the same for a sum whose parts are rounded to another format too; c where
/// they are not.
/// Source:    docs/theory.md T-23
Magnitude with_rounded_parts(Magnitude factor, const Machine& machine);

/// What underflow of rounded parts adds, after a factor c.
/// Source:    docs/theory.md T-23
Magnitude part_underflow(Magnitude factor, const Machine& machine);

/// u (sum over products + sum_{k=2..n-2} g(k) + g) + h, g(k) = ufp(min(c M, c sqrt(k) q, s + c sqrt(n - k) q) + h) for
/// a node with k terms, g = ufp(c M + h), M = (S + |s|) / 2, s = |sum| + (c - 1) M, q one-sided: all roundings of a sum
/// but the last, in whatever order. With t small terms, S_t in all: n - t for n, sqrt(k) q + S_t, g once more, c S_t +
/// h more.
/// Domain:    round to nearest, nothing flushed.
/// Source:    docs/theory.md T-68
Magnitude partial_sums_error(const TermSizes& terms, const Machine& machine);

/// u^2 (q^2 where products are rounded + sum_{k=2..n-2} g(k)^2 + g^2): the squares of what every rounding of a sum but
/// the last can be at most, in whatever order, underflow apart.
/// Domain:    round to nearest
/// Source:    docs/theory.md T-74
Magnitude partial_sums_squares(const TermSizes& terms, const Machine& machine);

/// Whether no partial sum can overflow: S bounds every exact partial sum, `error` every error of one.
/// To nearest a finite result proves it already; what a matrix unit cuts off may hide an infinite sum.
/// Source:    docs/theory.md T-12
bool cannot_overflow(Magnitude sum, Magnitude error, const Machine& machine);

/// The same for a sum that is not recorded: an infinity need not show in what is.
/// Source:    docs/theory.md T-22
bool stays_finite(Magnitude sum, Magnitude error, const Machine& machine);

}  // namespace theorems

}  // namespace driftbound::bounds

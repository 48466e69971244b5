#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

// Rounding errors of sums of products in any order and in a declared order, from the sizes of their terms.

/// Factors of magnitude at most small_share(u) times the largest of their row count as small (T-68).
constexpr double small_share(double u) {
  return 4.0 * u;
}

/// Bounds for the terms of a sum: products and stored leaves, none of them 0.
struct TermSizes {
  std::int64_t leaves = 0;             ///< N: upper bound of the number of terms
  std::int64_t small = 0;              ///< number of small terms: at most leaves - small terms are not small
  Magnitude small_total;               ///< sum of the magnitudes of the small terms
  Magnitude total;                     ///< S: sum of the magnitudes of all terms
  Magnitude rounded;                   ///< sum of the magnitudes of terms that are rounded before they are added
  Magnitude sum;                       ///< |exact sum|
  Magnitude norm;                      ///< 2-norm of all terms
  std::optional<Magnitude> one_sided;  ///< q: the larger 2-norm of the positive and of the negative terms, if known
  Magnitude underflow;                 ///< h: the underflow term (T-12)
};

inline namespace theorems {

/// Number of leaves of a summation tree: products and stored addends (a bias), none of them exactly 0.
/// Source:    docs/theory.md T-10
std::int64_t leaf_count(std::int64_t products, std::int64_t stored);

/// c with |computed - exact| <= c S for every order of a sum with `leaves` leaves, S the sum of their
/// magnitudes: n u to nearest, (1 + u)^n - 1 in other roundings.
/// Source:    docs/theory.md T-10
Magnitude any_order_factor(std::int64_t leaves, const Machine& machine);

/// Bounds what the merges add to N |m^ - m|, beside the error of a sum of N terms, where the mean m of N numbers is
/// merged from the means of parts, the added part never the larger one. `total`: sum of the magnitudes of the numbers.
/// Source:    docs/theory.md T-136
Magnitude error_of_merges(std::int64_t count, Magnitude total, const Machine& machine);

/// Lower bound of a computed sum of `count` nonnegative numbers of the accumulator that add up to at least `total`, in
/// any order: total / (1 + (count - 1) u).
/// Domain:    round to nearest, nothing flushed
/// Source:    docs/theory.md T-186 (a)
double least_sum(double total, std::int64_t count, const Machine& machine);

/// Lower bound of a computed sum of the squares of computed differences x_j - m, with any one number m, in any order;
/// differences and squares may be stored in the output format. `spread`: a lower bound of the 2-norm of x less its mean.
/// `sums_are_exact`: the sum is rounded once, when it is complete.
/// Domain:    round to nearest, nothing flushed
/// Source:    docs/theory.md T-186 (b)
double least_squares(double spread, std::int64_t count, bool sums_are_exact, const Machine& machine);

/// Lower bound of N times the computed variance of N numbers x_j that is merged from those of parts, the added part
/// never the larger one. `spread`: as above; `squares`: an upper bound of the sum of x_j^2. 0 for u above 2^-6.
/// Domain:    round to nearest, nothing flushed
/// Source:    docs/theory.md T-186 (c)
double least_merged_squares(double spread, Magnitude squares, std::int64_t count, const Machine& machine);

/// Upper bound of N times the computed variance of N numbers no farther than `range` apart that is merged in that way.
/// Infinite for u above 2^-6.
/// Domain:    round to nearest, nothing flushed
/// Source:    docs/theory.md T-186 (d)
Magnitude most_merged_squares(Magnitude range, std::int64_t count, const Machine& machine);

/// Bound of N |m^ - m| for a mean m of N numbers between `least` and `most` that is merged from the means of parts, the
/// added part never the larger one; their sum is within `radius` of `sum`. Infinite for u above 2^-6.
/// Domain:    round to nearest, nothing flushed
/// Source:    docs/theory.md T-187
Magnitude reach_of_merged_mean(double least, double most, double sum, Magnitude radius, std::int64_t count,
                               const Machine& machine);

/// (1 + u)^length - 1: growth along one path of the declared order.
/// Source:    docs/theory.md T-11
Magnitude path_factor(std::int64_t roundings, const Machine& machine);

/// Number of roundings that each product meets until the sum is complete, its own included. Exact zeros (nonzero[k] ==
/// 0) meet and cause none. If only the tree's height is declared, upper bounds.
/// Shapes:    nonzero [n], roundings [n]
/// Domain:    a known order
/// Source:    docs/theory.md T-11
void path_lengths(const SummationOrder& order, std::span<const char> nonzero, std::span<std::int64_t> roundings);

/// Upper bound h of the effect of underflow on a sum of `products` rounded products with `leaves` leaves in all.
/// Source:    docs/theory.md T-12
Magnitude underflow_term(std::int64_t products, std::int64_t leaves, const Machine& machine);

/// From a factor c with |computed - exact| <= c S, the factor for a sum whose parts are also rounded to another format;
/// c itself if machine.reduced is not set.
/// Source:    docs/theory.md T-23
Magnitude with_rounded_parts(Magnitude factor, const Machine& machine);

/// Upper bound of the effect of underflow of the rounded parts, for a factor c as above.
/// Source:    docs/theory.md T-23
Magnitude part_underflow(Magnitude factor, const Machine& machine);

/// Bound of all roundings of a sum of n = N terms but the last, in any order: u (rounded + sum_{k=2..n-2} g(k) + g) +
/// h, g(k) = ufp(min(c M, c sqrt(k) q, s + c sqrt(n - k) q) + h) for a node with k terms, g = ufp(c M + h), c = 1 + 2 N
/// u, M = (S + |sum|) / 2, s = |sum| + (c - 1) M. With t small terms whose magnitudes add up to S_t: n = N - t, sqrt(k)
/// q + S_t in place of sqrt(k) q, 2 g in place of g, and c S_t + h more.
/// Domain:    round to nearest, nothing flushed.
/// Source:    docs/theory.md T-68
Magnitude partial_sums_error(const TermSizes& terms, const Machine& machine);

/// Bound of the sum of squares of the bounds of all roundings of a sum but the last, in any order, without underflow:
/// u^2 (q'^2 + sum_{k=2..n-2} g(k)^2 + g^2), where q' is the 2-norm of all terms if products are rounded, else 0.
/// Domain:    round to nearest
/// Source:    docs/theory.md T-74
Magnitude partial_sums_squares(const TermSizes& terms, const Machine& machine);

/// Whether no partial sum can overflow, given a recorded finite result. `sum` bounds every exact partial sum, `error`
/// the error of every partial sum. To nearest and without a matrix unit the finite result proves it, except in formats
/// of 8 bits; a matrix unit may hide an infinite partial sum.
/// Source:    docs/theory.md T-12
bool cannot_overflow(Magnitude sum, Magnitude error, const Machine& machine);

/// Whether no partial sum can overflow, by sum + error alone: for a sum whose result is not recorded.
/// Source:    docs/theory.md T-22
bool stays_finite(Magnitude sum, Magnitude error, const Machine& machine);

}  // namespace theorems

}  // namespace driftbound::bounds

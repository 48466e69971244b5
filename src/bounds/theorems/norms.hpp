#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "driftbound/model/ops.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// An operand of an elementwise product.
struct ElementwiseFactor {
  Magnitude largest;         ///< max |b|, b the centre
  Magnitude largest_radius;  ///< max E
  Magnitude norm;            ///< of all copies that broadcasting makes
};

/// An operand of a selection.
struct SelectedPart {
  std::size_t most_uses = 0;  ///< of one of its elements
  Magnitude norm;
};

/// A matrix as an operand of a product.
struct MatrixFactor {
  Magnitude centre;  ///< ‖b‖_F
  Magnitude norm;    ///< N, or ‖E‖_F
};

/// Local errors in a row of exponentials over their sum.
struct ShareErrors {
  Magnitude exponents;       ///< the largest one before exponentials
  Magnitude powers_norm;     ///< 2-norm of those of exponentials
  Magnitude powers_and_sum;  ///< sum of those, and that of the sum
};

inline namespace theorems {

// How far the function of a node moves in the 2-norm when its operands do: the rows of the table of T-62. N is the norm
// of an operand's distance from its centre.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-62

/// An operand whose every element occurs k times: √k N.
Magnitude norm_of_copies(Magnitude norm, std::size_t copies);
/// A function of one element: L N.
Magnitude norm_of_function(Magnitude lipschitz, Magnitude norm);
/// A sum, a difference, a maximum or a minimum of two: N_1 + N_2.
Magnitude norm_of_sum(Magnitude first, Magnitude second);
/// A sum of n: √n N.
Magnitude norm_of_reduce_sum(Magnitude norm, std::size_t terms);
/// A maximum or minimum of many: N.
Magnitude norm_of_extremum(Magnitude norm);
/// A row of a softmax: N / 2.
Magnitude norm_of_softmax(Magnitude norm);
/// a / b with the same b on both sides: N_a / min |b|.
Magnitude norm_of_quotient(Magnitude norm, double smallest_divisor);

/// a / b where both move: (N_a + q N_b) / d, q the largest 2-norm of the quotients that one element of b divides, d at
/// most |b| within its radius.
Magnitude norm_of_moving_quotient(Magnitude norm, Magnitude quotients, Magnitude divisor_norm, double least_divisor);

/// max |b_b| N_a + (max |b_a| + max E_a) N_b.
Magnitude norm_of_elementwise_product(const ElementwiseFactor& a, const ElementwiseFactor& b);
/// Elements moved, left out or repeated: √(sum k N²).
Magnitude norm_of_selection(std::span<const SelectedPart> parts);
/// A product with matrices that do not depend on the inputs, the most used of which is used t times by what moves:
/// √t (Ŵ N_u + (‖b_u‖ + N_u) ‖E_W‖_F).
Magnitude norm_of_constant_product(const MatrixFactor& moving, Magnitude spectral, Magnitude constant_radius,
                                   std::size_t uses);
/// A product of two values: ‖b_B‖_F N_A + (‖b_A‖_F + N_A) N_B.
Magnitude norm_of_matrix_product(const MatrixFactor& a, const MatrixFactor& b);
/// The same by spectral norms, `centre` the largest of those: √t_A ‖b_B‖₂ N_A + √t_B (‖b_A‖₂ + N_A) N_B, t the most
/// that one matrix of a factor is used.
Magnitude norm_of_spectral_product(const MatrixFactor& a, std::size_t uses_of_a, const MatrixFactor& b,
                                   std::size_t uses_of_b);
/// |α| product + |β| addend.
Magnitude norm_with_addend(double alpha, Magnitude product, double beta, Magnitude addend);

// Maps of several nodes.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-67

/// x less the mean of n: N + √n (errors of sums / n + errors of means).
Magnitude norm_of_centred(Magnitude norm, std::size_t terms, Magnitude sums, Magnitude means);
/// c over the root s of the mean of n squares (and ε) of c, both moving: √n χ(N / (√n s)).
Magnitude norm_of_normalised(double terms, double root, Magnitude norm);
/// What a root r or larger is off by, its argument by h, and its own error: h / (r + √(r² - h)) + σ; infinite for
/// h >= r².
Magnitude error_of_root(Magnitude argument, double least_root, Magnitude own);
/// What that moves c over it: √n H / (r - H).
Magnitude norm_of_wrong_root(double terms, double least_root, Magnitude error);
/// A row of a softmax next to where its largest share is p and the largest product of a share and the rest is v, and no
/// operand moves by more than E: min(1/2, p e^(2E), 2 v e^(4E)) N.
Magnitude norm_of_softmax_near(Magnitude norm, Magnitude largest_share, Magnitude largest_spread, Magnitude radius);
/// At most the sum of exponentials without local errors, from what it is at least with them.
double least_sum_of_powers(double least_computed, const ShareErrors& errors);
/// (α + β) / (1 - β), what they move the row of shares by, where exponentials without them add up to least_sum or more.
Magnitude norm_of_share_errors(const ShareErrors& errors, double least_sum);

/// A row of shares p times values v_j, the scores off by N in the 2-norm and E each: e^(2E) S N, S the 2-norm of all
/// p_j ‖v_j - o‖₂ and of ‖p‖₂ times how far o is from sum p_j v_j.
Magnitude norm_of_attended(Magnitude spread, Magnitude norm, Magnitude radius);

/// Upper bound of the 2-norm of a vector; infinite where an element is not finite.
/// Source:    docs/theory.md T-08, T-63
Magnitude norm_of_vector(std::span<const double> values);

// What computing a node in double adds, in the 2-norm.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-82

/// Sums of products and an addend with so many roundings on the longest path: gamma (product + addend), `product` the
/// product of the Frobenius norms, `addend` the norm.
Magnitude norm_of_product_rounding(std::int64_t roundings, Magnitude product, Magnitude addend);
/// Elements that err by so many 2^-53 of themselves: the same of their norm.
Magnitude norm_of_rounding(double units, Magnitude norm);
/// The largest difference quotient of a function of one element anywhere; infinite where there is none, or for no such
/// function.
Magnitude steepest_slope(const Op& op);

/// Whether no number within `radius` of any of these is above 0.
bool stays_below_zero(std::span<const double> values, double radius);

}  // namespace theorems

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "driftbound/model/ops.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// Bounds of errors in the 2-norm: maps of one node (T-62), maps of several nodes (T-67), and roundings in double
// (T-82).

/// An operand of an elementwise product.
struct ElementwiseFactor {
  Magnitude largest;         ///< max |b|, b the centre
  Magnitude largest_radius;  ///< max E
  Magnitude norm;            ///< √k N, k the number of copies that broadcasting makes
};

/// An operand of a selection (data movement).
struct SelectedPart {
  std::size_t most_uses = 0;  ///< the largest number of copies of one of its elements
  Magnitude norm;
};

/// A matrix as an operand of a product.
struct MatrixFactor {
  Magnitude centre;  ///< ‖b‖_F
  Magnitude norm;    ///< N, or ‖E‖_F
};

/// Local errors of both trajectories in a row of shares e^d / Σ e^d (T-67 e).
struct ShareErrors {
  Magnitude exponents;       ///< the largest local error of the exponents d
  Magnitude powers_norm;     ///< 2-norm of the local errors of the exponentials
  Magnitude powers_and_sum;  ///< sum of the local errors of the exponentials and of their sum
};

inline namespace theorems {

// Bounds of the 2-norm of the change of a node's function, from bounds N of the 2-norm of the change of its operands:
// the rows of the table of T-62, without local errors.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-62

/// An operand each of whose elements is copied k times: √k N.
Magnitude norm_of_copies(Magnitude norm, std::size_t copies);
/// A function of one element with the Lipschitz constant L: L N.
Magnitude norm_of_function(Magnitude lipschitz, Magnitude norm);
/// A sum, a difference, a maximum or a minimum of two: N_1 + N_2.
Magnitude norm_of_sum(Magnitude first, Magnitude second);
/// A sum of n: √n N.
Magnitude norm_of_reduce_sum(Magnitude norm, std::size_t terms);
/// A maximum or minimum of many: N.
Magnitude norm_of_extremum(Magnitude norm);
/// A row of a softmax: N / 2.
Magnitude norm_of_softmax(Magnitude norm);
/// a / b, where b is the same in both trajectories: N_a / min |b|.
Magnitude norm_of_quotient(Magnitude norm, double smallest_divisor);

/// a / b, where both change: (N_a + q N_b) / d, q the largest 2-norm of the quotients that one element of b divides, d
/// a lower bound of |b| within its radius.
Magnitude norm_of_moving_quotient(Magnitude norm, Magnitude quotients, Magnitude divisor_norm, double least_divisor);

/// max |b_b| N_a + (max |b_a| + max E_a) N_b.
Magnitude norm_of_elementwise_product(const ElementwiseFactor& a, const ElementwiseFactor& b);
/// Data movement that moves, drops or repeats elements: √(sum k N²).
Magnitude norm_of_selection(std::span<const SelectedPart> parts);
/// A product of u with matrices W that do not depend on the inputs: √t (Ŵ N_u + (‖b_u‖ + N_u) ‖E_W‖_F), Ŵ the largest
/// spectral norm, t the number of times that the most used matrix of u occurs.
Magnitude norm_of_constant_product(const MatrixFactor& moving, Magnitude spectral, Magnitude constant_radius,
                                   std::size_t uses);
/// A product of two values: ‖b_B‖_F N_A + (‖b_A‖_F + N_A) N_B.
Magnitude norm_of_matrix_product(const MatrixFactor& a, const MatrixFactor& b);
/// The same by spectral norms, `centre` being the largest one of a factor's matrices:
/// √t_A ‖b_B‖₂ N_A + √t_B (‖b_A‖₂ + N_A) N_B, t the number of times that the most used matrix of a factor occurs.
Magnitude norm_of_spectral_product(const MatrixFactor& a, std::size_t uses_of_a, const MatrixFactor& b,
                                   std::size_t uses_of_b);
/// |α| product + |β| addend.
Magnitude norm_with_addend(double alpha, Magnitude product, double beta, Magnitude addend);

// Maps of several nodes, bounded as a whole.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-67

/// x minus the mean of n elements: N + √n (sums / n + means), the norms of the local errors of sums and means.
Magnitude norm_of_centred(Magnitude norm, std::size_t terms, Magnitude sums, Magnitude means);
/// c / s, s the root of (the mean of n squares of c, plus ε), both changing: √n χ(N / (√n s)).
Magnitude norm_of_normalised(double terms, double root, Magnitude norm);
/// Error of a root that is at least r, with an error of at most h of its argument and its own error σ:
/// h / (r + √(r² - h)) + σ; infinite for h >= r².
Magnitude error_of_root(Magnitude argument, double least_root, Magnitude own);
/// Change of c / s if the root s >= r has an error of at most H: √n H / (r - H).
Magnitude norm_of_wrong_root(double terms, double least_root, Magnitude error);
/// A row of a softmax with the largest share p and the largest product p_j (1 - p_j) = v, whose operands change by at
/// most E each: min(1/2, p e^(2E), 2 v e^(4E)) N.
Magnitude norm_of_softmax_near(Magnitude norm, Magnitude largest_share, Magnitude largest_spread, Magnitude radius);
/// Lower bound T of the sum of exponentials without local errors, from a lower bound of the computed sum.
double least_sum_of_powers(double least_computed, const ShareErrors& errors);
/// ℓ = (α + β) / (1 - β), the 2-norm of the effect of local errors on a row of shares; least_sum is T.
Magnitude norm_of_share_errors(const ShareErrors& errors, double least_sum);

/// A row of shares p times values v_j, whose scores change by at most N in the 2-norm and by at most E each:
/// e^(2E) S N, S = spread = ‖(p_j ‖v_j - o‖₂)_j‖₂ + ‖p‖₂ ‖Σ p_j v_j - o‖₂. Infinite for 2E > 1.
Magnitude norm_of_attended(Magnitude spread, Magnitude norm, Magnitude radius);

/// Upper bound of the 2-norm of a vector; infinite if an element is not finite.
/// Source:    docs/theory.md T-08, T-63
Magnitude norm_of_vector(std::span<const double> values);

// Rounding errors of a node computed in double, in the 2-norm.
// Guarantee: proven, rounded up
// Source:    docs/theory.md T-82

/// Sums of products plus an addend, with so many roundings on the longest path: gamma (product + addend), `product` the
/// product of the Frobenius norms, `addend` the 2-norm.
Magnitude norm_of_product_rounding(std::int64_t roundings, Magnitude product, Magnitude addend);
/// Elements with relative errors of at most units 2^-53: units 2^-53 N.
Magnitude norm_of_rounding(double units, Magnitude norm);
/// Upper bound of the Lipschitz constant of a function of one element on the whole line; infinite for functions without
/// one and for other ops.
Magnitude steepest_slope(const Op& op);

/// Whether all values are at most -radius.
bool stays_below_zero(std::span<const double> values, double radius);

}  // namespace theorems

}  // namespace driftbound::bounds

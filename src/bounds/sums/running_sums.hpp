#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/kernels/sums.hpp"
#include "driftbound/model/layout.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {

// The running error bound of a declared summation order (T-69).

/// The right matrices of a product in single precision, packed.
struct SingleColumns {
  PackedMatrices<float> matrices;
  std::map<std::int64_t, std::vector<double>> norms;  ///< upper bounds of the 2-norms of columns, by offset
  bool fits = false;                                  ///< whether partial sums may be computed in single precision
};

/// The factors and slacks for which the partial sums of a run are bounded.
struct RunningTerms {
  std::span<const double> a, b;       ///< centres of the factors, as the operands of the plan
  std::span<const double> largest_a;  ///< as a; 0 only where a factor is certainly 0
  std::span<const double> slack;      ///< bounds of |partial sum of the run - that in double|; [batches * m * n]
  const PackedMatrices<double>* packed = nullptr;  ///< b, packed; null: b is packed here
  const SingleColumns* single = nullptr;           ///< b in single precision; null: sums are computed in double
};

inline namespace theorems {

/// The operations of a declared order over the products that are not certainly 0, in the order of evaluation.
/// Shapes:    nonzero [n]
/// Domain:    a known order
/// Source:    docs/theory.md T-69
std::vector<SumStep> sum_steps(const SummationOrder& order, std::span<const char> nonzero);

/// The right matrices of a plan for sums in single precision.
/// Shapes:    b as the right operand of the plan
SingleColumns single_columns(const ProductPlan& plan, std::span<const double> b);

/// Upper bounds of the sum of ufp(|t| + slack) over all additions and fused steps, t the partial sums of A B in double.
/// If steps are fused, the products that chains start with are included. `leave_out_last` omits the last step.
/// Shapes:    [batches * m * n]
/// Domain:    a known order
/// Source:    docs/theory.md T-69
std::vector<double> running_ufps(const ProductPlan& plan, const RunningTerms& terms, const SummationOrder& order,
                                 bool leave_out_last, int threads);

/// Upper bounds of the sum of ufp(|a_k b_k| + slack) over the products that are not certainly 0, for orders that round
/// products separately.
/// Shapes:    [batches * m * n]
/// Source:    docs/theory.md T-69
std::vector<double> product_ufps(const ProductPlan& plan, const RunningTerms& terms, int threads);

/// The slack g = e + w + 2 k 2^-53 S' + 2^-1000: bound of the difference between a partial sum of k products of a run
/// and that computed in double. before = w bounds all earlier roundings, spread = e the effect of the factors' radii,
/// and total = S' the sum of magnitudes.
/// Source:    docs/theory.md T-69
double running_slack(std::int64_t k, double before, double spread, double total);

}  // namespace theorems

}  // namespace driftbound::bounds

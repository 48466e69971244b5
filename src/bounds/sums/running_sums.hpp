#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/kernels/sums.hpp"
#include "driftbound/model/layout.hpp"
#include "evaluate/product.hpp"

namespace driftbound::bounds {

/// The right matrices of a product in single precision, packed.
struct SingleColumns {
  PackedMatrices<float> matrices;
  std::map<std::int64_t, std::vector<double>> norms;  ///< upper bounds of the 2-norms of columns, by offset
  bool fits = false;                                  ///< whether partial sums may be followed with them
};

/// What the partial sums of a run are followed with.
struct RunningTerms {
  std::span<const double> a, b;       ///< centres of the factors, as the operands of the plan
  std::span<const double> largest_a;  ///< 0 where a factor is 0 for certain
  std::span<const double> slack;      ///< how far a partial sum may be from the one in double; [batches * m * n]
  const PackedMatrices<double>* packed = nullptr;  ///< b, packed before; null: it is not
  const SingleColumns* single = nullptr;           ///< the same for sums in single precision; null: in double alone
};

inline namespace theorems {

/// The operations of a declared order over the products that are not 0 for certain; the last one comes last.
/// Shapes:    nonzero [n]
/// Domain:    a known order
/// Source:    docs/theory.md T-69
std::vector<SumStep> sum_steps(const SummationOrder& order, std::span<const char> nonzero);

SingleColumns single_columns(const ProductPlan& plan, std::span<const double> b);

/// Upper bounds of the sum of ufp(|t| + slack) over all additions and fused steps, and with fused steps over the
/// products that chains start with; t the partial sum of A B in double.
/// Shapes:    [batches * m * n]
/// Domain:    a known order
/// Source:    docs/theory.md T-69
std::vector<double> running_ufps(const ProductPlan& plan, const RunningTerms& terms, const SummationOrder& order,
                                 bool leave_out_last, int threads);

/// Upper bounds of the sum of ufp(|a_k b_k| + slack) over the products that are not 0 for certain: what products are
/// rounded to where they are rounded apart from additions.
/// Shapes:    [batches * m * n]
/// Source:    docs/theory.md T-69
std::vector<double> product_ufps(const ProductPlan& plan, const RunningTerms& terms, int threads);

/// How far a partial sum of k products of a run may be from the one in double: `before` what roundings before it add,
/// `spread` what the factors' distances from the centres do, `total` the sum of magnitudes.
/// Source:    docs/theory.md T-69
double running_slack(std::int64_t k, double before, double spread, double total);

}  // namespace theorems

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>
#include <cstdint>

#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

// Kernels for rounding errors of sums of products: local bounds of recorded sums, and running bounds of a declared
// order.

/// One operation of a summation order on a stack of partial sums.
struct SumStep {
  enum class Kind : std::int32_t {
    start,  ///< pushes the product a_k b_k
    add,    ///< adds the product a_k b_k to the top
    join,   ///< adds the top to the partial sum below it and pops it
    round   ///< rounds the product a_k b_k; the stack is unchanged
  };
  Kind kind = Kind::start;
  std::int32_t k = 0;
};

/// Number of columns that are packed together; they fill one cache line.
template <class Number>
inline constexpr std::size_t columns_of_panel = 64 / sizeof(Number);
inline constexpr std::size_t panels_at_once = 4;

/// One row of a product A B summed in a declared order; B is packed as [ceil(n / columns_of_panel), k,
/// columns_of_panel].
template <class Number>
struct StepsOfRow {
  const SumStep* steps = nullptr;
  std::size_t count = 0;
  const Number* a = nullptr;
  const Number* slack = nullptr;  ///< per column: bound of |partial sum of the run - partial sum computed in Number|
  bool rounds_starts = false;     ///< whether the product that a chain starts with is rounded
};

/// One row of recorded results y_j of the sums sum_k x_k w_kj + c_j, and bounds of their terms.
struct RecordedSums {
  const double* y = nullptr;
  const double* addend = nullptr;     ///< |c|; null: no addend
  const double* columns = nullptr;    ///< number of nonzero weights of each column
  double nonzero = 0.0;               ///< number of operands of the row that are not 0
  const double* total = nullptr;      ///< sum |x w|
  const double* paths = nullptr;      ///< sum ((1 + u)^d - 1) |x w|, d of T-11; null: the order is unknown
  CoarseSums squares;                 ///< sum (x w)^2
  CoarseSums signed_squares;          ///< sum x w |x w|, with an error of at most signed_squares_error times `squares`
  double signed_squares_error = 0.0;  ///< relative to `squares`
  double slack_units = 0.0;           ///< the slack of T-69 includes slack_units times `total`
  double tail_factor = 0.0;           ///< lambda of T-74; 0: no probabilistic bound is computed
  const double* products = nullptr;   ///< sum over k of ufp(|a_k b_k| + g) (T-69); null: products are not rounded
};

/// Local error bounds of one row, written where the pointer is not null.
struct LocalErrors {
  double* any_order = nullptr;      ///< T-10
  double* partial_sums = nullptr;   ///< T-68
  double* order_aware = nullptr;    ///< T-11
  double* probabilistic = nullptr;  ///< T-74
  double* slack = nullptr;          ///< g of T-69
  double* kappa = nullptr;          ///< estimate of the condition number (T-19)
};

/// One row of a product in any run with a declared summation order.
struct OrderedSums {
  SumRow sums;                          ///< `moved`, `squares`, `signed_squares` and the small operands are not read
  const double* by_operands = nullptr;  ///< bound of |sum w (a - x)|
  double slack_units = 0.0;             ///< the slack of T-69 includes slack_units times the sum of magnitudes
  const double* products = nullptr;     ///< sum over k of ufp(|a_k b_k| + g) (T-69); null: products are not rounded
};

/// Kernels for one row of n sums of products, compiled once per instruction set. Every build does the same operations
/// in the same order.
struct SumKernels {
  /// Local bounds of recorded sums (T-10, T-11, T-68, T-74), rounded up as T-81 says; infinite where y or the sum of
  /// magnitudes is not finite.
  void (*local)(const RecordedSums& row, const RowFormat& format, const LocalErrors& result, std::size_t n);
  /// Bounds of T-69 of recorded sums. On entry `places` holds the sums of ufp(|t| + g) over the nodes, on return the
  /// bounds.
  void (*running)(const RecordedSums& row, const RowFormat& format, double* places, std::size_t n);
  /// The slack g of T-69 for any run; `added` bounds the sum of all roundings.
  void (*slack)(const OrderedSums& row, const double* added, double* slack, std::size_t n);
  /// Replaces `result` by the bounds of T-69 where those are smaller. `places` as for running().
  void (*in_order)(const OrderedSums& row, const RowFormat& format, const double* places, const RowErrors& result,
                   std::size_t n);
  /// The sum of ufp(|t| + slack) over all rounded numbers t, for `panels` <= `panels_at_once` panels of columns.
  void (*ufps)(const StepsOfRow<double>& row, const double* b, std::size_t k, std::size_t panels, double* places);
  /// The same in single precision. Domain: slack >= 2^-120
  void (*first_places_single)(const StepsOfRow<float>& row, const float* b, std::size_t k, std::size_t panels,
                              float* places);
};

DRIFTBOUND_SIMD_BUILDS(SumKernels, sums);

}  // namespace driftbound::bounds

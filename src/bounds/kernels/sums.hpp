#pragma once

#include <cstddef>
#include <cstdint>

#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

/// One operation of a sum on a stack of partial sums.
struct SumStep {
  enum class Kind : std::int32_t {
    start,  ///< pushes the product a_k b_k
    add,    ///< adds the product a_k b_k to the top
    join,   ///< adds the top to the one below and pops it
    round   ///< rounds the product a_k b_k, apart from all sums
  };
  Kind kind = Kind::start;
  std::int32_t k = 0;
};

/// Columns that are packed together: one cache line.
template <class Number>
inline constexpr std::size_t columns_of_panel = 64 / sizeof(Number);
inline constexpr std::size_t panels_at_once = 4;

/// One row of a product in a declared order, next to packed columns: [ceil(n / columns_of_panel), k, columns_of_panel].
template <class Number>
struct StepsOfRow {
  const SumStep* steps = nullptr;
  std::size_t count = 0;
  const Number* a = nullptr;
  const Number* slack = nullptr;  ///< how far a partial sum may be from the one in these numbers
  bool rounds_starts = false;
};

/// One row of recorded results of sums of products, and what is known of their terms.
struct RecordedSums {
  const double* y = nullptr;
  const double* addend = nullptr;    ///< magnitudes; null: none
  const double* columns = nullptr;   ///< nonzero weights of every column
  double nonzero = 0.0;              ///< operands of the row that are not 0
  const double* total = nullptr;     ///< sum |x w|
  const double* paths = nullptr;     ///< sum ((1 + u)^d - 1) |x w|, d of T-11; null: the order is unknown
  CoarseSums squares;                ///< sum (x w)^2
  CoarseSums sides;                  ///< the same with the signs of the products, which may be off by …
  double sides_error = 0.0;          ///< … so much of `squares`
  double slack_units = 0.0;          ///< of `total` in `slack` (T-69)
  double tail_factor = 0.0;          ///< lambda of T-74; 0: no bound is left to chance
  const double* products = nullptr;  ///< first places of products rounded apart (T-69); null: none are
};

/// Bounds of one row; null: not wanted.
struct LocalErrors {
  double* any_order = nullptr;
  double* partial_sums = nullptr;
  double* order_aware = nullptr;
  double* probabilistic = nullptr;
  double* slack = nullptr;  ///< of T-69
  double* kappa = nullptr;  ///< an estimate (T-19)
};

/// One row of a product in any run of a declared order.
struct OrderedSums {
  SumRow sums;                          ///< `moved`, `squares` and what is set apart are not read
  const double* by_operands = nullptr;  ///< by how much operands move the sum
  double slack_units = 0.0;             ///< of the sum of magnitudes in the slack (T-69)
  const double* products = nullptr;     ///< first places of products rounded apart (T-69); null: none are
};

/// Loops over sums of products, written once and compiled once per instruction set: every build does the same
/// operations in the same order.
struct SumKernels {
  /// T-10, T-11, T-68 and T-74 by T-81.
  void (*local)(const RecordedSums& row, const RowFormat& format, const LocalErrors& result, std::size_t n);
  /// T-69 from the first places of the partial sums, in place.
  void (*running)(const RecordedSums& row, const RowFormat& format, double* places, std::size_t n);
  /// T-69 for any run: how far partial sums may be off; `added` bounds all roundings.
  void (*slack)(const OrderedSums& row, const double* added, double* slack, std::size_t n);
  /// What T-69 gives from the first places of the partial sums, where that is smaller than `result`.
  void (*in_order)(const OrderedSums& row, const RowFormat& format, const double* places, const RowErrors& result,
                   std::size_t n);
  /// Of `panels` panels of columns, at most `panels_at_once`: the sum of ufp(|t| + slack) over all that is rounded.
  void (*ufps)(const StepsOfRow<double>& row, const double* b, std::size_t k, std::size_t panels, double* places);
  /// The same in single precision; slack at least 2^-120.
  void (*first_places_single)(const StepsOfRow<float>& row, const float* b, std::size_t k, std::size_t panels,
                              float* places);
};

DRIFTBOUND_SIMD_BUILDS(SumKernels, sums);

}  // namespace driftbound::bounds

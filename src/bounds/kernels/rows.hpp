#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::bounds {

/// One row of sums of nonnegative products in single precision, scaled: the true sum is at most
/// sum scale scales_of_columns[j].
struct CoarseSums {
  const float* sums = nullptr;
  double scale = 0.0;
  const double* column_scales = nullptr;
};

/// A format to nearest without flushing, as rows need it.
struct RowFormat {
  double u = 0.0;          ///< unit roundoff
  double eta = 0.0;        ///< error of one underflowing rounding …
  double underflow = 0.0;  ///< … and what it makes of a sum (T-12)
  double largest = 0.0;    ///< number of the format
};

/// What is known of one row of sums of products in any run.
struct SumRow {
  const double* y = nullptr;          ///< the result at the centres
  const double* own = nullptr;        ///< how far y is from the exact result there
  const double* addend = nullptr;     ///< magnitudes; null: none
  const double* constants = nullptr;  ///< the addend with its signs, where chance is asked for
  const double* columns = nullptr;    ///< nonzero weights of every column
  double nonzero = 0.0;               ///< operands of the row that may be other than 0
  bool is_moved = false;              ///< whether `moved` is given
  CoarseSums moved;                   ///< sum |w| E
  const double* norms = nullptr;      ///< 2-norms of columns of w …
  const double* largest = nullptr;    ///< … and their largest elements
  double radius = 0.0;                ///< 2-norm of what the operands move by; infinite: unknown
  bool moves_by_norm = false;         ///< whether the sums below leave out E, as `reach` takes its place
  double reach = 0.0;                 ///< 2-norm of how far operands may be from those that `sides` is of
  CoarseSums total;                   ///< sum |w| (|x| + E)
  CoarseSums squares;                 ///< sum w^2 (|x| + E)^2
  bool knows_sides = false;           ///< whether `sides` is given, and `reach` with it
  CoarseSums sides;                   ///< sum w |w| x |x|, which may be off by …
  double sides_error = 0.0;           ///< … so much of `squares`
  bool sets_apart = false;            ///< whether small operands are set apart
  double not_small = 0.0;             ///< operands of `nonzero` that are not
  double small_norm = 0.0;            ///< 2-norm of |x| + E of those that are
};

/// A row of a smooth function f at x, known as y with |y - f| <= relative |y| + absolute, and its slopes to 2^-49.
/// curvature_factor |curvatures| is the second derivative's magnitude to 2^-47; the largest there is anywhere, and that
/// of the third derivative, follow. Where x is given a run's own steps make it off by steps (|x| + e) + least_step more
/// than `units` say. At a distance s it is also at most the tail's factor times e^(rate s) times the
/// slope or the number in `curvatures`.
struct SmoothRow {
  double relative = 0.0, absolute = 0.0;
  double curvature_factor = 0.0, most_curvature = 0.0, third_derivative = 0.0;
  double tail_factor = 0.0, tail_rate = 0.0;  ///< rate 0: there is no tail
  bool tail_follows_slope = false;
  double units = 0.0, absolute_units = 0.0;  ///< of a run: T-16
  double steps = 0.0, least_step = 0.0;      ///< of a run: T-124
  const double* x = nullptr;
  const double* y = nullptr;
  const double* e = nullptr;
  const double* slopes = nullptr;
  const double* curvatures = nullptr;
};

/// Radii of a row and what local errors add to them.
struct RowErrors {
  double* moved = nullptr;
  double* added = nullptr;
};

/// A row of sums whose roundings are left to chance, and the largest there is of all terms (T-74, T-75).
struct RowChances {
  double* amplitudes = nullptr;  ///< root of the squares of what roundings can be, underflow apart …
  double* residuals = nullptr;   ///< … and what is not left to chance
  double* estimates = nullptr;   ///< of the standard deviation in random order
  double* sizes = nullptr;       ///< magnitudes of all terms summed
};

/// What a row of a Relu has.
struct ReluFlags {
  bool bends = false;   ///< an element whose radius reaches beyond the kink
  bool active = false;  ///< an element above 0
};

/// What a node charges rows of radii with: local errors, remainders, and radii of the operand through slopes that are
/// left out, 0 in `left` (T-72). Null: none.
struct RowCharges {
  const double *added = nullptr, *remainder = nullptr;
  const double *slopes = nullptr, *e = nullptr;
  const float* left = nullptr;
};

/// Loops over one row of n numbers, written once and compiled once per instruction set: every build does the same
/// operations in the same order. Nothing is read beyond n. Each is described where it is used (row_rules.hpp).
struct RowKernels {
  double (*largest)(const double* x, std::size_t n);
  double (*weighted_sum)(const double* d, const double* x, std::size_t n);
  double (*weighted_squares)(const double* d, const double* x, std::size_t n);
  double (*count_nonzero)(const double* x, std::size_t n);
  void (*larger_operand)(const double* x, const double* e, double* result, std::size_t n);
  void (*up_to)(const double* x, double limit, double* result, std::size_t n);
  void (*coarse)(const double* x, double scale, float* result, std::size_t n);
  void (*coarse_squares)(const double* x, double scale, float* result, std::size_t n);
  void (*coarse_sides)(const double* x, double scale, float* result, std::size_t n);
  void (*move)(const SumRow& row, double* moved, std::size_t n);
  void (*any_order)(const SumRow& row, const RowFormat& format, const RowErrors& result, std::size_t n);
  void (*chances)(const SumRow& row, const RowFormat& format, const double* added, const RowChances& result,
                  std::size_t n);
  void (*limit)(const double* centre, double norm, double largest, double* radius, std::size_t n);
  ReluFlags (*relu)(const double* x, const double* e, double* slopes, double* remainder, double* moved, std::size_t n);
  bool (*relu_chords)(const double* x, const double* e, double* slopes, double* remainder, std::size_t n);
  void (*sum)(const double* y, const double* own, const RowFormat* format, const RowErrors& result, std::size_t n);
  void (*add)(double* sum, const double* more, std::size_t n);
  void (*add_constants)(double* y, double* error, const double* constants, std::size_t n);
  void (*outer)(double scale, double underflow, const double* columns, double* result, std::size_t n);
  void (*scale)(const double* e, const double* constants, double* result, std::size_t n);
  void (*smooth)(const SmoothRow& row, const RowFormat& format, const RowErrors& result, double* remainder,
                 std::size_t n);
  void (*add_shares)(double* d, double* defect, const double* share, const double* share_defect, std::size_t n);
  double (*single_weighted_sum)(const float* d, const float* x, std::size_t n);
  double (*single_squares)(const float* d, std::size_t n);
  double (*single_product)(const float* d, const float* factors, float* result, std::size_t n);
  double (*single_sum)(const float* more, float* sum, std::size_t n);
  void (*leave_flat)(const double* slopes, const double* e, double limit, float* left, std::size_t n);
  void (*single_charges)(const RowCharges& row, float* charged, std::size_t n);
};

DRIFTBOUND_SIMD_BUILDS(RowKernels, rows);

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::bounds {

// Kernels for rows of error bounds: their operands and results, and the table of kernels of one build.

/// One row of scaled sums of nonnegative products in single precision (T-81): the true sum j is at most
/// sums[j] scale column_scales[j].
struct CoarseSums {
  const float* sums = nullptr;
  double scale = 0.0;
  const double* column_scales = nullptr;
};

/// The constants of a format with rounding to nearest and without flushing.
struct RowFormat {
  double u = 0.0;          ///< unit roundoff
  double eta = 0.0;        ///< absolute error of one underflowing rounding
  double underflow = 0.0;  ///< underflow term of a sum, per product (T-12)
  double largest = 0.0;    ///< largest number of the format
};

/// One row of sums of products in any run: sum_k a_k w_kj + c_j, where the operands a of a run lie within radii E of
/// their centres x.
struct SumRow {
  const double* y = nullptr;          ///< the result computed at the centres x
  const double* own = nullptr;        ///< bound of |y - exact result at x|; null: 0
  const double* addend = nullptr;     ///< |c|; null: no addend
  const double* constants = nullptr;  ///< c, read by chances() only; null: no addend
  const double* columns = nullptr;    ///< number of nonzero weights of each column
  double nonzero = 0.0;               ///< number of operands of the row that may be nonzero
  bool is_moved = false;              ///< whether `moved` is set; otherwise all radii are 0
  CoarseSums moved;                   ///< sum |w| E
  const double* norms = nullptr;      ///< 2-norms of the columns of w
  const double* largest = nullptr;    ///< largest magnitudes of the columns of w
  double radius = 0.0;                ///< bound of ||a - x||_2; infinite if unknown
  bool moves_by_norm = false;  ///< whether `total` and `squares` are those of the row of `signed_squares`, without E
  double reach = 0.0;          ///< bound of the 2-norm distance of a from the row of which `signed_squares` is
  CoarseSums total;            ///< sum |w| (|x| + E)
  CoarseSums squares;          ///< sum w^2 (|x| + E)^2
  bool knows_signed_squares = false;  ///< whether `signed_squares` and `reach` are set
  CoarseSums signed_squares;  ///< sum w |w| x |x|, with an error of at most signed_squares_error times `squares`
  double signed_squares_error = 0.0;  ///< relative to `squares`
  bool sets_apart = false;            ///< whether small operands are treated separately (T-68, small terms)
  double not_small = 0.0;             ///< number of the `nonzero` operands that are not small
  double small_norm = 0.0;            ///< 2-norm of |x| + E over the small operands
};

/// A row of a smooth function f at the points x, within radii e (T-88, 3): |y - f(x)| <= relative |y| + absolute,
/// |slopes - f'(x)| <= 2^-49, and |curvature_factor |curvatures| - |f''(x)|| <= 2^-47. most_curvature and
/// third_derivative bound |f''| and |f'''| everywhere. Tail: |f''| at a distance s from x is at most tail_factor
/// e^(tail_rate s) (|m| + 2^-47), m = slopes or curvatures as tail_follows_slope says. A run's error is that of T-16,
/// plus steps (|x| + e) + least_step (T-124) if x is set.
struct SmoothRow {
  double relative = 0.0, absolute = 0.0;
  double curvature_factor = 0.0, most_curvature = 0.0, third_derivative = 0.0;
  double tail_factor = 0.0, tail_rate = 0.0;  ///< tail_rate = 0: no tail
  bool tail_follows_slope = false;
  double units = 0.0, absolute_units = 0.0;  ///< accuracy of a run (T-16)
  double steps = 0.0, least_step = 0.0;      ///< further errors of a run (T-124)
  const double* x = nullptr;
  const double* y = nullptr;
  const double* e = nullptr;
  const double* slopes = nullptr;
  const double* curvatures = nullptr;
};

/// Errors of a row in any run.
struct RowErrors {
  double* moved = nullptr;  ///< radii: propagated errors of the operands plus local errors
  double* added = nullptr;  ///< bounds of the local errors
};

/// Results for a row of sums whose roundings are modelled as random (T-74, T-75).
struct RowChances {
  double* amplitudes = nullptr;  ///< root of the sum of squares of the roundings' bounds, underflow excluded
  double* residuals = nullptr;   ///< bound of the local error that is not modelled as random
  double* estimates = nullptr;   ///< estimated standard deviation of the error over random orders
  double* sizes = nullptr;       ///< upper bounds of the sum of the terms' magnitudes
};

/// Properties of a row of a Relu.
struct ReluFlags {
  bool bends = false;   ///< whether an element's radius is larger than its distance from the kink
  bool active = false;  ///< whether an element is above 0
};

/// The errors of a node that radii by adjoints are charged with (T-72): local errors `added`, remainders, and |slopes|
/// e for elements whose slope is replaced by 0 in `left`, e the operand's radii. A null pointer stands for zeros.
struct RowCharges {
  const double *added = nullptr, *remainder = nullptr;
  const double *slopes = nullptr, *e = nullptr;
  const float* left = nullptr;
};

/// Kernels for one row of n numbers, compiled once per instruction set. Every build does the same operations in the
/// same order. Nothing is read beyond n. Upper bounds are rounded up as T-81 says.
struct RowKernels {
  /// max |x|; infinite if an x is not finite.
  double (*largest)(const double* x, std::size_t n);
  /// sum |d x|, computed in double to nearest.
  double (*weighted_sum)(const double* d, const double* x, std::size_t n);
  /// sum (d x)^2, computed in double to nearest.
  double (*weighted_squares)(const double* d, const double* x, std::size_t n);
  double (*count_nonzero)(const double* x, std::size_t n);
  /// result = |x| + e, rounded up; e = 0 if null.
  void (*larger_operand)(const double* x, const double* e, double* result, std::size_t n);
  /// result = x where x <= limit, else 0, for x >= 0.
  void (*up_to)(const double* x, double limit, double* result, std::size_t n);
  /// |scale x|, (scale x)^2 and scale x |scale x| in single precision, as the products of T-81 take them: the first two
  /// rounded up and raised to a least value where x is not 0, the third rounded to nearest.
  void (*coarse)(const double* x, double scale, float* result, std::size_t n);
  void (*coarse_squares)(const double* x, double scale, float* result, std::size_t n);
  void (*coarse_signed_squares)(const double* x, double scale, float* result, std::size_t n);
  /// moved = bound of |sum w (a - x)|, plus row.own.
  void (*move)(const SumRow& row, double* moved, std::size_t n);
  /// The errors of sums in any order (T-10, T-68); infinite where a sum may overflow.
  void (*any_order)(const SumRow& row, const RowFormat& format, const RowErrors& result, std::size_t n);
  /// T-74 and T-75; `added` as any_order() gives it. Amplitudes, rests and estimates are infinite where `added` is.
  void (*chances)(const SumRow& row, const RowFormat& format, const double* added, const RowChances& result,
                  std::size_t n);
  /// radius = min(radius, norm); infinite where (|centre| + radius)/2 is not below `half_largest`. Halves of the largest
  /// double and more are doubles.
  void (*limit)(const double* centre, double norm, double half_largest, double* radius, std::size_t n);
  /// Slopes 1 for x > 0, else 0; remainder max(e - |x|, 0); moved = max |relu(x + t) - relu(x)| over |t| <= e. If e is
  /// null, all radii are 0, and only the slopes are written.
  ReluFlags (*relu)(const double* x, const double* e, double* slopes, double* remainder, double* moved, std::size_t n);
  /// Replaces slope and remainder by those of the chord over [x - e, x + e] (T-65), for elements with e > |x| and
  /// 2^-900 <= e <= 2^900. Returns whether there is such an element.
  bool (*relu_chords)(const double* x, const double* e, double* slopes, double* remainder, std::size_t n);
  /// A sum y of two operands. On entry result.moved holds the sum of their radii; own (0 if null) and the rounding of a
  /// run are added. If `format` is null nothing is rounded, and result.added is not written.
  void (*sum)(const double* y, const double* own, const RowFormat* format, const RowErrors& result, std::size_t n);
  /// sum += more, rounded up.
  void (*add)(double* sum, const double* more, std::size_t n);
  /// y += constants; error += 2^-53 |y|, rounded up; infinite where y is not finite. Nothing is added if `constants` is
  /// null.
  void (*add_constants)(double* y, double* error, const double* constants, std::size_t n);
  /// result = scale columns + underflow, 0 where a column is 0; to nearest.
  void (*outer)(double scale, double underflow, const double* columns, double* result, std::size_t n);
  /// result = e |constants|, rounded up; 0 where a factor is 0.
  void (*scale)(const double* e, const double* constants, double* result, std::size_t n);
  /// Errors and remainders of a smooth function (T-88, 3); errors are infinite where the result may overflow.
  void (*smooth)(const SmoothRow& row, const RowFormat& format, const RowErrors& result, double* remainder,
                 std::size_t n);
  /// d += share; defect += share_defect + 2^-53 |d|, rounded up; infinite where d is not finite. share_defect = 0 if
  /// null.
  void (*add_shares)(double* d, double* defect, const double* share, const double* share_defect, std::size_t n);
  /// sum |d x| in single precision, for x >= 0.
  double (*single_weighted_sum)(const float* d, const float* x, std::size_t n);
  /// sum d^2 in double.
  double (*single_squares)(const float* d, std::size_t n);
  /// result = d factors. Returns the largest magnitude; infinite if a product is not finite.
  double (*single_product)(const float* d, const float* factors, float* result, std::size_t n);
  /// sum += more. Returns the largest magnitude; infinite if a sum is not finite.
  double (*single_sum)(const float* more, float* sum, std::size_t n);
  /// left = slopes in single precision, 0 where |slopes| e <= limit or |slopes| < 2^-126.
  void (*leave_flat)(const double* slopes, const double* e, double limit, float* left, std::size_t n);
  /// charged = the sum of a node's errors, rounded up to single precision.
  void (*single_charges)(const RowCharges& row, float* charged, std::size_t n);
};

DRIFTBOUND_SIMD_BUILDS(RowKernels, rows);

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound::region {

inline constexpr double infinity = __builtin_inf();

/// Cells that go through a network together, side by side: a row is one number for each of them.
inline constexpr std::size_t cell_lanes = 16;

/// Rows of radii of a feature: two, with gradients one more and from residual_row on one a coordinate, and last, if asked
/// for, that of rounding errors.
inline constexpr std::size_t deviation_row = 0, size_row = 1, steepness_row = 2, residual_row = 3;

/// What the cells are.
struct CellShape {
  std::size_t dimension = 0;
  std::size_t symbols = 0;                          ///< rows of symbols that a feature has
  std::size_t radii = 0;                            ///< rows of radii that are kept
  bool has_gradient = false, has_rounding = false;  ///< of them
  const double* half = nullptr;                     ///< half widths, one row a coordinate
  double* poison = nullptr;                         ///< one number a cell: NaN where nothing is known
  /// Symbols: rows in use, and how many each cell has.
  std::size_t used = 0;
  std::size_t next[cell_lanes] = {};
  /// Of every symbol one row a coordinate: what the tangents move by where the symbol's row is 1.
  double* turns = nullptr;

  std::size_t affine() const { return 1 + dimension + symbols; }
  std::size_t rounding_row() const { return radii - 1; }
  void keep(bool gradients, bool rounding) {
    has_gradient = gradients;
    has_rounding = rounding;
    radii = residual_row - 1 + (gradients ? 1 + dimension : 0) + (rounding ? 1 : 0);
  }
};

/// Features of a value, one after the other. With x_0 the middle of a cell the exact value is c + t (x - x_0) + s e up to r,
/// all |e_k| <= 1 and the same for all features of all values.
/// affine: the rows c, t_1 ... t_d, s_1 ...
/// radii:  the rows r, X, T, R_1 ... R_d, E as far as they are kept: X >= |value|, T >= |derivative| for every coordinate;
///         R_j is the part of the radius of the j-th derivative that no symbol carries; E bounds what a
///         float32 run is off by
/// steep:  one row a coordinate: T_j >= |j-th derivative|, where gradients are asked for
struct CellValues {
  double *affine, *radii, *steep;
};
/// One row a feature each.
struct CellSources {
  double* added;  ///< bound of what the step adds to the deviation
  double* lost;   ///< bound of what the step adds to the rounding error
};
/// For one operand of a step, one row a feature each: the slope of its linearisation, and how far the difference
/// quotients of the step may be from it, at all points that the exact function and a float32 run reach.
struct CellSlopes {
  double *slope, *spread;
};

/// Accuracy of a function in float32, in units of 2^-24 times |f|, times 1, and times |x|.
struct FunctionUnits {
  double relative = 0.0, absolute = 0.0, of_argument = 0.0;
};

/// Where a function that bends is sampled: the ends of a range, a point that splits it so that f'' has one sign in
/// each part, and the middles of the parts. f, f' there. Some hundred numbers each.
struct BentSamples {
  double *at[5], *value[5], *slope[5];
};
inline constexpr std::size_t lower_end = 0, split = 1, upper_end = 2, left_middle = 3, right_middle = 4;

/// Where f'' >= 0.
enum class Bend {
  everywhere,
  below_zero,      ///< of the argument
  negative_value,  ///< of the function
  above_zero,      ///< of the argument
  between_bends    ///< |x| <= bend_point
};
/// How a range is split.
enum class Split {
  at_zero,
  at_middle,
  at_half_turns,          ///< k pi
  at_shifted_half_turns,  ///< k pi + pi / 2
  at_bends                ///< `bend_point` or its negative, whichever the range holds
};
struct BentFunction {
  Split split = Split::at_zero;
  Bend bend = Bend::everywhere;
  double bend_point = 0.0;            ///< where f'' changes its sign
  double least = 0.0, largest = 0.0;  ///< arguments beyond are not covered
  double widest = 0.0;                ///< ranges that are wider have values between `ends`, whatever the slope
  double ends[2] = {};                ///< infimum and supremum of f, infinite where it has none
  double largest_second = 0.0;        ///< sup |f''|; infinite: twice the largest |f'| of the range, where E < 1/2
  double steepest = 0.0;              ///< sup |f'|, where it is finite
  double straight = infinity;         ///< on either side beyond it f' is a number within 2^-48
  double left_slope = 0.0;            ///< at a kink at the split 0: f' to the left of it
  bool has_kink = false;
  bool is_rectifier = false;      ///< `ends` are those of f less the rectifier
  double largest_run = infinity;  ///< of larger arguments it is not known what a float32 run makes
  FunctionUnits units;
};

/// Loops over blocks of cells. `n`: features.
struct CellKernels {
  const char* name;

  /// y = W x: W [outputs, inputs], x and y with `columns` numbers of every `stride`, a multiple of cell_lanes.
  using Product = void (*)(const double* w, const double* x, double* y, std::size_t outputs, std::size_t inputs,
                           std::size_t columns, std::size_t stride);
  Product product;
  /// Completes a dense layer, y holding W of the affine rows and |W| of the radii. `weight_norms` bounds the 2-norms of
  /// the rows of W. `defect`: one row a feature, what the tangents are off by (where T is kept).
  struct Layer {
    const double *bias, *weight_norms;
    std::size_t inputs;
  };
  /// Where rounding errors are kept: the rows of `squares` multiplied by the squares of W, and by these with the signs
  /// of W; the number of operands that are not 0 all over a cell, and the 2-norm of their rounding errors, one row each.
  struct Terms {
    const double *squares, *signed_squares, *count, *norm;
  };
  using Dense = void (*)(const CellShape& shape, const Layer& layer, const Terms& terms, CellValues y,
                         CellSources sources, double* defect, std::size_t n);
  Dense dense;
  /// y = k + right (x - k) for x >= k, else k + left (x - k), one k a feature.
  using Bent = void (*)(const CellShape& shape, CellValues x, const double* kinks, double left, double right,
                        CellValues y, CellSlopes slopes, CellSources sources, std::size_t n);
  Bent piecewise;
  /// y = a x + b, one a and b a feature; `error`: a is off by that times |a|; `rounds`: in float32.
  using Scale = void (*)(const CellShape& shape, CellValues x, const double* a, const double* b, double error,
                         bool rounds, CellValues y, CellSlopes slopes, CellSources sources, std::size_t n);
  Scale scale;
  /// y = a + sign b; a b
  using Pair = void (*)(const CellShape& shape, CellValues a, CellValues b, double sign, CellValues y,
                        CellSlopes slopes_a, CellSlopes slopes_b, CellSources sources, std::size_t n);
  Pair sum, product_of_values;
  /// max(a, b) for sign = 1, min(a, b) for -1, and the difference a - b, over which slopes are spread.
  struct ExtremumSlopes {
    CellSlopes a, b, difference;
  };
  using Extremum = void (*)(const CellShape& shape, CellValues a, CellValues b, double sign, CellValues y,
                            CellValues difference, const ExtremumSlopes& slopes, CellSources sources, std::size_t n);
  Extremum extremum;
  /// The points where a function is sampled.
  using Sample = void (*)(const CellShape& shape, CellValues x, const BentFunction& f, BentSamples samples,
                          std::size_t n);
  Sample sample;
  using Function = void (*)(const CellShape& shape, CellValues x, const BentFunction& f, BentSamples samples,
                            CellValues y, CellSlopes slopes, CellSources sources, std::size_t n);
  Function function;
  /// Completes a step of single elements, which has set affine rows and r and E without what it adds: gives symbols to
  /// what it adds, and sets all radii. `slopes`: of the operands.
  struct Operand {
    CellValues values;
    CellSlopes slopes;
  };
  using Complete = void (*)(CellShape& shape, const Operand* operands, std::size_t count, CellValues y,
                            CellSources sources, std::size_t n);
  Complete complete;
  /// Symbol rows from `first` on are 0.
  using Clear = void (*)(const CellShape& shape, CellValues x, std::size_t first, std::size_t n);
  Clear clear;
  /// With p and q the squares of the largest and of the smallest number that x is in a cell or a float32 run there, 0 where
  /// that has the other sign: p + q, p - q, and one row, the number of features with X + E > 0.
  using Squares = void (*)(const CellShape& shape, CellValues x, double* sums, double* differences, double* count,
                           std::size_t n);
  Squares squares;
  /// The 2-norm of the rounding errors of y: the smaller of their own, and those of the operands times the largest
  /// slope, with what the step adds. `slopes` null: `lipschitz` bounds them.
  struct NormSource {
    const double* norm;
    const CellSlopes* slopes;
    double lipschitz;
  };
  using Norm = void (*)(const CellShape& shape, const NormSource* operands, std::size_t count, CellValues y,
                        const double* lost, double* norm, std::size_t n);
  Norm norm;
  /// The rows X and T of an affine input.
  using Read = void (*)(const CellShape& shape, CellValues x, std::size_t n);
  Read read;

  /// Backward: sums over features of what they add to the errors of the output.
  struct Sums {
    double *value, *rounding;  ///< one row
    double* gradient;          ///< one row a coordinate
  };
  /// What a step adds by itself; g: adjoints.
  using Added = void (*)(const CellShape& shape, const double* g, CellSources sources, Sums sums, std::size_t n);
  Added added;
  /// What the tangents of a dense layer are off by.
  using Turned = void (*)(const CellShape& shape, const double* g, const double* defect, Sums sums, std::size_t n);
  Turned turned;
  /// Of a step of single elements: adds what the slope of operand x loses, and sets the adjoint of the operand.
  using SlopeBack = void (*)(const CellShape& shape, const double* g, CellValues x, CellSlopes slopes, double* g_in,
                             Sums sums, std::size_t n);
  SlopeBack slope_back;
  /// g += other; x is the value whose adjoint g is.
  using Accumulate = void (*)(const CellShape& shape, const double* other, CellValues x, double* g, Sums sums,
                              std::size_t n);
  Accumulate accumulate;

  /// One point through a dense layer. Adds to y, whose rows have `outputs` numbers, a multiple of cell_lanes: W x and W t
  /// of the middle and the three tangents, |W| e of the radius. W [inputs, outputs]; of inputs, only those in `rows`.
  struct PointOperand {
    const std::size_t* rows;
    const double *middle, *error;
    const double* tangents[3];
    std::size_t count;
    bool has_tangents;
  };
  struct PointResult {
    double *middle, *radius;
    double* tangents[3];
  };
  using PointLayer = void (*)(const double* w, const PointOperand& x, const PointResult& y, std::size_t outputs);
  PointLayer point_layer;
};

DRIFTBOUND_SIMD_BUILDS(CellKernels, cells);

}  // namespace driftbound::region

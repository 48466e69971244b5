#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bounds/chance/chance_sweep.hpp"
#include "bounds/matrices/coarse_product.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/rows/row_step.hpp"

namespace driftbound::bounds {

class KnownProducts;   // known_products.hpp
struct RecordedBlock;  // nodes/recorded_block.hpp

/// What is asked of any run besides its errors in any order.
struct RunRequest {
  bool in_order = false;                    ///< errors of runs in the declared order
  ChanceFactors chance;                     ///< roundings left to chance
  std::size_t conditioned = 0;              ///< targets with condition numbers, from the first on
  std::size_t attributed = 0;               ///< targets whose error is split up, from the first on …
  const RecordedBlock* recorded = nullptr;  ///< … for this run
  std::int64_t refined_radii = 0;           ///< as in BoundOptions, on average over the rows that go together
  const KnownProducts* products = nullptr;  ///< of the network in double, as far as they are known

  /// What is known of the terms of sums beside what bounds in any order need.
  bool of_terms() const { return chance.any() || conditioned > 0; }
};

/// Some rows of a recorded run next to the shadow.
struct RecordedRows {
  std::vector<double> values;    ///< of the run; where it recorded none, of its operands in double
  std::vector<double> rounding;  ///< recorded - f(recorded operands); empty: 0
};

/// How far runs can be from some rows of one value.
struct RunRadii {
  std::vector<double> radius;  ///< [rows, size]
  std::vector<double> norm;    ///< by row, of all of it
};

/// Some rows of one value in double, and how far any run can be from them.
struct RunRows {
  std::vector<double> centre, radius;  ///< [rows, size]
  std::vector<double> norm;            ///< by row: of what any run is off …
  std::vector<double> exact;           ///< … and of what the exact network is
  RunRadii in_order;                   ///< runs in the declared order, where they are asked for

  void resize(std::size_t rows, std::size_t size, bool with_order);
  std::size_t rows() const { return norm.size(); }
  std::size_t size() const { return centre.size() / rows(); }
};

/// What the way back needs of a node: slopes (empty: 1, or a matrix), sigma and kappa of T-60 (empty: 0).
struct RunErrors {
  std::vector<double> slopes, added, remainder;
  std::vector<char> has_remainder;      ///< by row, 0 where all of `remainder` is 0, in any order; empty: not known
  bool remainder_is_quadratic = false;  ///< whether what is left over falls like the square of the distance (T-96)
  std::vector<double> curvatures;       ///< of smooth functions, as SmoothRow has them
  bool takes_chords = false;            ///< set before: kinks within reach take a chord for their slope (T-65)
  std::vector<double> added_in_order, remainder_in_order;  ///< of runs in the declared order
  bool rounds_once = false;                                ///< every element, to nearest, by no more than `added`
  std::vector<double> residuals;                           ///< what chance does not rule; empty where it rules nothing
  std::vector<double> amplitudes;                          ///< of sums: T-74 …
  std::vector<double> estimates;                           ///< … and T-75
  std::vector<double> sizes;                               ///< of sums: magnitudes of their terms added up
  std::vector<TermPattern> patterns;                       ///< of sums; empty: none

  /// As new, but for memory.
  void clear();
};

/// d of T-60 for some rows of a value, and for every row a bound of all of its defects.
struct RunAdjoint {
  std::vector<double> d;  ///< empty: 0
  std::vector<double> defect;
};

/// What local bounds of a recorded run have found of a product's rows.
struct KnownSums {
  const CoarseProducts* sums = nullptr;  ///< null: nothing
  std::size_t first = 0;                 ///< row of them
  const double* operand = nullptr;       ///< as recorded, from that row on
};

/// Memory of one thread, kept from rows to rows.
struct RunScratch {
  std::vector<float> coarse[5], sums[5];
  std::vector<double> own, larger, small;
  std::vector<double> scales[5];
  std::vector<RowOperands> operands;
  std::vector<double> all_larger, by_operands, slack;  ///< of all rows, for a declared order
  std::span<const double> known;                       ///< the node's result in double, where it is known before
  KnownSums known_sums;
  std::vector<double> distances;  ///< by row, of the operand that these are of from the centre; infinite: not used
};

/// The same in single precision.
struct SingleAdjoint {
  std::vector<float> d;
  std::vector<double> defect;
  std::vector<double> norm;  ///< upper bounds of |d|; empty: not known
};

/// 2-norm of numbers of single precision.
/// Guarantee: upper bound; infinite where one is not finite
/// Source:    docs/theory.md T-08
Magnitude norm_in_single(std::span<const float> d);

/// One node of a RunWalk. Rows of which nothing is known become open.
/// Source:    docs/theory.md T-88
class RunStep {
public:
  virtual ~RunStep() = default;
  /// Everything of the node's output. Operands that are constants are null.
  virtual void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& result,
                       RunErrors& errors, std::vector<char>& undecided, RunScratch& scratch) const = 0;
  /// Of a function of one element: what some rows add and leave over with other radii of the operand, or with chords.
  virtual void update_remainder(const RunRows& operand, const RunRows& result, std::span<const std::size_t> rows,
                                const RunRequest& request, RunErrors& errors, RunScratch& scratch) const = 0;
  /// f of some rows in double. Operands that are constants are null.
  virtual void evaluate(std::span<const double* const> operands, std::size_t rows,
                        std::vector<double>& result) const = 0;
  /// An operand's share of the adjoint, and what it is off.
  /// Shapes:    share [rows of the adjoint, size of the operand]; `rows`: the row of `errors` that each of them stands
  /// for
  virtual void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows,
                         const RunAdjoint& result, RunAdjoint& share) const = 0;
  /// The same in single precision, by slopes that are 0 and 1 or were rounded to it, none below 2^-126 but 0. Defects of
  /// rows that it has no room for are infinite.
  /// Source:    docs/theory.md T-72
  virtual void pull_back(std::size_t slot, std::span<const float> slopes, std::span<const std::size_t> rows,
                         const SingleAdjoint& result, SingleAdjoint& share) const = 0;
  /// About what a smooth function leaves over of an element that is so far off: to choose by, not to bound with.
  virtual double approx_remainder(const RunErrors& errors, std::size_t at, double distance) const;
  /// Whether the node is the product of its first operand and a constant matrix, and perhaps a constant row …
  virtual bool is_product() const { return false; }
  /// … and then what an element's own adjoint makes of that operand, nothing rounded.
  virtual void row_of_matrix(std::size_t element, float* share) const;
  /// Moves of the operands through the slopes, in single precision; nothing is said of what that rounds. Operands that
  /// are constants are null.
  /// Shapes:    `result` [rows, copies, size]; `rows`: of `errors`
  virtual void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
                    std::size_t copies, std::vector<float>& result) const = 0;
};

/// Null for ops and shapes without loops over rows. `setting`: plain (plain_rows.hpp) and kept; `conditions`: what the
/// errors of functions stand on.
/// Domain:    u >= 2^-40, and constants are numbers of the accumulator: single precision holds them
std::unique_ptr<const RunStep> run_step_of(const RowNode& node, const Setting& setting, OperandCache& operands,
                                           std::set<std::string>& conditions);

}  // namespace driftbound::bounds

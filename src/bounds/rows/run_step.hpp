#pragma once

#include <cstddef>
#include <functional>
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
class SampleProgram;   // node_step.hpp
struct RecordedBlock;  // nodes/recorded_block.hpp
struct RunState;       // run_state.hpp

/// Which bounds of any run are computed in addition to those for sums in any order.
struct RunRequest {
  bool in_order = false;                    ///< bounds for runs in the declared order
  ChanceFactors chance;                     ///< factors of the probabilistic bounds (T-74, T-75)
  std::size_t conditioned = 0;              ///< number of targets with condition numbers, from the first on
  std::size_t attributed = 0;               ///< number of targets with an attribution (T-73), from the first on …
  const RecordedBlock* recorded = nullptr;  ///< … of this run's error
  std::int64_t refined_radii = 0;           ///< as in BoundOptions, per row on average over the rows processed together
  const KnownProducts* products = nullptr;  ///< products that the shadow has computed; may be null

  /// Returns whether `recorded` has enclosures of the exact network: the norms of its distance are then not needed.
  bool knows_network() const;
  /// Returns whether amplitudes and sums of magnitudes of the terms of sums are needed.
  bool of_terms() const { return chance.any() || conditioned > 0; }
};

/// Some rows of one value of a recorded run.
struct RecordedRows {
  std::vector<double> values;    ///< recorded, or f(operands) in double if the run did not record the value
  std::vector<double> rounding;  ///< recorded - f(recorded operands); empty: 0
};

/// Bounds of |run - shadow| for some rows of one value.
struct RunRadii {
  std::vector<double> radius;  ///< [rows, size]
  std::vector<double> norm;    ///< per row: bound of ||run - shadow||_2
};

/// Some rows of one value of the shadow, with bounds of the distance of any run.
struct RunRows {
  std::vector<double> centre, radius;  ///< [rows, size]: shadow, and bounds of |run - shadow|, any order
  std::vector<double> norm;            ///< per row: bound of ||run - shadow||_2
  std::vector<double> exact;           ///< per row: bound of ||exact - shadow||_2; infinite: not known
  RunRadii in_order;                   ///< of runs in the declared order; set with RunRequest::in_order

  void resize(std::size_t rows, std::size_t size, bool with_order);
  std::size_t rows() const { return norm.size(); }
  std::size_t size() const { return centre.size() / rows(); }
};

/// What the adjoint sweep needs of a node: slopes (empty: all 1, or the node is a product), `added` = sigma and
/// `remainder` = kappa of T-60 (empty: 0). All are [rows, size]; secants of T-73 may follow the slopes.
struct RunErrors {
  std::vector<double> slopes, added, remainder;
  /// Of nodes that are expanded sample by sample: slopes by operand, as in Linearised, [rows, slope_sizes[slot]];
  /// secants may follow. The Jacobian of a product or softmax consists of `factors`: operands by slot, then the result.
  std::vector<std::vector<double>> operand_slopes, factors;
  std::vector<std::size_t> slope_sizes;
  std::vector<char> has_remainder;      ///< per row: 0 if all remainders are 0, in either order; empty: unknown
  bool remainder_is_quadratic = false;  ///< whether the remainder falls like the square of the radius (T-96)
  std::vector<double> curvatures;       ///< second derivatives of smooth functions, as in SmoothRow
  bool takes_chords = false;            ///< set by the caller: chords are the slopes of undecided kinks (T-65)
  std::vector<double> added_in_order, remainder_in_order;  ///< sigma and kappa of runs in the declared order
  bool rounds_once = false;           ///< whether each error is one random rounding, at most `added` (T-74)
  std::vector<double> residuals;      ///< the part that is not modelled as random; empty: all of `added`
  std::vector<double> amplitudes;     ///< of sums: amplitudes of T-74
  std::vector<double> estimates;      ///< of sums: standard deviations of T-75
  std::vector<double> sizes;          ///< sums of the magnitudes of the terms, for T-79
  std::vector<TermPattern> patterns;  ///< patterns that the model excludes, of sums; empty: none
  std::vector<double> unattributed;   ///< T-75: remainders where they exceed |J| E, else 0; empty: not computed

  /// Whether secants of a recorded run may follow the slopes, row by row.
  bool may_have_secants() const;
  /// Resets the object but keeps its allocated memory.
  void clear();
};

/// The adjoint d of T-60 for some rows of a value, and per row a bound of the defect of every element.
struct RunAdjoint {
  std::vector<double> d;  ///< [rows, size]; empty: 0
  std::vector<double> defect;
};

/// Sums of magnitudes of a product that the local bounds of a recorded run have computed.
struct KnownSums {
  const CoarseProducts* sums = nullptr;  ///< null: none are known
  std::size_t first = 0;                 ///< index in `sums` of the first row
  const double* operand = nullptr;       ///< the recorded operand, from that row on
};

/// Buffers of one thread, reused for the next rows, and inputs of one forward().
struct RunScratch {
  std::vector<float> coarse[5], sums[5];
  std::vector<double> own, larger, small;
  std::vector<double> scales[5];
  std::vector<RowOperands> operands;
  std::vector<double> all_larger, by_operands, slack;  ///< all rows, for a declared order
  std::span<const double> known;                       ///< the node's result in double, if already computed
  KnownSums known_sums;
  const RunState* state = nullptr;  ///< what is known of the nodes before; null: only the operands
  std::vector<double> distances;    ///< per row: ||recorded operand - centre||_2 for known_sums; infinite: not used
};

/// A RunAdjoint in single precision.
struct SingleAdjoint {
  std::vector<float> d;
  std::vector<double> defect;
  std::vector<double> norm;  ///< per row: upper bound of ||d||_2; empty: unknown
};

/// 2-norm of a vector in single precision.
/// Guarantee: upper bound; infinite if an element is not finite
/// Source:    docs/theory.md T-08
Magnitude norm_in_single(std::span<const float> d);

/// One node of a RunWalk: forward pass, adjoint and Jacobian-vector product for some rows of a block. A row without a
/// finite bound is marked undecided (`open`).
/// Source:    docs/theory.md T-88
class RunStep {
public:
  virtual ~RunStep() = default;
  /// Computes centres, radii, norms, slopes, local errors and remainders of the node. Constant operands are null.
  virtual void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& result,
                       RunErrors& errors, std::vector<char>& undecided, RunScratch& scratch) const = 0;
  /// Recomputes local errors and remainders of some rows of a function of one element after the radii of its operand,
  /// or errors.takes_chords, have changed.
  /// Throws:    std::logic_error for other nodes
  virtual void update_remainder(const RunRows& operand, const RunRows& result, std::span<const std::size_t> rows,
                                const RunRequest& request, RunErrors& errors, RunScratch& scratch) const = 0;
  /// Whether the node is expanded sample by sample, so that its remainders may fall with the radii of its operands.
  virtual bool has_remainder_of_radii() const { return false; }
  /// Returns the slopes of one row of a function of one or two elements, as in Linearised::slopes. `size`: that of a row
  /// of the result.
  virtual std::vector<std::vector<double>> slopes_of(const RunErrors& errors, std::size_t row, std::size_t size) const;
  /// Appends secants between a recorded run and the shadow to the slopes of a node that is expanded sample by sample.
  /// Operands that are constants are null.
  /// Throws:    std::logic_error for other nodes
  /// Source:    docs/theory.md T-73
  virtual void add_secants(std::span<const RunRows* const> centres, std::span<const RecordedRows* const> run,
                           const RunRows& result, RunErrors& errors) const;
  /// Evaluates the node in double for some rows. Constant operands are null.
  virtual void evaluate(std::span<const double* const> operands, std::size_t rows,
                        std::vector<double>& result) const = 0;
  /// Computes an operand's share of the adjoint, and its defect.
  /// Shapes:    share [rows of the adjoint, size of the operand]; `rows`: for each row of the adjoint, its row in
  ///            `errors`
  virtual void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows,
                         const RunAdjoint& result, RunAdjoint& share) const = 0;
  /// The same in single precision. `slopes`, of functions of one element, are 0, 1, or rounded to single precision and
  /// at least 2^-126 in magnitude. The defect of a row that leaves the range of single precision is infinite.
  /// Source:    docs/theory.md T-72
  virtual void pull_back(std::size_t slot, const RunErrors& errors, std::span<const float> slopes,
                         std::span<const std::size_t> rows, const SingleAdjoint& result,
                         SingleAdjoint& share) const = 0;
  /// Returns an estimate, not a bound, of the remainder of a smooth function at the radius `distance` of element `at`.
  virtual double approx_remainder(const RunErrors& errors, std::size_t at, double distance) const;
  /// Returns whether the node is the product of its first operand with a constant matrix, plus a constant row or
  /// nothing.
  virtual bool is_product() const { return false; }
  /// Writes column `element` of that matrix to `share`: the adjoint of one element, pulled back without rounding.
  /// Domain:    is_product()
  virtual void row_of_matrix(std::size_t element, float* share) const;
  /// Jacobian-vector product of perturbations of the operands, in single precision, without a bound of its rounding
  /// errors. Constant operands are null.
  /// Shapes:    operands and `result` [rows, copies, size]; `rows`: for each row, its row in `errors`
  virtual void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
                    std::size_t copies, std::vector<float>& result) const = 0;
};

/// A node of a program for one sample, which is compiled when a step asks for it.
struct OfSample {
  std::function<const SampleProgram*()> program;  ///< returns null if samples depend on each other; may be empty
  std::size_t node = 0;                           ///< its index in Program::fused()
};

/// Creates the step of a node. `conditions` receives the conditions of the error bounds of functions.
/// Domain:    is_plain(setting.machine) (plain_rows.hpp); u >= 2^-40; constants are numbers of the accumulator, so
///            that single precision holds them; what `setting` points to outlives the step
/// Returns:   null for products with constants that are not rows times a matrix, and for data movement between rows
std::unique_ptr<const RunStep> run_step_of(const RowNode& node, const OfSample& of, const Setting& setting,
                                           OperandCache& operands, std::set<std::string>& conditions);

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bounds/adjoint/plain_rows.hpp"
#include "bounds/adjoint/row_step.hpp"

namespace driftbound::bounds {

/// Some rows of one value in double, and how far any run can be from them.
struct RunRows {
  std::vector<double> centre, radius;  ///< [rows, size]
  std::vector<double> norm;            ///< by row: of what any run is off …
  std::vector<double> exact;           ///< … and of what the exact network is

  void resize(std::size_t rows, std::size_t size);
  std::size_t rows() const { return norm.size(); }
  std::size_t size() const { return centre.size() / rows(); }
};

/// What the way back needs of a node: slopes (empty: 1, or a matrix), sigma and kappa of T-60 (empty: 0).
struct RunErrors {
  std::vector<double> slopes, added, remainder;
  bool takes_chords = false;  ///< set before: kinks within reach take a chord for their slope (T-65)
};

/// d of T-60 for some rows of a value, and for every row a bound of all of its defects.
struct RunAdjoint {
  std::vector<double> d;  ///< empty: 0
  std::vector<double> defect;
};

/// Memory of one thread, kept from rows to rows.
struct RunScratch {
  std::vector<float> coarse[4], sums[4];
  std::vector<double> own, larger, small, curvature;
  std::vector<double> scales[4];
  std::vector<RowOperands> operands;
};

/// One node of a RunWalk. Rows of which nothing is known become open.
/// Source:    docs/theory.md T-88
class RunStep {
public:
  virtual ~RunStep() = default;
  /// Everything of the node's output. Operands that are constants are null.
  virtual void forward(std::span<const RunRows* const> operands, RunRows& result, RunErrors& errors,
                       std::vector<char>& open, RunScratch& scratch) const = 0;
  /// An operand's share of the adjoint, and what it is off.
  /// Shapes:    share [rows of the adjoint, size of the operand]; `rows`: the row of `errors` that each of them stands
  /// for
  virtual void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows,
                         const RunAdjoint& result, RunAdjoint& share) const = 0;
};

/// Null for ops and shapes without loops over rows. `setting`: plain (plain_rows.hpp) and kept; `conditions`: what the
/// errors of functions stand on.
std::unique_ptr<const RunStep> run_step_of(const RowNode& node, const Setting& setting, Weights& weights,
                                           std::set<std::string>& conditions);

}  // namespace driftbound::bounds

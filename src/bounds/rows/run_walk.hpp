#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bounds/adjoint/attribution.hpp"
#include "bounds/adjoint/condition.hpp"
#include "bounds/adjoint/sweep.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "bounds/rows/run_step.hpp"
#include "program/identity.hpp"

namespace driftbound::bounds {

/// Bounds of the targets of one block of rows.
struct RunCertificates {
  std::vector<Certificate> targets;   ///< bounds of |any run - exact|, any order
  std::vector<Certificate> in_order;  ///< the same for runs in the declared order; without layers
  std::vector<ChanceBounds> chance;
  std::vector<Condition> condition;      ///< of the first RunRequest::conditioned targets
  std::vector<Attribution> attribution;  ///< of the first RunRequest::attributed targets
  std::vector<std::int64_t> cancelled;   ///< rows whose attribution cancels too much in double
  std::vector<std::int64_t> undecided;   ///< undecided rows: their bounds must not be used
  std::set<std::string> conditions;      ///< conditions of the local error bounds
};

/// Buffers that threads write to, shared by all run walks of a graph and reused from block to block.
class RunMemories;
std::shared_ptr<RunMemories> run_memories();

/// The bounds of T-71, T-73 to T-75 and T-79 for networks of products with constants, sums, data movement and functions
/// of one element, and runs with u >= 2^-40. Processes some rows of a block at a time, forward and backward, in buffers
/// that are reused. A row is undecided if a bound is infinite or the shadow's own error is not negligible against it.
/// Thread-safe when const.
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-88
class RunWalk {
public:
  /// Prepares what does not depend on the samples.
  /// Returns:   null if a node has no RunStep, rows are not independent, a constant operand is computed or not exact in
  ///            the accumulator's format, the arithmetic is not plain (plain_rows.hpp), or u < 2^-40; `obstacle` says
  ///            which
  static std::shared_ptr<const RunWalk> of(const Program& program, const Setting& setting, BoundCache& cache,
                                           std::string& obstacle);

  RunWalk() = default;
  ~RunWalk();
  RunWalk(const RunWalk&) = delete;
  RunWalk& operator=(const RunWalk&) = delete;

  /// Shapes:    `program` as passed to of(); `inputs` and `input_error` by position in the graph's inputs, an empty
  ///            error is 0; `targets`: the seeds of each target
  RunCertificates run(const Program& program, const std::vector<Tensor<double>>& inputs,
                      const std::vector<std::vector<double>>& input_error,
                      const std::vector<std::vector<Seed>>& targets, const RunRequest& request,
                      const Setting& setting) const;

private:
  friend class RunPart;
  friend class RunMemories;
  struct Memory;

  std::vector<std::size_t> sizes_;                     ///< elements per row, by value
  std::unique_ptr<const SampleProgram> sample_;        ///< null if no step needs it
  std::vector<std::unique_ptr<const RunStep>> steps_;  ///< by node; null where the output is a constant
  std::set<std::string> conditions_;
  std::shared_ptr<RunMemories> memories_;
  std::uint64_t identity_ = new_identity();
};

}  // namespace driftbound::bounds

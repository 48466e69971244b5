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

/// Targets of one block, for runs in any order.
struct RunCertificates {
  std::vector<Certificate> targets;   ///< of |any run - exact|
  std::vector<Certificate> in_order;  ///< the same of runs in the declared order; without layers
  std::vector<ChanceBounds> chance;
  std::vector<Condition> condition;      ///< of the first so many targets
  std::vector<Attribution> attribution;  ///< the same
  std::vector<std::int64_t> cancelled;   ///< rows whose attribution lost too much in double
  std::vector<std::int64_t> undecided;   ///< rows whose numbers are not to be used
  std::set<std::string> conditions;      ///< what the local errors stand on
};

/// What threads write to, kept from block to block for all walks of a graph.
class RunMemories;
std::shared_ptr<RunMemories> run_memories();

/// T-71, T-73 to T-75 and T-79 for networks of products with constants, sums and functions with loops of their own,
/// next to a run that is coarse: some rows at a time, forward and back, in memory that is kept. Open are rows where
/// something is not finite or the shadow's own error shows. Thread-safe when const.
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-88
class RunWalk {
public:
  /// What does not depend on the samples. Null where a node has no such loop, or the arithmetic is not plain.
  static std::shared_ptr<const RunWalk> of(const Program& program, const Setting& setting, BoundCache& cache);

  RunWalk() = default;
  ~RunWalk();
  RunWalk(const RunWalk&) = delete;
  RunWalk& operator=(const RunWalk&) = delete;

  /// Shapes:    `network` the one of of(); `inputs` and `input_error` by position in the graph's inputs, errors empty
  ///            where there are none; `targets`: the seeds of each
  RunCertificates run(const Program& program, const std::vector<Tensor<double>>& inputs,
                      const std::vector<std::vector<double>>& input_error,
                      const std::vector<std::vector<Seed>>& targets, const RunRequest& request,
                      const Setting& setting) const;

private:
  friend class RunPart;
  friend class RunMemories;
  struct Memory;

  std::vector<std::size_t> sizes_;                     ///< elements a row, by value
  std::vector<std::unique_ptr<const RunStep>> steps_;  ///< by node; null where the output is a constant
  std::set<std::string> conditions_;
  std::shared_ptr<RunMemories> memories_;
  std::uint64_t identity_ = new_identity();
};

}  // namespace driftbound::bounds

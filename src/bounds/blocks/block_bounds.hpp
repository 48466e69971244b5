#pragma once

#include <optional>
#include <vector>

#include "bounds/adjoint/attribution.hpp"
#include "bounds/chance/chance_sweep.hpp"
#include "bounds/nodes/recorded_block.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "driftbound/bounds/rounded_shadow.hpp"
#include "driftbound/bounds/target.hpp"

namespace driftbound::bounds {

/// The options of the bounds by two trajectories (docs/theory.md T-60).
struct AdjointRequest {
  bool this_run = true;
  bool any_order = true;
  bool declared_order = true;   ///< false if the order is unknown
  bool rounded = true;          ///< the rounded shadow (T-76), if the arithmetic has a narrow format
  std::size_t attributed = 0;   ///< number of targets with an attribution (T-73), from the first on
  std::size_t conditioned = 0;  ///< number of targets with condition numbers (T-79), from the first on
  ChanceFactors chance;
  std::size_t chanced = 0;  ///< number of targets, from the first on, with `chance` in rows of many numbers too
  std::int64_t refined_radii = 512;  ///< radii by adjoints (T-72) per sample, on average over the block

  /// Returns whether the trajectory of runs in any order is needed.
  bool follows_any_order() const { return any_order || chance.any(); }
};

/// Bounds of one target, one entry per sample; empty: not requested.
struct TargetCertificate {
  std::vector<double> this_run;           ///< bounds of |computed - exact|
  Certificate any_order, declared_order;  ///< bounds of |any run - exact|
  Certificate rounded;                    ///< the same by the rounded shadow; empty without a narrow format
  RunEnclosures enclosures;               ///< of any run and of the exact network, by the rounded shadow
  ChanceBounds chance;                    ///< probabilistic bounds of |any run - exact|
  std::optional<Attribution> attribution;
  std::optional<Condition> condition;
};

/// All bounds by two trajectories for one block of samples.
struct BlockBounds {
  std::vector<std::vector<double>> this_run;  ///< by node of the graph, per element; empty: not requested
  const char* this_run_theorem = "T-62";
  std::vector<TargetCertificate> targets;
  std::set<std::string> any_order_conditions, declared_order_conditions, rounded_conditions, estimate_conditions;
  std::vector<std::int64_t> ambiguous;    ///< by node of the graph: number of undecided roundings (T-76)
  std::vector<NotByRows> not_by_rows;     ///< questions that were answered element by element
  std::optional<InfiniteBound> infinite;  ///< the first node with an infinite radius of any run
  Readings readings;  ///< by node of the graph, as detected in the run (T-130); empty: not determined
};

/// Computes the bounds of one block: shadow, radii, and one adjoint sweep per target. Uses the row kernels of T-82 and
/// T-88 if they cover the network, and evaluates element by element the rows that these leave undecided, or all rows.
/// Guarantee: this run: proven, for every program that made the run; any run: as body_rounding()
/// Source:    docs/theory.md T-70, T-71, T-73 to T-75, T-79, T-82, T-88
BlockBounds block_bounds(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                         const AdjointRequest& request, const Setting& setting, BoundCache& cache);

/// The same, evaluated element by element for all rows.
BlockBounds block_bounds_in_full(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                                 const AdjointRequest& request, const Setting& setting, BoundCache& cache);

}  // namespace driftbound::bounds

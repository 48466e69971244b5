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

/// Which of the bounds by two trajectories are asked for.
struct AdjointRequest {
  bool this_run = true;
  bool any_order = true;
  bool declared_order = true;        ///< false where the order is not known
  bool rounded = true;               ///< the rounded shadow, where the arithmetic has a narrow format
  std::size_t attributed = 0;        ///< targets whose error is split up, from the first on
  std::size_t conditioned = 0;       ///< targets with condition numbers, from the first on
  double failure_probability = 0.0;  ///< that random directions may have, where this run needs them; 0: none are drawn
  ChanceFactors chance;
  std::int64_t refined_radii = 128;  ///< radii by adjoints of their own (T-72), a sample of the block on average

  /// Runs in any order are followed.
  bool follows_any_order() const { return any_order || chance.any(); }
};

/// Bounds of one target, one entry a sample; empty: not asked for.
struct TargetCertificate {
  std::vector<double> this_run;           ///< of |computed - exact|
  bool is_sketched = false;               ///< this_run fails with BlockBounds::failure_probability
  Certificate any_order, declared_order;  ///< of |any run - exact|
  Certificate rounded;                    ///< the same by the rounded shadow; empty where nothing is narrow
  RunEnclosures enclosures;               ///< by the rounded shadow
  ChanceBounds chance;                    ///< of |any run - exact|
  std::optional<Attribution> attribution;
  std::optional<Condition> condition;
};

/// All bounds by two trajectories for one block of samples.
struct BlockBounds {
  std::vector<std::vector<double>> this_run;  ///< by node of the graph, of every element; empty: not asked for
  const char* this_run_theorem = "T-62";
  bool is_shadow_known = true;       ///< the outputs' radii are small, by proof, next to the outputs
  std::vector<bool> is_sketched;     ///< by node of the graph, where this_run is: with failure_probability
  double failure_probability = 0.0;  ///< that any of what is sketched fails
  std::vector<TargetCertificate> targets;
  std::set<std::string> any_order_conditions, declared_order_conditions, rounded_conditions, estimate_conditions;
  std::vector<std::int64_t> ambiguous;  ///< by node of the graph: roundings that runs may do differently (T-76)
  Readings readings;  ///< by node of the graph, as the run was seen to read (T-130); empty: not looked
};

/// Shadow, radii and one sweep a target; by loops over rows where there are such (T-82, T-88), and element by element
/// for the rows that those leave open, or for all.
/// Guarantee: this run: proven, whatever made the run, but for what is sketched; any run: as body_rounding()
/// Source:    docs/theory.md T-70, T-71, T-73 to T-75, T-78, T-79, T-82, T-88
BlockBounds block_bounds(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                         const AdjointRequest& request, const Setting& setting, BoundCache& cache);

/// The same element by element for all rows.
BlockBounds block_bounds_in_full(const Program& program, const RecordedBlock& block, const std::vector<Target>& targets,
                                 const AdjointRequest& request, const Setting& setting, BoundCache& cache);

}  // namespace driftbound::bounds

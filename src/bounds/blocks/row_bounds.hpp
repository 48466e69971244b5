#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"

namespace driftbound::bounds {

class KnownProducts;  // known_products.hpp

/// The seeds of a target: its positive element with factor 1 and, for a difference, its negative one with -1.
std::vector<Seed> seeds_of(const Program& program, const Target& target);

/// Bounds by row kernels, with the rows for which they are not good enough.
struct RowBounds {
  BlockBounds bounds;
  std::vector<std::int64_t>
      undecided;  ///< undecided rows: the shadow's error is not negligible, or a bound is infinite
  std::vector<std::int64_t> cancelled;  ///< rows whose attribution cancels too much in double
};

/// Bounds of this run by one bound of the 2-norm per row. `products`: receives the products that the shadow computes;
/// may be null.
/// Returns:   empty if an op has no line in the table of T-82, a value is not finite, or the run is in double, where
///            the shadow's error is not negligible
/// Guarantee: proven, for every program that made the run
/// Source:    docs/theory.md T-70, T-82
std::optional<RowBounds> row_bounds(const Program& program, const RecordedBlock& block,
                                    const std::vector<Target>& targets, const Setting& setting, BoundCache& cache,
                                    std::string& obstacle, KnownProducts* products = nullptr);

/// Bounds of any run by row kernels, without those of this run and of the rounded shadow. `products`: from
/// row_bounds(); may be null.
/// Returns:   empty if RunWalk::of() is null, a target does not depend on the inputs, or the declared order has no
///            partial sums
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-71, T-74, T-75, T-79, T-88
std::optional<RowBounds> any_run_bounds(const Program& program, const RecordedBlock& block,
                                        const std::vector<Target>& targets, const AdjointRequest& request,
                                        const Setting& setting, BoundCache& cache, std::string& obstacle,
                                        const KnownProducts* products = nullptr);

/// Some rows of a block as a block of its own. Values that are the same for all rows are copied.
class PickedRows {
public:
  PickedRows(const Program& program, const RecordedBlock& block, const std::vector<std::int64_t>& rows);
  const RecordedBlock& block() const { return block_; }

private:
  std::vector<Tensor<double>> layers_;
  std::vector<Tensor<Ball>> exact_, network_;
  RecordedBlock block_;
};

/// Replaces the bounds of some rows in `all` by those in `of_rows`, and adds the conditions of the latter.
void replace_rows(const Program& program, const std::vector<std::int64_t>& rows, const BlockBounds& of_rows,
                  BlockBounds& all);

}  // namespace driftbound::bounds

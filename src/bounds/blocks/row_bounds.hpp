#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"

namespace driftbound::bounds {

class KnownProducts;  // known_products.hpp

/// The elements that a target is made of.
std::vector<Seed> seeds_of(const Program& program, const Target& target);

/// Bounds of this run by one number a row.
struct RowBounds {
  BlockBounds bounds;
  std::vector<std::int64_t> undecided;  ///< rows in which some number is not negligible next to the error
  std::vector<std::int64_t> cancelled;  ///< rows whose attribution lost too much in double
};

/// Empty where nothing is known: an op without a line in the table, numbers that are not finite, or a run in double,
/// next to which no such number is negligible. `products`: where to keep those that the shadow has; may be null.
/// Guarantee: proven, whatever made the run
/// Source:    docs/theory.md T-70, T-82
std::optional<RowBounds> row_bounds(const Program& program, const RecordedBlock& block,
                                    const std::vector<Target>& targets, const Setting& setting, BoundCache& cache,
                                    KnownProducts* products = nullptr);

/// Bounds of every run by loops over rows; this run's and the rounded shadow's are not among them.
/// Guarantee: as body_rounding(); empty where RunWalk::of() is
/// Source:    docs/theory.md T-71, T-74, T-75, T-79, T-88
std::optional<RowBounds> any_run_bounds(const Program& program, const RecordedBlock& block,
                                        const std::vector<Target>& targets, const AdjointRequest& request,
                                        const Setting& setting, BoundCache& cache,
                                        const KnownProducts* products = nullptr);

/// Some rows of a block; what is the same for all rows stays as it is.
class PickedRows {
public:
  PickedRows(const Program& program, const RecordedBlock& block, const std::vector<std::int64_t>& rows);
  const RecordedBlock& block() const { return block_; }

private:
  std::vector<Tensor<double>> layers_;
  std::vector<Tensor<Ball>> exact_;
  RecordedBlock block_;
};

/// Puts bounds of some rows in the place of those rows of all.
void replace_rows(const Program& program, const std::vector<std::int64_t>& rows, const BlockBounds& of_rows,
                  BlockBounds& all);

}  // namespace driftbound::bounds

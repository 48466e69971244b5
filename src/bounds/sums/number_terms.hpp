#pragma once

#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

/// Accumulates the sizes of the terms of a sum of numbers. Each term lies within a radius of x.
class NumberTerms {
public:
  void add(double x, Magnitude radius = {});
  /// Sets all fields but `sum` and `underflow`.
  TermSizes sizes() const;

private:
  std::int64_t count_ = 0;
  Magnitude total_, squares_, positive_, negative_;  ///< the last two: sums of squares of terms that may have that sign
};

}  // namespace driftbound::bounds

#pragma once

#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

/// The terms of a sum of numbers, each within its radius of a number.
class NumberTerms {
public:
  void add(double x, Magnitude radius = {});
  /// All but `sum` and `underflow`.
  TermSizes sizes() const;

private:
  std::int64_t count_ = 0;
  Magnitude total_, squares_, positive_, negative_;  ///< the last two: squares of those that may have that sign
};

}  // namespace driftbound::bounds

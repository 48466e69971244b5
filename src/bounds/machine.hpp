#pragma once

#include "driftbound/num/format.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// The numbers of one arithmetic that the theorems of docs/theory.md, section 2, use.
struct Machine {
  const Format* input = nullptr;        ///< operands of matrix products
  const Format* accumulator = nullptr;  ///< every operation
  const Format* output = nullptr;       ///< stored results
  Rounding rounding = Rounding::nearest_even;
  bool flushes = false;
  SummationOrder order;
  double u = 0.0;    ///< unit roundoff of the accumulator
  double eta = 0.0;  ///< absolute error of one underflowing rounding in the accumulator

  bool to_nearest() const { return rounding == Rounding::nearest_even || rounding == Rounding::nearest_away; }
  /// Storing a result can round it once more.
  bool stores_narrower() const;
};

Machine machine_of(const ArithmeticModel& arithmetic);

}  // namespace driftbound::bounds

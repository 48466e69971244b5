#pragma once

#include <optional>

#include "driftbound/num/format.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// The numbers of one arithmetic that the theorems of docs/theory.md, chapters 3 to 5, use.
struct Machine {
  const Format* input = nullptr;        ///< operands of matrix products
  const Format* accumulator = nullptr;  ///< every operation
  const Format* output = nullptr;       ///< stored results
  Rounding rounding = Rounding::nearest_even;
  Rounding operand_rounding = Rounding::nearest_even;  ///< of operands; where ties are open, away from zero
  bool flushes = false;                                ///< subnormal operands and results become 0
  bool flushing_is_certain = true;                     ///< where `flushes`: else some may be kept
  bool products_may_flush = false;                     ///< becomes `flushes` in product_machine()
  SummationOrder order;
  std::optional<TensorCore> tensor_core;            ///< what adds up matrix products
  std::optional<ReducedReduction> products_reduce;  ///< becomes `reduced` in product_machine()
  std::optional<ReducedReduction> reduced;          ///< how parts of a sum are rounded once more
  double u = 0.0;                                   ///< unit roundoff of the accumulator
  double eta = 0.0;                                 ///< absolute error of one underflowing rounding in the accumulator

  bool to_nearest() const { return rounding == Rounding::nearest_even || rounding == Rounding::nearest_away; }
  /// Storing a result can round it once more.
  bool stores_narrower() const;
};

/// Throws:    Unsupported for a matrix unit whose sums are not added to float32, or that keeps, adds or promotes what
///            docs/theory.md T-21 does not cover, or an arithmetic around it that does not round to nearest
Machine machine_of(const ArithmeticModel& arithmetic);

/// The same inside matrix products: what may be flushed there counts as flushed, and what conversion to the operands'
/// format does with ties is left open where a matrix unit reads them.
/// Source:    docs/theory.md T-13
Machine product_machine(Machine machine);

}  // namespace driftbound::bounds

#pragma once

#include <optional>

#include "driftbound/model/graph.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/num/magnitude.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// The formats, roundings and constants of a declared arithmetic, as the theorems of docs/theory.md, chapters 3 to 5,
/// use them.
struct Machine {
  const Format* input = nullptr;        ///< format of the operands of matrix products
  const Format* accumulator = nullptr;  ///< format of all operations
  const Format* output = nullptr;       ///< format of stored results; the narrowest of them, except in machine_at()
  bool stores_declared_types = false;   ///< results that the model declares narrower are stored so
  bool stores_inside = true;            ///< nodes inside a composite may store their results (T-22)
  Rounding rounding = Rounding::nearest_even;
  Rounding operand_rounding = Rounding::nearest_even;  ///< of operands; nearest_away if the tie rule is undetermined
  bool flushes = false;                                ///< subnormal operands and results become 0
  bool flushing_is_certain = true;                     ///< if not set, `flushes` may leave some of them unchanged
  bool products_may_flush = false;                     ///< product_machine() sets `flushes` if this is set
  SummationOrder order;
  std::optional<TensorCore> tensor_core;            ///< the matrix unit that sums up matrix products
  std::optional<ReducedReduction> products_reduce;  ///< product_machine() copies this to `reduced`
  std::optional<ReducedReduction> reduced;          ///< the additional rounding of parts of a sum (T-23)
  double u = 0.0;                                   ///< unit roundoff of the accumulator
  double eta = 0.0;  ///< bound of the absolute error of one underflowing rounding in the accumulator

  bool to_nearest() const { return rounding == Rounding::nearest_even || rounding == Rounding::nearest_away; }
  /// Whether storing a result may round it once more.
  bool stores_narrower() const;
};

/// The constants of a declared arithmetic. `graph`: its declared types; without it no result may be stored by these.
/// Throws:    InvalidArgument where the graph is needed;    Unsupported for a matrix unit that docs/theory.md T-21 does not cover: one that does not accumulate in
///            float32 to nearest, or whose fraction bits, block, sum bits, promotion or cutting of operands are others
Machine machine_of(const ArithmeticModel& arithmetic, const Graph* graph = nullptr);

/// The machine at a result that the model declares as `declared`, or inside a composite of such a result: its `output`
/// is the format in which this result is stored (the accumulator's where it is not).
Machine machine_at(Machine machine, ElementType declared, bool is_inside_composite);

/// The machine inside matrix products: it flushes if products may flush, and rounds the operands of a matrix unit with
/// an undetermined tie rule, or toward zero if the unit cuts them.
/// Source:    docs/theory.md T-13
Machine product_machine(Machine machine);

}  // namespace driftbound::bounds

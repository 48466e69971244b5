#pragma once

#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

/// A tensor as an operation reads it: rounded to the format of its operands. Where the number read is undetermined,
/// `used` is the one of largest magnitude.
struct Operand {
  std::vector<double> used;
  std::vector<double> error;         ///< upper bounds of |read - recorded|; empty if all are 0
  std::vector<double> used_or_zero;  ///< |used| where 0 may be read instead, else 0; empty if that is nowhere
  bool is_exact() const { return error.empty(); }
};

/// The floating-point format of an element type.
/// Throws:    Unsupported for element types that are not floating-point
const Format& format_of(ElementType type);

/// Whether `format` is float32, nothing is flushed, and all values are NaN or numbers of float32: they are then read
/// without change. False does not exclude that.
bool are_read_as_they_are(const std::vector<double>& values, const Format& format, const Machine& machine);

/// Rounds a recorded tensor to the format of the operands; numbers that are not finite stay as they are.
/// Source:    docs/theory.md T-13
Operand round_operand(const Tensor<double>& recorded, const Format& format, const Machine& machine);

}  // namespace driftbound::bounds

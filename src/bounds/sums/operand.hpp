#pragma once

#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

/// A tensor as an operation reads it: rounded to the format of its operands. Where that is
/// not certain, `used` is the largest magnitude that may be read.
struct Operand {
  std::vector<double> used;
  std::vector<double> error;         ///< upper bounds of |read - recorded|; empty where all are 0
  std::vector<double> used_or_zero;  ///< |used| where 0 may have been read in its place, else 0; empty: nowhere
  bool is_exact() const { return error.empty(); }
};

/// Throws:    Unsupported where an element type is no format of floating-point numbers
const Format& format_of(ElementType type);

/// Whether these are numbers of float32, or none at all, and nothing is flushed: then all are read as they are.
bool are_read_as_they_are(const std::vector<double>& values, const Format& format, const Machine& machine);

/// Source:    docs/theory.md T-13
Operand round_operand(const Tensor<double>& recorded, const Format& format, const Machine& machine);

}  // namespace driftbound::bounds

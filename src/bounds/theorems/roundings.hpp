#pragma once

#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Bounds of the errors of single roundings: recorded results, results that are not recorded, and operands.

/// Whether rounding x to a format leaves it unchanged: x is a number of the format, and not a subnormal one that is
/// flushed.
/// Source:    docs/theory.md T-14
bool fits(double x, const Format& format, const Machine& machine);

/// Upper bound of |y - t| for a result y that is the rounding of t to a format: half the gap above |y| to nearest, the
/// gap in directed roundings, omega if y is 0 and results are flushed.
/// Domain:    finite y; infinite if |y| is the largest number and the result may be saturated, which is possible in
///            directed roundings and in formats of 8 bits
/// Source:    docs/theory.md T-14
Magnitude cast_error(double y, const Format& format, const Machine& machine);

/// Upper bound of |y - t| for one operation with exact result t, rounded in the accumulator and stored as y.
/// Source:    docs/theory.md T-15
Magnitude rounding_error(double y, const Machine& machine);

/// rounding_error() for a sum or difference of two numbers of the accumulator, which is exact if it underflows.
/// Source:    docs/theory.md T-15
Magnitude addition_error(double y, const Machine& machine);

/// u largest + eta: the error of one operation whose exact result is at most `largest` in magnitude, and whose result
/// is not stored.
/// Source:    docs/theory.md T-01
Magnitude inner_rounding(Magnitude largest, const Machine& machine);

/// Upper bound of |y - t| if a number t of the accumulator is stored as y: 0 unless the output format is narrower.
/// Source:    docs/theory.md T-14
Magnitude storing_error(double y, const Machine& machine);

/// ufp(x) for x >= 0, but 2^-1022 for subnormal x.
double ufp(double x);

/// Upper bound of |fl(t) - t| for every |t| <= largest: max(u ufp(largest), eta) to nearest; infinite if fl may
/// overflow.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_cast(Magnitude largest, const Format& format, const Machine& machine);

/// Upper bound of |y - t| for one operation with an exact result |t| <= largest, rounded in the accumulator and stored
/// as y, where y is not recorded.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_rounding(Magnitude largest, const Machine& machine);

/// Upper bound of |y - t| if a number t of the accumulator, |t| <= largest, is stored as y, where y is not recorded.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_storing(Magnitude largest, const Machine& machine);

/// Whether an operation that reads x as a number of a format may read 0 instead of its rounding.
/// Source:    docs/theory.md T-13
bool may_read_zero(double x, const Format& format, const Machine& machine);

/// Upper bound of |used - constant| for a constant of an op that is rounded to the accumulator or, if subnormal numbers
/// are flushed, perhaps read as 0. 0 for infinite constants.
/// Source:    docs/theory.md T-13
Magnitude constant_error(double constant, const Machine& machine);

/// Upper bound of |used - recorded| for one element.
/// Source:    docs/theory.md T-13
double operand_error(double recorded, double used);

}  // namespace theorems

}  // namespace driftbound::bounds

#pragma once

#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

inline namespace theorems {

/// Whether rounding x to a format leaves it as it is: it is in the format, and no subnormal number of a format
/// whose subnormal numbers are flushed.
/// Source:    docs/theory.md T-14
bool fits(double x, const Format& format, const Machine& machine);

/// |y - t| for a result y stored as the rounding of t to a format: half the gap above |y| to nearest, the
/// gap otherwise, omega where a flushed result is 0.
/// Domain:    finite y; the largest number may stand for a larger one in directed roundings, and in formats of 8 bits,
///            which are often stored so: infinite
/// Source:    docs/theory.md T-14
Magnitude cast_error(double y, const Format& format, const Machine& machine);

/// |y - t| for one operation with exact result t, rounded in the accumulator and stored as y.
/// Source:    docs/theory.md T-15
Magnitude rounding_error(double y, const Machine& machine);

/// The same for a sum or difference of two numbers of the accumulator, which never underflows inexactly.
/// Source:    docs/theory.md T-15
Magnitude addition_error(double y, const Machine& machine);

/// The same for an operation whose result is not stored, exact results being at most this large.
/// Source:    docs/theory.md T-01
Magnitude inner_rounding(Magnitude largest, const Machine& machine);

/// What storing an exact result of the accumulator as y adds: 0 unless the output format is narrower.
/// Source:    docs/theory.md T-14
Magnitude storing_error(double y, const Machine& machine);

/// The largest power of two that is not above x >= 0; 0 for 0, and for a subnormal number the smallest normal one.
double ufp(double x);

/// |fl(t) - t| for every |t| <= largest: u ufp(largest) or eta to nearest; infinite where fl may overflow.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_cast(Magnitude largest, const Format& format, const Machine& machine);

/// |y - t| for one operation whose exact result is not recorded, |t| <= largest, rounded in the accumulator and stored
/// as y.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_rounding(Magnitude largest, const Machine& machine);

/// The same for an exact result of the accumulator: what storing it adds.
/// Source:    docs/theory.md T-22
Magnitude unrecorded_storing(Magnitude largest, const Machine& machine);

/// Whether an operation that reads x as a number of a format may read 0 instead of its rounding.
/// Source:    docs/theory.md T-13
bool may_read_zero(double x, const Format& format, const Machine& machine);

/// Upper bound of |used - constant| for a constant of an op, read as the accumulator holds it or, where subnormal
/// numbers are flushed, perhaps as 0. Infinite constants are no numbers: 0.
/// Source:    docs/theory.md T-13
Magnitude constant_error(double constant, const Machine& machine);

/// Upper bound of |used - recorded| for one element.
/// Source:    docs/theory.md T-13
double operand_error(double recorded, double used);

}  // namespace theorems

}  // namespace driftbound::bounds

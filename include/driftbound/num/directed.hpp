#pragma once

namespace driftbound {

/// Directed results in double without touching the rounding mode: round to nearest, then one step
/// outward where an error-free transformation shows that the exact result lies beyond.
/// Domain:    every double; where IEEE 754 is exact (an infinite operand, division by zero) or has no
///            number to give (NaN), both directions give its result
/// Guarantee: op_down(a, b) <= a op b <= op_up(a, b) for finite operands, in every rounding mode; overflow gives the
///            infinity (or the largest finite number) on the safe side. The thread must keep subnormal results and
///            operands, which the functions do not check (require_sound_environment)
/// Tightness: in a thread that rounds to nearest equal to the directed IEEE result, subnormal results included; only the
///            sign of a zero may differ
/// Source:    docs/theory.md T-02
double add_up(double a, double b);
double add_down(double a, double b);
double sub_up(double a, double b);
double sub_down(double a, double b);
double mul_up(double a, double b);
double mul_down(double a, double b);
double div_up(double a, double b);
double div_down(double a, double b);
double sqrt_up(double a);
double sqrt_down(double a);

/// The next double toward +infinity or -infinity; infinities and NaN stay.
double next_up(double x);
double next_down(double x);

}  // namespace driftbound

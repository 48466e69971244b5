#pragma once

namespace driftbound {

/// Directed results in double without touching the rounding mode: round to nearest, then one step
/// outward where the error-free transformation shows (or cannot exclude) that the exact result lies beyond.
/// Guarantee: op_down(a, b) <= a op b <= op_up(a, b) for finite operands; overflow gives the infinity
///            (or the largest finite number) on the safe side; NaN operands give NaN.
/// Tightness: equal to the directed IEEE result, except that results near or below 2^-960 may be one
///            unit wider.
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
double fma_up(double a, double b, double c);
double fma_down(double a, double b, double c);

/// The next double toward +infinity or -infinity; infinities and NaN stay.
double next_up(double x);
double next_down(double x);

}  // namespace driftbound

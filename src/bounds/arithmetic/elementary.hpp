#pragma once

namespace driftbound::bounds {

// Directed-rounding bounds of elementary functions in double.

/// Enclosure of e^x in double by argument reduction and a Taylor polynomial.
/// Guarantee: exp_down(x) <= e^x <= exp_up(x); NaN gives +infinity from exp_up and 0 from exp_down
/// Tightness: relative width at most 2^-45 where e^x is normal
/// Source:    docs/theory.md T-09
double exp_up(double x);
double exp_down(double x);

/// Upper bound of e^x - 1 for x >= 0, without cancellation.
/// Tightness: relative excess at most 2^-10
/// Source:    docs/theory.md T-09
double expm1_up(double x);

/// Upper bound of e^x - 1 - x for x >= 0, without cancellation.
/// Tightness: relative excess at most 2^-10
/// Source:    docs/theory.md T-65
double exp_remainder_up(double x);

/// Upper bound of log(1 + x) for x >= 0, and of log(x) for x > 0.
/// Tightness: relative excess of log1p_up at most 2^-16, absolute excess of log_up at most 2^-16
/// Source:    docs/theory.md T-46
double log1p_up(double x);
double log_up(double x);

/// Upper bound of x^p for x >= 0 and p > 0.
/// Tightness: relative excess at most p 2^-15 where p < 2^10
/// Source:    docs/theory.md T-49
double power_up(double x, double p);

/// Upper bound of atan(x) for x >= 0.
/// Tightness: relative excess at most 2^-16
/// Source:    docs/theory.md T-47
double atan_up(double x);

}  // namespace driftbound::bounds

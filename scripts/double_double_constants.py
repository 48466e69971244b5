#!/usr/bin/env python3
"""Writes src/num/kernels/double_double_constants.hpp (docs/theory.md, T-91 to T-94); with --check compares.

Fixed point with 700 bits in Python's integers; nothing else is needed. That the numbers are right, and that they are
enough of them, is tested against MPFR (tests/num/test_double_double_bounds.cpp), not believed.
"""
import math
import pathlib
import sys
from fractions import Fraction

BITS = 700
ONE = 1 << BITS
TARGET = pathlib.Path(__file__).resolve().parent.parent / "src/num/kernels/double_double_constants.hpp"


def arctan_of_inverse(n, sign):
    """atan(1/n) for sign = -1, atanh(1/n) for sign = 1."""
    total, power, k = 0, ONE // n, 0
    while power:
        total += sign**k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return Fraction(total, ONE)


def root(x):
    return Fraction(math.isqrt(x.numerator * ONE * ONE // x.denominator), ONE)


def exp_of_minus(x):
    """e^-x for a fraction x >= 0: e^x is a sum of positive terms."""
    total, term, k = ONE, ONE, 1
    while term:
        term = term * x.numerator // (x.denominator * k)
        total += term
        k += 1
    return Fraction(ONE, total)


PI = 16 * arctan_of_inverse(5, -1) - 4 * arctan_of_inverse(239, -1)
LN2 = 2 * arctan_of_inverse(3, 1)


def erf(c):
    """2 c e^(-c^2) / sqrt(pi) sum (2 c^2)^k / (1 3 5 ... (2k + 1)): positive terms."""
    square, total, term, k = 2 * c * c, 0, ONE, 0
    while term:
        total += term
        k += 1
        term = term * square.numerator // (square.denominator * (2 * k + 1))
    return 2 * c * exp_of_minus(c * c) * Fraction(total, ONE) / root(PI)


def taylor_of_erf(c, count):
    """The coefficients of erf(c + t): those of its derivative obey (n + 1) b_(n+1) = -2 c b_n - 2 b_(n-1)."""
    b = [2 * exp_of_minus(c * c) / root(PI)]
    b.append(-2 * c * b[0])
    for n in range(1, count):
        b.append((-2 * c * b[n] - 2 * b[n - 1]) / (n + 1))
    return [erf(c)] + [b[n] / (n + 1) for n in range(count - 1)]


def parts(x, bits, count):
    """x as a sum of doubles: all but the last cut to multiples of 2^-bits, 2^-2bits, ..."""
    found = []
    for i in range(1, count):
        unit = 1 << (bits * i)
        part = Fraction(math.floor(x * unit), unit)
        found.append(float(part))
        x -= part
    return found + [float(x)]


def pair(x):
    high = float(x)
    return high, float(x - Fraction(high))


def number(x):
    return x.hex() if x else "0.0"


def array(values):
    return "{" + ", ".join(number(v) for v in values) + "}"


def polynomial(name, comment, coefficients, pairs):
    split = [pair(c) for c in coefficients[:pairs]]
    singles = [float(c) for c in coefficients[pairs:]]
    return (f"/// {comment}\nconstexpr Polynomial<{pairs}, {len(singles)}> {name} = {{\n"
            f"    {array(h for h, _ in split)},\n    {array(l for _, l in split)},\n    {array(singles)}}};\n")


def constants(name, comment, values):
    listed = ", ".join(number(v) for v in values)
    return f"/// {comment}\nconstexpr double {name}[{len(values)}] = {{{listed}}};\n"


ERF_STEP, ERF_PIECES, ERF_PAIRS, ERF_SINGLES = 16, 139, 10, 8


def erf_table():
    rows = []
    for i in range(ERF_PIECES):
        coefficients = taylor_of_erf(Fraction(i, ERF_STEP), ERF_PAIRS + ERF_SINGLES)
        split = [pair(c) for c in coefficients[:ERF_PAIRS]]
        rows.append("    " + array([h for h, _ in split] + [l for _, l in split] +
                                   [float(c) for c in coefficients[ERF_PAIRS:]]))
    return (f"constexpr std::size_t erf_pieces = {ERF_PIECES}, erf_pairs = {ERF_PAIRS}, erf_singles = {ERF_SINGLES};\n"
            f"constexpr double erf_pieces_a_unit = {ERF_STEP};\n\n"
            "/// Row i: Taylor coefficients of erf at i / erf_pieces_a_unit: high parts, low parts, then those in one double.\n"
            "alignas(64) constexpr double erf_table[erf_pieces][2 * erf_pairs + erf_singles] = {\n"
            + ",\n".join(rows) + "};\n")


def header():
    factorial = math.factorial
    return "\n".join([
        "#pragma once\n",
        "// Written by scripts/double_double_constants.py. clang-format off\n",
        "#include <cstddef>\n",
        "namespace driftbound::num {\nnamespace {\n",
        "/// Coefficients of x^0, x^1, ...: the first ones as unevaluated sums of two doubles.\n"
        "template <std::size_t pairs, std::size_t singles>\n"
        "struct Polynomial {\n  double high[pairs], low[pairs], single[singles];\n};\n",
        constants("ln2", "ln 2 as a sum of two doubles", pair(LN2)),
        constants("ln2_parts", "ln 2 as a sum of three, the first two with 42 bits", parts(LN2, 42, 3)),
        constants("log2_e", "1 / ln 2", [float(1 / LN2)]),
        constants("half_pi_parts", "pi / 2 as a sum of four, the first three with 33 bits or fewer",
                  parts(PI / 2, 32, 4)),
        constants("two_over_pi", "2 / pi", [float(2 / PI)]),
        constants("root_of_half", "1 / sqrt 2 as a sum of two doubles", pair(1 / root(Fraction(2)))),
        constants("density_at_0", "1 / sqrt(2 pi)", pair(root(1 / (2 * PI)))),
        constants("gelu_line", "2 sqrt(2 / pi)", pair(2 * root(2 / PI))),
        constants("gelu_cube", "2 sqrt(2 / pi) 0.044715", pair(2 * root(2 / PI) * Fraction(44715, 10**6))),
        polynomial("expm1_series", "(e^r - 1) / r", [Fraction(1, factorial(j + 1)) for j in range(23)], 13),
        polynomial("log_series", "log((1 + s) / (1 - s)) / s in s^2", [Fraction(2, 2 * j + 1) for j in range(21)], 10),
        polynomial("sin_series", "sin(r) / r in r^2", [Fraction((-1)**j, factorial(2 * j + 1)) for j in range(15)], 9),
        polynomial("cos_series", "cos(r) in r^2", [Fraction((-1)**j, factorial(2 * j)) for j in range(15)], 9),
        erf_table(),
        "}  // namespace\n}  // namespace driftbound::num\n"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if TARGET.read_text() == header() else f"{TARGET} is not what this script writes")
    TARGET.write_text(header())

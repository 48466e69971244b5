#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "driftbound/num/magnitude.hpp"
#include "num/double_double.hpp"
#include "num/kernels/double_double_constants.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"

// The numbers in the proofs of T-90 to T-94: every constant of the kernels against MPFR, and the sums of errors of the
// theorems, rounded up, from those constants.

using namespace driftbound;
using namespace driftbound::num;

namespace {

const double unit = 0x1p-53, square = 0x1p-106;

Magnitude up(double x) {
  return Magnitude(x);
}

/// Upper bound of |x| for a number of 700 bits.
Magnitude up(const Real& x) {
  return Magnitude(x.to_double()) * Magnitude(1.0 + 0x1p-50);
}

Real pi() {
  return Real(4.0) * Real(1.0).apply(mpfr_atan);
}

Real log_of_2() {
  return Real(2.0).apply(mpfr_log);
}

template <std::size_t count>
Real sum_of(const double (&parts)[count]) {
  Real sum;
  for (const double part : parts) sum += Real(part);
  return sum;
}

/// What is known of a pair: |high|, |low|, and how far high + low is from what it stands for.
struct Size {
  Magnitude high, low, error;
};

/// T-90: c + t q, c known exactly up to its error; `any` where the larger one of the two is not known.
Size step(const Size& c, const Size& t, const Size& q, bool any) {
  const Magnitude u(unit), one_u(1.0 + unit), product = t.high * q.high;
  if (!any) CHECK((c.high == Magnitude() || product * one_u <= c.high));
  const Magnitude high = (c.high + product * one_u) * one_u, g = t.low * q.high + u * product;
  const Magnitude first = c.low + one_u * g, second = u * high + one_u * first, low = t.high * q.low + one_u * second;
  const Magnitude rounding = t.low * q.low + u * g + u * first + u * second + u * low;
  return {high, low * one_u, c.error + rounding + (t.high + t.low) * q.error};
}

/// The sum of |c_j| T^j over j >= first for coefficients that fall at least by `ratio` times T a term from there on.
Magnitude geometric(Magnitude first_term, double ratio) {
  CHECK(ratio < 1.0);
  return divide_up(first_term, 1.0 - ratio);
}

/// T-90 (b): Horner's rule at |t| <= T, |t.low| <= T_low, against the polynomial with the exact coefficients.
Size polynomial(const double* high, const double* low, std::size_t pairs, const double* single, std::size_t singles,
                const std::function<Real(std::size_t)>& exact, double t, double t_low, bool any) {
  const Magnitude u(unit);
  Size value;
  for (std::size_t j = singles; j-- > 0;) {
    const Real c = exact(pairs + j);
    const Magnitude size = up(single[j]) + up(t) * value.high;
    const Magnitude missing = value.high * up(t_low) + value.error * (up(t) + up(t_low));
    value = {size * up(1.0 + unit), up(0.0), missing + u * size + up(c - Real(single[j]))};
    CHECK(up(c - Real(single[j])) <= up(unit) * up(c));
  }
  for (std::size_t j = pairs; j-- > 0;) {
    const Real c = exact(j);
    const Magnitude off = up(c - Real(high[j]) - Real(low[j]));
    CHECK(off <= up(square) * up(c));
    CHECK(up(low[j]) <= up(unit) * up(high[j]));
    value = step({up(high[j]), up(low[j]), off}, {up(t), up(t_low), up(0.0)}, value, any);
  }
  return value;
}

template <std::size_t pairs, std::size_t singles>
Size polynomial(const Polynomial<pairs, singles>& c, const std::function<Real(std::size_t)>& exact, double t) {
  return polynomial(c.high, c.low, pairs, c.single, singles, exact, t, t * unit, false);
}

/// Errors in units of 2^-106, relative.
struct Units {
  Magnitude value;
  Units(Magnitude v) : value(v) {}  // NOLINT(google-explicit-constructor)
  Units(double v) : value(v) {}     // NOLINT(google-explicit-constructor)
  friend Units operator+(Units a, Units b) { return a.value + b.value; }
  friend Units operator*(Units a, Units b) { return a.value * b.value; }
};

Units units(Magnitude absolute, double least) {
  return divide_up(absolute, least) * Magnitude(0x1p106);
}

/// Products of second order, and factors 1 + O(2^-53).
const Units slack = 1.0 + 0x1p-40;

// T-90: relative errors of one operation on pairs with |low| <= kappa 2^-53 |high|.
Units of_product(double kappa_x, double kappa_y) {
  return Units(2.0 + 2.0 * kappa_x + kappa_y + kappa_x * kappa_y) * slack;
}
Units of_quotient(double kappa_x, double kappa_y) {
  return Units(kappa_x + kappa_y + (1.0 + kappa_x + kappa_y) * (2.0 + kappa_y)) * slack;
}
const Units of_root = Units(4.125) * slack;

double kappa(const Size& value, double least) {
  return (divide_up(value.low, least) * Magnitude(0x1p53)).value() * (1.0 + 0x1p-40);
}

constexpr double reach = 0.3466;  // of the reduced argument of exp

Units largest(std::initializer_list<Units> all) {
  Units found(0.0);
  for (const Units& x : all) found.value = std::max(found.value, x.value);
  return found;
}

/// The largest of a term whose extremes over e^r in [e^-reach, e^reach] are at the ends or at 1.
Units at_ends(const std::function<double(double)>& term) {
  return largest({term(std::exp(-reach)), term(1.0), term(std::exp(reach))}) * slack;
}

// T-91

struct ExpErrors {
  Units reduced{0.0};  // of e^r - 1
  Units exp{0.0}, expm1{0.0};
};

Real inverse_factorial(std::size_t n) {
  Real c(1.0);
  for (std::size_t i = 2; i <= n; ++i) c = c / Real(static_cast<double>(i));
  return c;
}

ExpErrors exp_errors() {
  const Magnitude u(unit), n(1025.0);
  CHECK(up(Real(0.5) * log_of_2()).value() + 0x1p-40 < reach);
  const Magnitude g = n * up(ln2_parts[2]) + u * up(reach), low = u * up(reach) + g;
  const Units reduction = units(n * up(log_of_2() - sum_of(ln2_parts)) + u * g + u * low, 1.0) * slack;

  const Size p = polynomial(
      expm1_series, [](std::size_t j) { return inverse_factorial(j + 1); }, reach);
  const std::size_t terms = 23;
  const Magnitude rest = geometric(up(inverse_factorial(terms + 1)) * up(std::pow(reach, terms)), reach / 25) * up(2.0);
  const double least = 0.844;  // of (e^r - 1) / r
  CHECK(least < (1.0 - std::exp(-reach)) / reach);

  ExpErrors e;
  e.reduced = units(p.error + rest, least) + of_product(1.0, kappa(p, least));
  e.exp = at_ends([](double w) { return std::abs(w - 1.0) / w; }) * e.reduced + reduction +
          at_ends([](double w) { return (std::max(1.0, w) + std::abs(w - 1.0)) / w; });
  e.expm1 = e.reduced;
  for (int k = 1; k <= 120; ++k) {
    const int power = k <= 60 ? k : 60 - k;
    const double scale = std::exp2(power), low_of_one = std::abs(power) > 52 ? std::max(scale, 1.0) : 0.0;
    const auto y = [scale](double w) { return std::abs(scale * w - 1.0); };
    const Units other = at_ends([&](double w) { return scale * std::abs(w - 1.0) / y(w); }) * (e.reduced + Units(2.0)) +
                        at_ends([&](double w) { return scale * w / y(w); }) * reduction + Units(1.0) +
                        at_ends([&](double w) { return 2.0 * low_of_one / y(w); });
    e.expm1 = largest({e.expm1, other * slack});
  }
  return e;
}

// T-92

struct LogErrors {
  Units log{0.0}, log1p{0.0};
};

LogErrors log_errors() {
  const double most = 0.4143, least = -0.2930, t = 0.1717, z = t * t * (1.0 + 0x1p-40);
  CHECK(std::sqrt(2.0) - 1.0 < most);
  CHECK(std::sqrt(0.5) - 1.0 > least);
  CHECK(most / (2.0 + most) < t);
  CHECK(-least / (2.0 + least) < t);
  const double divisor = 1.0 - least / (2.0 + least);
  CHECK(divisor > 1.0 + most / (2.0 + most));
  const Units s = Units(divisor) + of_quotient(1.0, 1.0);

  const auto coefficient = [](std::size_t j) { return Real(2.0) / Real(static_cast<double>(2 * j + 1)); };
  const Size p = polynomial(log_series, coefficient, z);
  const std::size_t terms = 21;
  const Magnitude rest = geometric(up(coefficient(terms)) * up(std::pow(z, terms)), z) * up(2.0);
  const Units series = units(p.error + rest, 2.0) + of_product(1.0, 1.0) * Units(z / (1.0 - z) / 2.0);
  const Units log_m = (s * Units(1.0 / (1.0 - z)) + series + of_product(1.0, kappa(p, 2.0 * (1.0 - z)))) * slack;

  CHECK(up(log_of_2() - sum_of(num::ln2)) <= up(0.2 * square));
  const double ln_two = 0.6931, log_of_m = 0.3466, result = 0.3465;  // |e ln 2| >=, |log m| <=, |log x| >=
  CHECK(std::log(2.0) > ln_two);
  CHECK(0.5 * std::log(2.0) < log_of_m);
  const double whole = log_of_m / (std::log(2.0) - log_of_m), power = 1.0 + whole;
  const Units with_power = log_m * Units(whole) + Units((2.0 + 0.3) * power) + Units(1.0 + 2.0 * (power + whole));
  LogErrors e;
  e.log = largest({log_m, with_power * slack});
  e.log1p = largest({log_m, (with_power + Units(2.0 / result)) * slack});
  return e;
}

Units tanh_error(const ExpErrors& e) {
  const double first = std::exp(-reach + std::log(2.0)) - 1.0;  // least expm1 with n >= 1
  const Units small = e.reduced + Units(1.0 + (std::exp(reach) - 1.0) / (std::exp(reach) + 1.0));
  const Units large = e.expm1 * Units(2.0 / (first + 2.0)) + Units(2.0);
  return (largest({small, large}) + of_quotient(1.0, 1.0) + units(up(0x1p-114), 1.0)) * slack;
}

Units sigmoid_error(const ExpErrors& e) {
  return (e.exp + Units(1.5) + of_quotient(1.0, 1.0)) * slack;
}

Units softplus_error(const ExpErrors& e, const LogErrors& l) {
  return (e.exp + l.log1p + Units(3.0)) * slack;
}

// T-93

struct SineErrors {
  Units sin{0.0}, cos{0.0};
  Magnitude absolute;
};

SineErrors sine_errors() {
  const Magnitude u(unit), n(0x1p20);
  const double quarter = 0.7854, z = quarter * quarter;
  CHECK(up(pi()).value() / 4.0 + 0x1p-32 < quarter);
  const Magnitude moved = u * n + n * (up(half_pi_parts[2]) + up(half_pi_parts[3])) * up(2.0);
  SineErrors e;
  e.absolute = up(6.0) * u * u * moved + up(3.0) * u * n * up(half_pi_parts[3]) * up(2.0) +
               n * up(pi() / Real(2.0) - sum_of(half_pi_parts));

  const std::size_t terms = 15;
  const auto signed_term = [](std::size_t j, std::size_t n_factorial) {
    return j % 2 == 0 ? inverse_factorial(n_factorial) : -inverse_factorial(n_factorial);
  };
  const Size s = polynomial(
      sin_series, [&](std::size_t j) { return signed_term(j, 2 * j + 1); }, z);
  const Size c = polynomial(
      cos_series, [&](std::size_t j) { return signed_term(j, 2 * j); }, z);
  const Magnitude power = up(std::pow(z, terms)) * up(2.0);
  const double least_s = 0.9003, least_c = 0.7071;
  CHECK(std::sin(quarter) / quarter > least_s);
  CHECK(std::cos(quarter) > least_c);
  e.sin = Units(6.0) + units(s.error + power * up(inverse_factorial(2 * terms + 1)), least_s) +
          of_product(1.0, 1.0) * Units(z / 6.0 / least_s) + of_product(1.0, kappa(s, least_s));
  e.cos = Units(6.0 * quarter * std::tan(quarter)) +
          units(c.error + power * up(inverse_factorial(2 * terms)), least_c) +
          of_product(1.0, 1.0) * Units(z / 2.0 / least_c) + of_product(0.0, kappa(c, least_c));
  e.sin = e.sin * slack;
  e.cos = e.cos * slack;
  return e;
}

// T-94

/// Coefficients of erf(c + t), and those of the remainder beyond them, at most.
struct Taylor {
  std::vector<Real> coefficients;
  Magnitude beyond;

  Taylor(double c, std::size_t first_left_out, double t) {
    const std::size_t count = 40;
    CHECK(2.0 * c + 2.0 < count);
    std::vector<Real> b = {Real(2.0) * (-Real(c) * Real(c)).apply(mpfr_exp) / pi().apply(mpfr_sqrt)};
    b.push_back(Real(-2.0 * c) * b[0]);
    for (std::size_t n = 1; n < count; ++n) {
      b.push_back((Real(-2.0 * c) * b[n] - Real(2.0) * b[n - 1]) / Real(static_cast<double>(n + 1)));
    }
    coefficients = {Real(c).apply(mpfr_erf)};
    for (std::size_t n = 0; n < count; ++n) coefficients.push_back(b[n] / Real(static_cast<double>(n + 1)));
    const Magnitude last = std::max(up(b[count]), up(b[count - 1]));
    beyond = geometric(last * up(std::pow(t, count + 1)) * up(1.0 + 0x1p-38), t);
    for (std::size_t n = first_left_out; n <= count; ++n) {
      beyond += up(coefficients[n]) * up(std::pow(t, n)) * up(1.0 + 0x1p-38);
    }
  }
};

Units erf_error_of(std::size_t piece) {
  const double t = 0.5 / erf_pieces_a_unit, c = static_cast<double>(piece) / erf_pieces_a_unit;
  const double* const row = erf_table[piece];
  const Taylor taylor(c, erf_pairs + erf_singles, t);
  const auto horner = [&](std::size_t first) {
    return polynomial(
        row + first, row + erf_pairs + first, erf_pairs - first, row + 2 * erf_pairs, erf_singles,
        [&](std::size_t j) { return taylor.coefficients[j + first]; }, t, unit * (c + t), true);
  };
  if (piece > 0) return units(horner(0).error + taylor.beyond, std::erf(c - t) * (1.0 - 0x1p-40));
  CHECK(row[0] == 0.0);
  const double least = std::erf(t) / t * (1.0 - 0x1p-40);
  const Size q = horner(1);
  return units(q.error + divide_up(taylor.beyond, t), least) + of_product(1.0, kappa(q, least));
}

Units erf_error() {
  Units worst(0.0);
  for (std::size_t piece = 0; piece < erf_pieces; ++piece) worst = largest({worst, erf_error_of(piece)});
  const double end = static_cast<double>(erf_pieces - 1) / erf_pieces_a_unit;
  return (worst + units(up(Real(end).apply(mpfr_erfc)), std::erf(end))) * slack;
}

/// Relative error of a pair as a constant.
Units of_constant(const double (&pair)[2], const Real& exact) {
  CHECK(up(pair[1]) <= up(unit) * up(pair[0]));
  return units(up(sum_of(pair) - exact), pair[0] * (1.0 - 0x1p-40));
}

/// Of the argument, as all below.
Units gelu_error(Units erf) {
  const Units argument = of_product(1.0, 1.0) + of_constant(root_of_half, Real(0.5).apply(mpfr_sqrt));
  const double steepest = 0.4840;  // z erf'(z) <= sqrt(2 / (pi e))
  CHECK(std::sqrt(2.0 / (std::acos(-1.0) * std::exp(1.0))) < steepest);
  return (Units(0.5) * (Units(steepest) * argument + erf + Units(3.0)) + of_product(1.0, 1.0)) * slack;
}

/// What the convergent of Laplace's fraction in T-102 leaves out at most, next to its limit: it is largest where the
/// tail begins, as denominators grow with t.
Units beyond_the_fraction() {
  const Real t(-gelu_tail);
  Real before(1.0), b = t, factorial(1.0);
  for (int k = 1; k <= gelu_tail_terms; ++k) {
    const Real next = t * b + Real(k) * before;
    before = b, b = next;
    factorial = factorial * Real(k);
  }
  return units(up(factorial / (before * b) * (t * t + Real(1.0)) / t), 1.0);
}

Units gelu_tail_error(Units exp) {
  const Real density = (Real(0.5) / pi()).apply(mpfr_sqrt);
  const Units sum(3.0), step = of_product(1.0, 1.0) + sum;
  const Units fraction = Units(2.0 * (gelu_tail_terms - 1)) * step + of_quotient(1.0, 1.0) + of_product(1.0, 1.0);
  const Units of_density = Units(620.0) * of_product(1.0, 1.0) + exp + of_constant(density_at_0, density);
  return (of_density + fraction + beyond_the_fraction() + Units(2.0) * of_product(1.0, 1.0)) * slack;
}

/// Of v as the argument of the sigmoid.
Units gelu_tanh_argument() {
  const Real line = Real(2.0) * (Real(2.0) / pi()).apply(mpfr_sqrt), cube = line * Real(44715.0) / Real(1e6);
  const Units constants = of_constant(gelu_cube, cube) + of_constant(gelu_line, line);
  return of_product(1.0, 1.0) + constants + Units(12.0) + of_product(1.0, 5.0);
}

Units gelu_tanh_tail_error(Units sigmoid) {
  return (Units(620.0) * gelu_tanh_argument() + sigmoid + of_product(1.0, 1.0)) * slack;
}

Units gelu_tanh_error(Units sigmoid) {
  const Units argument = gelu_tanh_argument();
  const double steepest = 0.2245;  // v sigmoid'(v): its own derivative is at most 1/2, and it is below v e^-v
  for (double v = 0.0; v < 20.0; v += 0x1p-10) {
    CHECK(v * std::exp(-v) / ((1.0 + std::exp(-v)) * (1.0 + std::exp(-v))) + 0x1p-12 < steepest);
  }
  return (Units(steepest) * argument + sigmoid + of_product(1.0, 1.0)) * slack;
}

}  // namespace

TEST_CASE("the errors stated of functions in double-double are those that their proofs add up to") {
  using F = DoubleDoubleFunction;
  const ExpErrors e = exp_errors();
  const LogErrors l = log_errors();
  const SineErrors s = sine_errors();
  const Units erf = erf_error(), sigmoid = sigmoid_error(e);
  const std::vector<std::pair<F, Units>> found = {
      {F::exp, e.exp},
      {F::expm1, e.expm1},
      {F::log, l.log},
      {F::log1p, l.log1p},
      {F::tanh, tanh_error(e)},
      {F::sigmoid, sigmoid},
      {F::softplus, softplus_error(e, l)},
      {F::sin, s.sin},
      {F::cos, s.cos},
      {F::erf, erf},
      {F::gelu, gelu_error(erf)},
      {F::gelu_tanh, gelu_tanh_error(sigmoid)},
      {F::sqrt, of_root},
      {F::reciprocal, of_quotient(0.0, 1.0)},
  };
  CHECK(found.size() == double_double_functions);
  CHECK(Real(-620.0).apply(mpfr_exp) <= Real(0x1p-894));
  CHECK(Real(21.0) * Real(-620.0).apply(mpfr_exp) <= Real(0x1p-889));  // |x| < 21 where gelu_tanh is given as 0 at most
  for (const auto& result : found) {
    const F f = result.first;
    const double units = std::ceil(result.second.value.value());
    const DoubleDoubleError stated = error_of(f);
    CAPTURE(static_cast<int>(f));
    CHECK(std::max(stated.relative, stated.of_argument) * 0x1p106 == units);
    CHECK(std::min(stated.relative, stated.of_argument) == 0.0);
    CHECK(std::max(stated.relative, stated.of_argument) <= 0x1p-100);
    const bool has_tail = f == F::gelu || f == F::gelu_tanh;
    const Units of_tail = f == F::gelu ? gelu_tail_error(e.exp) : gelu_tanh_tail_error(sigmoid);
    CHECK(stated.in_tail * 0x1p106 == (has_tail ? std::ceil(of_tail.value.value()) : 0.0));
    CHECK(stated.in_tail <= 0x1p-91);
    const bool vanishes = f == F::exp || f == F::sigmoid || f == F::softplus;
    CHECK(stated.of_nothing == (vanishes ? 0x1p-894 : has_tail ? 0x1p-889 : 0.0));
    const bool has_zeros = f == F::sin || f == F::cos;
    CHECK((stated.absolute > 0.0) == has_zeros);
    if (has_zeros) CHECK(s.absolute.value() <= stated.absolute);
  }
}

// What the exactness of products with parts of ln 2 and pi / 2 stands on.
TEST_CASE("parts of constants have few enough bits") {
  const auto is_multiple = [](double x, double of) { return std::fmod(x, of) == 0.0; };
  CHECK(is_multiple(ln2_parts[0], 0x1p-42));
  CHECK(is_multiple(ln2_parts[1], 0x1p-84));
  CHECK(ln2_parts[1] < 0x1p-42);
  CHECK(up(Real(log2_e[0]) - Real(1.0) / log_of_2()) <= up(0x1p-53));
  CHECK(is_multiple(half_pi_parts[0], 0x1p-32));
  CHECK(is_multiple(half_pi_parts[1], 0x1p-64));
  CHECK(half_pi_parts[1] < 0x1p-32);
  CHECK(is_multiple(half_pi_parts[2], 0x1p-96));
  CHECK(half_pi_parts[2] < 0x1p-64);
  CHECK(up(Real(two_over_pi[0]) - Real(2.0) / pi()) <= up(0x1p-53));
}

#pragma once

#include <mpfr.h>

#include <utility>

/// A real number with 700 bits for use as an oracle: sums of products of float32 numbers are exact, functions
/// are far more precise than any bound they are held against.
class Real {
public:
  static constexpr mpfr_prec_t bits = 700;

  Real(double x = 0.0) {  // NOLINT(google-explicit-constructor): reads like a number in formulas
    mpfr_init2(value_, bits);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  Real& operator+=(const Real& y) { return *this = binary(mpfr_add, *this, y); }
  friend Real operator+(const Real& x, const Real& y) { return binary(mpfr_add, x, y); }
  friend Real operator-(const Real& x, const Real& y) { return binary(mpfr_sub, x, y); }
  friend Real operator*(const Real& x, const Real& y) { return binary(mpfr_mul, x, y); }
  friend Real operator/(const Real& x, const Real& y) { return binary(mpfr_div, x, y); }
  friend Real operator-(const Real& x) { return Real(0.0) - x; }
  friend bool operator<(const Real& x, const Real& y) { return mpfr_less_p(x.value_, y.value_) != 0; }
  friend bool operator<=(const Real& x, const Real& y) { return mpfr_lessequal_p(x.value_, y.value_) != 0; }
  friend bool operator>=(const Real& x, const Real& y) { return y <= x; }

  friend Real abs(const Real& x) { return unary(mpfr_abs, x); }

  /// One of MPFR's functions of one variable: x.apply(mpfr_tanh).
  template <class Function>
  Real apply(Function function) const {
    return unary(function, *this);
  }

  /// The float32 number in the direction named.
  float to_float(mpfr_rnd_t direction) const { return mpfr_get_flt(value_, direction); }
  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }

private:
  template <class Operation>
  static Real binary(Operation operation, const Real& x, const Real& y) {
    Real z;
    operation(z.value_, x.value_, y.value_, MPFR_RNDN);
    return z;
  }
  template <class Operation>
  static Real unary(Operation operation, const Real& x) {
    Real z;
    operation(z.value_, x.value_, MPFR_RNDN);
    return z;
  }

  mpfr_t value_;
};

#pragma once

#include <mpfr.h>

/// Sums and products of doubles without error: 6500 bits hold every sum of products of three of them.
namespace driftbound_tests {

class ExactValue {
public:
  ExactValue(double x) {  // NOLINT(google-explicit-constructor): tests mix doubles and exact values
    mpfr_init2(value_, 6500);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  ExactValue(const ExactValue& other) : ExactValue(0.0) { mpfr_set(value_, other.value_, MPFR_RNDN); }
  ExactValue& operator=(const ExactValue& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~ExactValue() { mpfr_clear(value_); }

  friend ExactValue operator+(ExactValue a, const ExactValue& b) { return a.apply(mpfr_add, b); }
  friend ExactValue operator-(ExactValue a, const ExactValue& b) { return a.apply(mpfr_sub, b); }
  friend ExactValue operator*(ExactValue a, const ExactValue& b) { return a.apply(mpfr_mul, b); }
  friend bool operator<=(const ExactValue& a, const ExactValue& b) { return mpfr_lessequal_p(a.value_, b.value_) != 0; }
  friend ExactValue abs(ExactValue a) {
    mpfr_abs(a.value_, a.value_, MPFR_RNDN);
    return a;
  }
  double nearest() const { return mpfr_get_d(value_, MPFR_RNDN); }

private:
  template <class Operation>
  ExactValue& apply(Operation operation, const ExactValue& other) {
    operation(value_, value_, other.value_, MPFR_RNDN);
    return *this;
  }

  mpfr_t value_;
};

}  // namespace driftbound_tests

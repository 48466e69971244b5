#pragma once

#include <gmp.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace driftbound::region {

/// An mpz_t that owns its digits.
class Integer {
public:
  Integer() { mpz_init(value_); }
  Integer(const Integer& other) { mpz_init_set(value_, other.value_); }
  Integer(Integer&& other) noexcept : Integer() { mpz_swap(value_, other.value_); }
  Integer& operator=(Integer other) noexcept {
    mpz_swap(value_, other.value_);
    return *this;
  }
  ~Integer() { mpz_clear(value_); }

  mpz_ptr get() { return value_; }
  mpz_srcptr get() const { return value_; }
  int sign() const { return mpz_sgn(value_); }

private:
  mpz_t value_;
};

/// A double is digits times 2^exponent, digits of at most 53 bits.
struct DoubleDigits {
  double digits = 0.0;
  long exponent = 0;

  explicit DoubleDigits(double x) {
    int e = 0;
    digits = std::ldexp(std::frexp(x, &e), 53);
    exponent = x == 0.0 ? 0 : e - 53;
  }
};

/// digits 2^-bits / w, with the denominator w > 0 of the point that it belongs to.
struct ExactNumber {
  Integer digits;
  long bits = 0;

  int sign() const { return digits.sign(); }
};

/// Coordinates digits / denominator.
struct ExactPoint {
  std::array<Integer, 3> digits;
  Integer denominator;
};

}  // namespace driftbound::region

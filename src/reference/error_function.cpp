#include "reference/error_function.hpp"

#include <gmp.h>

#include <cmath>

#include "num/mpfr_value.hpp"

namespace driftbound {

namespace {

constexpr double largest_argument = 16.0;
constexpr mpfr_prec_t fewest_result_bits = 53, most_result_bits = 4096;
constexpr mpfr_prec_t series_guard_bits = 32;

class Integer {
public:
  Integer() { mpz_init(value_); }
  ~Integer() { mpz_clear(value_); }
  Integer(const Integer&) = delete;
  Integer& operator=(const Integer&) = delete;
  mpz_ptr get() { return value_; }

private:
  mpz_t value_;
};

bool is_covered(mpfr_srcptr y, mpfr_srcptr x) {
  const mpfr_prec_t bits = mpfr_get_prec(y);
  return bits >= fewest_result_bits && bits <= most_result_bits && mpfr_number_p(x) &&
         std::fabs(mpfr_get_d(x, MPFR_RNDA)) <= largest_argument;
}

/// Whether erfc(|x|) < e^(-x^2) is below 2^-4 units of y.
bool is_next_to_one(mpfr_srcptr y, mpfr_srcptr x) {
  const double magnitude = mpfr_get_d(x, MPFR_RNDZ);
  return 1.4426 * magnitude * magnitude >= static_cast<double>(mpfr_get_prec(y) + 4);
}

/// sum_n t^n / (1 3 ... (2n + 1)), every step rounded down.
void set_series(mpfr_ptr sum_of_terms, mpfr_srcptr t) {
  const mpfr_prec_t bits = mpfr_get_prec(sum_of_terms);
  Integer factor, term, sum;
  num::MpfrValue scaled(mpfr_get_prec(t));
  mpfr_mul_2ui(scaled.get(), t, static_cast<unsigned long>(bits), MPFR_RNDN);
  mpfr_get_z(factor.get(), scaled.get(), MPFR_RNDD);
  mpz_setbit(term.get(), static_cast<mp_bitcnt_t>(bits));
  mpz_set(sum.get(), term.get());
  const double halved_from = 2.0 * mpfr_get_d(t, MPFR_RNDU);
  for (unsigned long odd = 3; mpz_sgn(term.get()) != 0 || static_cast<double>(odd) < halved_from; odd += 2) {
    mpz_mul(term.get(), term.get(), factor.get());
    mpz_tdiv_q_2exp(term.get(), term.get(), static_cast<mp_bitcnt_t>(bits));
    mpz_tdiv_q_ui(term.get(), term.get(), odd);
    mpz_add(sum.get(), sum.get(), term.get());
  }
  mpfr_set_z_2exp(sum_of_terms, sum.get(), -static_cast<mpfr_exp_t>(bits), MPFR_RNDN);
}

/// erf(|x|), precise next to itself but for 2^(14 - bits).
num::MpfrValue erf_of_magnitude(mpfr_srcptr x, mpfr_prec_t bits) {
  num::MpfrValue square(2 * mpfr_get_prec(x)), series(bits), result(bits), root(bits);
  mpfr_sqr(square.get(), x, MPFR_RNDN);  // exact
  mpfr_mul_2ui(square.get(), square.get(), 1, MPFR_RNDN);
  set_series(series.get(), square.get());
  mpfr_div_2ui(square.get(), square.get(), 1, MPFR_RNDN);
  mpfr_neg(square.get(), square.get(), MPFR_RNDN);
  mpfr_exp(result.get(), square.get(), MPFR_RNDN);
  mpfr_mul(result.get(), result.get(), series.get(), MPFR_RNDN);
  mpfr_mul(result.get(), result.get(), x, MPFR_RNDN);
  mpfr_mul_2ui(result.get(), result.get(), 1, MPFR_RNDN);
  mpfr_const_pi(root.get(), MPFR_RNDN);
  mpfr_sqrt(root.get(), root.get(), MPFR_RNDN);
  mpfr_div(result.get(), result.get(), root.get(), MPFR_RNDN);
  mpfr_abs(result.get(), result.get(), MPFR_RNDN);
  return result;
}

}  // namespace

bool erf_by_series(mpfr_ptr y, mpfr_srcptr x) {
  if (is_next_to_one(y, x)) return mpfr_set_si(y, mpfr_sgn(x), MPFR_RNDN), true;
  if (!is_covered(y, x)) return false;
  const num::MpfrValue magnitude = erf_of_magnitude(x, mpfr_get_prec(y) + series_guard_bits);
  mpfr_setsign(y, magnitude.get(), mpfr_signbit(x), MPFR_RNDN);
  return true;
}

bool erfc_by_series(mpfr_ptr y, mpfr_srcptr x) {
  if (mpfr_sgn(x) < 0 && is_next_to_one(y, x)) return mpfr_set_ui(y, 2, MPFR_RNDN), true;
  if (!is_covered(y, x)) return false;
  const double z = mpfr_get_d(x, MPFR_RNDU);
  // erfc(z) >= 2^(-5 - z^2 / ln 2)
  const auto tail = z > 0.0 ? static_cast<mpfr_prec_t>(std::ceil(1.4427 * z * z)) + 5 : 0;
  const num::MpfrValue magnitude = erf_of_magnitude(x, mpfr_get_prec(y) + tail + series_guard_bits);
  if (mpfr_sgn(x) > 0) {
    mpfr_ui_sub(y, 1, magnitude.get(), MPFR_RNDN);
  } else {
    mpfr_add_ui(y, magnitude.get(), 1, MPFR_RNDN);
  }
  return true;
}

}  // namespace driftbound

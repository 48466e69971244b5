#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "networks.hpp"
#include "num/mpfr_value.hpp"
#include "reference/error_function.hpp"
#include "reference/mpfr_range.hpp"
#include "support/approach.hpp"

using namespace driftbound;
using num::MpfrValue;

namespace {

using Function = bool (*)(mpfr_ptr, mpfr_srcptr);
using Exact = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

/// The error over y's unit of roundoff times |exact|, MPFR's value with three times the bits for exact.
double units_off(mpfr_srcptr y, mpfr_srcptr x, Exact exact) {
  const mpfr_prec_t bits = mpfr_get_prec(y);
  MpfrValue truth(3 * bits + 64), difference(64);
  exact(truth.get(), x, MPFR_RNDN);
  mpfr_sub(difference.get(), y, truth.get(), MPFR_RNDA);
  if (mpfr_zero_p(difference.get())) return 0.0;
  mpfr_div(difference.get(), difference.get(), truth.get(), MPFR_RNDA);
  mpfr_mul_2ui(difference.get(), difference.get(), static_cast<unsigned long>(bits), MPFR_RNDA);
  return std::fabs(mpfr_get_d(difference.get(), MPFR_RNDA));
}

}  // namespace

TEST_CASE("erf and erfc by the series are rounded nearly as well as can be, tails and tiny arguments included (T-128)" *
          doctest::test_suite("campaign")) {
  const MpfrRange range;
  networks::Maker make(28, networks::Scale::ordinary);
  const std::pair<Function, Exact> functions[] = {{erf_by_series, mpfr_erf}, {erfc_by_series, mpfr_erfc}};
  for (const auto& [function, exact] : functions) {
    double worst = 0.0;
    for (int i = 0; i < 1500 * networks::multiplier(); ++i) {
      const auto bits = static_cast<mpfr_prec_t>(53 + make.below(make.chance(0.1) ? 800 : 250));
      MpfrValue x(static_cast<mpfr_prec_t>(24 + make.below(300))), y(bits);
      mpfr_set_d(x.get(), 32.0 * static_cast<double>(make.below(1u << 30)) * 0x1p-30 - 16.0, MPFR_RNDN);
      if (make.chance(0.3)) mpfr_set_d(x.get(), make.number(), MPFR_RNDN);
      if (make.chance(0.1)) mpfr_div_2ui(x.get(), x.get(), 1 + make.below(2000), MPFR_RNDN);
      mpfr_mul_d(x.get(), x.get(), 1.0 - 0x1p-40, MPFR_RNDZ);
      REQUIRE(function(y.get(), x.get()));
      worst = std::max(worst, units_off(y.get(), x.get(), exact));
    }
    CHECK_APPROACH("T-128", worst / 1.01, 0.98);
  }
}

TEST_CASE("erf and erfc by the series at 0, at the ends, and where it is not for") {
  const MpfrRange range;
  MpfrValue x(100), y(400);
  mpfr_set_zero(x.get(), 1);
  REQUIRE(erf_by_series(y.get(), x.get()));
  CHECK(mpfr_zero_p(y.get()));
  REQUIRE(erfc_by_series(y.get(), x.get()));
  CHECK(mpfr_cmp_ui(y.get(), 1) == 0);
  for (const double end : {16.0, -16.0}) {
    mpfr_set_d(x.get(), end, MPFR_RNDN);
    REQUIRE(erf_by_series(y.get(), x.get()));
    CHECK(units_off(y.get(), x.get(), mpfr_erf) <= 1.01);
    REQUIRE(erfc_by_series(y.get(), x.get()));
    CHECK(units_off(y.get(), x.get(), mpfr_erfc) <= 1.01);
    mpfr_mul_d(x.get(), x.get(), 1.0 + 0x1p-50, MPFR_RNDA);
    CHECK_FALSE(erf_by_series(y.get(), x.get()));
    CHECK_FALSE(erfc_by_series(y.get(), x.get()));
  }
  for (const double far : {-11.0, -40.0, -1e200}) {
    MpfrValue few(160);
    mpfr_set_d(x.get(), far, MPFR_RNDN);
    REQUIRE(erf_by_series(few.get(), x.get()));
    CHECK(mpfr_cmp_si(few.get(), -1) == 0);
    REQUIRE(erfc_by_series(few.get(), x.get()));
    CHECK(mpfr_cmp_ui(few.get(), 2) == 0);
  }
  mpfr_set_nan(x.get());
  CHECK_FALSE(erf_by_series(y.get(), x.get()));
  mpfr_set_d(x.get(), 1.0, MPFR_RNDN);
  MpfrValue few(52), many(4097);
  CHECK_FALSE(erf_by_series(few.get(), x.get()));
  CHECK_FALSE(erfc_by_series(many.get(), x.get()));
}

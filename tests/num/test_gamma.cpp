#include <doctest/doctest.h>
#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/num/gamma.hpp"
#include "num/doubles.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

/// gamma to nearest and growth from below, to 400 bits.
class Oracle {
public:
  Oracle() { mpfr_inits2(400, product_, value_, excess_, mpfr_ptr(nullptr)); }
  ~Oracle() { mpfr_clears(product_, value_, excess_, mpfr_ptr(nullptr)); }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  void set_gamma(std::int64_t n, double u) {
    set_product(n, u);
    mpfr_ui_sub(value_, 1, product_, MPFR_RNDN);
    mpfr_div(value_, product_, value_, MPFR_RNDN);
  }
  void set_growth(std::int64_t n, double u) {
    set_product(n, u);
    mpfr_set_d(value_, u, MPFR_RNDD);
    mpfr_log1p(value_, value_, MPFR_RNDD);
    mpfr_mul_si(value_, value_, n, MPFR_RNDD);
    mpfr_expm1(value_, value_, MPFR_RNDD);
  }
  /// n u
  double product() const { return mpfr_get_d(product_, MPFR_RNDN); }
  bool product_reaches_one() const { return mpfr_cmp_ui(product_, 1) >= 0; }
  bool is_beyond_double() const { return mpfr_cmp_d(value_, std::numeric_limits<double>::max()) > 0; }
  /// (bound - value) / value; 0 for 0/0.
  double relative_excess(double bound) {
    mpfr_d_sub(excess_, bound, value_, MPFR_RNDN);
    if (mpfr_zero_p(value_)) return mpfr_get_d(excess_, MPFR_RNDN);
    mpfr_div(excess_, excess_, value_, MPFR_RNDN);
    return mpfr_get_d(excess_, MPFR_RNDD);
  }

private:
  void set_product(std::int64_t n, double u) {
    mpfr_set_d(product_, u, MPFR_RNDN);
    mpfr_mul_si(product_, product_, n, MPFR_RNDN);
  }

  mpfr_t product_, value_, excess_;
};

struct Case {
  std::int64_t n;
  double u;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 0; n < 70; ++n) counts.push_back(n);
  for (int k = 6; k < 63; ++k) {
    for (std::int64_t offset = -1; offset <= 1; ++offset) counts.push_back((std::int64_t{1} << k) + offset);
  }
  counts.push_back(std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t n : counts) {
    for (const double u :
         {0.0, 0x1p-53, 0x1p-52, 0x1p-24, 0x1p-23, 0x1p-11, 0x1p-8, 0x1p-4, 0.125, 0.25, 0.5, 0.9, 1e-3, 0x1p-1000}) {
      all.push_back({n, u});
    }
  }
  std::mt19937_64 engine(20261121);
  SpitefulDoubles doubles(1);
  for (int i = 0, n = scaled_by_multiplier(5000); i < n; ++i) {
    const auto count = static_cast<std::int64_t>(engine() >> (1 + engine() % 63));
    const double product = std::abs(doubles.next_within(6));
    const double u = product / std::max(1.0, static_cast<double>(count));
    if (u < 1.0) all.push_back({count, u});
  }
  return all;
}

}  // namespace

TEST_CASE("gamma is never below n u / (1 - n u), and close to it") {
  Oracle exact;
  for (const Case& c : cases()) {
    const std::int64_t n = c.n;
    const double u = c.u;
    const Magnitude bound = gamma(n, u);
    exact.set_gamma(n, u);
    CAPTURE(n);
    CAPTURE(hex(u));
    if (exact.product_reaches_one()) {
      REQUIRE(!bound.is_finite());
      continue;
    }
    REQUIRE(exact.relative_excess(bound.value()) >= 0.0);
    if (exact.product() <= 0.5 && u > 0x1p-900) REQUIRE(exact.relative_excess(bound.value()) < 0x1p-49);
  }
}

TEST_CASE("growth is never below (1 + u)^n - 1, and close to it") {
  Oracle exact;
  for (const Case& c : cases()) {
    const std::int64_t n = c.n;
    const double u = c.u;
    const Magnitude bound = growth(n, u);
    exact.set_growth(n, u);
    CAPTURE(n);
    CAPTURE(hex(u));
    if (exact.is_beyond_double()) {
      REQUIRE(!bound.is_finite());
      continue;
    }
    REQUIRE(exact.relative_excess(bound.value()) >= 0.0);
    if (exact.product() <= 1.0 && u > 0x1p-900) {
      REQUIRE(exact.relative_excess(bound.value()) <= exact.product() + 0x1p-50);
      REQUIRE(exact.relative_excess(bound.value()) <= u + 0x1p-20);
    }
  }
}

TEST_CASE("no rounding is no growth, one rounding is the unit roundoff") {
  CHECK(gamma(0, 0x1p-24) == Magnitude());
  CHECK(growth(0, 0x1p-24) == Magnitude());
  CHECK(growth(1, 0.5) == Magnitude(0.5));
  CHECK(growth(2, 0.5) == Magnitude(1.25));
  CHECK(growth(1000, 0.0) == Magnitude());
  CHECK(gamma(1, 0.5) == Magnitude(1.0));
  CHECK(!gamma(2, 0.5).is_finite());
}

TEST_CASE("gamma and growth refuse what counts no roundings or is no unit roundoff") {
  for (const double u : {-0x1p-24, 1.0, 24.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(gamma(1, u), InvalidArgument);
    CHECK_THROWS_AS(growth(1, u), InvalidArgument);
  }
  CHECK_THROWS_AS(gamma(-1, 0x1p-24), InvalidArgument);
  CHECK_THROWS_AS(growth(-1, 0x1p-24), InvalidArgument);
}

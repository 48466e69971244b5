#include <doctest/doctest.h>

#include "support/approach.hpp"
#include "support/norm_checks.hpp"

using namespace checks;

TEST_CASE("every rule for norms holds, and is attained where it can be (T-62, T-67)") {
  for (const NormCase& subject : norm_cases()) {
    CAPTURE(subject.name);
    const Tally tally = check_norm_case(subject, 200 * test_multiplier(), 11);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-62", tally.utilisation, 1.0);
    CHECK_APPROACH("T-67", tally.utilisation, 1.0);
    CHECK(tally.utilisation > 0.999999);
  }
}

TEST_CASE("the steepest slope of a function of one element is exceeded nowhere, and reached (T-82)") {
  for (const SlopeCase& subject : slope_cases()) {
    CAPTURE(subject.name);
    const Tally tally = check_steepest_slope(subject.op, subject.f, 12);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-82", tally.utilisation, 1.0);
    CHECK(tally.utilisation > 0.999);
  }
  const Tally softplus = check_steepest_slope(
      op::Softplus{}, [](const Real& x) { return x.apply(mpfr_exp).apply(mpfr_log1p); }, 13);
  CHECK(softplus.violations == 0);
  CHECK(softplus.utilisation > 0.9);
  for (const Op& op : {Op(op::Exp{}), Op(op::Sqrt{}), Op(op::Floor{}), Op(op::Sign{}), Op(op::Add{}), Op(op::Log{})})
    CHECK_FALSE(bounds::steepest_slope(op).is_finite());
}

#include <doctest/doctest.h>

#include <cstdint>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"
#include "driftbound/num/interval.hpp"
#include "faults/theorems.hpp"
#include "num/doubles.hpp"
#include "num/exact_rounding.hpp"
#include "num/exact_value.hpp"

using namespace driftbound;
using namespace driftbound_tests;

namespace {

constexpr int draws = 2000;

double keep(double x) {
  return x;
}

int wrong_roundings(const Format& f) {
  SpitefulDoubles doubles(61);
  int wrong = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = doubles.between(-4096, 4096) * 0.5 * f.smallest_subnormal;
    for (const Rounding rounding : all_roundings)
      wrong += same(round_to(x, f, rounding), ExactRounding(x, f)(rounding)) ? 0 : 1;
  }
  return wrong;
}

int sums_too_low() {
  SpitefulDoubles doubles(67);
  int wrong = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = doubles.next_within(20);
    const double y = doubles.next_within(20);
    wrong += ExactValue(x) + y <= ExactValue(add_up(x, y)) ? 0 : 1;
  }
  return wrong;
}

int intervals_too_high() {
  SpitefulDoubles doubles(71);
  int wrong = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = doubles.next_within(20);
    const double y = doubles.next_within(20);
    wrong += ExactValue((Interval(x) * Interval(y)).lower()) <= ExactValue(x) * y ? 0 : 1;
  }
  return wrong;
}

int growths_too_small() {
  int wrong = 0;
  for (std::int64_t n = 1; n < 100; ++n) {
    const ExactValue first_order = ExactValue(static_cast<double>(n)) * 0x1p-24;
    wrong += first_order <= ExactValue(growth(n, 0x1p-24).value()) ? 0 : 1;
    wrong += first_order <= ExactValue(gamma(n, 0x1p-24).value()) ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("the decisions in force are right") {
  CHECK(wrong_roundings(format(FormatId::bf16)) == 0);
  CHECK(sums_too_low() == 0);
  CHECK(intervals_too_high() == 0);
  CHECK(growths_too_small() == 0);
}

TEST_CASE("ties that always go away are noticed") {
  checks::Theorems fault;
  fault.tie_goes_away = [](bool, Rounding) { return true; };
  const checks::ScopedTheorems in_force(fault);
  CHECK(wrong_roundings(format(FormatId::bf16)) > 0);
}

TEST_CASE("ties that never go away are noticed") {
  checks::Theorems fault;
  fault.tie_goes_away = [](bool, Rounding) { return false; };
  const checks::ScopedTheorems in_force(fault);
  CHECK(wrong_roundings(format(FormatId::fp8_e4m3)) > 0);
}

TEST_CASE("a missing step up is noticed") {
  checks::Theorems fault;
  fault.step_up = keep;
  const checks::ScopedTheorems in_force(fault);
  CHECK(sums_too_low() > 0);
}

TEST_CASE("a missing step down is noticed") {
  checks::Theorems fault;
  fault.step_down = keep;
  const checks::ScopedTheorems in_force(fault);
  CHECK(intervals_too_high() > 0);
}

TEST_CASE("two uncounted roundings are noticed") {
  checks::Theorems fault;
  fault.counted_roundings = [](std::int64_t n) { return n > 2 ? n - 2 : 0; };
  const checks::ScopedTheorems in_force(fault);
  CHECK(growths_too_small() > 0);
}

TEST_CASE("theorems return to what they were when a scope ends") {
  {
    checks::Theorems fault;
    fault.step_up = keep;
    const checks::ScopedTheorems outer(fault);
    {
      const checks::ScopedTheorems inner{checks::Theorems()};
      CHECK(add_up(1.0, 0x1p-80) > 1.0);
    }
    CHECK(add_up(1.0, 0x1p-80) == 1.0);
  }
  CHECK(add_up(1.0, 0x1p-80) > 1.0);
}

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/real.hpp"

/// How often a bound was checked against a true error, how often it was exceeded, and how near it came.
struct Tally {
  std::int64_t checked = 0;
  std::int64_t violations = 0;
  double utilisation = 0.0;     ///< largest error / bound
  std::string first_violation;  ///< hex floats

  void add(double computed, const Real& exact, double bound) {
    ++checked;
    const Real error = abs(Real(computed) - exact);
    const bool holds = error <= Real(bound);
    if (bound > 0.0 && std::isfinite(bound)) utilisation = std::max(utilisation, (error / Real(bound)).to_double());
    if (holds) return;
    if (violations == 0) describe(computed, exact.to_double(), bound);
    ++violations;
  }

  Tally& operator+=(const Tally& other) {
    checked += other.checked;
    violations += other.violations;
    utilisation = std::max(utilisation, other.utilisation);
    if (first_violation.empty()) first_violation = other.first_violation;
    return *this;
  }

private:
  void describe(double computed, double exact, double bound) {
    char text[160];
    std::snprintf(text, sizeof text, "computed %a, exact %a, error %.3g, bound %.3g", computed, exact,
                  std::abs(computed - exact), bound);
    first_violation = text;
  }
};

inline int test_multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

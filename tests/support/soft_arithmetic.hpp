#pragma once

#include <cfloat>
#include <cmath>
#include <vector>

#include "support/bound_checks.hpp"

/// Arithmetics that this processor does not have as such: directed rounding, flushing of subnormal numbers, a
/// narrower output format. Every operation is done in 700 bits and rounded once.
namespace checks {

struct SoftArithmetic {
  mpfr_rnd_t direction = MPFR_RNDN;
  bool flushes = false;
  bool stores_bf16 = false;

  float operand(float x) const { return flushes && std::abs(x) < FLT_MIN ? 0.0f : x; }
  float rounded(const Real& exact) const { return operand(exact.to_float(direction)); }
  float add(float a, float b) const { return rounded(Real(a) + Real(b)); }
  float multiply(float a, float b) const { return rounded(Real(a) * Real(b)); }
  float divide(float a, float b) const { return rounded(Real(a) / Real(b)); }
  float fused(float a, float b, float c) const { return rounded(Real(a) * Real(b) + Real(c)); }
  float stored(float x) const { return stores_bf16 ? naive::as_bf16(x) : x; }

  ArithmeticModel model(bool fma) const {
    ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, fma});
    arithmetic.rounding = direction == MPFR_RNDZ   ? Rounding::toward_zero
                          : direction == MPFR_RNDU ? Rounding::up
                          : direction == MPFR_RNDD ? Rounding::down
                                                   : Rounding::nearest_even;
    arithmetic.flushes_subnormals = flushes;
    if (stores_bf16) arithmetic.output = FormatId::bf16;
    return arithmetic;
  }

  float dot(const std::vector<float>& a, const std::vector<float>& b, bool fma) const {
    float sum = multiply(operand(a[0]), operand(b[0]));
    for (std::size_t k = 1; k < a.size(); ++k) {
      const float p = operand(a[k]), q = operand(b[k]);
      sum = fma ? fused(p, q, sum) : add(sum, multiply(p, q));
    }
    return sum;
  }
};

inline std::vector<SoftArithmetic> soft_arithmetics() {
  return {{MPFR_RNDZ, false, false}, {MPFR_RNDU, false, false}, {MPFR_RNDD, false, false},
          {MPFR_RNDN, true, false},  {MPFR_RNDN, false, true},  {MPFR_RNDN, true, true}};
}

}  // namespace checks

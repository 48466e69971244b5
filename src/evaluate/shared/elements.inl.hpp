// The ops on elements (docs/arithmetic.md), written once for the CPU evaluator and for devices. `Functions` supplies
// exp, expm1 and so on for Real.
#pragma once

#include <cstdint>

#include "evaluate/shared/sums.inl.hpp"
#include "num/narrow.inl.hpp"

namespace driftbound::shared {

template <class Real>
DRIFTBOUND_HD Real relu(Real x) {
  return x < 0 ? Real(0) : x;
}
template <class Real>
DRIFTBOUND_HD Real leaky_relu(Real x, Real alpha) {
  return x < 0 ? alpha * x : x;
}
template <class Functions, class Real>
DRIFTBOUND_HD Real elu(Real x, Real alpha) {
  return x < 0 ? alpha * Functions::expm1(x) : x;
}

template <class Real>
DRIFTBOUND_HD Real prelu(Real x, Real slope) {
  return x < 0 ? slope * x : x;
}
template <class Real>
DRIFTBOUND_HD Real thresholded_relu(Real x, Real alpha) {
  return x <= alpha ? Real(0) : x;
}
template <class Real>
DRIFTBOUND_HD Real raise(Real x, Real least) {
  return x < least ? least : x;
}
template <class Real>
DRIFTBOUND_HD Real lower(Real x, Real most) {
  return most < x ? most : x;
}
template <class Real>
DRIFTBOUND_HD Real sign(Real x) {
  return x < 0 ? Real(-1) : (x > 0 ? Real(1) : x);
}
/// NaN where one of them is; of -0 and 0 the first
template <class Real>
DRIFTBOUND_HD Real maximum(Real a, Real b) {
  return a < b || b != b ? b : a;
}
template <class Real>
DRIFTBOUND_HD Real minimum(Real a, Real b) {
  return b < a || b != b ? b : a;
}

/// Truth values, 0 or 1; NaN is neither greater than anything nor equal to it
template <class Real>
DRIFTBOUND_HD Real greater(Real a, Real b) {
  return a > b ? Real(1) : Real(0);
}
template <class Real>
DRIFTBOUND_HD Real greater_or_equal(Real a, Real b) {
  return a >= b ? Real(1) : Real(0);
}
template <class Real>
DRIFTBOUND_HD Real equal(Real a, Real b) {
  return a == b ? Real(1) : Real(0);
}
template <class Real>
DRIFTBOUND_HD Real choice(Real c, Real a, Real b) {
  return c > Real(0.5) ? a : b;
}

/// The elements of one Softmax group, `stride` apart; y may be x. sum(length, chain) adds them up, as OrderedSum does.
/// Domain:    length >= 1
template <class Functions, class Real, class Sum>
DRIFTBOUND_HD void softmax(const Real* x, Real* y, std::int64_t length, std::int64_t stride, const Sum& sum) {
  Real largest = x[0];
  for (std::int64_t j = 1; j < length; ++j) {
    if (largest < x[j * stride]) largest = x[j * stride];
  }
  for (std::int64_t j = 0; j < length; ++j) y[j * stride] = Functions::exp(x[j * stride] - largest);
  const Real total = sum(length, TermChain<Real>{y, stride});
  for (std::int64_t j = 0; j < length; ++j) y[j * stride] = narrow::canonical(y[j * stride] / total);
}

}  // namespace driftbound::shared

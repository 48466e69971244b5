// The elementary functions of a device. float: the library's own, the same bits as on the CPU. double: those of the
// device's mathematical library, which differ from the CPU's correctly rounded ones in their last bits.
#pragma once

#include <cmath>

#include "num/elementary_f32.inl.hpp"

namespace driftbound::shared {

template <class Real>
struct DeviceFunctions;

template <>
struct DeviceFunctions<float> {
  DRIFTBOUND_HD static float exp(float x) { return f32::exp(x); }
  DRIFTBOUND_HD static float expm1(float x) { return f32::expm1(x); }
  DRIFTBOUND_HD static float tanh(float x) { return f32::tanh(x); }
  DRIFTBOUND_HD static float sigmoid(float x) { return f32::sigmoid(x); }
  DRIFTBOUND_HD static float softplus(float x) { return f32::softplus(x); }
  DRIFTBOUND_HD static float sin(float x) { return f32::sin(x); }
  DRIFTBOUND_HD static float cos(float x) { return f32::cos(x); }
  DRIFTBOUND_HD static float erf(float x) { return f32::erf(x); }
  DRIFTBOUND_HD static float log(float x) { return f32::log(x); }
  DRIFTBOUND_HD static float tan(float x) { return f32::tan(x); }
  DRIFTBOUND_HD static float atan(float x) { return f32::atan(x); }
  DRIFTBOUND_HD static float sinh(float x) { return f32::sinh(x); }
  DRIFTBOUND_HD static float cosh(float x) { return f32::cosh(x); }
  DRIFTBOUND_HD static float pow(float x, double p) { return f32::pow(x, p); }
};

template <>
struct DeviceFunctions<double> {
  DRIFTBOUND_HD static double exp(double x) { return ::exp(x); }
  DRIFTBOUND_HD static double expm1(double x) { return ::expm1(x); }
  DRIFTBOUND_HD static double tanh(double x) { return ::tanh(x); }
  /// e^min(x, 0) / (1 + e^-|x|)
  DRIFTBOUND_HD static double sigmoid(double x) { return ::exp(x < 0 ? x : 0.0) / (1.0 + ::exp(-::fabs(x))); }
  /// max(x, 0) + log(1 + e^-|x|)
  DRIFTBOUND_HD static double softplus(double x) { return (x < 0 ? 0.0 : x) + ::log1p(::exp(-::fabs(x))); }
  DRIFTBOUND_HD static double sin(double x) { return ::sin(x); }
  DRIFTBOUND_HD static double cos(double x) { return ::cos(x); }
  DRIFTBOUND_HD static double erf(double x) { return ::erf(x); }
  DRIFTBOUND_HD static double log(double x) { return ::log(x); }
  DRIFTBOUND_HD static double tan(double x) { return ::tan(x); }
  DRIFTBOUND_HD static double atan(double x) { return ::atan(x); }
  DRIFTBOUND_HD static double sinh(double x) { return ::sinh(x); }
  DRIFTBOUND_HD static double cosh(double x) { return ::cosh(x); }
  DRIFTBOUND_HD static double pow(double x, double p) { return ::pow(x, p); }
};

}  // namespace driftbound::shared

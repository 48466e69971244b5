#pragma once

#include <cmath>

#include "driftbound/num/elementary.hpp"

namespace driftbound::accumulator {

/// The elementary functions of the CPU evaluator, by accumulator format. The same bits on every machine.
/// float:  the library's own functions (num/elementary.hpp)
/// double: correctly rounded, subnormal results included
inline float exp(float x) {
  return exp_f32(x);
}
inline float expm1(float x) {
  return expm1_f32(x);
}
inline float tanh(float x) {
  return tanh_f32(x);
}
inline float sigmoid(float x) {
  return sigmoid_f32(x);
}
inline float softplus(float x) {
  return softplus_f32(x);
}
inline float sin(float x) {
  return sin_f32(x);
}
inline float cos(float x) {
  return cos_f32(x);
}
inline float erf(float x) {
  return erf_f32(x);
}
inline float log(float x) {
  return log_f32(x);
}
inline float log1p(float x) {
  return log1p_f32(x);
}
inline float tan(float x) {
  return tan_f32(x);
}
inline float atan(float x) {
  return atan_f32(x);
}
inline float sinh(float x) {
  return sinh_f32(x);
}
inline float cosh(float x) {
  return cosh_f32(x);
}
inline float pow(float x, double p) {
  return pow_f32(x, p);
}

double exp(double x);
double expm1(double x);
double tanh(double x);
double sigmoid(double x);
double softplus(double x);
double sin(double x);
double cos(double x);
double erf(double x);
double log(double x);
double log1p(double x);
double tan(double x);
double atan(double x);
double sinh(double x);
double cosh(double x);
/// The special values are those of IEEE 754 pow.
double pow(double x, double p);

}  // namespace driftbound::accumulator

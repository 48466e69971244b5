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

double exp(double x);
double expm1(double x);
double tanh(double x);
double sigmoid(double x);
double softplus(double x);
double sin(double x);
double cos(double x);
double erf(double x);

}  // namespace driftbound::accumulator

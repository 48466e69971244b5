#include "driftbound/num/elementary.hpp"

#include <array>

#include "num/elementary_f32.inl.hpp"

namespace driftbound {

float exp_f32(float x) noexcept {
  return f32::exp(x);
}
float expm1_f32(float x) noexcept {
  return f32::expm1(x);
}
float log_f32(float x) noexcept {
  return f32::log(x);
}
float log1p_f32(float x) noexcept {
  return f32::log1p(x);
}
float tanh_f32(float x) noexcept {
  return f32::tanh(x);
}
float sigmoid_f32(float x) noexcept {
  return f32::sigmoid(x);
}
float softplus_f32(float x) noexcept {
  return f32::softplus(x);
}
float sin_f32(float x) noexcept {
  return f32::sin(x);
}
float cos_f32(float x) noexcept {
  return f32::cos(x);
}
float erf_f32(float x) noexcept {
  return f32::erf(x);
}
float tan_f32(float x) noexcept {
  return f32::tan(x);
}
float atan_f32(float x) noexcept {
  return f32::atan(x);
}
float sinh_f32(float x) noexcept {
  return f32::sinh(x);
}
float cosh_f32(float x) noexcept {
  return f32::cosh(x);
}
float pow_f32(float x, double p) noexcept {
  return f32::pow(x, p);
}

namespace {

constexpr std::string_view exhaustive = "exhaustive measurement over all 2^32 inputs, docs/elementary.md";
constexpr std::string_view campaign = "measurement over random inputs for many exponents, docs/elementary.md";

constexpr std::array<ElementaryAccuracy, 15> accuracy{{
    {"exp", 1.0000, exhaustive},
    {"expm1", 1.0000, exhaustive},
    {"log", 1.0000, exhaustive},
    {"log1p", 1.0000, exhaustive},
    {"tanh", 1.0000, exhaustive},
    {"sigmoid", 1.0000, exhaustive},
    {"softplus", 1.0000, exhaustive},
    {"sin", 1.0000, exhaustive},
    {"cos", 1.0000, exhaustive},
    {"erf", 1.0000, exhaustive},
    {"tan", 1.0000, exhaustive},
    {"atan", 1.0000, exhaustive},
    {"sinh", 1.0000, exhaustive},
    {"cosh", 1.0000, exhaustive},
    {"pow", 1.0000, campaign},
}};

}  // namespace

std::span<const ElementaryAccuracy> own_float32_accuracy() noexcept {
  return accuracy;
}

}  // namespace driftbound

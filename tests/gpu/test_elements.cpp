#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "driftbound/num/elementary.hpp"
#include "driftbound/num/format.hpp"
#include "gpu/device.hpp"

namespace {

using namespace gpu_tests;
using driftbound::FormatId;
using driftbound::Rounding;

template <class Real>
std::vector<Real> device_unary(driftbound_unary function, double parameter, const std::vector<Real>& x) {
  Device& device = Device::opened();
  const Buffer<Real> operand(x), result(x.size());
  device.check(device.module().unary(device.handle(), real_of<Real>, function, parameter, operand.memory(),
                                     result.memory(), static_cast<std::int64_t>(x.size())));
  return result.values();
}

float canonical(float x) {
  return std::isnan(x) ? std::bit_cast<float>(0x7fc00000u) : x;
}

struct Function {
  std::string name;
  driftbound_unary id;
  double parameter;
  float (*on_cpu)(float);
};

const Function functions[] = {
    {"neg", DRIFTBOUND_NEG, 0, [](float x) { return -x; }},
    {"relu", DRIFTBOUND_RELU, 0, [](float x) { return x < 0 ? 0.0f : x; }},
    {"leaky_relu", DRIFTBOUND_LEAKY_RELU, 0.3, [](float x) { return x < 0 ? 0.3f * x : x; }},
    {"elu", DRIFTBOUND_ELU, 1.7, [](float x) { return x < 0 ? 1.7f * driftbound::expm1_f32(x) : x; }},
    {"tanh", DRIFTBOUND_TANH, 0, driftbound::tanh_f32},
    {"sigmoid", DRIFTBOUND_SIGMOID, 0, driftbound::sigmoid_f32},
    {"softplus", DRIFTBOUND_SOFTPLUS, 0, driftbound::softplus_f32},
    {"sin", DRIFTBOUND_SIN, 0, driftbound::sin_f32},
    {"cos", DRIFTBOUND_COS, 0, driftbound::cos_f32},
    {"exp", DRIFTBOUND_EXP, 0, driftbound::exp_f32},
    {"erf", DRIFTBOUND_ERF, 0, driftbound::erf_f32},
    {"sqrt", DRIFTBOUND_SQRT, 0, [](float x) { return std::sqrt(x); }},
    {"scale", DRIFTBOUND_SCALE, -0.1, [](float x) { return -0.1f * x; }},
    {"abs", DRIFTBOUND_ABS, 0, [](float x) { return std::abs(x); }},
    {"reciprocal", DRIFTBOUND_RECIPROCAL, 0, [](float x) { return 1.0f / x; }},
    {"log", DRIFTBOUND_LOG, 0, driftbound::log_f32},
    {"tan", DRIFTBOUND_TAN, 0, driftbound::tan_f32},
    {"atan", DRIFTBOUND_ATAN, 0, driftbound::atan_f32},
    {"sinh", DRIFTBOUND_SINH, 0, driftbound::sinh_f32},
    {"cosh", DRIFTBOUND_COSH, 0, driftbound::cosh_f32},
    {"floor", DRIFTBOUND_FLOOR, 0, [](float x) { return std::floor(x); }},
    {"ceil", DRIFTBOUND_CEIL, 0, [](float x) { return std::ceil(x); }},
    {"round", DRIFTBOUND_ROUND, 0, [](float x) { return std::nearbyint(x); }},
    {"sign", DRIFTBOUND_SIGN, 0, [](float x) { return x < 0 ? -1.0f : (x > 0 ? 1.0f : x); }},
    {"pow 2.3", DRIFTBOUND_POW, 2.3, [](float x) { return driftbound::pow_f32(x, 2.3); }},
    {"pow -3", DRIFTBOUND_POW, -3, [](float x) { return driftbound::pow_f32(x, -3); }},
    {"raise", DRIFTBOUND_RAISE, -0.3, [](float x) { return x < -0.3f ? -0.3f : x; }},
    {"lower", DRIFTBOUND_LOWER, 0.7, [](float x) { return x > 0.7f ? 0.7f : x; }},
    {"thresholded_relu", DRIFTBOUND_THRESHOLDED_RELU, 0.3, [](float x) { return x <= 0.3f ? 0.0f : x; }},
};

// The floats whose patterns are multiples of a stride, all of them where the multiplier is 16381 or more, in pieces.
template <class Check>
void over_all_floats(Check check) {
  constexpr std::uint64_t patterns = std::uint64_t{1} << 32;
  const auto stride = static_cast<std::uint64_t>(std::max<std::int64_t>(1, 16381 / multiplier()));
  std::vector<float> piece;
  for (std::uint64_t pattern = 0; pattern < patterns; pattern += stride) {
    piece.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
    if (piece.size() < (1u << 22) && pattern + stride < patterns) continue;
    check(piece);
    piece.clear();
  }
}

TEST_CASE("float functions have the bits that they have on the CPU") {
  for (const Function& f : functions) {
    over_all_floats([&](const std::vector<float>& x) {
      std::vector<float> expected(x.size());
      std::transform(x.begin(), x.end(), expected.begin(), [&](float value) { return canonical(f.on_cpu(value)); });
      CAPTURE(f.name);
      CHECK(difference(device_unary(f.id, f.parameter, x), expected) == "");
    });
  }
}

double exact_sigmoid(double x) {
  return static_cast<double>(1.0L / (1.0L + std::exp(-static_cast<long double>(x))));
}
double exact_softplus(double x) {
  return x > 100 ? x : static_cast<double>(std::log1p(std::exp(static_cast<long double>(x))));
}

TEST_CASE("double functions are within a few units in the last place") {
  struct DoubleFunction {
    const char* name;
    driftbound_unary id;
    double (*exact)(double);
    double parameter = 0;
  };
  const DoubleFunction double_functions[] = {
      {"tanh", DRIFTBOUND_TANH, [](double x) { return std::tanh(x); }},
      {"sigmoid", DRIFTBOUND_SIGMOID, exact_sigmoid},
      {"softplus", DRIFTBOUND_SOFTPLUS, exact_softplus},
      {"sin", DRIFTBOUND_SIN, [](double x) { return std::sin(x); }},
      {"cos", DRIFTBOUND_COS, [](double x) { return std::cos(x); }},
      {"exp", DRIFTBOUND_EXP, [](double x) { return std::exp(x); }},
      {"erf", DRIFTBOUND_ERF, [](double x) { return std::erf(x); }},
      {"expm1 in elu", DRIFTBOUND_ELU, [](double x) { return x < 0 ? std::expm1(x) : x; }, 1},
      {"log", DRIFTBOUND_LOG, [](double x) { return std::log(x); }},
      {"tan", DRIFTBOUND_TAN, [](double x) { return std::tan(x); }},
      {"atan", DRIFTBOUND_ATAN, [](double x) { return std::atan(x); }},
      {"sinh", DRIFTBOUND_SINH, [](double x) { return std::sinh(x); }},
      {"cosh", DRIFTBOUND_COSH, [](double x) { return std::cosh(x); }},
      {"pow 2.3", DRIFTBOUND_POW, [](double x) { return std::pow(x, 2.3); }, 2.3},
      {"pow -3", DRIFTBOUND_POW, [](double x) { return std::pow(x, -3); }, -3},
  };
  std::mt19937_64 random(31);
  const std::vector<double> x = awkward<double>(20000, random, 9);
  for (const DoubleFunction& f : double_functions) {
    const std::vector<double> y = device_unary(f.id, f.parameter, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(x[i]);
      const bool near =
          std::isnan(exact) ? std::isnan(y[i]) : std::abs(y[i] - exact) <= 8 * 0x1p-53 * std::abs(exact) + 0x1p-1070;
      if (!near) FAIL_CHECK(f.name << " at " << hex(x[i]) << ": " << hex(y[i]) << ", not " << hex(exact));
    }
  }
}

TEST_CASE("a function can write over its operand") {
  Device& device = Device::opened();
  const Buffer<float> both(std::vector<float>{1.0f, -2.0f, 3.0f});
  device.check(
      device.module().unary(device.handle(), DRIFTBOUND_F32, DRIFTBOUND_NEG, 0, both.memory(), both.memory(), 3));
  CHECK(both.values() == std::vector<float>{-1.0f, 2.0f, -3.0f});
}

struct NamedFormat {
  driftbound_format device;
  FormatId host;
};
const NamedFormat formats[] = {{DRIFTBOUND_FORMAT_FP32, FormatId::fp32},
                               {DRIFTBOUND_FORMAT_TF32, FormatId::tf32},
                               {DRIFTBOUND_FORMAT_BF16, FormatId::bf16},
                               {DRIFTBOUND_FORMAT_FP16, FormatId::fp16}};

template <class Real>
std::vector<Real> rounded_by_library(const std::vector<Real>& x, FormatId id) {
  std::vector<Real> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [id](Real value) {
    if (std::isnan(value)) return std::numeric_limits<Real>::quiet_NaN();
    return static_cast<Real>(driftbound::round_to(double{value}, driftbound::format(id), Rounding::nearest_even));
  });
  return result;
}

template <class Real>
std::vector<Real> device_round(driftbound_format format, const std::vector<Real>& x) {
  Device& device = Device::opened();
  const Buffer<Real> operand(x), result(x.size());
  device.check(device.module().round(device.handle(), real_of<Real>, format, operand.memory(), result.memory(),
                                     static_cast<std::int64_t>(x.size())));
  return result.values();
}

TEST_CASE("floats are rounded to narrow formats as the library rounds them") {
  for (const NamedFormat& format : formats) {
    over_all_floats([&](const std::vector<float>& x) {
      CAPTURE(format.device);
      CHECK(difference(device_round(format.device, x), rounded_by_library(x, format.host)) == "");
    });
  }
}

TEST_CASE("doubles are rounded to narrow formats as the library rounds them") {
  std::mt19937_64 random(32);
  std::vector<double> x = {0.0, -0.0, INFINITY, -INFINITY, NAN, 65504.0, 65519.999, 65520.0, 0x1p-25, 0x1.8p-25};
  for (std::int64_t i = 0; i < 100000 * multiplier(); ++i) {
    const int exponent = static_cast<int>(random() % 300) - 160;
    x.push_back(std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53 - 0.5, exponent));
    x.push_back(std::ldexp(static_cast<double>(random() % 8192) + 0.5, exponent));  // many a tie
  }
  for (const NamedFormat& format : formats) {
    CAPTURE(format.device);
    CHECK(difference(device_round(format.device, x), rounded_by_library(x, format.host)) == "");
  }
}

std::uint16_t bits_of_bf16(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

std::uint16_t bits_of_fp16(float x) {
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const float magnitude = std::abs(x);
  unsigned rest = 0;
  if (std::isnan(x)) {
    rest = 0x7e00u;
  } else if (std::isinf(x)) {
    rest = 0x7c00u;
  } else if (magnitude < 0x1p-14f) {
    rest = static_cast<unsigned>(magnitude * 0x1p24f);
  } else {
    const int exponent = std::ilogb(magnitude);
    rest = (static_cast<unsigned>(exponent + 15) << 10) + static_cast<unsigned>(std::ldexp(magnitude, 10 - exponent)) -
           1024u;
  }
  return static_cast<std::uint16_t>(sign | rest);
}

TEST_CASE("floats are narrowed to the 16 bits of the number that the library rounds them to") {
  Device& device = Device::opened();
  for (const bool half : {false, true}) {
    over_all_floats([&](const std::vector<float>& x) {
      const std::vector<float> rounded = rounded_by_library(x, half ? FormatId::fp16 : FormatId::bf16);
      std::vector<std::uint16_t> expected(x.size());
      std::transform(rounded.begin(), rounded.end(), expected.begin(), half ? bits_of_fp16 : bits_of_bf16);
      const Buffer<float> operand(x);
      const Buffer<std::uint16_t> result(x.size());
      device.check(device.module().narrow(device.handle(), half ? DRIFTBOUND_FORMAT_FP16 : DRIFTBOUND_FORMAT_BF16,
                                          operand.memory(), result.memory(), static_cast<std::int64_t>(x.size())));
      CAPTURE(half);
      CHECK(difference(result.values(), expected) == "");
    });
  }
}

}  // namespace

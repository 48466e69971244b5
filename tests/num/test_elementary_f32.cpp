#include <doctest/doctest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "driftbound/num/elementary.hpp"
#include "num/elementary_f32.inl.hpp"

namespace {

using namespace driftbound;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float smallest = std::numeric_limits<float>::denorm_min();
constexpr std::uint32_t canonical_nan = 0x7fc00000u;

std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
float float_from(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
float next_up(float x) {
  return std::nextafter(x, inf);
}
float next_down(float x) {
  return std::nextafter(x, -inf);
}

class Mpfr {
public:
  Mpfr() { mpfr_init2(value_, 200); }
  ~Mpfr() { mpfr_clear(value_); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
  operator mpfr_ptr() { return value_; }

private:
  mpfr_t value_;
};

template <int (*Function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)>
void nearest(mpfr_ptr y, mpfr_ptr x) {
  Function(y, x, MPFR_RNDN);
}

void exact_sigmoid(mpfr_ptr y, mpfr_ptr x) {
  mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

void exact_softplus(mpfr_ptr y, mpfr_ptr x) {
  const bool positive = mpfr_sgn(x) > 0;
  if (positive) mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, positive ? y : x, MPFR_RNDN);
  mpfr_log1p(y, y, MPFR_RNDN);
  if (positive) mpfr_add(y, y, x, MPFR_RNDN);
}

struct Function {
  std::string_view name;
  float (*own)(float);
  void (*exact)(mpfr_ptr, mpfr_ptr);
};

const std::vector<Function> functions = {
    {"exp", exp_f32, nearest<mpfr_exp>},        {"expm1", expm1_f32, nearest<mpfr_expm1>},
    {"log", log_f32, nearest<mpfr_log>},        {"log1p", log1p_f32, nearest<mpfr_log1p>},
    {"tanh", tanh_f32, nearest<mpfr_tanh>},     {"sigmoid", sigmoid_f32, exact_sigmoid},
    {"softplus", softplus_f32, exact_softplus}, {"sin", sin_f32, nearest<mpfr_sin>},
    {"cos", cos_f32, nearest<mpfr_cos>},        {"erf", erf_f32, nearest<mpfr_erf>},
    {"tan", tan_f32, nearest<mpfr_tan>},        {"atan", atan_f32, nearest<mpfr_atan>},
    {"sinh", sinh_f32, nearest<mpfr_sinh>},     {"cosh", cosh_f32, nearest<mpfr_cosh>},
};

bool is_circular(const Function& function) {
  return function.name == "sin" || function.name == "cos" || function.name == "tan";
}

double stated_units(std::string_view function) {
  const auto accuracy = own_float32_accuracy();
  const auto found = std::find_if(accuracy.begin(), accuracy.end(),
                                  [&](const ElementaryAccuracy& a) { return a.function == function; });
  REQUIRE(found != accuracy.end());
  return found->units;
}

// |y - f| / (2^-24 |f| + 2^-150).
double units_of_error(float y, mpfr_ptr f) {
  Mpfr error;
  mpfr_sub_d(error, f, static_cast<double>(y), MPFR_RNDN);
  return std::abs(mpfr_get_d(error, MPFR_RNDA)) / (0x1p-24 * std::abs(mpfr_get_d(f, MPFR_RNDZ)) + 0x1p-150);
}

struct Comparison {
  double worst_units = 0;
  float worst_input = 0;
  int wrong_exceptional_results = 0;
  int not_correctly_rounded = 0;
};

template <typename Own, typename Exact>
Comparison compare(Own own, Exact exact, const std::vector<float>& inputs) {
  Comparison result;
  Mpfr argument;
  Mpfr value;
  for (const float x : inputs) {
    const float y = own(x);
    mpfr_set_flt(argument, x, MPFR_RNDN);
    exact(value, argument);
    const float rounded = mpfr_get_flt(value, MPFR_RNDN);
    if (std::isnan(rounded) || std::isinf(rounded)) {
      if (bits_of(y) != (std::isnan(rounded) ? canonical_nan : bits_of(rounded))) ++result.wrong_exceptional_results;
      continue;
    }
    if (y != rounded) ++result.not_correctly_rounded;
    if (const double units = units_of_error(y, value); !(units <= result.worst_units)) {
      result.worst_units = units;
      result.worst_input = x;
    }
  }
  return result;
}

Comparison compare(const Function& function, const std::vector<float>& inputs) {
  return compare(function.own, function.exact, inputs);
}

std::vector<float> random_bit_patterns(std::size_t count) {
  std::mt19937 generator(20261121);
  std::vector<float> inputs(count);
  for (float& x : inputs) x = float_from(static_cast<std::uint32_t>(generator()));
  return inputs;
}

std::vector<float> random_between(float low, float high, std::size_t count) {
  std::mt19937 generator(20261121);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> inputs(count);
  for (float& x : inputs) x = distribution(generator);
  return inputs;
}

void add_with_neighbours(std::vector<float>& inputs, float x) {
  for (const float y : {x, next_up(x), next_down(x)}) {
    inputs.push_back(y);
    inputs.push_back(-y);
  }
}

// Powers of two, subnormals, the ends of the range, the places where the implementation or the
// result changes its kind, and the floats nearest to multiples of pi/2.
std::vector<float> hard_inputs() {
  std::vector<float> inputs = {0.0f, -0.0f, inf, -inf, std::numeric_limits<float>::quiet_NaN()};
  for (int exponent = -149; exponent <= 127; ++exponent) add_with_neighbours(inputs, std::ldexp(1.0f, exponent));
  for (std::uint32_t bits = 1; bits < 0x00800000u; bits = bits * 3 + 1) add_with_neighbours(inputs, float_from(bits));
  const float breakpoints[] = {FLT_MAX,        FLT_MIN,        0x1.921fb6p-1f, 0x1.6a09e6p-1f, 0x1.6a09e6p+0f,
                               0x1.62e42ep-2f, 0x1.62e42ep-1f, 0x1.62e42ep+6f, 0x1.9d1da0p+6f, 0x1.9fe368p+6f,
                               0x1.5d589ep+6f, 0x1.65a9f8p+6f, 3.0f,           3.919206f,      4.0f,
                               0.0625f,        0.1875f,        0.3125f,        0.9375f,        9.0109129f,
                               10.0f,          16.635532f,     17.328680f,     20.0f,          40.0f,
                               100.0f,         103.0f,         104.0f,         110.0f};
  for (const float x : breakpoints) add_with_neighbours(inputs, x);
  const double half_pi = 1.5707963267948966;
  for (int n = 1; n <= 200; ++n) add_with_neighbours(inputs, static_cast<float>(n * half_pi));
  return inputs;
}

// The floats that lie closest to a multiple of pi/2 (found by enumeration), and the binades up to the largest float.
std::vector<float> hard_angles() {
  std::vector<float> inputs;
  for (const float x : {0x1.f37c8ap+95f, 0x1.47d0fep+34f, 0x1.f9cbe2p+7f, 0x1.32ede2p+85f, 0x1.628d4cp+40f,
                        0x1.13093p+76f, 0x1.b08c4ap+111f, FLT_MAX})
    add_with_neighbours(inputs, x);
  for (int exponent = 20; exponent < 128; ++exponent)
    for (const float m : {1.1f, 1.2345678f, 1.6180339f, 1.99f}) add_with_neighbours(inputs, std::ldexp(m, exponent));
  return inputs;
}

// The inputs with the largest errors found among all 2^32, see docs/elementary.md.
const std::vector<float> worst_measured_inputs = {
    0x1.fffffep-25f, -0x1.d2259ap+3f, 0x1p-23f,        0x1.84a5bap-4f, 0x1.fffffcp-1f,  0x1.6351d8p+95f,
    -0x1p-23f,       0x1.001734p-5f,  0x1.86fbc4p-10f, -0x1.e6p-17f,   -0x1.9fe368p+6f, 0x1.d483ap-12f,
    0x1.1b50a4p+17f, 0x1.33333p+13f,  0x1.59ab2ap+72f, 0x1.3170fp+63f, 0x1.c5ca8ap-13f, 0x1.81d5acp-13f};

void check_within_stated_units(const std::vector<float>& inputs) {
  for (const Function& function : functions) {
    CAPTURE(function.name);
    const Comparison comparison = compare(function, inputs);
    CAPTURE(comparison.worst_input);
    CHECK(comparison.worst_units <= stated_units(function.name));
    CHECK(comparison.wrong_exceptional_results == 0);
  }
}

void check_same_bits(float actual, float expected) {
  CHECK(bits_of(actual) == bits_of(expected));
}

template <typename F>
bool nondecreasing_for(F f, float from, int count) {
  float x = from;
  float previous = f(x);
  for (int i = 0; i < count; ++i) {
    x = next_up(x);
    const float value = f(x);
    if (value < previous) return false;
    previous = value;
  }
  return true;
}

TEST_CASE("own float32 functions: every NaN result is the one canonical pattern") {
  for (const Function& function : functions) {
    CAPTURE(function.name);
    for (const std::uint32_t pattern : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff812345u, 0x7fffffffu})
      CHECK(bits_of(function.own(float_from(pattern))) == canonical_nan);
  }
  for (const float undefined :
       {log_f32(-1.0f), log_f32(-smallest), log_f32(-inf), log1p_f32(next_down(-1.0f)), log1p_f32(-inf), sin_f32(inf),
        sin_f32(-inf), cos_f32(inf), cos_f32(-inf), tan_f32(inf), tan_f32(-inf)})
    CHECK(bits_of(undefined) == canonical_nan);
}

TEST_CASE("own float32 functions: infinities and poles give the mathematical limits") {
  check_same_bits(exp_f32(inf), inf);
  check_same_bits(exp_f32(-inf), 0.0f);
  check_same_bits(expm1_f32(inf), inf);
  check_same_bits(expm1_f32(-inf), -1.0f);
  check_same_bits(log_f32(inf), inf);
  check_same_bits(log_f32(0.0f), -inf);
  check_same_bits(log_f32(-0.0f), -inf);
  check_same_bits(log1p_f32(inf), inf);
  check_same_bits(log1p_f32(-1.0f), -inf);
  check_same_bits(tanh_f32(inf), 1.0f);
  check_same_bits(tanh_f32(-inf), -1.0f);
  check_same_bits(sigmoid_f32(inf), 1.0f);
  check_same_bits(sigmoid_f32(-inf), 0.0f);
  check_same_bits(softplus_f32(inf), inf);
  check_same_bits(softplus_f32(-inf), 0.0f);
  check_same_bits(erf_f32(inf), 1.0f);
  check_same_bits(erf_f32(-inf), -1.0f);
  check_same_bits(atan_f32(inf), 0x1.921fb6p+0f);
  check_same_bits(atan_f32(-inf), -0x1.921fb6p+0f);
  check_same_bits(sinh_f32(inf), inf);
  check_same_bits(sinh_f32(-inf), -inf);
  check_same_bits(cosh_f32(-inf), inf);
}

TEST_CASE("own float32 functions: zero keeps its sign through the functions that vanish there") {
  for (const float zero : {0.0f, -0.0f})
    for (const auto function : {expm1_f32, log1p_f32, tanh_f32, sin_f32, erf_f32, tan_f32, atan_f32, sinh_f32})
      check_same_bits(function(zero), zero);
  check_same_bits(log_f32(1.0f), 0.0f);
  check_same_bits(exp_f32(-0.0f), 1.0f);
  check_same_bits(cos_f32(-0.0f), 1.0f);
  check_same_bits(cosh_f32(-0.0f), 1.0f);
  check_same_bits(sigmoid_f32(-0.0f), 0.5f);
}

TEST_CASE("own float32 functions: exponentials overflow and underflow at the right float") {
  const float last_finite = 0x1.62e42ep+6f;
  CHECK(std::isfinite(exp_f32(last_finite)));
  CHECK(std::isfinite(expm1_f32(last_finite)));
  check_same_bits(exp_f32(next_up(last_finite)), inf);
  check_same_bits(expm1_f32(next_up(last_finite)), inf);
  const float last_finite_cosh = 0x1.65a9f8p+6f;
  CHECK(std::isfinite(sinh_f32(last_finite_cosh)));
  CHECK(std::isfinite(cosh_f32(last_finite_cosh)));
  check_same_bits(sinh_f32(-next_up(last_finite_cosh)), -inf);
  check_same_bits(cosh_f32(next_up(last_finite_cosh)), inf);
  check_same_bits(softplus_f32(FLT_MAX), FLT_MAX);

  const float last_positive = -0x1.9fe368p+6f;  // e^x is just above half the smallest subnormal
  for (const auto function : {exp_f32, sigmoid_f32, softplus_f32}) {
    check_same_bits(function(last_positive), smallest);
    check_same_bits(function(next_down(last_positive)), 0.0f);
  }
}

TEST_CASE("own float32 functions: sigmoid and softplus of -100 are the subnormal e^-100") {
  const float expected = 0x1.bp-145f;
  check_same_bits(sigmoid_f32(-100.0f), expected);
  check_same_bits(softplus_f32(-100.0f), expected);
}

TEST_CASE("own float32 functions: random bit patterns stay within the stated units of MPFR") {
  check_within_stated_units(random_bit_patterns(20000));
}

// An error of 2^-36 in the double evaluation is far below the stated units, but would misround some of these.
TEST_CASE("own float32 functions: results at random arguments are the correctly rounded ones") {
  for (const Function& function : functions) {
    CAPTURE(function.name);
    CHECK(compare(function, random_between(-20.0f, 20.0f, 4000)).not_correctly_rounded == 0);
    CHECK(compare(function, random_between(-4.0f, 4.0f, 8000)).not_correctly_rounded == 0);
    if (is_circular(function))
      CHECK(compare(function, random_between(0x1p100f, 0x1p127f, 8000)).not_correctly_rounded == 0);
    if (function.name == "log" || function.name == "log1p" || function.name == "atan")
      CHECK(compare(function, random_bit_patterns(8000)).not_correctly_rounded == 0);
  }
}

TEST_CASE("own float32 functions: breakpoints, powers of two and subnormals stay within the stated units of MPFR") {
  check_within_stated_units(hard_inputs());
}

TEST_CASE("own float32 functions: the worst inputs of the exhaustive measurement stay within the stated units") {
  check_within_stated_units(worst_measured_inputs);
}

TEST_CASE("own float32 functions: huge and nearly degenerate angles stay within the stated units of MPFR") {
  const std::vector<float> inputs = hard_angles();
  for (const Function& function : functions)
    if (is_circular(function)) CHECK(compare(function, inputs).worst_units <= stated_units(function.name));
}

TEST_CASE("own float32 functions: the stated units are nearly attained") {
  for (const Function& function : functions) {
    CAPTURE(function.name);
    const double attained = compare(function, random_between(-2.0f, 2.0f, 8000)).worst_units;
    CHECK(attained >= 0.9 * stated_units(function.name));
  }
}

TEST_CASE("own float32 functions: odd and even functions are so bit for bit") {
  for (const float x : random_bit_patterns(20000)) {
    if (std::isnan(x) || std::isinf(x)) continue;
    for (const auto odd : {tanh_f32, sin_f32, erf_f32, tan_f32, atan_f32, sinh_f32})
      if (bits_of(odd(-x)) != bits_of(-odd(x))) FAIL("not odd at " << x);
    for (const auto even : {cos_f32, cosh_f32})
      if (bits_of(even(-x)) != bits_of(even(x))) FAIL("not even at " << x);
  }
}

TEST_CASE("own float32 functions: exp, sigmoid and tanh never decrease from one float to the next") {
  constexpr int window = 10000;
  for (const float from : {-104.0f, -88.0f, -17.4f, -1.0f, -0.35f, 0.34657f, 1.0f, 16.6f, 88.0f}) {
    CAPTURE(from);
    CHECK(nondecreasing_for(exp_f32, from, window));
    CHECK(nondecreasing_for(sigmoid_f32, from, window));
  }
  for (const float from : {-9.02f, -0.55f, -1e-3f, 0.1732f, 0.549f, 1.0f, 9.0f}) {
    CAPTURE(from);
    CHECK(nondecreasing_for(tanh_f32, from, window));
  }
}

TEST_CASE("own float32 functions: tan, atan, sinh, cosh and powers never decrease where the functions rise") {
  constexpr int window = 10000;
  for (const float from : {-100.0f, -0.94f, -0.06251f, 0.0624f, 0.18749f, 0.93749f, 0.9999f, 15.0f, 1e20f}) {
    CAPTURE(from);
    CHECK(nondecreasing_for(atan_f32, from, window));
  }
  for (const float from : {-1.57f, -0.7854f, -1e-4f, 0.785f, 1.5f}) CHECK(nondecreasing_for(tan_f32, from, window));
  for (const float from : {-89.3f, -1.0f, -0.3466f, 0.3465f, 17.0f}) CHECK(nondecreasing_for(sinh_f32, from, window));
  for (const float from : {0.0f, 1e-3f, 0.3465f, 17.0f, 89.3f}) CHECK(nondecreasing_for(cosh_f32, from, window));
  for (const double p : {0.3, 1.5, 3.0, 9.0, 17.3})
    for (const float from : {1e-10f, 0.7071f, 0.9999f, 1.414f, 30.0f})
      CHECK(nondecreasing_for([p](float x) { return pow_f32(x, p); }, from, window));
}

Comparison compare_powers(double p, const std::vector<float>& inputs) {
  Mpfr exponent;
  mpfr_set_d(exponent, p, MPFR_RNDN);
  return compare([p](float x) { return pow_f32(x, p); },
                 [&](mpfr_ptr y, mpfr_ptr x) { mpfr_pow(y, x, exponent, MPFR_RNDN); }, inputs);
}

const std::vector<double> exponents = {2.0,  3.0,          4.0,    5.0,       6.0,       7.0,     8.0,    9.0,
                                       15.0, 16.0,         -1.0,   -2.0,      -3.0,      -8.0,    -9.0,   0.5,
                                       1.0,  1.5,          2.5,    1.0 / 3.0, -0.5,      -0.75,   1e-3,   1.0001,
                                       31.7, -1000.03,     1e9,    1e-300,    0x1p-1074, -1e-20,  0x1p52, 0x1p53 - 1,
                                       1e15, 0x1.8p39 + 1, 0x1p40, -0x1p60,   1.7e308,   -1.7e308};

TEST_CASE("powers in float32 stay within the stated units of MPFR, with the same infinities, zeros and NaNs") {
  std::vector<float> inputs = hard_inputs();
  for (const float x : random_bit_patterns(600)) inputs.push_back(x);
  for (const float x : random_between(0.0f, 4.0f, 400)) inputs.push_back(x);
  for (const double p : exponents) {
    CAPTURE(p);
    const Comparison comparison = compare_powers(p, inputs);
    CAPTURE(comparison.worst_input);
    CHECK(comparison.worst_units <= stated_units("pow"));
    CHECK(comparison.wrong_exceptional_results == 0);
  }
}

TEST_CASE("powers in float32 at random arguments are the correctly rounded ones, also near the ends of the range") {
  std::mt19937_64 generator(20261121);
  std::uniform_real_distribution<double> exponent(-60.0, 60.0);
  int misrounded = 0;
  for (int i = 0; i < 60; ++i) {
    const double p = i % 2 == 0 ? exponent(generator) : exponent(generator) * 0x1p20;
    const float far = static_cast<float>(std::exp2(std::min(1.0, 126.0 / std::abs(p))));
    misrounded += compare_powers(p, random_between(1.0f / far, far, 300)).not_correctly_rounded;
  }
  CHECK(misrounded == 0);
}

// Random arguments hardly ever show a loss of some bits in double, which the stated units do not allow.
TEST_CASE("powers are evaluated in double to 2^-50, however large p log x is") {
  std::mt19937_64 generator(20261121);
  std::uniform_real_distribution<double> logarithm(-70.0, 87.0);
  double worst = 0.0;
  for (const float x : random_bit_patterns(6000)) {
    if (!(x > 0.0f) || std::isinf(x) || x == 1.0f) continue;
    const double p = logarithm(generator) / std::log(static_cast<double>(x));
    Mpfr exact, exponent;
    mpfr_set_flt(exact, x, MPFR_RNDN);
    mpfr_set_d(exponent, p, MPFR_RNDN);
    mpfr_pow(exact, exact, exponent, MPFR_RNDN);
    mpfr_d_div(exact, f32::detail::pow_double(x, p), exact, MPFR_RNDN);
    mpfr_sub_ui(exact, exact, 1, MPFR_RNDN);
    worst = std::max(worst, std::abs(mpfr_get_d(exact, MPFR_RNDA)));
  }
  CHECK(worst <= 0x1p-50);
  CHECK(worst >= 0x1p-53);
}

TEST_CASE("powers with the exponents 1, -1, 1/2, 2, 3, 4 and -2 are correctly rounded, halfway cases too") {
  std::vector<float> inputs;
  for (int i = 1; i < 5000; ++i) inputs.push_back(static_cast<float>(i));
  for (const float x : random_bit_patterns(3000)) inputs.push_back(x);
  for (const double p : {1.0, -1.0, 0.5, 2.0, 3.0, 4.0, -2.0}) {
    CAPTURE(p);
    CHECK(compare_powers(p, inputs).not_correctly_rounded == 0);
  }
}

TEST_CASE("special values of powers in float32 are those of IEEE 754") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const float x : {0.0f, -0.0f, 1.0f, -3.5f, inf, -inf, nan}) check_same_bits(pow_f32(x, -0.0), 1.0f);
  for (const double p : {0.5, -7.0, infinite, static_cast<double>(nan)}) check_same_bits(pow_f32(1.0f, p), 1.0f);
  for (const double p : {3.0, 0x1p53 - 1}) {
    check_same_bits(pow_f32(-0.0f, p), -0.0f);
    check_same_bits(pow_f32(-0.0f, -p), -inf);
    check_same_bits(pow_f32(-inf, p), -inf);
    check_same_bits(pow_f32(-inf, -p), -0.0f);
    check_same_bits(pow_f32(-1.0f, p), -1.0f);
  }
  for (const double p : {2.0, 0.5, 0x1p53, infinite}) {
    check_same_bits(pow_f32(-0.0f, p), 0.0f);
    check_same_bits(pow_f32(-0.0f, -p), inf);
    check_same_bits(pow_f32(-inf, p), inf);
    check_same_bits(pow_f32(-inf, -p), 0.0f);
  }
  check_same_bits(pow_f32(-1.0f, infinite), 1.0f);
  check_same_bits(pow_f32(0.5f, infinite), 0.0f);
  check_same_bits(pow_f32(-2.0f, -infinite), 0.0f);
  CHECK(bits_of(pow_f32(-2.0f, 0.5)) == canonical_nan);
  CHECK(bits_of(pow_f32(-2.0f, std::numeric_limits<double>::quiet_NaN())) == canonical_nan);
  CHECK(bits_of(pow_f32(float_from(0xff812345u), 2.0)) == canonical_nan);
  check_same_bits(pow_f32(-2.0f, 3.0), -8.0f);
  check_same_bits(pow_f32(4.0f, -0.5), 0.5f);
  check_same_bits(pow_f32(27.0f, 1.0 / 3.0), 3.0f);
}

TEST_CASE("own float32 functions: every function has a stated accuracy with evidence") {
  CHECK(own_float32_accuracy().size() == functions.size() + 1);  // and pow
  for (const ElementaryAccuracy& accuracy : own_float32_accuracy()) {
    CHECK(accuracy.units < 1.001);
    CHECK_FALSE(accuracy.evidence.empty());
  }
}

}  // namespace

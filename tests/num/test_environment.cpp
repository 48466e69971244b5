#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/interval.hpp"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif
#ifdef DRIFTBOUND_FAST_MATH_MODULE
#include <dlfcn.h>
#endif

using namespace driftbound;

namespace {

/// The message with which the environment is refused; empty if it is not.
std::string refusal() {
  try {
    require_sound_environment();
  } catch (const UnsoundEnvironment& error) {
    return error.what();
  }
  return "";
}

std::string refusal_with_rounding(int mode) {
  std::fesetround(mode);
  std::string message = refusal();
  std::fesetround(FE_TONEAREST);
  return message;
}

#ifdef __SSE2__
std::string refusal_with_mxcsr(unsigned bits) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | bits);
  std::string message = refusal();
  _mm_setcsr(before);
  return message;
}
#endif

bool mentions(const std::string& message, const char* word) {
  return message.find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("the environment of a fresh thread is sound") {
  CHECK(refusal() == "");
}

TEST_CASE("every rounding mode other than to nearest is refused") {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    const std::string message = refusal_with_rounding(mode);
    CAPTURE(mode);
    CHECK(mentions(message, "nearest"));
    CHECK(mentions(message, "FE_TONEAREST"));
  }
  CHECK(refusal() == "");
}

#ifdef __SSE2__
TEST_CASE("flushed subnormals and a rounding mode set behind the library's back are refused") {
  CHECK(mentions(refusal_with_mxcsr(0x8000), "FTZ"));
  CHECK(mentions(refusal_with_mxcsr(0x0040), "DAZ"));
  CHECK(refusal_with_mxcsr(0x8040) != "");
  CHECK(mentions(refusal_with_mxcsr(0x2000), "nearest"));
  CHECK(mentions(refusal_with_mxcsr(0x4000), "nearest"));
  CHECK(mentions(refusal_with_mxcsr(0x6000), "nearest"));
  CHECK(refusal() == "");
}
#endif

#ifdef __SSE2__
namespace {

/// Whether what is computed is refused with these bits of MXCSR set.
template <class Computation>
bool is_refused_with(unsigned bits, Computation compute) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | bits);
  bool refused = false;
  try {
    compute();
  } catch (const UnsoundEnvironment&) {
    refused = true;
  }
  _mm_setcsr(before);
  return refused;
}

}  // namespace

TEST_CASE("intervals are refused where subnormal numbers are flushed, by every operation") {
  const Interval x(0x1p-1074, 0x1p-1073), y(0x1p-600, 1.0);
  const std::pair<const char*, std::function<void()>> computations[] = {
      {"point", [] { (void)Interval(0x1p-1074); }},
      {"bounds", [] { (void)Interval(0.0, 0x1p-1074); }},
      {"whole", [] { (void)Interval::whole(); }},
      {"contains a number", [&] { (void)x.contains(0.0); }},
      {"contains an interval", [&] { (void)x.contains(y); }},
      {"magnitude", [&] { (void)x.magnitude(); }},
      {"mignitude", [&] { (void)x.mignitude(); }},
      {"width", [&] { (void)x.width(); }},
      {"midpoint", [&] { (void)x.midpoint(); }},
      {"minus", [&] { (void)-x; }},
      {"+", [&] { (void)(x + y); }},
      {"-", [&] { (void)(x - y); }},
      {"*", [&] { (void)(x * y); }},
      {"/", [&] { (void)(x / y); }},
      {"abs", [&] { (void)abs(x); }},
      {"max", [&] { (void)max(x, y); }},
      {"min", [&] { (void)min(x, y); }},
      {"hull", [&] { (void)hull(x, y); }},
      {"sqrt", [&] { (void)sqrt(x); }},
      {"exp", [&] { (void)exp(x); }},
      {"expm1", [&] { (void)expm1(x); }},
      {"log", [&] { (void)log(x); }},
      {"log1p", [&] { (void)log1p(x); }},
      {"tanh", [&] { (void)tanh(x); }},
      {"sin", [&] { (void)sin(x); }},
      {"cos", [&] { (void)cos(x); }},
      {"erf", [&] { (void)erf(x); }},
      {"tan", [&] { (void)tan(x); }},
      {"atan", [&] { (void)atan(x); }},
      {"sinh", [&] { (void)sinh(x); }},
      {"cosh", [&] { (void)cosh(x); }},
      {"pow", [&] { (void)pow(x, 3.0); }},
      {"floor", [&] { (void)floor(x); }},
      {"ceil", [&] { (void)ceil(x); }},
      {"sign", [&] { (void)sign(x); }},
  };
  for (const auto& [name, compute] : computations) {
    CAPTURE(std::string(name));
    CHECK(is_refused_with(0x8000, compute));
    CHECK(is_refused_with(0x0040, compute));
    CHECK_FALSE(is_refused_with(0, compute));
  }
}
#endif

#ifdef DRIFTBOUND_FAST_MATH_MODULE
TEST_CASE("a library linked with -ffast-math that a program loads is noticed") {
  const unsigned before = _mm_getcsr();
  void* const module = dlopen(DRIFTBOUND_FAST_MATH_MODULE, RTLD_NOW);
  REQUIRE(module != nullptr);
  const bool flushes = (_mm_getcsr() & 0x8040u) == 0x8040u;
  const std::string message = refusal();
  _mm_setcsr(before);
  dlclose(module);
  CHECK(flushes);
  CHECK(mentions(message, "subnormal"));
  CHECK(refusal() == "");
}
#endif

TEST_CASE("the compiler keeps two roundings in a product and a sum") {
  volatile double a = 1.0 + 0x1p-30;
  volatile double product_to_nearest = 1.0 + 0x1p-29;
  const double contracted = std::fma(a, a, -product_to_nearest);
  const double x = a;
  const double y = product_to_nearest;
  CHECK(x * x - y == 0.0);
  CHECK(contracted == 0x1p-60);
}

TEST_CASE("the compiler neither folds nor reassociates what directed operations rest on") {
  CHECK(add_up(1.0, 0x1p-80) == 1.0 + 0x1p-52);
  CHECK(add_down(1.0, 0x1p-80) == 1.0);
  CHECK(mul_up(1.0 + 0x1p-30, 1.0 + 0x1p-30) > mul_down(1.0 + 0x1p-30, 1.0 + 0x1p-30));
  CHECK(div_up(1.0, 3.0) == next_up(div_down(1.0, 3.0)));
  CHECK(sqrt_up(2.0) == next_up(sqrt_down(2.0)));
  CHECK((Interval(0.1) + Interval(0.2)).width().value() > 0.0);
  volatile double zero = 0.0;
  CHECK(std::isnan(zero / zero));
  CHECK(std::numeric_limits<double>::is_iec559);
#ifdef __FAST_MATH__
  FAIL("built with -ffast-math");
#endif
}

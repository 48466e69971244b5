// What a value of a function costs in double-double with a proven bound (docs/performance.md names the cases), against
// MPFR at 113 bits, and against Arb at 113 bits and QD's double-double numbers where they are installed. Seconds are
// those of one value.
#include <fmt/format.h>
#include <mpfr.h>

#ifdef DRIFTBOUND_WITH_ARB
#include <arb.h>
#include <arb_hypgeom.h>
#endif
#ifdef DRIFTBOUND_WITH_QD
#include <qd/dd_real.h>
#endif

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/timing.hpp"
#include "num/double_double.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::num;
using F = DoubleDoubleFunction;

constexpr int bits = 113;

/// Two numbers to work with besides the argument and the result.
class Mpfr {
public:
  Mpfr() { mpfr_inits2(bits, x_, y_, half_root_, line_, static_cast<mpfr_ptr>(nullptr)); }
  ~Mpfr() { mpfr_clears(x_, y_, half_root_, line_, static_cast<mpfr_ptr>(nullptr)); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;

  void evaluate(F f, double high, double low) {
    mpfr_set_d(x_, high, MPFR_RNDN);
    mpfr_add_d(x_, x_, low, MPFR_RNDN);
    apply(f);
  }
  void prepare() {
    mpfr_set_d(half_root_, 0.5, MPFR_RNDN);
    mpfr_sqrt(half_root_, half_root_, MPFR_RNDN);
    mpfr_const_pi(line_, MPFR_RNDN);
    mpfr_d_div(line_, 2.0, line_, MPFR_RNDN);
    mpfr_sqrt(line_, line_, MPFR_RNDN);
  }

private:
  void apply(F f) {
    switch (f) {
      case F::exp:
        mpfr_exp(y_, x_, MPFR_RNDN);
        break;
      case F::expm1:
        mpfr_expm1(y_, x_, MPFR_RNDN);
        break;
      case F::log:
        mpfr_log(y_, x_, MPFR_RNDN);
        break;
      case F::log1p:
        mpfr_log1p(y_, x_, MPFR_RNDN);
        break;
      case F::tanh:
        mpfr_tanh(y_, x_, MPFR_RNDN);
        break;
      case F::sigmoid:
        mpfr_neg(y_, x_, MPFR_RNDN);
        mpfr_exp(y_, y_, MPFR_RNDN);
        mpfr_add_ui(y_, y_, 1, MPFR_RNDN);
        mpfr_ui_div(y_, 1, y_, MPFR_RNDN);
        break;
      case F::softplus:
        mpfr_exp(y_, x_, MPFR_RNDN);
        mpfr_log1p(y_, y_, MPFR_RNDN);
        break;
      case F::sin:
        mpfr_sin(y_, x_, MPFR_RNDN);
        break;
      case F::cos:
        mpfr_cos(y_, x_, MPFR_RNDN);
        break;
      case F::erf:
        mpfr_erf(y_, x_, MPFR_RNDN);
        break;
      case F::gelu:
        mpfr_mul(y_, x_, half_root_, MPFR_RNDN);
        mpfr_erf(y_, y_, MPFR_RNDN);
        times_half_of_one_more();
        break;
      case F::gelu_tanh:
        mpfr_sqr(y_, x_, MPFR_RNDN);
        mpfr_mul_d(y_, y_, 0.044715, MPFR_RNDN);
        mpfr_add_ui(y_, y_, 1, MPFR_RNDN);
        mpfr_mul(y_, y_, x_, MPFR_RNDN);
        mpfr_mul(y_, y_, line_, MPFR_RNDN);
        mpfr_tanh(y_, y_, MPFR_RNDN);
        times_half_of_one_more();
        break;
      case F::sqrt:
        mpfr_sqrt(y_, x_, MPFR_RNDN);
        break;
      case F::reciprocal:
        mpfr_ui_div(y_, 1, x_, MPFR_RNDN);
        break;
    }
  }
  void times_half_of_one_more() {
    mpfr_add_ui(y_, y_, 1, MPFR_RNDN);
    mpfr_mul(y_, y_, x_, MPFR_RNDN);
    mpfr_div_2ui(y_, y_, 1, MPFR_RNDN);
  }

  mpfr_t x_, y_, half_root_, line_;
};

struct Case {
  F f;
  const char* name;
  double low, high;
};

constexpr Case cases[] = {
    {F::exp, "exp", -20.0, 20.0},         {F::expm1, "expm1", -4.0, 4.0},
    {F::log, "log", 0.01, 100.0},         {F::log1p, "log1p", -0.9, 10.0},
    {F::tanh, "tanh", -4.0, 4.0},         {F::sigmoid, "sigmoid", -8.0, 8.0},
    {F::softplus, "softplus", -8.0, 8.0}, {F::sin, "sin", -10.0, 10.0},
    {F::cos, "cos", -10.0, 10.0},         {F::erf, "erf", -4.0, 4.0},
    {F::gelu, "gelu", -4.0, 4.0},         {F::gelu_tanh, "gelu_tanh", -4.0, 4.0},
    {F::sqrt, "sqrt", 0.01, 100.0},       {F::reciprocal, "reciprocal", 0.01, 100.0},
};

struct Data {
  std::vector<double> high, low, y_high, y_low;

  Data(const Case& c, std::size_t count) : high(count), low(count), y_high(count), y_low(count) {
    std::mt19937_64 engine(1);
    std::uniform_real_distribution<double> value(c.low, c.high), share(-1.0, 1.0);
    for (std::size_t i = 0; i < count; ++i) high[i] = value(engine), low[i] = 0x1p-53 * share(engine) * high[i];
  }
};

/// Seconds a value: all of ours several times, theirs once.
template <class Theirs>
void compare(const Case& c, const DoubleDoubleKernels& kernels, int runs, Data& data, const char* name,
             const Theirs& theirs) {
  constexpr int passes = 20;
  const auto count = static_cast<double>(data.high.size());
  const auto time = bench::medians(
      runs,
      [&] {
        for (int i = 0; i < passes; ++i) evaluate(c.f, data.high, data.low, data.y_high, data.y_low, kernels);
      },
      [&] {
        for (std::size_t i = 0; i < data.high.size(); ++i) theirs(data.high[i], data.low[i]);
      },
      bench::cpu_seconds_of);
  bench::print("double_double", fmt::format("{}/{}", c.name, kernels.name), name,
               {time.ours / (passes * count), time.theirs / count}, 1);
}

void against_mpfr(const Case& c, const DoubleDoubleKernels& kernels, int runs, Data& data) {
  Mpfr number;
  number.prepare();
  compare(c, kernels, runs, data, "mpfr-113", [&](double high, double low) { number.evaluate(c.f, high, low); });
}

#ifdef DRIFTBOUND_WITH_ARB
void (*arb_of(F f))(arb_t, const arb_t, slong) {
  switch (f) {
    case F::exp:
      return arb_exp;
    case F::expm1:
      return arb_expm1;
    case F::log:
      return arb_log;
    case F::log1p:
      return arb_log1p;
    case F::tanh:
      return arb_tanh;
    case F::sigmoid:
      return [](arb_t y, const arb_t x, slong p) {
        arb_neg(y, x);
        arb_exp(y, y, p);
        arb_add_ui(y, y, 1, p);
        arb_inv(y, y, p);
      };
    case F::softplus:
      return [](arb_t y, const arb_t x, slong p) {
        arb_exp(y, x, p);
        arb_log1p(y, y, p);
      };
    case F::sin:
      return arb_sin;
    case F::cos:
      return arb_cos;
    case F::erf:
      return arb_hypgeom_erf;
    case F::sqrt:
      return arb_sqrt;
    case F::reciprocal:
      return arb_inv;
    default:
      return nullptr;
  }
}

void against_arb(const Case& c, const DoubleDoubleKernels& kernels, int runs, Data& data) {
  const auto function = arb_of(c.f);
  if (function == nullptr) return;
  arb_t x, y, z;
  arb_init(x), arb_init(y), arb_init(z);
  compare(c, kernels, runs, data, "arb-113", [&](double high, double low) {
    arb_set_d(x, high);
    arb_set_d(z, low);
    arb_add(x, x, z, bits);
    function(y, x, bits);
  });
  arb_clear(x), arb_clear(y), arb_clear(z);
}
#endif

#ifdef DRIFTBOUND_WITH_QD
dd_real qd_sigmoid(const dd_real& x) {
  return 1.0 / (1.0 + exp(-x));
}

dd_real (*qd_of(F f))(const dd_real&) {
  switch (f) {
    case F::exp:
      return exp;
    case F::log:
      return log;
    case F::tanh:
      return tanh;
    case F::sigmoid:
      return qd_sigmoid;
    case F::sin:
      return sin;
    case F::cos:
      return cos;
    case F::sqrt:
      return sqrt;
    default:
      return nullptr;
  }
}

void against_qd(const Case& c, const DoubleDoubleKernels& kernels, int runs, Data& data) {
  const auto function = qd_of(c.f);
  if (function == nullptr) return;
  dd_real sum = 0.0;
  compare(c, kernels, runs, data, "qd-dd", [&](double high, double low) { sum = sum + function(dd_real(high, low)); });
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && argv[1] == std::string_view("--quick");
  const std::size_t count = quick ? 100 : 2000;
  const int runs = quick ? 1 : 25;
  for (const Case& c : cases) {
    Data data(c, count);
    for (const DoubleDoubleKernels* kernels : usable_double_double_kernels()) against_mpfr(c, *kernels, runs, data);
#ifdef DRIFTBOUND_WITH_ARB
    against_arb(c, fastest_double_double_kernels(), runs, data);
#endif
#ifdef DRIFTBOUND_WITH_QD
    against_qd(c, fastest_double_double_kernels(), runs, data);
#endif
  }
#ifndef DRIFTBOUND_WITH_ARB
  fmt::print(stderr, "no Arb (libflint-arb-dev): not compared\n");
#endif
#ifndef DRIFTBOUND_WITH_QD
  fmt::print(stderr, "no QD (libqd-dev): not compared\n");
#endif
}

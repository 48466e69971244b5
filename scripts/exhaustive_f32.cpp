// Measures the accuracy of the float32 elementary functions over the float32 inputs 0, stride,
// 2 stride, ... (as bit patterns).  Usage: exhaustive_f32 [FUNCTIONS|all [THREADS [STRIDE]]], where
// FUNCTIONS is a comma-separated list.
//
// Error unit: |computed - f(x)| / (2^-24 |f(x)| + 2^-150).
// Every result is compared with glibc's double function. MPFR at 200 bits replaces that reference
//   - where the error could be the largest seen (within `reach`), if above half a unit,
//   - where the double reference cannot tell which float is nearest (within 2^-49 of a tie),
//   - on a pseudo-random sample of about 1e6 of all 2^32 inputs,
// and each of these also checks that the double reference is as accurate as assumed.
#include <mpfr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "num/elementary_f32.inl.hpp"

namespace {

namespace own = driftbound::f32;

constexpr std::uint64_t input_count = std::uint64_t{1} << 32;
constexpr std::uint64_t chunk_inputs = std::uint64_t{1} << 20;
constexpr double reach = 1e-6;
constexpr double least_interesting_units = 0.5;
constexpr double reference_accuracy = 0x1p-49;

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

double sigmoid_double(double x) {
  const double e = std::exp(-std::abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

double softplus_double(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

void sigmoid_mpfr(mpfr_ptr y, mpfr_ptr x) {
  mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

void softplus_mpfr(mpfr_ptr y, mpfr_ptr x) {
  const bool positive = mpfr_sgn(x) > 0;
  if (positive) {
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
  } else {
    mpfr_exp(y, x, MPFR_RNDN);
  }
  mpfr_log1p(y, y, MPFR_RNDN);
  if (positive) mpfr_add(y, y, x, MPFR_RNDN);
}

struct Worst {
  double value = 0;
  float input = 0;

  void raise(double candidate, float x) {
    if (candidate > value) {
      value = candidate;
      input = x;
    }
  }
  void merge(const Worst& other) { raise(other.value, other.input); }
};

struct Tally {
  std::uint64_t bounded = 0;      // inputs with finite f(x) within float32 range
  std::uint64_t exceptional = 0;  // the others: NaN, infinity, overflow
  std::uint64_t exceptional_wrong = 0;
  std::uint64_t misrounded = 0;
  std::uint64_t exact_checks = 0;
  Worst units;
  Worst ulps;
  Worst reference;  // error of the double reference, in units

  void merge(const Tally& other) {
    bounded += other.bounded;
    exceptional += other.exceptional;
    exceptional_wrong += other.exceptional_wrong;
    misrounded += other.misrounded;
    exact_checks += other.exact_checks;
    units.merge(other.units);
    ulps.merge(other.ulps);
    reference.merge(other.reference);
  }
};

bool in_sample(std::uint32_t bits) {
  std::uint64_t hash = (bits + 1) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 31)) * 0xbf58476d1ce4e5b9u;
  return (hash >> 40) < (std::uint64_t{1000000} << 24) / input_count;
}

double unit_of(double f) {
  return 0x1p-24 * std::abs(f) + 0x1p-150;
}

double ulp_of(double f) {
  const int exponent = f == 0.0 ? -126 : std::max(std::ilogb(f), -126);
  return std::ldexp(1.0, exponent - 23);
}

bool surely_nearest(float computed, double reference) {
  return static_cast<float>(reference * (1.0 - reference_accuracy)) == computed &&
         static_cast<float>(reference * (1.0 + reference_accuracy)) == computed;
}

template <typename MpfrFunction>
class ExactChecker {
public:
  explicit ExactChecker(MpfrFunction f) : function_(f) {}

  void check(float x, float computed, double reference, Tally& tally) {
    mpfr_set_flt(x_, x, MPFR_RNDN);
    function_(f_, x_);
    ++tally.exact_checks;
    const double error = distance_to(computed);
    tally.units.raise(error / unit_of(reference), x);
    tally.ulps.raise(error / ulp_of(mpfr_get_d(f_, MPFR_RNDZ)), x);
    tally.reference.raise(distance_to(reference) / unit_of(reference), x);
    if (mpfr_get_flt(f_, MPFR_RNDN) != computed) ++tally.misrounded;
  }

private:
  double distance_to(double y) {
    mpfr_sub_d(difference_, f_, y, MPFR_RNDN);
    return std::abs(mpfr_get_d(difference_, MPFR_RNDN));
  }

  MpfrFunction function_;
  Mpfr x_;
  Mpfr f_;
  Mpfr difference_;
};

bool exceptional_agrees(float computed, double reference) {
  if (std::isnan(reference)) return std::bit_cast<std::uint32_t>(computed) == 0x7fc00000u;
  return computed == static_cast<float>(reference);
}

// A function under test: computed(float), reference(double), exact(mpfr result, mpfr argument).
template <typename Computed, typename Reference, typename Exact>
Tally measure_chunk(std::uint64_t begin, std::uint64_t end, std::uint64_t stride, double worst_so_far,
                    Computed computed, Reference reference, Exact exact) {
  ExactChecker checker(exact);
  Tally tally;
  tally.units.value = worst_so_far;
  for (std::uint64_t i = (begin + stride - 1) / stride * stride; i < end; i += stride) {
    const auto bits = static_cast<std::uint32_t>(i);
    const float x = std::bit_cast<float>(bits);
    const float y = computed(x);
    const double f = reference(static_cast<double>(x));
    if (!(std::abs(f) <= static_cast<double>(FLT_MAX))) {
      ++tally.exceptional;
      if (!exceptional_agrees(y, f)) ++tally.exceptional_wrong;
      continue;
    }
    ++tally.bounded;
    const double units = std::abs(static_cast<double>(y) - f) / unit_of(f);
    if (units > tally.units.value - reach || !surely_nearest(y, f) || in_sample(bits)) checker.check(x, y, f, tally);
  }
  return tally;
}

void show_progress(std::string_view name, std::uint64_t done) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r%-9.*s %5.1f %%", static_cast<int>(name.size()), name.data(),
               100.0 * static_cast<double>(done) / static_cast<double>(input_count));
}

void print_row(std::string_view name, const Tally& t, double seconds) {
  std::printf("%-9.*s %10llu %10llu %6llu %10llu %8llu %.9f %-16a %.9f %-16a %.1e %6.0f\n",
              static_cast<int>(name.size()), name.data(), static_cast<unsigned long long>(t.bounded),
              static_cast<unsigned long long>(t.exceptional), static_cast<unsigned long long>(t.exceptional_wrong),
              static_cast<unsigned long long>(t.misrounded), static_cast<unsigned long long>(t.exact_checks),
              t.units.value, static_cast<double>(t.units.input), t.ulps.value, static_cast<double>(t.ulps.input),
              t.reference.value, seconds);
  std::fflush(stdout);
}

struct Run {
  std::string functions;
  unsigned threads;
  std::uint64_t stride;
};

bool selects(const Run& run, std::string_view name) {
  const std::string list = "," + run.functions + ",";
  return run.functions == "all" || list.find("," + std::string(name) + ",") != std::string::npos;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

// Adds to `total` what one function shows on the inputs of the run.
template <typename Computed, typename Reference, typename Exact>
void measure_into(Tally& total, const Run& run, std::string_view name, Computed computed, Reference reference,
                  Exact exact) {
  std::mutex total_mutex;
  std::atomic<std::uint64_t> next_chunk{0};
  const auto work = [&, worst_before = total.units.value] {
    double worst = worst_before;
    for (;;) {
      const std::uint64_t begin = next_chunk.fetch_add(chunk_inputs);
      if (begin >= input_count) break;
      const Tally tally = measure_chunk(begin, begin + chunk_inputs, run.stride, worst, computed, reference, exact);
      const std::lock_guard lock(total_mutex);
      total.merge(tally);
      worst = total.units.value;
      show_progress(name, begin);
    }
    mpfr_free_cache();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < run.threads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%30s\r", "");
}

template <typename Computed, typename Reference, typename Exact>
void measure(const Run& run, std::string_view name, Computed computed, Reference reference, Exact exact) {
  if (!selects(run, name)) return;
  const auto start = std::chrono::steady_clock::now();
  Tally total;
  total.units.value = least_interesting_units;
  measure_into(total, run, name, computed, reference, exact);
  print_row(name, total, seconds_since(start));
}

// Exponents with a meaning, then random ones of all sizes.
std::vector<double> exponents_of_powers() {
  std::vector<double> exponents = {2.0,    3.0,    4.0,      5.0,          6.0,       7.0,  8.0,  9.0,   15.0,
                                   16.0,   33.0,   -1.0,     -2.0,         -3.0,      -8.0, -9.0, 0.5,   1.5,
                                   2.5,    3.5,    0.25,     0.75,         1.0 / 3.0, -0.5, -1.5, -0.75, 1e-3,
                                   1.0001, 127.25, -1000.03, 0x1.8p29 + 1, 1e9,       -1e9};
  std::mt19937_64 generator(20261121);
  while (exponents.size() < 300) {
    const double significand = 1.0 + static_cast<double>(generator() >> 12) * 0x1p-52;
    const double size = std::ldexp(significand, static_cast<int>(generator() % 24) - 12);
    exponents.push_back(generator() % 3 == 0 ? -size : size);
  }
  return exponents;
}

// For every exponent one input in 4099 of those of the run.
void measure_powers(const Run& run) {
  if (!selects(run, "pow")) return;
  const auto start = std::chrono::steady_clock::now();
  Tally total;
  total.units.value = least_interesting_units;
  const Run sparse{run.functions, run.threads, run.stride * 4099};
  for (const double p : exponents_of_powers()) {
    measure_into(
        total, sparse, "pow", [p](float x) { return own::pow(x, p); }, [p](double x) { return std::pow(x, p); },
        [p](mpfr_ptr y, mpfr_ptr x) {
          mpfr_t exponent;
          mpfr_init2(exponent, 53);
          mpfr_set_d(exponent, p, MPFR_RNDN);
          mpfr_pow(y, x, exponent, MPFR_RNDN);
          mpfr_clear(exponent);
        });
  }
  print_row("pow", total, seconds_since(start));
}

#define DRIFTBOUND_MEASURE(name)                                                               \
  measure(                                                                                     \
      run, #name, [](float x) { return own::name(x); }, [](double x) { return std::name(x); }, \
      [](mpfr_ptr y, mpfr_ptr x) { mpfr_##name(y, x, MPFR_RNDN); })

void measure_all(const Run& run) {
  DRIFTBOUND_MEASURE(exp);
  DRIFTBOUND_MEASURE(expm1);
  DRIFTBOUND_MEASURE(log);
  DRIFTBOUND_MEASURE(log1p);
  DRIFTBOUND_MEASURE(tanh);
  measure(
      run, "sigmoid", [](float x) { return own::sigmoid(x); }, sigmoid_double, sigmoid_mpfr);
  measure(
      run, "softplus", [](float x) { return own::softplus(x); }, softplus_double, softplus_mpfr);
  DRIFTBOUND_MEASURE(sin);
  DRIFTBOUND_MEASURE(cos);
  DRIFTBOUND_MEASURE(erf);
  DRIFTBOUND_MEASURE(tan);
  DRIFTBOUND_MEASURE(atan);
  DRIFTBOUND_MEASURE(sinh);
  DRIFTBOUND_MEASURE(cosh);
  measure_powers(run);
}

}  // namespace

int main(int argc, char** argv) {
  const Run run{argc > 1 ? argv[1] : "all", argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 2u,
                argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1u};
  if (run.threads == 0 || run.stride == 0) {
    std::fprintf(stderr, "usage: %s [FUNCTIONS|all [THREADS [STRIDE]]]\n", argv[0]);
    return 2;
  }
  std::printf("%-9s %10s %10s %6s %10s %8s %-11s %-16s %-11s %-16s %-7s %6s\n", "function", "bounded", "other", "wrong",
              "misrounded", "MPFR", "max units", "at", "max ulp", "at", "ref.err", "s");
  measure_all(run);
}

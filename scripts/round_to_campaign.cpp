// round_to against rounding by its definition in exact integers: random and special doubles, every format and rounding.
// Usage: round_to_campaign [COUNT] [SEED] [THREADS]
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/format.hpp"
#include "num/doubles.hpp"
#include "num/exact_rounding.hpp"
#include "num/format_draws.hpp"

namespace {

using namespace driftbound;
using namespace driftbound_tests;

struct Tally {
  std::uint64_t roundings = 0;
  std::uint64_t inexact = 0;
  std::uint64_t overflowed = 0;
  std::uint64_t violations = 0;
};

void check(double x, const Format& f, Tally& tally) {
  const ExactRounding exact(x, f);
  for (const Rounding rounding : all_roundings) {
    const double expected = exact(rounding);
    const double rounded = round_to(x, f, rounding);
    ++tally.roundings;
    tally.inexact += expected == x ? 0 : 1;
    tally.overflowed += std::isfinite(expected) ? 0 : 1;
    if (same(rounded, expected)) continue;
    if (++tally.violations <= 10) {
      std::printf("violation: %s, rounding %d, of %a gives %a instead of %a\n", f.name.data(),
                  static_cast<int>(rounding), x, rounded, expected);
    }
  }
}

/// Doubles aimed at each format in turn, each checked in every format.
Tally run(std::uint64_t count, std::uint64_t seed) {
  require_sound_environment();
  Tally tally;
  SpitefulDoubles doubles(seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = draw_for(format(all_formats[i % std::size(all_formats)]), doubles);
    for (const FormatId id : all_formats) check(x, format(id), tally);
  }
  return tally;
}

std::uint64_t argument(int argc, char** argv, int index, std::uint64_t otherwise) {
  return index < argc ? std::strtoull(argv[index], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argument(argc, argv, 1, 10'000'000);
  const std::uint64_t seed = argument(argc, argv, 2, 20261121);
  const std::uint64_t threads = argument(argc, argv, 3, 2);
  if (threads == 0) return 3;
  const auto start = std::chrono::steady_clock::now();

  std::vector<Tally> tallies(threads);
  std::vector<std::thread> workers;
  for (std::uint64_t t = 0; t < threads; ++t) {
    const std::uint64_t share = count / threads + (t < count % threads ? 1 : 0);
    workers.emplace_back([&, t, share] { tallies[t] = run(share, seed + t); });
  }
  for (std::thread& worker : workers) worker.join();

  Tally total;
  for (const Tally& tally : tallies) {
    total.roundings += tally.roundings;
    total.inexact += tally.inexact;
    total.overflowed += tally.overflowed;
    total.violations += tally.violations;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "round_to: seed %llu, %llu threads, %llu doubles, %llu roundings (%llu inexact, %llu not finite), "
      "%llu violations, %.0f s\n",
      static_cast<unsigned long long>(seed), static_cast<unsigned long long>(threads),
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(total.roundings),
      static_cast<unsigned long long>(total.inexact), static_cast<unsigned long long>(total.overflowed),
      static_cast<unsigned long long>(total.violations), seconds.count());
  return total.violations == 0 ? 0 : 2;
}

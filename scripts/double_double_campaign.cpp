// Functions in double-double against MPFR with 700 bits, all over their domains.
// Usage: double_double_campaign [COUNT] [SEED] [THREADS], COUNT arguments of each function
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "num/double_double_cases.hpp"

namespace {

using namespace driftbound_tests;

struct Worst {
  std::uint64_t count = 0, violations = 0;
  double share = 0.0, at = 0.0, at_low = 0.0;

  void take(const Worst& other) {
    count += other.count;
    violations += other.violations;
    if (other.share > share) share = other.share, at = other.at, at_low = other.at_low;
  }
};

Worst run(const Case& c, std::uint64_t count, std::uint64_t seed) {
  Worst worst;
  Arguments arguments(c, seed);
  while (worst.count < count) {
    const Pairs x = arguments.draw(10000), y = evaluated(c.f, x);
    Worst piece{x.size(), 0, 0.0, 0.0, 0.0};
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double share = share_of_bound(c, x.high[i], x.low[i], y.high[i], y.low[i]);
      if (!(share <= 1.0)) ++piece.violations;
      if (!(share <= piece.share)) piece.share = share, piece.at = x.high[i], piece.at_low = x.low[i];
    }
    worst.take(piece);
  }
  mpfr_free_cache();
  return worst;
}

std::uint64_t argument(int argc, char** argv, int index, std::uint64_t otherwise) {
  return index < argc ? std::strtoull(argv[index], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argument(argc, argv, 1, 10000), seed = argument(argc, argv, 2, 1);
  const std::uint64_t threads = std::max<std::uint64_t>(argument(argc, argv, 3, 1), 1);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t all = 0, violations = 0;
  for (const Case& c : cases()) {
    std::vector<Worst> found(threads);
    std::vector<std::thread> running;
    for (std::uint64_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] { found[t] = run(c, count / threads, 1000 * seed + t); });
    }
    for (std::thread& thread : running) thread.join();
    Worst worst;
    for (const Worst& part : found) worst.take(part);
    std::printf("%-10s %9llu values, %llu violations, largest error / bound %.3f at %a + %a\n", c.name.c_str(),
                static_cast<unsigned long long>(worst.count), static_cast<unsigned long long>(worst.violations),
                worst.share, worst.at, worst.at_low);
    std::fflush(stdout);
    all += worst.count;
    violations += worst.violations;
  }
  std::printf("%llu values, %llu violations, seed %llu, %s kernels, %.0f s\n", static_cast<unsigned long long>(all),
              static_cast<unsigned long long>(violations), static_cast<unsigned long long>(seed),
              fastest_double_double_kernels().name,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return violations == 0 ? 0 : 1;
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/approach.hpp"
#include "support/bound_checks.hpp"

using namespace checks;

namespace {

/// The mean of some numbers in float32, and of how many.
struct Part {
  float mean = 0.0F;
  float count = 0.0F;
};

Part merged(Part a, Part b) {
  if (a.count < b.count) std::swap(a, b);
  const float count = a.count + b.count;
  return {a.mean + b.count / count * (b.mean - a.mean), count};
}

}  // namespace

TEST_CASE("no tree of merges exceeds the bound of a mean, zeros among the numbers or not (T-136)") {
  Generator generator(1361);
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  double closest = 0.0;
  for (int draw = 0; draw < 40000 * test_multiplier(); ++draw) {
    const std::size_t count = 2 + generator() % 6;
    std::vector<float> numbers(count, 0.0F);
    const bool is_sparse = generator() % 3 == 0;
    double sum = 0.0, total = 0.0;
    for (float& x : numbers) {
      if (!is_sparse || generator() % 3 == 0)
        x = static_cast<float>(uniform(generator, draw % 2 == 0 ? 0.0 : -1.0, 1.0));
      sum += static_cast<double>(x);
      total += static_cast<double>(std::abs(x));
    }
    std::vector<Part> parts;
    for (const float x : numbers) parts.push_back({x, 1.0F});
    while (parts.size() > 1) {  // a chain, or any tree
      const std::size_t i = draw % 4 < 2 ? 0 : generator() % (parts.size() - 1);
      parts[i] = merged(parts[i], parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    const auto n = static_cast<std::int64_t>(count);
    const Magnitude bound = bounds::any_order_factor(n, machine) * Magnitude(total) +
                            bounds::error_of_merges(n, Magnitude(total), machine);
    const double error = std::abs(static_cast<double>(count) * static_cast<double>(parts.front().mean) - sum);
    REQUIRE(error <= bound.value());
    if (total > 0.0) closest = std::max(closest, error / bound.value());
  }
  CHECK_APPROACH("T-136", closest, 0.2);
}

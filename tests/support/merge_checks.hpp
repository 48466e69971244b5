#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bounds/sums/number_terms.hpp"
#include "support/bound_checks.hpp"

/// Means that are merged from means of parts, in float32 (T-136).
namespace checks {

/// The mean of some numbers, and of how many.
struct PartOfMean {
  float mean = 0.0F, count = 0.0F;
};

inline PartOfMean merged(PartOfMean a, PartOfMean b) {
  if (a.count < b.count) std::swap(a, b);
  const float count = a.count + b.count;
  return {a.mean + b.count / count * (b.mean - a.mean), count};
}

struct MergeTally {
  std::int64_t violations = 0;
  double closest = 0.0;  ///< largest error / bound
};

inline MergeTally check_merged_means(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  MergeTally tally;
  for (int draw = 0; draw < repetitions; ++draw) {
    const std::size_t count = 2 + generator() % 9;
    const bool is_sparse = generator() % 3 == 0, is_positive = generator() % 2 == 0;
    double sum = 0.0;
    bounds::NumberTerms numbers;
    std::vector<PartOfMean> parts;
    for (std::size_t i = 0; i < count; ++i) {
      float x = static_cast<float>(uniform(generator, is_positive ? 0.0 : -1.0, 1.0));
      if (is_sparse && generator() % 3 != 0) x = 0.0F;
      sum += static_cast<double>(x);
      numbers.add(static_cast<double>(x));
      parts.push_back({x, 1.0F});
    }
    while (parts.size() > 1) {  // a chain, or any tree
      const std::size_t i = draw % 2 == 0 ? 0 : generator() % (parts.size() - 1);
      parts[i] = merged(parts[i], parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    const auto n = static_cast<std::int64_t>(count);
    bounds::TermSizes sizes = numbers.sizes();
    sizes.leaves = n;
    sizes.sum = Magnitude(sum);
    const Magnitude before =
        std::min(bounds::any_order_factor(n - 1, machine) * sizes.total, bounds::partial_sums_error(sizes, machine));
    const Magnitude last = Magnitude(machine.u) * (sizes.sum + before);
    const double bound = (before + last + bounds::error_of_merges(n, sizes.total, machine)).value();
    const double error = std::abs(static_cast<double>(count) * static_cast<double>(parts.front().mean) - sum);
    if (!(error <= bound)) ++tally.violations;
    if (bound > 0.0) tally.closest = std::max(tally.closest, error / bound);
  }
  return tally;
}

}  // namespace checks

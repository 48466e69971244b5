#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bounds/nodes/body_rounding.hpp"
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

/// The bound of the node that sums these numbers for a mean, in a run of another program.
inline double bound_of_sum(const Tensor<double>& numbers, double sum, const ArithmeticModel& arithmetic) {
  op::ReduceSum op;
  op.is_of_moment = true;
  const Node node{"sum", op, {0}, 1};
  const Tensor<double> output({1}, {sum});
  bounds::Setting setting;
  setting.arithmetic = &arithmetic;
  setting.machine = bounds::machine_of(arithmetic);
  bounds::UnrecordedNode unrecorded;
  unrecorded.view = {&node, {&numbers}, &output};
  unrecorded.operand_radii.resize(1);
  std::set<std::string> conditions;
  return bounds::body_rounding(unrecorded, setting, conditions).front();
}

inline MergeTally check_merged_means(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  MergeTally tally;
  for (int draw = 0; draw < repetitions; ++draw) {
    const std::size_t count = 2 + generator() % 9;
    const bool is_sparse = generator() % 3 == 0, is_positive = generator() % 2 == 0;
    double sum = 0.0;
    Tensor<double> numbers({static_cast<std::int64_t>(count)});
    std::vector<PartOfMean> parts;
    for (std::size_t i = 0; i < count; ++i) {
      float x = static_cast<float>(uniform(generator, is_positive ? 0.0 : -1.0, 1.0));
      if (is_sparse && generator() % 3 != 0) x = 0.0F;
      sum += static_cast<double>(x);
      numbers.values[i] = static_cast<double>(x);
      parts.push_back({x, 1.0F});
    }
    while (parts.size() > 1) {  // a chain, or any tree
      const std::size_t i = draw % 2 == 0 ? 0 : generator() % (parts.size() - 1);
      parts[i] = merged(parts[i], parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    const double bound = bound_of_sum(numbers, sum, arithmetic);
    const double error = std::abs(static_cast<double>(count) * static_cast<double>(parts.front().mean) - sum);
    if (!(error <= bound)) ++tally.violations;
    if (bound > 0.0) tally.closest = std::max(tally.closest, error / bound);
  }
  return tally;
}

}  // namespace checks

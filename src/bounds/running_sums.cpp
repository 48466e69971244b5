#include "bounds/running_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "num/parallel.hpp"
#include "num/power_of_two.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::int64_t work_worth_a_thread = 1 << 18;
constexpr std::size_t width = 8;  ///< columns of B side by side

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Writes the operations of an order down. Each function says whether it leaves a sum on the stack.
class Steps {
public:
  Steps(const SummationOrder& order, std::span<const char> nonzero) : order_(order), nonzero_(nonzero) {}

  std::vector<SumStep> all() {
    const auto n = static_cast<std::int64_t>(nonzero_.size());
    if (order_.kind == SummationOrder::Kind::pairwise) {
      halves(0, n);
      return std::move(steps_);
    }
    bool has_sum = false;
    std::int64_t first = 0;
    for (const std::int64_t length : chain_lengths(order_, n)) {
      has_sum = joined(has_sum, chain(first, first + length));
      first += length;
    }
    return std::move(steps_);
  }

private:
  bool chain(std::int64_t first, std::int64_t last) {
    bool has_sum = false;
    for (std::int64_t k = first; k < last; ++k) {
      if (nonzero_[at(k)] == 0) continue;
      steps_.push_back({has_sum ? SumStep::Kind::add : SumStep::Kind::start, k});
      has_sum = true;
    }
    return has_sum;
  }

  bool joined(bool left, bool right) {
    if (left && right) steps_.push_back({SumStep::Kind::join, 0});
    return left || right;
  }

  /// The left half is the largest power of two below n.
  bool halves(std::int64_t first, std::int64_t last) {
    const std::int64_t n = last - first;
    if (n <= 2) return chain(first, last);
    std::int64_t half = 1;
    while (2 * half < n) half *= 2;
    const bool left = halves(first, first + half);
    return joined(left, halves(first + half, last));
  }

  SummationOrder order_;
  std::span<const char> nonzero_;
  std::vector<SumStep> steps_;
};

using Lanes = std::array<double, width>;

/// One element of A B a lane.
struct RunningSums {
  Lanes slack{}, places{};

  void note(const Lanes& sum) {
    for (std::size_t j = 0; j < width; ++j) places[j] += num::power_of_two_in(std::abs(sum[j]) + slack[j]);
  }

  void run(std::span<const SumStep> steps, const double* a, const double* b, bool rounds_starts) {
    std::array<Lanes, 64> below;
    std::size_t depth = 0;
    Lanes top{};
    for (const SumStep& step : steps) {
      const double* column = b + at(step.k) * width;
      const double factor = a[at(step.k)];
      if (step.kind == SumStep::Kind::start) {
        below[depth++] = top;
        for (std::size_t j = 0; j < width; ++j) top[j] = factor * column[j];
        if (!rounds_starts) continue;
      } else if (step.kind == SumStep::Kind::add) {
        for (std::size_t j = 0; j < width; ++j) top[j] += factor * column[j];
      } else {
        --depth;
        for (std::size_t j = 0; j < width; ++j) top[j] += below[depth][j];
      }
      note(top);
    }
  }
};

/// Columns of one matrix of B, `width` of them side by side: [ceil(n / width), k, width], 0 beyond the last.
std::vector<double> packed_columns(const ProductPlan& plan, std::int64_t batch, std::span<const double> b) {
  const std::int64_t panels = (plan.n + static_cast<std::int64_t>(width) - 1) / static_cast<std::int64_t>(width);
  std::vector<double> packed(at(panels * plan.k) * width);
  for (std::int64_t k = 0; k < plan.k; ++k) {
    for (std::int64_t j = 0; j < plan.n; ++j) {
      packed[(at(j) / width * at(plan.k) + at(k)) * width + at(j) % width] = b[plan.b_index(batch, k, j)];
    }
  }
  return packed;
}

class RunningProduct {
public:
  RunningProduct(const ProductPlan& plan, const RunningTerms& terms, const SummationOrder& order, bool leave_out_last)
      : plan_(plan), terms_(terms), order_(order), leave_out_last_(leave_out_last) {}

  /// Rows [first, last) of one batch.
  void rows(std::int64_t batch, std::int64_t first, std::int64_t last, std::span<const double> b,
            std::span<double> result) const {
    std::vector<double> a(at(plan_.k));
    std::vector<char> nonzero(at(plan_.k)), previous;
    std::vector<SumStep> steps;
    for (std::int64_t i = first; i < last; ++i) {
      for (std::int64_t k = 0; k < plan_.k; ++k) {
        const std::size_t from = plan_.a_index(batch, i, k);
        a[at(k)] = terms_.a[from];
        nonzero[at(k)] = terms_.largest_a[from] != 0.0 ? 1 : 0;
      }
      if (nonzero != previous) steps = steps_of(nonzero);
      previous = nonzero;
      const std::size_t row = at((batch * plan_.m + i) * plan_.n);
      for (std::size_t j = 0; j < at(plan_.n); j += width) {
        const std::size_t columns = std::min(width, at(plan_.n) - j);
        RunningSums sums;
        std::copy_n(terms_.slack.begin() + static_cast<std::ptrdiff_t>(row + j), columns, sums.slack.begin());
        sums.run(steps, a.data(), b.data() + j * at(plan_.k), order_.fma);
        std::copy_n(sums.places.begin(), columns, result.begin() + static_cast<std::ptrdiff_t>(row + j));
      }
    }
  }

private:
  std::vector<SumStep> steps_of(const std::vector<char>& nonzero) const {
    std::vector<SumStep> steps = sum_steps(order_, nonzero);
    if (leave_out_last_ && !steps.empty()) steps.pop_back();
    return steps;
  }

  const ProductPlan& plan_;
  const RunningTerms& terms_;
  SummationOrder order_;
  bool leave_out_last_;
};

}  // namespace

std::vector<SumStep> sum_steps(const SummationOrder& order, std::span<const char> nonzero) {
  return Steps(order, nonzero).all();
}

std::vector<double> running_first_places(const ProductPlan& plan, const RunningTerms& terms,
                                         const SummationOrder& order, bool leave_out_last, int threads) {
  std::vector<double> result(at(plan.batches * plan.m * plan.n), 0.0);
  const RunningProduct product(plan, terms, order, leave_out_last);
  const bool is_worth_threads = plan.m * plan.n * plan.k >= work_worth_a_thread;
  std::vector<double> packed;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const bool same_b = batch > 0 && plan.b_batch[at(batch)] == plan.b_batch[at(batch - 1)];
    if (!same_b) packed = packed_columns(plan, batch, terms.b);
    parallel_for(plan.m, is_worth_threads ? threads : 1,
                 [&](std::int64_t first, std::int64_t last) { product.rows(batch, first, last, packed, result); });
  }
  for (double& places : result) places *= 1.0 + 0x1p-20;  // at most 2^32 additions to nearest
  return result;
}

double running_slack(std::int64_t k, double before, double spread, double total) {
  const double in_double = static_cast<double>(k) * 0x1p-52 * total;
  return (before + spread + in_double) * (1.0 + 0x1p-40) + 0x1p-1000;
}

}  // namespace driftbound::bounds

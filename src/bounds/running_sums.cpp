#include "bounds/running_sums.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "bounds/sum_kernels.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/kernels/product.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::int64_t work_worth_a_thread = 1 << 18;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Writes the operations of an order down. Each function says whether it leaves a sum on the stack.
class Steps {
public:
  Steps(const SummationOrder& order, std::span<const char> nonzero) : order_(order), nonzero_(nonzero) {}

  std::vector<SumStep> all() {
    if (!order_.gives_partial_sums())
      throw InvalidArgument("running bound: " + to_string(order_) + " does not say which partial sums there are");
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
      steps_.push_back({has_sum ? SumStep::Kind::add : SumStep::Kind::start, static_cast<std::int32_t>(k)});
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

/// Rows of one batch under packed columns, as many columns at a time as stay near the processor.
class RunningProduct {
public:
  RunningProduct(const ProductPlan& plan, const RunningTerms& terms, const SummationOrder& order, bool leave_out_last,
                 std::span<double> result)
      : plan_(plan), terms_(terms), order_(order), leave_out_last_(leave_out_last), result_(result) {}

  void rows(std::int64_t batch, std::int64_t first, std::int64_t last, const double* b) const {
    std::vector<Row> rows;
    for (std::int64_t i = first; i < last; ++i) {
      rows.push_back(row(batch, i));
      if (rows.size() == rows_at_once || i + 1 == last) add_up(batch * plan_.m + i + 1, rows, b);
    }
  }

private:
  static constexpr std::size_t rows_at_once = 64, columns_at_once = panels_at_once * columns_of_panel;

  struct Row {
    std::vector<double> a;
    std::vector<SumStep> steps;
  };

  Row row(std::int64_t batch, std::int64_t i) const {
    Row row{std::vector<double>(at(plan_.k)), {}};
    std::vector<char> nonzero(at(plan_.k));
    for (std::int64_t k = 0; k < plan_.k; ++k) {
      const std::size_t from = plan_.a_index(batch, i, k);
      row.a[at(k)] = terms_.a[from];
      nonzero[at(k)] = terms_.largest_a[from] != 0.0 ? 1 : 0;
    }
    row.steps = sum_steps(order_, nonzero);
    if (leave_out_last_ && !row.steps.empty()) row.steps.pop_back();
    return row;
  }

  /// The rows before `end`.
  void add_up(std::int64_t end, std::vector<Row>& rows, const double* b) const {
    const std::size_t n = at(plan_.n), k = at(plan_.k), first = at(end) - rows.size();
    std::array<double, columns_at_once> slack, places;
    for (std::size_t j = 0; j < n; j += columns_at_once) {
      const std::size_t columns = std::min(columns_at_once, n - j);
      const std::size_t panels = (columns + columns_of_panel - 1) / columns_of_panel;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const auto from = static_cast<std::ptrdiff_t>((first + r) * n + j);
        slack.fill(0.0);
        std::copy_n(terms_.slack.begin() + from, columns, slack.begin());
        const StepsOfRow row{rows[r].steps.data(), rows[r].steps.size(), rows[r].a.data(), slack.data(), order_.fma};
        fastest_sum_kernels().first_places(row, b + j * k, k, panels, places.data());
        std::copy_n(places.begin(), columns, result_.begin() + from);
      }
    }
    rows.clear();
  }

  const ProductPlan& plan_;
  const RunningTerms& terms_;
  SummationOrder order_;
  bool leave_out_last_;
  std::span<double> result_;
};

}  // namespace

std::vector<SumStep> sum_steps(const SummationOrder& order, std::span<const char> nonzero) {
  return Steps(order, nonzero).all();
}

std::vector<double> running_first_places(const ProductPlan& plan, const RunningTerms& terms,
                                         const SummationOrder& order, bool leave_out_last, int threads) {
  static_assert(columns_of_panel == panel_width<double>);
  std::vector<double> result(at(plan.batches * plan.m * plan.n), 0.0);
  const RunningProduct product(plan, terms, order, leave_out_last, result);
  const bool is_worth_threads = plan.m * plan.n * plan.k >= work_worth_a_thread;
  PackedMatrices<double> packed;
  if (terms.packed == nullptr) pack_missing<double>(plan, terms.b, packed);
  const PackedMatrices<double>& matrices = terms.packed != nullptr ? *terms.packed : packed;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const double* b = matrices.at(plan.b_batch[at(batch)]).data();
    parallel_for(plan.m, is_worth_threads ? threads : 1,
                 [&](std::int64_t first, std::int64_t last) { product.rows(batch, first, last, b); });
  }
  for (double& places : result) places *= 1.0 + 0x1p-20;  // at most 2^32 additions to nearest
  return result;
}

double running_slack(std::int64_t k, double before, double spread, double total) {
  const double in_double = static_cast<double>(k) * 0x1p-52 * total;
  return (before + spread + in_double) * (1.0 + 0x1p-40) + 0x1p-1000;
}

}  // namespace driftbound::bounds

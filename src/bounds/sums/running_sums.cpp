#include "bounds/sums/running_sums.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <type_traits>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/sum_kernels.hpp"
#include "driftbound/num/errors.hpp"
#include "linalg/kernels/ordered_product.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

constexpr std::int64_t work_worth_a_thread = 1 << 18;

/// Lists the operations of a summation order. Each private function returns whether it leaves a sum on the stack.
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
    steps_.reserve(2 * nonzero_.size());
    if (order_.kind == SummationOrder::Kind::dealt) {
      dealt(n);
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
    for (std::int64_t k = first; k < last; ++k) has_sum = term(has_sum, k);
    return has_sum;
  }

  bool term(bool has_sum, std::int64_t k) {
    if (nonzero_[at(k)] == 0) return has_sum;
    steps_.push_back({has_sum ? SumStep::Kind::add : SumStep::Kind::start, static_cast<std::int32_t>(k)});
    return true;
  }

  /// The chains of a dealt order and what combines them: a chain comes before the chains that are added to it.
  void dealt(std::int64_t n) {
    if (n == 0) return;
    const SumSchedule schedule = schedule_of(order_.parts, n);
    std::vector<std::vector<std::uint32_t>> added(schedule.ends.size());
    for (const SumJoins::Join& join : schedule.joins.list) added[join.to].push_back(join.from);
    const std::function<bool(std::size_t)> sum = [&](std::size_t chain) -> bool {
      bool has_sum = false;
      for (std::size_t i = chain == 0 ? 0 : schedule.ends[chain - 1]; i < schedule.ends[chain]; ++i)
        has_sum = term(has_sum, schedule.terms[i]);
      for (const std::uint32_t other : added[chain]) has_sum = joined(has_sum, sum(other));
      return has_sum;
    };
    sum(0);
  }

  bool joined(bool left, bool right) {
    if (left && right) steps_.push_back({SumStep::Kind::join, 0});
    return left || right;
  }

  /// The number of terms in the left half is the largest power of two below n.
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

/// Sums of more products are evaluated in double.
constexpr std::int64_t most_single_products = 1 << 12;
/// Single precision is used if the largest factor of every row and column lies in [least_single, most_single] or is 0,
/// and the slack is at most most_single_slack: the sums then do not overflow, and underflow is covered by 2^-110
/// (T-69).
constexpr double least_single = 0x1p-24, most_single = 0x1p24, most_single_slack = 0x1p100;

double norm_up(std::span<const double> x) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares) * (1.0 + 0x1p-30);
}

bool is_single(double largest) {
  return largest == 0.0 || (largest >= least_single && largest <= most_single);
}

std::vector<double> row_of(const ProductPlan& plan, std::span<const double> a, std::int64_t batch, std::int64_t i) {
  std::vector<double> row(at(plan.k));
  for (std::int64_t k = 0; k < plan.k; ++k) row[at(k)] = a[plan.a_index(batch, i, k)];
  return row;
}

double largest_of(std::span<const double> x) {
  double largest = 0.0;
  for (const double value : x) largest = std::abs(value) <= largest ? largest : std::abs(value);
  return largest;
}

/// Which numbers an order rounds: steps(nonzero), where nonzero[k] is 0 if product k is certainly 0.
struct Roundings {
  std::function<std::vector<SumStep>(std::span<const char>)> steps;
  bool of_starts = false;  ///< whether the product that a chain starts with is rounded too
};

/// One row of A with its summation steps and, for single precision only, an upper bound of its 2-norm.
template <class Number>
struct FollowedRow {
  std::vector<Number> a;
  std::vector<SumStep> steps;
  double norm = 0.0;
};

void ufps(const StepsOfRow<double>& row, const double* b, std::size_t k, std::size_t panels, double* places) {
  fastest_sum_kernels().ufps(row, b, k, panels, places);
}
void ufps(const StepsOfRow<float>& row, const float* b, std::size_t k, std::size_t panels, float* places) {
  fastest_sum_kernels().first_places_single(row, b, k, panels, places);
}

/// Computes the sums of ufp(|t| + slack) for rows of one batch and packed columns, as many columns at a time as stay in
/// the processor's cache.
template <class Number>
class RunningProduct {
public:
  RunningProduct(const ProductPlan& plan, const RunningTerms& terms, const Roundings& roundings,
                 std::span<double> result)
      : plan_(plan), terms_(terms), roundings_(roundings), result_(result) {}

  /// Rows [first, last) of a batch. `norms` are the 2-norms of the columns; null for sums in double.
  void rows(std::int64_t batch, std::int64_t first, std::int64_t last, const Number* b, const double* norms) const {
    std::vector<FollowedRow<Number>> rows;
    for (std::int64_t i = first; i < last; ++i) {
      rows.push_back(row(batch, i));
      if (rows.size() == rows_at_once || i + 1 == last) add_up(batch * plan_.m + i + 1, rows, b, norms);
    }
  }

private:
  static constexpr bool in_single = std::is_same_v<Number, float>;
  static constexpr std::size_t rows_at_once = 64, width = columns_of_panel<Number>,
                               columns_at_once = panels_at_once * width;

  FollowedRow<Number> row(std::int64_t batch, std::int64_t i) const {
    const std::vector<double> a = row_of(plan_, terms_.a, batch, i);
    FollowedRow<Number> row{std::vector<Number>(a.begin(), a.end()), {}};
    if constexpr (in_single) row.norm = norm_up(a);
    std::vector<char> nonzero(at(plan_.k));
    for (std::int64_t k = 0; k < plan_.k; ++k)
      nonzero[at(k)] = terms_.largest_a[plan_.a_index(batch, i, k)] != 0.0 ? 1 : 0;
    row.steps = roundings_.steps(nonzero);
    return row;
  }

  /// Computes the results of `rows`, the last of which is row end - 1 of all batches, and clears them.
  void add_up(std::int64_t end, std::vector<FollowedRow<Number>>& rows, const Number* b, const double* norms) const {
    const std::size_t n = at(plan_.n), k = at(plan_.k), first = at(end) - rows.size();
    std::array<Number, columns_at_once> slack, places;
    for (std::size_t j = 0; j < n; j += columns_at_once) {
      const std::size_t columns = std::min(columns_at_once, n - j);
      const std::size_t panels = (columns + width - 1) / width;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::size_t from = (first + r) * n + j;
        slack.fill(Number(1));
        for (std::size_t c = 0; c < columns; ++c)
          slack[c] = slack_of(terms_.slack[from + c], rows[r].norm, norms == nullptr ? 0.0 : norms[j + c]);
        const StepsOfRow<Number> row{rows[r].steps.data(), rows[r].steps.size(), rows[r].a.data(), slack.data(),
                                     roundings_.of_starts};
        ufps(row, b + j * k, k, panels, places.data());
        const double up = in_single ? 1.0 + static_cast<double>(2 * plan_.k) * 0x1.01p-24 : 1.0;
        for (std::size_t c = 0; c < columns; ++c) result_[from + c] = static_cast<double>(places[c]) * up;
      }
    }
    rows.clear();
  }

  /// The slack of sums in Number: single precision adds the error of K + 2 roundings, and 2^-110 for underflow (T-69).
  Number slack_of(double slack, double row_norm, double column_norm) const {
    if constexpr (!in_single) {
      return slack;
    } else {
      const double roundings = static_cast<double>(plan_.k + 2) * 0x1.01p-24;
      return static_cast<float>((slack + roundings * (row_norm * column_norm) + 0x1p-110) * (1.0 + 0x1p-22));
    }
  }

  const ProductPlan& plan_;
  const RunningTerms& terms_;
  const Roundings& roundings_;
  std::span<double> result_;
};

/// Whether the conditions for sums in single precision hold (see least_single).
bool may_use_single(const ProductPlan& plan, const RunningTerms& terms) {
  if (terms.single == nullptr || !terms.single->fits || plan.k > most_single_products) return false;
  if (!(largest_of(terms.slack) <= most_single_slack)) return false;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch)
    for (std::int64_t i = 0; i < plan.m; ++i)
      if (!is_single(largest_of(row_of(plan, terms.a, batch, i)))) return false;
  return true;
}

std::vector<double> ufps_of(const ProductPlan& plan, const RunningTerms& terms, const Roundings& roundings,
                            int threads) {
  static_assert(columns_of_panel<double> == panel_width<double> && columns_of_panel<float> == panel_width<float>);
  std::vector<double> result(at(plan.batches * plan.m * plan.n), 0.0);
  const int workers = plan.m * plan.n * plan.k >= work_worth_a_thread ? threads : 1;
  const bool in_single = may_use_single(plan, terms);
  PackedMatrices<double> packed;
  if (!in_single && terms.packed == nullptr) pack_missing<double>(plan, terms.b, packed);
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const std::int64_t offset = plan.b_batch[at(batch)];
    if (in_single) {
      const RunningProduct<float> product(plan, terms, roundings, result);
      const float* b = terms.single->matrices.at(offset).data();
      const double* norms = terms.single->norms.at(offset).data();
      parallel_for(plan.m, workers,
                   [&](std::int64_t first, std::int64_t last) { product.rows(batch, first, last, b, norms); });
    } else {
      const RunningProduct<double> product(plan, terms, roundings, result);
      const double* b = (terms.packed != nullptr ? *terms.packed : packed).at(offset).data();
      parallel_for(plan.m, workers,
                   [&](std::int64_t first, std::int64_t last) { product.rows(batch, first, last, b, nullptr); });
    }
  }
  for (double& places : result) places *= 1.0 + 0x1p-20;  // at most 2^32 additions to nearest
  return result;
}

}  // namespace

std::vector<SumStep> sum_steps(const SummationOrder& order, std::span<const char> nonzero) {
  return Steps(order, nonzero).all();
}

std::vector<double> running_ufps(const ProductPlan& plan, const RunningTerms& terms, const SummationOrder& order,
                                 bool leave_out_last, int threads) {
  const auto steps = [&](std::span<const char> nonzero) {
    std::vector<SumStep> all = sum_steps(order, nonzero);
    if (leave_out_last && !all.empty()) all.pop_back();
    return all;
  };
  return ufps_of(plan, terms, {steps, order.fma}, threads);
}

std::vector<double> product_ufps(const ProductPlan& plan, const RunningTerms& terms, int threads) {
  const auto steps = [](std::span<const char> nonzero) {
    std::vector<SumStep> products;
    for (std::size_t k = 0; k < nonzero.size(); ++k)
      if (nonzero[k] != 0) products.push_back({SumStep::Kind::round, static_cast<std::int32_t>(k)});
    return products;
  };
  return ufps_of(plan, terms, {steps}, threads);
}

SingleColumns single_columns(const ProductPlan& plan, std::span<const double> b) {
  SingleColumns columns;
  columns.fits = true;
  const std::vector<float> in_single(b.begin(), b.end());
  pack_missing<float>(plan, in_single, columns.matrices);
  std::vector<double> column(at(plan.k));
  for (const std::int64_t offset : plan.b_batch) {
    std::vector<double>& norms = columns.norms[offset];
    if (!norms.empty()) continue;
    for (std::int64_t j = 0; j < plan.n; ++j) {
      for (std::int64_t k = 0; k < plan.k; ++k) column[at(k)] = b[at(offset + k * plan.b_row + j * plan.b_col)];
      columns.fits = columns.fits && is_single(largest_of(column));
      norms.push_back(norm_up(column));
    }
  }
  return columns;
}

double running_slack(std::int64_t k, double before, double spread, double total) {
  const double in_double = static_cast<double>(k) * 0x1p-52 * total;
  return (before + spread + in_double) * (1.0 + 0x1p-40) + 0x1p-1000;
}

}  // namespace driftbound::bounds::inline theorems

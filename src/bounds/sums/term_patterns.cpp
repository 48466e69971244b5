#include "bounds/sums/term_patterns.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "bounds/kernels/row_kernels.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t fewest_constant = 16, fewest_stagnant = 257;
constexpr double constant_spread = 1.0 + 0x1p-8, stagnant_ratio = 0x1p12;
constexpr double least_double = std::numeric_limits<double>::denorm_min();

bool is_constant(const std::vector<double>& terms) {
  const auto [least, most] = std::minmax_element(terms.begin(), terms.end());
  return terms.size() >= fewest_constant && *most <= constant_spread * *least;
}

/// The upper median of the terms without the largest one is element (n - 1) / 2 in increasing order.
bool is_stagnant(std::vector<double>& terms) {
  if (terms.size() < fewest_stagnant) return false;
  const double most = *std::max_element(terms.begin(), terms.end());
  const auto middle = terms.begin() + static_cast<std::ptrdiff_t>((terms.size() - 1) / 2);
  std::nth_element(terms.begin(), middle, terms.end());
  return most > stagnant_ratio * *middle;
}

/// Number of magnitudes below `limit`, counted in lanes, which a compiler keeps in registers.
std::int64_t count_below(std::span<const double> magnitudes, double limit) {
  constexpr std::size_t lanes = 8;
  double counts[lanes] = {};
  const std::size_t whole = magnitudes.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) counts[lane] += magnitudes[i + lane] < limit ? 1.0 : 0.0;
  for (std::size_t i = whole; i < magnitudes.size(); ++i) counts[0] += magnitudes[i] < limit ? 1.0 : 0.0;
  return static_cast<std::int64_t>(std::accumulate(counts, counts + lanes, 0.0));
}

FactorSizes sizes_of(std::span<const double> magnitudes, const double (&shares)[FactorSizes::splits]) {
  FactorSizes sizes;
  const double largest = fastest_row_kernels().largest(magnitudes.data(), magnitudes.size());
  sizes.largest = std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity();
  const std::int64_t zeros = count_below(magnitudes, least_double);
  sizes.nonzero = static_cast<std::int64_t>(magnitudes.size()) - zeros;
  for (int s = 0; s < FactorSizes::splits; ++s)
    sizes.below[s] = std::max(count_below(magnitudes, shares[s] * sizes.largest) - zeros, std::int64_t{0});
  return sizes;
}

/// Finds the patterns of the sums of a product, row by row.
class Patterns {
public:
  Patterns(const ProductPlan& plan, std::span<const double> a, std::span<const double> b)
      : plan_(plan), a_(a), b_(b), row_(at(plan.k)) {}

  void enter(std::int64_t batch, const std::vector<FactorSizes>& columns) {
    batch_ = batch;
    columns_ = columns;
    find_worst();
  }

  void find(std::int64_t i, std::span<TermPattern> patterns) {
    for (std::int64_t k = 0; k < plan_.k; ++k) row_[at(k)] = std::abs(a_[plan_.a_index(batch_, i, k)]);
    const FactorSizes left = left_sizes(row_);
    if (left.nonzero < static_cast<std::int64_t>(fewest_constant)) return;
    find_first_terms();
    const bool none_can = !worst_.empty() && std::all_of(worst_.begin(), worst_.end(), [&](const FactorSizes& right) {
      return cannot_stagnate(left, right, plan_.k);
    });
    for (std::int64_t j = 0; j < plan_.n; ++j) {
      const bool cannot_be_constant = first_terms_vary(j) || varies(j);
      if (cannot_be_constant && (none_can || cannot_stagnate(left, columns_[at(j)], plan_.k))) continue;
      terms_.clear();
      for (std::int64_t k = 0; k < plan_.k; ++k)
        if (row_[at(k)] != 0.0) terms_.push_back(row_[at(k)] * factor(k, j));
      patterns[at(j)] = pattern_of(terms_);
    }
  }

private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  /// Two worst cases of all columns: the fewest nonzero and the most small factors of any column, combined with the
  /// smallest and with the largest of the columns' largest factors. If neither can stagnate, no column can. Empty if a
  /// column has fewer than fewest_stagnant nonzero factors.
  void find_worst() {
    worst_.clear();
    for (const FactorSizes& column : columns_) {
      if (column.nonzero < static_cast<std::int64_t>(fewest_stagnant)) return worst_.clear();
      if (worst_.empty()) worst_ = {column, column};
      for (FactorSizes& worst : worst_) {
        worst.nonzero = std::min(worst.nonzero, column.nonzero);
        for (int s = 0; s < FactorSizes::splits; ++s) worst.below[s] = std::max(worst.below[s], column.below[s]);
      }
      worst_[0].largest = std::min(worst_[0].largest, column.largest);
      worst_[1].largest = std::max(worst_[1].largest, column.largest);
    }
  }

  double factor(std::int64_t k, std::int64_t j) const { return std::abs(b_[plan_.b_index(batch_, k, j)]); }

  /// Finds the first nonzero factors of the row, which has at least first_terms_.size() of them.
  void find_first_terms() {
    std::int64_t k = 0;
    for (std::int64_t& first : first_terms_) {
      while (row_[at(k)] == 0.0) ++k;
      first = k++;
    }
  }

  /// varies() restricted to the first terms; this suffices for nearly all sums of random numbers.
  bool first_terms_vary(std::int64_t j) const {
    double least = std::numeric_limits<double>::infinity(), most = 0.0;
    for (const std::int64_t k : first_terms_) {
      const double term = row_[at(k)] * factor(k, j);
      least = term < least ? term : least;
      most = term > most ? term : most;
    }
    return least > 0.0 && most > constant_spread * least;
  }

  /// Whether two nonzero terms differ by more than a constant sum allows.
  bool varies(std::int64_t j) const {
    double least = 0.0, most = 0.0;
    for (std::int64_t k = 0; k < plan_.k; ++k) {
      if (row_[at(k)] == 0.0) continue;
      const double term = row_[at(k)] * factor(k, j);
      if (!(term > 0.0)) continue;
      least = least == 0.0 || term < least ? term : least;
      most = term > most ? term : most;
      if (most > constant_spread * least) return true;
    }
    return false;
  }

  const ProductPlan& plan_;
  std::int64_t batch_ = 0;
  std::span<const double> a_, b_;
  std::span<const FactorSizes> columns_;
  std::vector<FactorSizes> worst_;
  std::array<std::int64_t, 3> first_terms_ = {};
  std::vector<double> row_, terms_;
};

}  // namespace

std::string describe(TermPattern pattern) {
  switch (pattern) {
    case TermPattern::none:
      return "";
    case TermPattern::constant:
      return "a sum of 16 terms or more, all of one magnitude within 2^-8, rounds again and again alike";
    case TermPattern::stagnant:
      return "a sum of more than 256 terms has one above 2^12 times the median of the others: small terms are lost "
             "alike";
    case TermPattern::biased:
      return "the same terms in another order err by more than half of it: their rounding errors are not random "
             "(T-133)";
  }
  return "";
}

TermPattern pattern_of(std::vector<double>& magnitudes) {
  std::erase_if(magnitudes, [](double x) { return !(x > 0.0); });
  if (magnitudes.empty()) return TermPattern::none;
  if (is_constant(magnitudes)) return TermPattern::constant;
  return is_stagnant(magnitudes) ? TermPattern::stagnant : TermPattern::none;
}

FactorSizes left_sizes(std::span<const double> magnitudes) {
  return sizes_of(magnitudes, {0x1p-4, 0x1p-6, 0x1p-8});
}

FactorSizes right_sizes(std::span<const double> magnitudes) {
  return sizes_of(magnitudes, {0x1p-8, 0x1p-6, 0x1p-4});
}

bool cannot_stagnate(const FactorSizes& left, const FactorSizes& right, std::int64_t length) {
  constexpr auto too_few = static_cast<std::int64_t>(fewest_stagnant) - 1;
  if (left.nonzero <= too_few || right.nonzero <= too_few) return true;
  const double largest = left.largest * right.largest, smaller = std::min(left.largest, right.largest);
  if (!(smaller >= 0x1p-1000 && largest >= 0x1p-1000 && largest <= 0x1p1000)) return false;
  const std::int64_t fewest_terms = left.nonzero + right.nonzero - length;
  for (int s = 0; s < FactorSizes::splits; ++s)
    if (2 * (left.below[s] + right.below[s]) <= fewest_terms - 1) return true;
  return false;
}

std::vector<FactorSizes> right_columns(const ProductPlan& plan, std::int64_t offset, std::span<const double> b) {
  std::vector<FactorSizes> columns;
  std::vector<double> column(static_cast<std::size_t>(plan.k));
  for (std::int64_t j = 0; j < plan.n; ++j) {
    for (std::int64_t k = 0; k < plan.k; ++k)
      column[static_cast<std::size_t>(k)] =
          std::abs(b[static_cast<std::size_t>(offset + k * plan.b_row + j * plan.b_col)]);
    columns.push_back(right_sizes(column));
  }
  return columns;
}

std::vector<TermPattern> patterns_of(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                                     const RightColumns* columns) {
  const auto m = static_cast<std::size_t>(plan.m), n = static_cast<std::size_t>(plan.n);
  std::vector<TermPattern> patterns(static_cast<std::size_t>(plan.batches) * m * n, TermPattern::none);
  RightColumns found;
  Patterns sums(plan, a, b);
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const auto at = static_cast<std::size_t>(batch);
    const std::int64_t offset = plan.b_batch[at];
    if (columns == nullptr && !found.contains(offset)) found.emplace(offset, right_columns(plan, offset, b));
    sums.enter(batch, (columns != nullptr ? *columns : found).at(offset));
    for (std::size_t i = 0; i < m; ++i)
      sums.find(static_cast<std::int64_t>(i), std::span(patterns).subspan((at * m + i) * n, n));
  }
  return patterns;
}

}  // namespace driftbound::bounds

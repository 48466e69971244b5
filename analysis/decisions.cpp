#include "analysis/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace driftbound::analysis {
namespace {

constexpr std::size_t most_listed = 8;

struct Choice {
  std::size_t winner = 0;
  double gap = std::numeric_limits<double>::infinity();
  bool is_tie = false;
};

Choice choice_of(std::span<const double> row) {
  Choice choice;
  for (std::size_t i = 1; i < row.size(); ++i)
    if (row[i] > row[choice.winner]) choice.winner = i;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != choice.winner) choice.gap = std::min(choice.gap, row[choice.winner] - row[i]);
  choice.is_tie = choice.gap == 0.0;
  return choice;
}

/// Whether the exact number of a class is certainly above those of all others.
bool is_certain(std::span<const Ball> row, std::size_t winner) {
  const double least = row[winner].enclosure().lower();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != winner && !(row[i].enclosure().upper() < least)) return false;
  return true;
}

/// log softmax
std::vector<double> log_probabilities(std::span<const double> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  for (const double x : row) sum += std::exp(x - largest);
  std::vector<double> logs;
  for (const double x : row) logs.push_back(x - largest - std::log(sum));
  return logs;
}

double divergence(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double p = std::exp(a[i]), q = std::exp(b[i]), middle = 0.5 * (p + q);
    if (p > 0.0) sum += 0.5 * p * std::log(p / middle);
    if (q > 0.0) sum += 0.5 * q * std::log(q / middle);
  }
  return std::max(sum, 0.0);
}

}  // namespace

Decisions decisions_of(std::string name, const AlignedNumbers& numbers, const Tensor<Ball>* exact) {
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  const auto classes = static_cast<std::size_t>(numbers.b.shape().back());
  Decisions decisions;
  decisions.name = std::move(name);
  decisions.classes = static_cast<std::int64_t>(classes);
  decisions.rows = static_cast<std::int64_t>(x.size() / classes);
  if (exact != nullptr) decisions.certain = 0;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(y[i] - x[i])) squares += (y[i] - x[i]) * (y[i] - x[i]);
  const double sigma = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
  for (std::size_t row = 0; row < x.size() / classes; ++row) {
    const std::span<const double> of_a(x.data() + row * classes, classes), of_b(y.data() + row * classes, classes);
    const auto is_number = [](double value) { return !std::isnan(value); };
    if (!std::all_of(of_a.begin(), of_a.end(), is_number) || !std::all_of(of_b.begin(), of_b.end(), is_number))
      continue;
    const Choice a = choice_of(of_a), b = choice_of(of_b);
    const RowDecision one{static_cast<std::int64_t>(row), static_cast<std::int64_t>(a.winner),
                          static_cast<std::int64_t>(b.winner), a.gap, b.gap};
    const bool is_flip = a.winner != b.winner;
    decisions.flips += is_flip ? 1 : 0;
    decisions.ties += a.is_tie || b.is_tie ? 1 : 0;
    if (is_flip && decisions.flipped.size() < most_listed) decisions.flipped.push_back(one);
    decisions.nearest.push_back(one);
    if (sigma > 0.0) decisions.estimate_of_flips += 0.5 * std::erfc(a.gap / (2.0 * sigma));
    if (exact != nullptr && !is_flip &&
        is_certain(std::span<const Ball>(exact->values).subspan(row * classes, classes), a.winner))
      ++*decisions.certain;
    const std::vector<double> log_a = log_probabilities(of_a), log_b = log_probabilities(of_b);
    const double apart = divergence(log_a, log_b);
    decisions.mean_divergence += apart / static_cast<double>(decisions.rows);
    decisions.largest_divergence = std::max(decisions.largest_divergence, apart);
    const double ratio = std::abs(log_b[a.winner] - log_a[a.winner]);
    if (std::isfinite(ratio)) decisions.largest_log_ratio = std::max(decisions.largest_log_ratio, ratio);
  }
  const auto nearer = [](const RowDecision& one, const RowDecision& other) { return one.gap_a < other.gap_a; };
  std::stable_sort(decisions.nearest.begin(), decisions.nearest.end(), nearer);
  decisions.nearest.resize(std::min(decisions.nearest.size(), most_listed));
  return decisions;
}

}  // namespace driftbound::analysis

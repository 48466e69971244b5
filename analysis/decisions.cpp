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

/// The classes with the largest numbers, in order; of equal ones the first.
std::vector<NumberOfClass> largest_of(std::span<const double> row, std::size_t count) {
  std::vector<NumberOfClass> all;
  for (std::size_t i = 0; i < row.size(); ++i) all.push_back({static_cast<std::int64_t>(i), row[i]});
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, row.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const NumberOfClass& x, const NumberOfClass& y) {
    return x.number != y.number ? x.number > y.number : x.index < y.index;
  });
  all.erase(end, all.end());
  return all;
}

bool are_same_sets(std::vector<NumberOfClass> a, std::vector<NumberOfClass> b) {
  const auto by_index = [](const NumberOfClass& x, const NumberOfClass& y) { return x.index < y.index; };
  std::sort(a.begin(), a.end(), by_index);
  std::sort(b.begin(), b.end(), by_index);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NumberOfClass& x, const NumberOfClass& y) { return x.index == y.index; });
}

/// Whether the exact number of a class, less a distance, is certainly above those of all others, more theirs. `distance`:
/// by class; infinite: not known.
template <class DistanceOf>
bool is_above(std::span<const Ball> row, std::size_t winner, const DistanceOf& distance) {
  const auto enclosure = [&](std::size_t i) {
    Ball ball = row[i];
    ball.radius = ball.radius + Magnitude(distance(i));
    return ball.enclosure();
  };
  const double least = enclosure(winner).lower();
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != winner && !(enclosure(i).upper() < least)) return false;
  return true;
}

/// The rows of what is known of a run.
class KnownRows {
public:
  KnownRows(const KnownNumbers* known, std::size_t classes, std::size_t elements)
      : known_(known != nullptr && known->exact.size() == elements ? known : nullptr), classes_(classes) {}

  bool are_known() const { return known_ != nullptr; }
  std::span<const Ball> exact(std::size_t row) const {
    return std::span<const Ball>(known_->exact.values).subspan(row * classes_, classes_);
  }
  double any_run(std::size_t row, std::size_t i) const { return known_->any_run.values[row * classes_ + i]; }
  double six_sigmas(std::size_t row, std::size_t i) const { return known_->six_sigmas.values[row * classes_ + i]; }

private:
  const KnownNumbers* known_;
  std::size_t classes_;
};

/// What runs may choose beside the exact winner of a row. `difference`: six standard deviations of the difference of two
/// runs, as seen; where it is 0 nothing was seen.
MayFlip may_flip(const KnownRows& a, const KnownRows& b, std::size_t row, std::size_t winner, double difference) {
  if (!a.are_known() || !b.are_known()) return MayFlip::unknown;
  const std::span<const Ball> exact = a.exact(row);
  const auto holds = [&](const auto& distance) { return is_above(exact, winner, distance); };
  if (holds([&](std::size_t i) { return a.any_run(row, i); }) &&
      holds([&](std::size_t i) { return b.any_run(row, i); }))
    return MayFlip::cannot;
  const auto is_unlikely = [&](const KnownRows& run) {
    return holds([&](std::size_t i) {
      const double six = run.six_sigmas(row, i);
      return std::isfinite(six) || difference == 0.0 ? six : 0.5 * difference;
    });
  };
  return is_unlikely(a) && is_unlikely(b) ? MayFlip::not_by_chance : MayFlip::may;
}

/// |log softmax of one run - that of another| of a class, at most: T-141.
double log_ratio_at_most(const KnownRows& a, const KnownRows& b, std::size_t row, std::size_t classes,
                         std::size_t winner) {
  const auto apart = [&](std::size_t i) { return Magnitude(a.any_run(row, i)) + Magnitude(b.any_run(row, i)); };
  double most = 0.0;
  for (std::size_t i = 0; i < classes; ++i) most = std::max(most, apart(i).value());
  return (apart(winner) + Magnitude(most)).value();
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

void KnownNumbers::add(const Tensor<Ball>& reference, const LayerBounds& bounds) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (exact.shape.empty()) {
    exact.shape = reference.shape;
  } else {
    exact.shape.front() += reference.shape.front();
  }
  exact.values.insert(exact.values.end(), reference.values.begin(), reference.values.end());
  any_run.values.resize(exact.size(), infinite);
  six_sigmas.values.resize(exact.size(), infinite);
  const std::size_t first = exact.size() - reference.size();
  for (const BoundResult& bound : bounds.accumulated) {
    const bool is_of_any_run = bound.kind == BoundKind::adjoint_any_order;
    if (!is_of_any_run && bound.kind != BoundKind::adjoint_statistical) continue;
    if (bound.values.size() != reference.size() || !bound.not_applicable.empty()) continue;
    Tensor<double>& kept = is_of_any_run ? any_run : six_sigmas;
    std::copy(bound.values.values.begin(), bound.values.values.end(),
              kept.values.begin() + static_cast<std::ptrdiff_t>(first));
  }
  any_run.shape = six_sigmas.shape = exact.shape;
}

std::string_view name_of(MayFlip may) {
  switch (may) {
    case MayFlip::cannot:
      return "cannot flip";
    case MayFlip::not_by_chance:
      return "will not flip by chance";
    case MayFlip::may:
      return "may flip";
    case MayFlip::unknown:
      return "unknown";
  }
  return "";
}

Decisions decisions_of(std::string name, const AlignedNumbers& numbers, const KnownNumbers* known_a,
                       const KnownNumbers* known_b, std::int64_t top) {
  constexpr std::size_t most_numbers = 8;
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  const auto classes = static_cast<std::size_t>(numbers.b.shape().back());
  const KnownRows of_run_a(known_a, classes, x.size()), of_run_b(known_b, classes, x.size());
  Decisions decisions;
  decisions.name = std::move(name);
  decisions.classes = static_cast<std::int64_t>(classes);
  decisions.rows = static_cast<std::int64_t>(x.size() / classes);
  decisions.top = top < decisions.classes ? top : 0;
  if (of_run_a.are_known()) decisions.certain = 0;
  if (of_run_a.are_known() && of_run_b.are_known()) decisions.log_ratio_at_most = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(y[i] - x[i])) squares += (y[i] - x[i]) * (y[i] - x[i]);
  const double sigma = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
  const double six_differences = 6.0 * std::sqrt(2.0) * sigma;
  for (std::size_t row = 0; row < x.size() / classes; ++row) {
    const std::span<const double> of_a(x.data() + row * classes, classes), of_b(y.data() + row * classes, classes);
    const auto is_number = [](double value) { return !std::isnan(value); };
    if (!std::all_of(of_a.begin(), of_a.end(), is_number) || !std::all_of(of_b.begin(), of_b.end(), is_number)) {
      decisions.log_ratio_at_most.reset();
      continue;
    }
    const Choice a = choice_of(of_a), b = choice_of(of_b);
    RowDecision one;
    one.row = static_cast<std::int64_t>(row);
    one.winner_a = static_cast<std::int64_t>(a.winner);
    one.winner_b = static_cast<std::int64_t>(b.winner);
    one.gap_a = a.gap;
    one.gap_b = b.gap;
    one.may_flip = may_flip(of_run_a, of_run_b, row, a.winner, six_differences);
    ++decisions.by_flip[one.may_flip];
    const bool is_flip = a.winner != b.winner;
    decisions.flips += is_flip ? 1 : 0;
    decisions.ties += a.is_tie || b.is_tie ? 1 : 0;
    if (decisions.top > 0) {
      const auto count = static_cast<std::size_t>(decisions.top);
      decisions.other_sets += are_same_sets(largest_of(of_a, count), largest_of(of_b, count)) ? 0 : 1;
    }
    if (is_flip && decisions.flipped.size() < most_listed) decisions.flipped.push_back(one);
    decisions.nearest.push_back(one);
    if (sigma > 0.0) decisions.estimate_of_flips += 0.5 * std::erfc(a.gap / (2.0 * sigma));
    if (decisions.certain && !is_flip && is_above(of_run_a.exact(row), a.winner, [](std::size_t) { return 0.0; }))
      ++*decisions.certain;
    if (decisions.log_ratio_at_most)
      decisions.log_ratio_at_most =
          std::max(*decisions.log_ratio_at_most, log_ratio_at_most(of_run_a, of_run_b, row, classes, a.winner));
    const std::vector<double> log_a = log_probabilities(of_a), log_b = log_probabilities(of_b);
    const double apart = divergence(log_a, log_b);
    decisions.mean_divergence += apart / static_cast<double>(decisions.rows);
    decisions.largest_divergence = std::max(decisions.largest_divergence, apart);
    const double ratio = std::abs(log_b[a.winner] - log_a[a.winner]);
    if (std::isfinite(ratio)) decisions.largest_log_ratio = std::max(decisions.largest_log_ratio, ratio);
  }
  if (decisions.log_ratio_at_most && !std::isfinite(*decisions.log_ratio_at_most)) decisions.log_ratio_at_most.reset();
  const auto nearer = [](const RowDecision& one, const RowDecision& other) { return one.gap_a < other.gap_a; };
  std::stable_sort(decisions.nearest.begin(), decisions.nearest.end(), nearer);
  decisions.nearest.resize(std::min(decisions.nearest.size(), most_listed));
  for (std::vector<RowDecision>* listed : {&decisions.flipped, &decisions.nearest})
    for (RowDecision& one : *listed) {
      const std::size_t first = static_cast<std::size_t>(one.row) * classes;
      one.largest_a = largest_of({x.data() + first, classes}, most_numbers);
      one.largest_b = largest_of({y.data() + first, classes}, most_numbers);
    }
  return decisions;
}

}  // namespace driftbound::analysis

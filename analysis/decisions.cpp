#include "analysis/decisions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "analysis/flip_estimate.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::size_t most_listed = 8;

/// Bounds for every run of an arithmetic (T-71, T-76), whatever its order of summation.
bool bounds_any_run(BoundKind kind) {
  return kind == BoundKind::adjoint_any_order || kind == BoundKind::rounded_shadow;
}

struct Choice {
  std::size_t winner = 0, runner_up = 0;
  double gap = std::numeric_limits<double>::infinity();
  bool is_tie = false;
};

Choice choice_of(std::span<const double> row) {
  Choice choice;
  for (std::size_t i = 1; i < row.size(); ++i)
    if (row[i] > row[choice.winner]) choice.winner = i;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != choice.winner && !(row[choice.winner] - row[i] >= choice.gap)) {
      choice.gap = row[choice.winner] - row[i];
      choice.runner_up = i;
    }
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

Interval widened(Ball ball, double distance) {
  ball.radius = ball.radius + Magnitude(distance);
  return ball.enclosure();
}

/// Whether the exact number of a class, less a distance, is certainly above that of another one, more its own.
bool is_above(const Ball& winner, double distance, const Ball& other, double other_distance) {
  return widened(other, other_distance).upper() < widened(winner, distance).lower();
}

/// The same for all other classes. `distance`: by class; infinite: not known.
template <class DistanceOf>
bool is_above(std::span<const Ball> row, std::size_t winner, const DistanceOf& distance) {
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != winner && !is_above(row[winner], distance(winner), row[i], distance(i))) return false;
  return true;
}

/// The rows of what is known of a run, by row of the numbers that are compared.
class KnownRows {
public:
  /// `rows`: number of each row among the known ones; empty: as they are.
  KnownRows(const KnownNumbers* known, std::size_t classes, std::size_t elements, std::vector<std::int64_t> rows = {})
      : known_(known), classes_(classes), rows_(std::move(rows)) {
    if (known_ == nullptr) return;
    const auto last = std::max_element(rows_.begin(), rows_.end());
    const bool fits = rows_.empty() ? known_->exact.size() == elements
                                    : (static_cast<std::size_t>(*last) + 1) * classes_ <= known_->exact.size();
    if (!fits) known_ = nullptr;
  }

  bool are_known() const { return known_ != nullptr; }
  std::size_t first(std::size_t row) const {
    return (rows_.empty() ? row : static_cast<std::size_t>(rows_[row])) * classes_;
  }
  std::span<const Ball> exact(std::size_t row) const {
    return std::span<const Ball>(known_->exact.values).subspan(first(row), classes_);
  }
  double any_run(std::size_t row, std::size_t i) const { return known_->any_run.values[first(row) + i]; }
  double six_sigmas(std::size_t row, std::size_t i) const { return known_->six_sigmas.values[first(row) + i]; }

  /// What the number of a class less that of another one is off by in any run, at most. `gap`: the exact one.
  double gap_off_by(std::size_t row, std::size_t winner, std::size_t other, const Ball& gap) const {
    const double of_both = (Magnitude(any_run(row, winner)) + Magnitude(any_run(row, other))).value();
    const auto found = known_->gaps.find(first(row) + other);
    const bool is_found = found != known_->gaps.end() && found->second.winner == first(row) + winner &&
                          std::isfinite(found->second.least);
    if (!is_found) return of_both;
    const Magnitude below = (gap - exact_ball(found->second.least)).enclosure().magnitude();
    return std::min(of_both, below.value());
  }

  bool are_followed() const { return known_ != nullptr && known_->are_followed; }

  /// Whether every run chooses this class: T-141.
  bool is_certain(std::size_t row, std::size_t winner) const {
    const std::span<const Ball> z = exact(row);
    const auto is_ahead_of = [&](std::size_t i) {
      if (is_above(z[winner], any_run(row, winner), z[i], any_run(row, i))) return true;
      const auto gap = known_->gaps.find(first(row) + i);
      return gap != known_->gaps.end() && gap->second.winner == first(row) + winner && gap->second.least > 0.0;
    };
    for (std::size_t i = 0; i < z.size(); ++i)
      if (i != winner && !is_ahead_of(i)) return false;
    return true;
  }

private:
  const KnownNumbers* known_;
  std::size_t classes_;
  std::vector<std::int64_t> rows_;
};

/// What runs may choose beside the winner of a row in the first run. `difference`: six standard deviations of the
/// difference of two runs, as seen; where it is 0 nothing was seen.
MayFlip may_flip(const KnownRows& a, const KnownRows& b, std::size_t row, const Choice& of_a, const Choice& of_b,
                 double difference) {
  const bool is_seen = difference > 0.0;
  if (!a.are_known() || !b.are_known()) {
    if (of_a.winner != of_b.winner) return MayFlip::may;
    if (!is_seen) return MayFlip::unknown;
    return std::min(of_a.gap, of_b.gap) > difference ? MayFlip::not_by_chance : MayFlip::may;
  }
  if (a.is_certain(row, of_a.winner) && b.is_certain(row, of_a.winner)) return MayFlip::cannot;
  bool has_estimate = true;
  const auto is_unlikely = [&](const KnownRows& run) {
    return is_above(a.exact(row), of_a.winner, [&](std::size_t i) {
      const double six = run.six_sigmas(row, i);
      has_estimate = has_estimate && (std::isfinite(six) || is_seen);
      return std::isfinite(six) || !is_seen ? six : 0.5 * difference;
    });
  };
  if (is_unlikely(a) && is_unlikely(b)) return MayFlip::not_by_chance;
  return has_estimate || of_a.winner != of_b.winner ? MayFlip::may : MayFlip::unknown;
}

std::optional<double> if_finite(double x) {
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

/// Adds what is known of the gap and of the log-probability of one run. `numbers`: of the run.
void add_errors(const KnownRows& known, std::size_t row, std::size_t winner, std::span<const double> numbers,
                std::size_t run, RowDecision& one) {
  if (!known.are_known()) return;
  const auto other = static_cast<std::size_t>(one.runner_up), chosen = static_cast<std::size_t>(one.chosen);
  const std::span<const Ball> exact = known.exact(row);
  const auto is_finite = [](double x) { return std::isfinite(x); };
  if (!std::all_of(numbers.begin(), numbers.end(), is_finite)) return;
  const Ball gap = exact[winner] - exact[other];
  const Ball computed = exact_ball(numbers[winner]) - exact_ball(numbers[other]);
  one.errors[run] = if_finite(Magnitude((computed - gap).enclosure().magnitude()).value());
  one.any_run[run] = if_finite(known.gap_off_by(row, winner, other, gap));
  one.six_sigmas[run] = if_finite(known.six_sigmas(row, winner) + known.six_sigmas(row, other));
  const auto off_by = [&](std::size_t i) {
    return Magnitude((exact_ball(numbers[i]) - exact[i]).enclosure().magnitude());
  };
  double most = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) most = std::max(most, off_by(i).value());
  one.log_errors[run] = if_finite((off_by(chosen) + Magnitude(most)).value());
}

/// |log softmax of one run - that of another| of a class, at most: T-141. Exact numbers of both runs may differ where rows
/// answer to others.
double log_ratio_at_most(const KnownRows& a, const KnownRows& b, std::size_t row, std::size_t classes,
                         std::size_t chosen) {
  const auto apart = [&](std::size_t i) {
    const Magnitude of_exact = (a.exact(row)[i] - b.exact(row)[i]).enclosure().magnitude();
    return Magnitude(a.any_run(row, i)) + Magnitude(b.any_run(row, i)) + of_exact;
  };
  double most = 0.0;
  for (std::size_t i = 0; i < classes; ++i) most = std::max(most, apart(i).value());
  return (apart(chosen) + Magnitude(most)).value();
}

/// Of rows in order: those with the smallest gaps, of equal ones the first.
void keep_nearest(std::vector<RowDecision>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RowDecision& one, const RowDecision& other) { return one.gap_a < other.gap_a; });
  rows.resize(std::min(rows.size(), most_listed));
}

/// Throws:    InvalidArgument
std::int64_t chosen_in(std::span<const std::int64_t> chosen, std::int64_t row, const Decisions& decisions) {
  const auto at = static_cast<std::size_t>(row);
  if (at >= chosen.size())
    throw InvalidArgument(
        fmt::format("the classes chosen (--chosen) are {}, and '{}' has a row {}, counted from 0; give "
                    "one for every row of the first run's value",
                    chosen.size(), decisions.name, row));
  if (chosen[at] < -1 || chosen[at] >= decisions.classes)
    throw InvalidArgument(fmt::format("row {} chooses class {} (--chosen), and '{}' has classes 0 to {}", row,
                                      chosen[at], decisions.name, decisions.classes - 1));
  return chosen[at];
}

std::string why_no_bounds(const Decisions& decisions, const KnownRows& a, const KnownRows& b) {
  if (decisions.without_bounds == 0) return "";
  if (!a.are_known() || !b.are_known()) return "the exact numbers are not known";
  if (!a.are_followed() || !b.are_followed())
    return "bounds of every number are computed of up to 4096 numbers a sample, where that takes about a second and "
           "256 MB, with --flips 4 GB (runs recorded op by op are one sample: record fewer rows, or give the model and "
           "traces)";
  return "the bounds of any run are infinite";
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

StoredTensor stretch_of(const StoredTensor& tensor, std::size_t first, std::size_t count) {
  const std::size_t width = bytes_per_element(tensor.type());
  return StoredTensor(tensor.type(), {static_cast<std::int64_t>(count)},
                      tensor.bytes().subspan(first * width, count * width),
                      std::make_shared<const StoredTensor>(tensor));
}

void KnownNumbers::add(const Graph& graph, const Trace& trace, std::size_t output, const Reference& reference,
                       const Bounds& bounds, std::int64_t first, std::int64_t count, int threads) {
  const std::size_t node = graph.producer(graph.outputs[output]).value();
  add_numbers(reference.layers[node], bounds.layers[node]);
  const BatchLayout layout = batch_layout(graph);
  const StoredTensor& all = trace.layers[node].output;
  const std::size_t size = reference.layers[node].size() / static_cast<std::size_t>(count);  // of a sample
  if (all.size() < size * static_cast<std::size_t>(first + count)) return;  // one for all samples: no choice of theirs
  add_gaps(
      graph, output,
      stretch_of(all, size * static_cast<std::size_t>(first), reference.layers[node].size()).to_double().values,
      static_cast<std::size_t>(count), reference.layers, [&] { return slice(graph, layout, trace, first, count); },
      threads);
}

void KnownNumbers::add_numbers(const Tensor<Ball>& reference, const LayerBounds& bounds) {
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
    if (!bounds_any_run(bound.kind) && bound.kind != BoundKind::adjoint_statistical) continue;
    if (bound.values.size() != reference.size() || !bound.not_applicable.empty()) continue;
    has_rounded_shadow = has_rounded_shadow || bound.kind == BoundKind::rounded_shadow;
    are_followed = are_followed || (bounds_any_run(bound.kind) && bound.elements.empty());
    Tensor<double>& kept = bounds_any_run(bound.kind) ? any_run : six_sigmas;
    for (std::size_t i = 0; i < reference.size(); ++i)
      if (bound.values.values[i] < kept.values[first + i]) kept.values[first + i] = bound.values.values[i];
  }
  any_run.shape = six_sigmas.shape = exact.shape;
}

namespace {

/// A pair of elements of a sample, and the element of all samples that the bound is for, by sample.
using Pairs = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::pair<std::size_t, std::size_t>>>;

/// The least that any run's target is, by the bounds of its error and the enclosure of every run's.
double least_gap(const TargetBounds& target, std::size_t sample, const Ball& exact) {
  double least = -std::numeric_limits<double>::infinity();
  for (const BoundResult& bound : target.bounds)
    if (bounds_any_run(bound.kind) && bound.not_applicable.empty())
      least = std::max(least, widened(exact, bound.values.values.at(sample)).lower());
  if (target.enclosures) least = std::max(least, target.enclosures->runs.at(sample).lower());
  return least;
}

/// The most frequent pairs.
std::vector<Pairs::const_iterator> most_frequent(const Pairs& pairs, std::size_t most) {
  std::vector<Pairs::const_iterator> all;
  for (auto pair = pairs.begin(); pair != pairs.end(); ++pair) all.push_back(pair);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& x, const auto& y) { return x->second.size() > y->second.size(); });
  all.resize(std::min(all.size(), most));
  return all;
}

}  // namespace

void KnownNumbers::add_gaps(const Graph& graph, std::size_t output, const std::vector<double>& computed,
                            std::size_t of_these, const std::vector<Tensor<Ball>>& exact_layers,
                            const std::function<Trace()>& samples, int threads) {
  // Of the bounds of both numbers: the least gap that is worth a bound of its own, which is hardly smaller; that of the
  // rounded shadow often is.
  const double worth_trying = has_rounded_shadow ? 0.02 : 0.4;
  const auto classes = static_cast<std::size_t>(exact.shape.empty() ? 1 : exact.shape.back());
  const std::size_t first = exact.size() - computed.size(), size = computed.size() / of_these;
  if (classes < 2 || size % classes != 0) return;
  const KnownRows rows(this, classes, exact.size());
  Pairs pairs;
  for (std::size_t row = first / classes; row < exact.size() / classes; ++row) {
    const std::span<const Ball> z = rows.exact(row);
    const std::size_t at = row * classes - first, sample = at / size;
    const std::span<const double> run(computed.data() + at, classes);
    const std::size_t winner = choice_of(run).winner;
    std::vector<std::size_t> open;
    bool is_hopeless = false;
    for (std::size_t i = 0; i < classes; ++i) {
      const double off_by_winner = rows.any_run(row, winner), off_by = rows.any_run(row, i);
      if (i == winner || is_above(z[winner], off_by_winner, z[i], off_by)) continue;
      open.push_back(i);
      is_hopeless = is_hopeless || !(run[winner] - run[i] > worth_trying * (off_by_winner + off_by));
    }
    if (is_hopeless) continue;
    const auto in_sample = [&](std::size_t i) { return static_cast<std::int64_t>(at % size + i); };
    for (const std::size_t i : open) {
      pairs[{in_sample(winner), in_sample(i)}].emplace_back(sample, row * classes + i);
      gaps[row * classes + i] = {row * classes + winner, -std::numeric_limits<double>::infinity()};
    }
  }
  if (pairs.empty()) return;
  BoundOptions how;
  how.threads = threads;
  how.requests = {BoundKind::adjoint_any_order};
  if (has_rounded_shadow) how.requests.emplace_back(BoundKind::rounded_shadow);
  how.most_output_elements = 0;
  how.tests_readings = false;
  const std::vector<Pairs::const_iterator> chosen = most_frequent(pairs, size);
  for (const Pairs::const_iterator pair : chosen)
    how.targets.push_back({{output, pair->first.first}, OutputElement{output, pair->first.second}});
  const Bounds bounds = Bounder(graph, std::move(how))(samples(), {nullptr, &exact_layers});
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (const auto& [sample, element] : chosen[i]->second) {
      Gap& gap = gaps.at(element);
      gap.least = least_gap(bounds.targets[i], sample, exact.values[gap.winner] - exact.values[element]);
    }
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
                       const KnownNumbers* known_b, const AskedDecisions& asked) {
  constexpr std::size_t most_numbers = 8, most_rows = 16384, most_kept = 4096;
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  const auto classes = static_cast<std::size_t>(numbers.b.shape().back());
  const KnownRows of_run_a(known_a, classes, x.size(), numbers.rows_of_a);
  const KnownRows of_run_b(known_b, classes, x.size(), numbers.rows_of_b);
  const bool are_both_known = of_run_a.are_known() && of_run_b.are_known();
  Decisions decisions;
  decisions.name = std::move(name);
  decisions.classes = static_cast<std::int64_t>(classes);
  decisions.rows = static_cast<std::int64_t>(x.size() / classes);
  decisions.top = asked.top < decisions.classes ? asked.top : 0;
  decisions.has_chosen = !asked.chosen.empty();
  if (of_run_a.are_known()) decisions.certain = 0;
  if (are_both_known) decisions.log_ratio_at_most = 0.0;
  decisions.estimate_of_flips = estimate_flips(x, y, classes);
  double squares = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(y[i] - x[i])) squares += (y[i] - x[i]) * (y[i] - x[i]);
  const double sigma = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
  const double six_differences = 6.0 * std::sqrt(2.0) * sigma;
  const auto row_in_a = [&](std::size_t row) {
    return numbers.rows_of_a.empty() ? static_cast<std::int64_t>(row) : numbers.rows_of_a[row];
  };
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
    one.runner_up = static_cast<std::int64_t>(a.runner_up);
    one.gap_a = a.gap;
    one.gap_b = b.gap;
    one.chosen = asked.chosen.empty() ? one.winner_a : chosen_in(asked.chosen, row_in_a(row), decisions);
    if (one.chosen < 0) one.chosen = one.winner_a;
    one.may_flip = may_flip(of_run_a, of_run_b, row, a, b, six_differences);
    ++decisions.by_flip[one.may_flip];
    const bool has_bounds = are_both_known && std::isfinite(of_run_a.any_run(row, a.winner)) &&
                            std::isfinite(of_run_b.any_run(row, a.winner));
    decisions.without_bounds += has_bounds ? 0 : 1;
    const bool is_flip = a.winner != b.winner;
    decisions.flips += is_flip ? 1 : 0;
    decisions.ties += a.is_tie || b.is_tie ? 1 : 0;
    if (decisions.top > 0) {
      const auto count = static_cast<std::size_t>(decisions.top);
      decisions.other_sets += are_same_sets(largest_of(of_a, count), largest_of(of_b, count)) ? 0 : 1;
    }
    if (decisions.certain && !is_flip && is_above(of_run_a.exact(row), a.winner, [](std::size_t) { return 0.0; }))
      ++*decisions.certain;
    const auto class_chosen = static_cast<std::size_t>(one.chosen);
    if (are_both_known)
      one.log_ratio_at_most = if_finite(log_ratio_at_most(of_run_a, of_run_b, row, classes, class_chosen));
    if (!one.log_ratio_at_most) decisions.log_ratio_at_most.reset();
    if (decisions.log_ratio_at_most)
      decisions.log_ratio_at_most = std::max(*decisions.log_ratio_at_most, *one.log_ratio_at_most);
    const std::vector<double> log_a = log_probabilities(of_a), log_b = log_probabilities(of_b);
    one.log_probability = {log_a[class_chosen], log_b[class_chosen]};
    add_errors(of_run_a, row, a.winner, of_a, 0, one);
    add_errors(of_run_b, row, a.winner, of_b, 1, one);
    const double apart = divergence(log_a, log_b);
    decisions.mean_divergence += apart / static_cast<double>(decisions.rows);
    decisions.largest_divergence = std::max(decisions.largest_divergence, apart);
    const double ratio = std::abs(one.log_probability[1] - one.log_probability[0]);
    if (std::isfinite(ratio)) decisions.largest_log_ratio = std::max(decisions.largest_log_ratio, ratio);
    if (is_flip && decisions.flipped.size() < most_listed) decisions.flipped.push_back(one);
    if (asked.row && row_in_a(row) == *asked.row) decisions.at = one;
    decisions.nearest.push_back(one);
    if (decisions.nearest.size() > most_kept) keep_nearest(decisions.nearest);
    if (decisions.by_row.size() >= most_rows) continue;
    one.row = row_in_a(row);
    decisions.by_row.push_back(std::move(one));
  }
  decisions.why_no_bounds = why_no_bounds(decisions, of_run_a, of_run_b);
  keep_nearest(decisions.nearest);
  const auto complete = [&](RowDecision& one) {
    const std::size_t first = static_cast<std::size_t>(one.row) * classes;
    one.largest_a = largest_of({x.data() + first, classes}, most_numbers);
    one.largest_b = largest_of({y.data() + first, classes}, most_numbers);
    one.row = row_in_a(static_cast<std::size_t>(one.row));
  };
  std::for_each(decisions.flipped.begin(), decisions.flipped.end(), complete);
  std::for_each(decisions.nearest.begin(), decisions.nearest.end(), complete);
  if (decisions.at) complete(*decisions.at);
  return decisions;
}

}  // namespace driftbound::analysis

#include "analysis/flip_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace driftbound::analysis {
namespace {

/// The law of the difference of one number in two runs.
class DifferenceLaw {
public:
  /// Of differences with both signs.
  explicit DifferenceLaw(const std::map<double, std::size_t>& sizes) {
    std::size_t count = 0;
    for (const auto& [size, times] : sizes) count += times;
    const auto add = [&](double value, std::size_t times) {
      points_.emplace_back(value, static_cast<double>(times) / (2.0 * static_cast<double>(count)));
    };
    for (auto one = sizes.rbegin(); one != sizes.rend(); ++one)
      if (one->first != 0.0) add(-one->first, one->second);
    for (const auto& [size, times] : sizes) add(size, size == 0.0 ? 2 * times : times);
    reach_ = points_.back().first;
  }

  static DifferenceLaw normal(double sigma) {
    constexpr double deviations = 8.0, step = 0.1;  // the sum over equal steps is exact to 1e-15
    DifferenceLaw law;
    law.sigma_ = sigma;
    law.reach_ = deviations * sigma;
    double all = 0.0;
    for (double z = -deviations; z < deviations + 0.5 * step; z += step) {
      law.points_.emplace_back(z * sigma, std::exp(-0.5 * z * z));
      all += law.points_.back().second;
    }
    for (auto& [value, weight] : law.points_) weight /= all;
    return law;
  }

  /// Probability of a difference above t; where `or_equal`, or t itself.
  double above(double t, bool or_equal) const {
    if (sigma_ > 0.0) return 0.5 * std::erfc(t / (sigma_ * std::sqrt(2.0)));
    double sum = 0.0;
    for (auto point = points_.rbegin(); point != points_.rend(); ++point) {
      if (!(point->first > t || (or_equal && point->first == t))) break;
      sum += point->second;
    }
    return std::min(sum, 1.0);
  }
  const std::vector<std::pair<double, double>>& points() const { return points_; }  ///< values and their weights
  double reach() const { return reach_; }                                           ///< the largest value

private:
  DifferenceLaw() = default;
  double sigma_ = 0.0, reach_ = 0.0;
  std::vector<std::pair<double, double>> points_;
};

constexpr int zero = -5000;  ///< in place of the exponent of 0

int binade_of(double x) {
  return x == 0.0 ? zero : std::ilogb(x);
}

/// Sizes of differences and how often each is seen; more than a few are not kept.
struct Sizes {
  static constexpr std::size_t most = 64, times_each = 8;
  std::map<double, std::size_t> counts;
  std::size_t all = 0;
  bool are_many = false;

  void add(double size) {
    ++all;
    if (!are_many) ++counts[size];
    are_many = are_many || counts.size() > most;
  }
  bool are_few() const { return !are_many && all >= times_each * counts.size(); }
};

class Laws {
public:
  Laws(std::span<const double> first, std::span<const double> second) {
    constexpr std::size_t enough = 256;
    std::map<int, Sizes> sizes;
    Sizes of_all;
    double squares = 0.0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double difference = second[i] - first[i];
      if (!std::isfinite(difference)) continue;
      squares += difference * difference;
      sizes[binade_of(first[i])].add(std::abs(difference));
      of_all.add(std::abs(difference));
    }
    const DifferenceLaw normal =
        DifferenceLaw::normal(std::sqrt(squares / static_cast<double>(std::max<std::size_t>(first.size(), 1))));
    laws_.push_back(of_all.are_few() && of_all.all > 0 ? DifferenceLaw(of_all.counts) : normal);
    for (const auto& [binade, one] : sizes) {
      if (one.all < enough) continue;
      by_binade_[binade] = laws_.size();
      laws_.push_back(one.are_few() ? DifferenceLaw(one.counts) : normal);
    }
    for (const DifferenceLaw& law : laws_) reach_ = std::max(reach_, law.reach());
  }

  const DifferenceLaw& at(double number) const {
    const auto found = by_binade_.find(binade_of(number));
    return laws_[found == by_binade_.end() ? 0 : found->second];
  }
  double reach() const { return reach_; }

private:
  std::vector<DifferenceLaw> laws_;  ///< the first one is that of all numbers
  std::map<int, std::size_t> by_binade_;
  double reach_ = 0.0;
};

/// Probability of another choice in a row.
double flip_of(std::span<const double> row, const Laws& laws) {
  std::size_t winner = 0;
  for (std::size_t i = 1; i < row.size(); ++i)
    if (row[i] > row[winner]) winner = i;
  if (!std::isfinite(row[winner])) return 0.0;
  std::vector<std::size_t> near;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (i != winner && row[winner] - row[i] <= 2.0 * laws.reach()) near.push_back(i);
  if (near.empty()) return 0.0;
  double flips = 0.0;
  for (const auto& [value, weight] : laws.at(row[winner]).points()) {
    double stays = 0.0;  // logarithm of the probability
    for (const std::size_t i : near) {
      const double lead = (row[winner] - row[i]) + value;
      stays += std::log1p(-laws.at(row[i]).above(lead, i < winner));
    }
    flips += weight * -std::expm1(stays);
  }
  return flips;
}

}  // namespace

double estimate_flips(std::span<const double> first, std::span<const double> second, std::size_t classes) {
  const bool is_same = std::equal(first.begin(), first.end(), second.begin());
  if (is_same) return 0.0;
  const Laws laws(first, second);
  if (!(laws.reach() > 0.0)) return 0.0;
  double flips = 0.0;
  for (std::size_t at = 0; at + classes <= first.size(); at += classes) {
    const std::span<const double> row = first.subspan(at, classes), other = second.subspan(at, classes);
    const auto is_nan = [](double x) { return std::isnan(x); };
    if (std::none_of(row.begin(), row.end(), is_nan) && std::none_of(other.begin(), other.end(), is_nan))
      flips += flip_of(row, laws);
  }
  return flips;
}

}  // namespace driftbound::analysis

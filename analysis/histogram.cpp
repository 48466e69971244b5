#include "analysis/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace driftbound::analysis {
namespace {

constexpr int bits_of_bin = 6;

/// The exponent and the leading bits of a double, as one number: bins of larger numbers have larger ones.
std::int64_t number_of_bin(double x) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(x) >> (52 - bits_of_bin));
}

}  // namespace

void LogHistogram::add(double x) {
  if (x <= 0.0) {
    ++zeros_;
  } else if (x < std::numeric_limits<double>::infinity()) {
    add(number_of_bin(x), 1, x);
  } else {
    ++infinite_;
  }
}

void LogHistogram::add(const LogHistogram& other) {
  zeros_ += other.zeros_;
  infinite_ += other.infinite_;
  for (std::size_t i = 0; i < other.bins_.size(); ++i)
    if (other.bins_[i].count > 0)
      add(other.first_ + static_cast<std::int64_t>(i), other.bins_[i].count, other.bins_[i].least);
}

void LogHistogram::add(std::int64_t number, std::int64_t count, double least) {
  Bin& one = bin(number);
  one.least = one.count == 0 ? least : std::min(one.least, least);
  one.count += count;
  finite_ += count;
}

LogHistogram::Bin& LogHistogram::bin(std::int64_t number) {
  if (bins_.empty()) first_ = number;
  if (number < first_) {
    bins_.insert(bins_.begin(), static_cast<std::size_t>(first_ - number), Bin());
    first_ = number;
  }
  const auto at = static_cast<std::size_t>(number - first_);
  if (at >= bins_.size()) bins_.resize(at + 1);
  return bins_[at];
}

std::optional<double> LogHistogram::quantile(double p) const {
  if (count() == 0) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(std::ceil(p * static_cast<double>(count() - 1)));
  std::int64_t before = zeros_;
  if (before > rank) return 0.0;
  for (const Bin& one : bins_) {
    before += one.count;
    if (before > rank) return one.least;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace driftbound::analysis

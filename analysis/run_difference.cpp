#include "analysis/run_difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/decisions.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

/// The squared standard error of a mean of `count` numbers, from their sum and that of their squares.
double squared_error_of_mean(double sum, double squares, double count) {
  return std::max(squares / count - (sum / count) * (sum / count), 0.0) / (count - 1.0);
}

/// Sums over the elements of two values, and over the means of their rows and columns.
class DifferenceSums {
public:
  DifferenceSums(std::size_t width, const Format* format, bool are_scores)
      : width_(width), format_(format), are_scores_(are_scores), of_columns_(width, 0.0) {}

  void add(double x, double y, bool is_same) {
    const auto element = difference_.elements++;
    if (!is_same && are_scores_ && x <= least_mask && y <= least_mask) {
      ++difference_.masked;
      y = x;
      is_same = true;
    }
    if (!is_same) ++difference_.differing;
    row_is_identical_ = row_is_identical_ && is_same;
    if (std::isfinite(x) != std::isfinite(y))
      ++(std::isfinite(x) ? difference_.not_finite_b : difference_.not_finite_a);
    if (std::isnan(x) && std::isnan(y)) ++difference_.nan_in_both;
    if (std::isfinite(x) && std::isfinite(y)) add_finite(x, y, element);
    if (++in_row_ == width_) end_row();
  }

  RunDifference finish() && {
    if (in_row_ > 0) end_row();
    if (finite_ > 0.0) {
      difference_.rms = std::sqrt(squares_ / finite_);
      difference_.scale =
          difference_.differing == 0 ? 0.0 : std::sqrt(size_ / static_cast<double>(difference_.differing));
      difference_.mean = sum_ / finite_;
    }
    constexpr std::size_t enough = 32;
    const auto rows = static_cast<double>(difference_.rows), columns = static_cast<double>(width_);
    if (difference_.rows > 0) difference_.factor = factors_ / rows;
    if (difference_.rows >= fewest_rows_of_factor)
      difference_.factor_error = std::sqrt(squared_error_of_mean(factors_, factors_squares_, rows));
    if (difference_.rows < static_cast<std::int64_t>(enough) || width_ < enough) return difference_;
    double of_columns = 0.0, squares_of_columns = 0.0;
    for (const double sum : of_columns_) {
      of_columns += sum / rows;
      squares_of_columns += sum / rows * (sum / rows);
    }
    difference_.mean_error = std::sqrt(squared_error_of_mean(rows_, rows_squares_, rows) +
                                       squared_error_of_mean(of_columns, squares_of_columns, columns));
    return difference_;
  }

private:
  void add_finite(double x, double y, std::int64_t element) {
    const double d = y - x;
    finite_ += 1.0;
    sum_ += d;
    of_row_ += d;
    products_of_row_ += x * d;
    squares_of_row_ += x * x;
    of_columns_[in_row_] += d;
    squares_ += d * d;
    if (d == 0.0) return;
    size_ += x * x;
    if (format_ != nullptr)
      difference_.ulps = std::max(difference_.ulps, std::abs(d) / ulp(std::max(std::abs(x), std::abs(y)), *format_));
    if (!(std::abs(d) > difference_.largest)) return;
    difference_.largest = std::abs(d);
    difference_.worst = element;
    difference_.worst_a = x;
    difference_.worst_b = y;
  }

  void end_row() {
    ++difference_.rows;
    difference_.identical_rows += row_is_identical_ ? 1 : 0;
    const double mean = of_row_ / static_cast<double>(in_row_);
    const double factor = squares_of_row_ > 0.0 ? products_of_row_ / squares_of_row_ : 0.0;
    factors_ += factor;
    factors_squares_ += factor * factor;
    products_of_row_ = squares_of_row_ = 0.0;
    rows_ += mean;
    rows_squares_ += mean * mean;
    of_row_ = 0.0;
    in_row_ = 0;
    row_is_identical_ = true;
  }

  std::size_t width_, in_row_ = 0;
  const Format* format_;
  bool are_scores_;
  RunDifference difference_;
  bool row_is_identical_ = true;
  std::vector<double> of_columns_;
  double products_of_row_ = 0.0, squares_of_row_ = 0.0, factors_ = 0.0, factors_squares_ = 0.0;
  double finite_ = 0.0, sum_ = 0.0, squares_ = 0.0, size_ = 0.0, of_row_ = 0.0, rows_ = 0.0, rows_squares_ = 0.0;
};

}  // namespace

RunDifference difference_of(const AlignedNumbers& numbers, bool are_scores) {
  constexpr std::size_t at_once = std::size_t{1} << 16;
  const Shape& shape = numbers.b.shape();
  const std::optional<FormatId> id = float_format(numbers.b.type());
  const Format* const own = id ? &format(*id) : nullptr;
  DifferenceSums sums(shape.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1)), own,
                      are_scores);
  const bool have_same_bytes = numbers.a.identical(numbers.b);
  for (std::size_t first = 0; first < numbers.b.size(); first += at_once) {
    const std::size_t count = std::min(at_once, numbers.b.size() - first);
    const std::vector<double> x = stretch_of(numbers.a, first, count).to_double().values;
    const std::vector<double> y = stretch_of(numbers.b, first, count).to_double().values;
    for (std::size_t i = 0; i < count; ++i)
      sums.add(x[i], y[i], have_same_bytes || x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])));
  }
  return std::move(sums).finish();
}

double RunDifference::relative() const {
  if (differing == 0 || rms == 0.0) return 0.0;
  return rms * std::sqrt(static_cast<double>(elements) / static_cast<double>(differing)) / scale;
}

}  // namespace driftbound::analysis

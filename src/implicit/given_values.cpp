#include "driftbound/implicit/given_values.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "driftbound/bounds/box.hpp"
#include "driftbound/num/environment.hpp"
#include "implicit/point_reader.hpp"
#include "implicit/sign_of.hpp"

namespace driftbound {

namespace {

using implicit::PointView;

/// One rounding of x to nearest in double; differences below the normal range are exact.
Magnitude rounding_of(double x) {
  return Magnitude(0x1p-53) * Magnitude(x);
}

}  // namespace

class GivenValues::State {
public:
  State(const SignField& field, ArithmeticModel arithmetic, const GivenValueOptions& options)
      : field_(field), arithmetic_(std::move(arithmetic)), options_(options) {
    if (options_.most_halvings < 0 || options_.most_halvings > 60)
      throw InvalidArgument("signs of given values: most_halvings lies between 0 and 60");
    if (options_.points_of_a_cell < 1) throw InvalidArgument("signs of given values: points_of_a_cell is at least 1");
  }

  template <class Real>
  std::vector<std::int64_t> signs(const PointView<Real>& points, std::span<const double> values,
                                  std::span<PointSign> out) const {
    require_sound_environment();
    if (values.size() != out.size())
      throw InvalidArgument("signs of given values: " + std::to_string(values.size()) + " values, and room for " +
                            std::to_string(out.size()) + " signs");
    Batch batch{implicit::PointReader(field_.dimension(), std::numeric_limits<double>::max()), {}, values, out};
    batch.points.resize(values.size() * field_.dimension());
    batch.reader.read(points, 0, values.size(), batch.points.data());
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < values.size(); ++row) {
      out[row] = {Sign::undecided, SignStage::none, 0, values[row], std::numeric_limits<double>::infinity()};
      if (std::isfinite(values[row]) && is_inside(batch, row)) rows.push_back(row);
    }
    decide(batch, {1, 0, *field_.options().domain}, std::move(rows));
    std::vector<std::int64_t> open;
    for (std::size_t row = 0; row < values.size(); ++row)
      if (out[row].sign == Sign::undecided) open.push_back(static_cast<std::int64_t>(row));
    return open;
  }

  Guarantee guarantee() const {
    const std::lock_guard lock(mutex_);
    return guarantee_;
  }
  std::string condition() const {
    const std::lock_guard lock(mutex_);
    return condition_;
  }
  std::size_t cells() const {
    const std::lock_guard lock(mutex_);
    return bounds_.size();
  }

private:
  struct Batch {
    implicit::PointReader reader;
    std::vector<double> points;
    std::span<const double> values;
    std::span<PointSign> out;
  };
  /// Halves of cell n are 2n and 2n + 1; the whole domain is 1.
  struct Cell {
    std::uint64_t number;
    int halvings;
    Box box;
  };

  bool is_inside(const Batch& batch, std::size_t row) const {
    const std::size_t dimension = field_.dimension();
    return implicit::contains(*field_.options().domain, std::span(batch.points).subspan(row * dimension, dimension));
  }

  /// All rows lie in the cell.
  void decide(const Batch& batch, const Cell& cell, std::vector<std::size_t> rows) const {
    if (rows.empty()) return;
    const bool are_enough = static_cast<std::int64_t>(rows.size()) >= options_.points_of_a_cell || cell.number == 1;
    const std::optional<Magnitude> bound = bound_of(cell, are_enough);
    if (!bound) return;
    std::erase_if(rows, [&](std::size_t row) { return decide(batch.values[row], *bound, batch.out[row]); });
    if (cell.halvings == options_.most_halvings || rows.empty()) return;
    const std::size_t axis = static_cast<std::size_t>(cell.halvings) % field_.dimension();
    const double middle = cell.box.lower[axis] / 2.0 + cell.box.upper[axis] / 2.0;
    Cell below{2 * cell.number, cell.halvings + 1, cell.box}, above{2 * cell.number + 1, cell.halvings + 1, cell.box};
    below.box.upper[axis] = above.box.lower[axis] = middle;
    std::vector<std::size_t> rows_below;
    std::erase_if(rows, [&](std::size_t row) {
      const bool is_below = batch.points[row * field_.dimension() + axis] <= middle;
      if (is_below) rows_below.push_back(row);
      return is_below;
    });
    decide(batch, below, std::move(rows_below));
    decide(batch, above, std::move(rows));
  }

  bool decide(double value, Magnitude of_cell, PointSign& out) const {
    const double f = value - field_.options().iso;
    Magnitude bound = of_cell;
    if (field_.target().negative) bound += rounding_of(value);
    if (field_.options().iso != 0.0) bound += rounding_of(f);
    out = implicit::sign_of(f, bound.value(), SignStage::given, 0);
    return out.sign != Sign::undecided;
  }

  std::optional<Magnitude> bound_of(const Cell& cell, bool may_find) const {
    {
      const std::lock_guard lock(mutex_);
      const auto known = bounds_.find(cell.number);
      if (known != bounds_.end()) return known->second;
    }
    if (!may_find) return std::nullopt;
    const BoxBound found = forward_error_bound(field_.graph(), arithmetic_, cell.box, field_.target());
    const std::lock_guard lock(mutex_);
    if (found.guarantee == Guarantee::conditional) guarantee_ = Guarantee::conditional;
    if (!found.condition.empty()) condition_ = found.condition;
    return bounds_.emplace(cell.number, found.error).first->second;
  }

  SignField field_;
  ArithmeticModel arithmetic_;
  GivenValueOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, Magnitude> bounds_;
  mutable Guarantee guarantee_ = Guarantee::proven;
  mutable std::string condition_;
};

GivenValues::GivenValues(const SignField& field, ArithmeticModel arithmetic, const GivenValueOptions& options)
    : state_(std::make_shared<const State>(field, std::move(arithmetic), options)) {}

std::vector<std::int64_t> GivenValues::signs(const double* points, std::ptrdiff_t row_stride,
                                             std::ptrdiff_t column_stride, std::span<const double> values,
                                             std::span<PointSign> out) const {
  return state_->signs(PointView<double>{points, row_stride, column_stride}, values, out);
}

std::vector<std::int64_t> GivenValues::signs(const float* points, std::ptrdiff_t row_stride,
                                             std::ptrdiff_t column_stride, std::span<const double> values,
                                             std::span<PointSign> out) const {
  return state_->signs(PointView<float>{points, row_stride, column_stride}, values, out);
}

Guarantee GivenValues::guarantee() const {
  return state_->guarantee();
}

std::string GivenValues::condition() const {
  return state_->condition();
}

std::size_t GivenValues::cells() const {
  return state_->cells();
}

}  // namespace driftbound

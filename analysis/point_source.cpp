#include "analysis/point_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::int64_t most_points = std::int64_t{1} << 40;

/// Numbers evenly spaced from `lower` to `upper`.
double spaced(double lower, double upper, std::int64_t index, std::int64_t count) {
  if (index == 0) return lower;
  if (index == count - 1) return upper;
  const double steps = static_cast<double>(count - 1), length = upper - lower,
               part = static_cast<double>(index) / steps;
  if (!std::isfinite(length)) return (1.0 - part) * lower + part * upper;
  return static_cast<double>(index) * (length / steps) + lower;
}

class Grid : public PointSource {
public:
  Grid(Box box, std::vector<std::int64_t> extents) : box_(std::move(box)), extents_(std::move(extents)) {
    for (const std::int64_t extent : extents_) size_ *= extent;
  }

  std::int64_t size() const override { return size_; }
  Box range() const override { return box_; }
  std::string description() const override {
    return fmt::format("a grid of {} in {}", fmt::join(extents_, "x"), describe(box_));
  }
  std::string sha256() const override { return hash_of(description()); }

  void read(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    const std::size_t dimension = extents_.size();
    for (std::int64_t point = 0; point < count; ++point) {
      std::int64_t rest = first + point;
      for (std::size_t c = dimension; c-- > 0;) {
        out[static_cast<std::size_t>(point) * dimension + c] =
            spaced(box_.lower[c], box_.upper[c], rest % extents_[c], extents_[c]);
        rest /= extents_[c];
      }
    }
  }

private:
  Box box_;
  std::vector<std::int64_t> extents_;
  std::int64_t size_ = 1;
};

class Segment : public PointSource {
public:
  Segment(std::vector<double> a, std::vector<double> b, std::int64_t count)
      : a_(std::move(a)), b_(std::move(b)), count_(count) {}

  std::int64_t size() const override { return count_; }
  Box range() const override {
    Box box{a_, b_};
    for (std::size_t c = 0; c < a_.size(); ++c)
      if (a_[c] > b_[c]) std::swap(box.lower[c], box.upper[c]);
    return box;
  }
  std::string description() const override {
    return fmt::format("{} points on the segment from ({}) to ({})", count_, describe(a_), describe(b_));
  }
  std::string sha256() const override { return hash_of(description()); }

  void read(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    const std::size_t dimension = a_.size();
    for (std::int64_t point = 0; point < count; ++point)
      for (std::size_t c = 0; c < dimension; ++c)
        out[static_cast<std::size_t>(point) * dimension + c] = spaced(a_[c], b_[c], first + point, count_);
  }

private:
  std::vector<double> a_, b_;
  std::int64_t count_;
};

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

std::int64_t coordinates_of(const Graph& graph) {
  if (graph.inputs.size() != 1)
    throw InvalidArgument(
        fmt::format("{}: a point feeds a network with one input, this one has {}", graph.source, graph.inputs.size()));
  return element_count(batch_layout(graph).sample_shapes.front());
}

Box box_of(const std::vector<std::pair<double, double>>& ranges, std::int64_t coordinates) {
  if (ranges.empty() || static_cast<std::int64_t>(ranges.size()) > coordinates)
    throw InvalidArgument(
        fmt::format("--box: {} ranges lo:hi for {} coordinates; give between 1 and {} (the last repeats)",
                    ranges.size(), coordinates, coordinates));
  Box box;
  for (std::size_t c = 0; c < static_cast<std::size_t>(coordinates); ++c) {
    const auto& [lower, upper] = ranges[std::min(c, ranges.size() - 1)];
    if (!(lower <= upper) || !std::isfinite(upper - lower))
      throw InvalidArgument(
          fmt::format("--box: {}:{} is no range; give finite bounds lo:hi with lo <= hi", lower, upper));
    box.lower.push_back(lower);
    box.upper.push_back(upper);
  }
  return box;
}

Points points_of_grid(const Box& box, const std::vector<std::int64_t>& extents) {
  if (extents.size() != box.lower.size())
    throw InvalidArgument(
        fmt::format("--grid: {} extents, a point has {} coordinates; write one a coordinate, as 64x64x64",
                    extents.size(), box.lower.size()));
  std::int64_t points = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 1 || extent > most_points / points)
      throw InvalidArgument("--grid: give extents from 1 on, and no more than 2^40 points in all");
    points *= extent;
  }
  return std::make_unique<Grid>(box, extents);
}

Points points_of_segment(const std::vector<double>& a, const std::vector<double>& b, std::int64_t count) {
  if (a.size() != b.size() || !all_finite(a) || !all_finite(b))
    throw InvalidArgument("--segment: its ends need the same number of finite coordinates");
  if (a == b) throw InvalidArgument("--segment: it is empty, both ends are the same point");
  if (a.size() == 1 && b[0] < a[0])
    throw InvalidArgument(fmt::format(
        "--segment: it is reversed, from {} to {}; of one coordinate give the smaller end first", a[0], b[0]));
  constexpr std::int64_t most = std::int64_t{1} << 26;
  if (count < 2 || count > most)
    throw InvalidArgument(fmt::format("--segment: {} points; give between 2 and 2^26", count));
  return std::make_unique<Segment>(a, b, count);
}

}  // namespace driftbound::analysis

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/point_source.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/row_reader.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {
namespace {

/// Grows a box by points, leaving out what is not finite.
void include(Box& box, std::span<const double> points) {
  const std::size_t dimension = box.lower.size();
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i])) continue;
    box.lower[i % dimension] = std::min(box.lower[i % dimension], points[i]);
    box.upper[i % dimension] = std::max(box.upper[i % dimension], points[i]);
  }
}

class PointFile : public PointSource {
public:
  PointFile(const Graph& graph, const std::filesystem::path& file) : file_(file), dimension_(coordinates_of(graph)) {
    const auto type = float_format(graph.value(graph.inputs.front()).type);
    largest_ = type ? format(*type).largest : 0.0;
  }

  std::string description() const override { return file_.string(); }
  std::string sha256() const override { return sha256_of_file(file_); }

  void read(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    read_rows(first, count, out);
    const auto bad = std::find_if(out.begin(), out.end(), [&](double x) { return !(std::fabs(x) <= largest_); });
    if (bad != out.end()) refuse(first, bad - out.begin(), *bad);
  }

  /// That of some thousand points from everywhere in the file.
  Box range() const override {
    constexpr std::int64_t parts = 64, length = 64;
    const auto dimension = static_cast<std::size_t>(dimension_);
    Box box{std::vector<double>(dimension, largest_), std::vector<double>(dimension, -largest_)};
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = size() / parts * part, count = std::min(length, size() - first);
      std::vector<double> points(static_cast<std::size_t>(count) * dimension);
      read_rows(first, count, points);
      include(box, points);
    }
    for (std::size_t c = 0; c < dimension; ++c)
      if (!(box.lower[c] <= box.upper[c])) box.lower[c] = box.upper[c] = 0.0;
    return box;
  }

protected:
  virtual void read_rows(std::int64_t first, std::int64_t count, std::span<double> out) const = 0;

  void check_shape(std::int64_t rows, std::int64_t columns) const {
    if (columns != dimension_)
      throw ShapeMismatch(fmt::format("{}: rows of {} numbers, a point of this network has {} coordinates",
                                      file_.string(), columns, dimension_));
    if (rows == 0) throw InvalidArgument(fmt::format("{}: holds no points", file_.string()));
  }
  std::int64_t dimension() const { return dimension_; }

private:
  [[noreturn]] void refuse(std::int64_t first, std::ptrdiff_t place, double value) const {
    throw InvalidArgument(fmt::format(
        "{}: coordinate {} of point {} is {}; {}", file_.string(), place % dimension_, first + place / dimension_,
        value,
        std::isfinite(value) ? "points lie within the range of the network's input type" : "leave such points out"));
  }

  std::filesystem::path file_;
  std::int64_t dimension_;
  double largest_ = 0.0;
};

class NpyPoints : public PointFile {
public:
  NpyPoints(const Graph& graph, const std::filesystem::path& file) : PointFile(graph, file), reader_(file) {
    check_shape(reader_.rows(), reader_.columns());
  }
  std::int64_t size() const override { return reader_.rows(); }

protected:
  void read_rows(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    reader_.read(first, count, out);
  }

private:
  RowReader reader_;
};

class HeldPoints : public PointFile {
public:
  HeldPoints(const Graph& graph, const std::filesystem::path& file) : PointFile(graph, file) {
    points_ = read_inputs(graph, file).tensors.front().second.to_double().values;
    check_shape(size(), dimension());
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(points_.size()) / dimension(); }

protected:
  void read_rows(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    const auto begin = points_.begin() + first * dimension();
    std::copy(begin, begin + count * dimension(), out.begin());
  }

private:
  std::vector<double> points_;
};

}  // namespace

Points points_of_file(const Graph& graph, const std::filesystem::path& file) {
  if (file.extension() == ".npy") return std::make_unique<NpyPoints>(graph, file);
  return std::make_unique<HeldPoints>(graph, file);
}

}  // namespace driftbound::analysis

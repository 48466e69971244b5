#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// Points to certify, in a fixed order, made or read block by block: none is kept.
class PointSource {
public:
  /// Blocks start at multiples of this.
  static constexpr std::int64_t granule = 4096;

  virtual ~PointSource() = default;
  virtual std::int64_t size() const = 0;
  /// Coordinates of points [first, first + count), one point after the other; `first` is a multiple of `granule`.
  virtual void read(std::int64_t first, std::int64_t count, std::span<double> out) const = 0;
  /// Where most of the points lie.
  virtual Box range() const = 0;
  /// "points.npy", "a grid of 64x64x64 in -1:1,-1:1,-1:1": fit for messages.
  virtual std::string description() const = 0;
  /// SHA-256 that is another one for other points.
  virtual std::string sha256() const = 0;
};

using Points = std::unique_ptr<const PointSource>;

/// Coordinates of a point: elements of a sample of the network's input.
/// Throws:    InvalidArgument for a network with another number of inputs than one
std::int64_t coordinates_of(const Graph& graph);

/// One range a coordinate; the last one given repeats.
/// Throws:    InvalidArgument for more ranges than coordinates, and for reversed ones
Box box_of(const std::vector<std::pair<double, double>>& ranges, std::int64_t coordinates);

/// Rows of an .npy file of float16, float32 or float64, read as needed; of other files that inputs are read from, which
/// are held in memory. Numbers are taken as they are.
/// Throws:    FileError, ParseError, Unsupported; ShapeMismatch for rows of another size; InvalidArgument for no points
Points points_of_file(const Graph& graph, const std::filesystem::path& file);

/// Points of a grid with `extents` points a coordinate, the last coordinate running fastest: lower + i step with
/// step = (upper - lower) / (extent - 1), rounded as written, the last point being `upper`; one point alone is `lower`.
/// Throws:    InvalidArgument for another number of extents, for extents below 1, and for too many points
Points points_of_grid(const Box& box, const std::vector<std::int64_t>& extents);

/// `count` points from a to b: coordinates as those of a grid of `count`.
/// Throws:    InvalidArgument for fewer than two points, for ends of another size, not finite, or equal
Points points_of_segment(const std::vector<double>& a, const std::vector<double>& b, std::int64_t count);

struct BandOptions {
  double width = 0.0;
  std::int64_t points = 10000;
  std::uint64_t seed = 1;
};

/// Random points around the surface f = 0 of a field. Each comes from two independent points uniform in the box, one
/// with f < 0 and one with f > 0, by bisection: the first midpoint at which |f| <= width is certain; where doubles are
/// not that close together, the last midpoint. The first points do not depend on how many are asked for. Throws:
/// InvalidArgument for a width that is negative or not finite, and for no points; read() where 64 * 4096
///            random points have one sign
Points points_of_band(const SignField& field, const Box& box, const BandOptions& options);

/// "0.5,-1": every number as short as it can be without loss.
std::string describe(std::span<const double> numbers);
/// "-1:1,0:2"
std::string describe(const Box& box);
/// SHA-256 of a text.
std::string hash_of(const std::string& text);

}  // namespace driftbound::analysis

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/region/range.hpp"

namespace driftbound {

struct RayHit;      // rays.hpp
struct RayOptions;  // rays.hpp

// A tree of cells of space: where the sign of a network is certain, and where its zeros may be.

struct OctreeOptions {
  double iso = 0.0;           ///< f is the scalar of the network minus this
  std::optional<Box> domain;  ///< empty: [-1, 1] in every coordinate
  int depth = 8;              ///< cells are halved in every coordinate this often at most, 0 to 20
  /// Cells are halved until this share of the domain's volume has a certain sign, or all are at the depth. 1: always to
  /// the depth
  double certain_share = 1.0;
  std::int64_t most_cells = std::int64_t{1} << 27;  ///< no more are enclosed
  int threads = 1;
  /// Called from the calling thread, between groups of cells, with cells enclosed so far and the share of the volume that
  /// is certain; returning false ends the work: what there is so far is the result, and refined() goes on with it.
  std::function<bool(std::int64_t, double)> progress = {};
};

/// A cell that is not divided.
struct OctreeCell {
  Box box;
  RegionSign sign = RegionSign::unknown;
  int depth = 0;
  /// Unknown sign: upper bound of |float32 evaluation - f| at the float32 points of the cell (Range::rounding).
  double rounding = std::numeric_limits<double>::infinity();
  double least = 0.0;  ///< certain sign: lower bound of |f| in the cell
};

struct OctreeCounts {
  std::int64_t cells = 0;                                ///< enclosed, divided ones included
  std::int64_t negative = 0, positive = 0, unknown = 0;  ///< of those that are not divided
  double certain_share = 0.0;                            ///< of the volume
  int depth = 0;                                         ///< of the smallest cells
};

/// Cells of the domain of a network of 1 to 4 coordinates, each certain to hold no zero of f (all negative or all
/// positive), or unknown. Built front by front; the same whatever the number of threads. A cheap handle; const methods
/// may be called by several threads at a time.
/// Guarantee: proven
/// Source:    docs/theory.md T-150 to T-154
class Octree {
public:
  /// Throws:    InvalidArgument for options out of range, another number of coordinates, and where most cells of a depth
  ///            tell hardly more than the whole domain; as RegionEvaluator()
  static Octree build(const Graph& graph, const OctreeOptions& options = {});
  /// For one output element, or the difference of two.
  static Octree build(const Graph& graph, const Target& target, const OctreeOptions& options = {});
  /// Goes on with a tree that `progress` ended, or that was built for less. Iso value and domain are the tree's own.
  /// Throws:    as build()
  Octree refined(const OctreeOptions& options) const;

  /// Writes the file whole or not at all.
  /// Throws:    FileError
  void save(const std::filesystem::path& file) const;
  /// Throws:    FileError; ParseError for a file that holds no tree or a damaged one; InvalidArgument for the tree of
  ///            another network, target or iso value
  static Octree load(const std::filesystem::path& file, const Graph& graph, double iso = 0.0);
  static Octree load(const std::filesystem::path& file, const Graph& graph, const Target& target, double iso = 0.0);

  std::size_t dimension() const;
  const Box& domain() const;
  double iso() const;
  OctreeCounts counts() const;
  /// Whether refined() with these options adds nothing.
  bool is_complete(const OctreeOptions& options) const;

  /// All cells that are not divided, in a fixed order.
  void each_cell(const std::function<void(const OctreeCell&)>& visit) const;
  /// The cell that holds a point; empty outside the domain. On the border of several: one of them.
  std::optional<OctreeCell> cell_at(std::span<const double> point) const;
  /// The sign that f has all over a box: certain where certain cells of one sign cover it. Unknown where the box leaves
  /// the domain.
  /// Guarantee: proven
  /// Throws:    InvalidArgument for another number of coordinates, and a lower bound above the upper one
  RegionSign sign_over(const Box& box) const;

  /// Signs of f at `rows` points, as SignField::signs() with the options given there: those of points in certain cells
  /// without evaluation (stage `given`; the value is the least magnitude of f in the cell, its bound infinite), those of
  /// float32 points in other cells by one float32 evaluation and the cell's bound where that suffices, all others by the
  /// field.
  /// Shapes:    `out` has `rows` elements
  /// Returns:   the counts of this call
  /// Throws:    InvalidArgument for a field of another network, target or iso value; as SignField::signs()
  SignStatistics signs(const SignField& field, const double* points, std::int64_t rows, std::ptrdiff_t row_stride,
                       std::ptrdiff_t column_stride, std::span<PointSign> out) const;

  /// A lower bound of the distance (2-norm) from a point of the domain to the nearest zero of f in the domain: no zero
  /// lies in the ball around the point with this radius, as far as it lies in the domain. 0 where nothing is certain.
  /// `magnitude`: a lower bound of |f| at the point, where more is known than that of the cell.
  /// Guarantee: proven
  /// Throws:    InvalidArgument for a point outside the domain
  /// Source:    docs/theory.md T-154
  double safe_step(std::span<const double> point, double magnitude = 0.0) const;
  /// With |f| as the field certifies it at this point.
  double safe_step(const SignField& field, std::span<const double> point) const;

private:
  friend std::vector<RayHit> first_hits(const Octree& tree, const Rays& rays, const RayOptions& options);
  class State;
  static Octree loaded(const std::filesystem::path& file, RegionEvaluator evaluator);
  explicit Octree(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace driftbound

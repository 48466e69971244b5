#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound {

// Ranges of a network over boxes of its inputs: its exact values, its gradients and the rounding errors of float32.

/// What is certain of the sign of a function over a whole region.
enum class RegionSign : std::int8_t { all_negative = -1, unknown = 0, all_positive = 1 };
std::string_view name_of(RegionSign sign);

/// Boxes side by side: coordinate c of box i lies in [lower[i dimension + c], upper[i dimension + c]].
struct Boxes {
  std::size_t dimension = 0;
  std::vector<double> lower, upper;

  std::size_t size() const { return dimension == 0 ? 0 : lower.size() / dimension; }
  void add(std::span<const double> box_lower, std::span<const double> box_upper);
};

/// What is known of f over one box.
struct Range {
  /// Holds f(x) for every real point x of the box; with infinite ends where numbers of the network may leave the range of
  /// doubles.
  Interval value = Interval::whole();
  /// One interval a coordinate: together they hold Clarke's generalised gradient of f at every point of the box, which
  /// is the gradient wherever f is continuously differentiable. Empty unless asked for.
  std::vector<Interval> gradient;
  RegionSign sign = RegionSign::unknown;  ///< what `value` says
  /// Upper bound of |computed - f(x)| at every point x of the box whose coordinates are float32 numbers, for every
  /// float32 evaluation that rounds to nearest and keeps subnormal numbers, with sums in any order and functions as
  /// accurate as this library's. Infinite: not certified, or not asked for.
  double rounding = std::numeric_limits<double>::infinity();
};

/// The same of many boxes, side by side.
struct Ranges {
  std::size_t dimension = 0;  ///< 0: no gradients
  std::vector<double> lower, upper;
  std::vector<double> gradient_lower, gradient_upper;  ///< [boxes, dimension]
  std::vector<double> rounding;
  std::vector<RegionSign> sign;

  std::size_t size() const { return lower.size(); }
  Range at(std::size_t i) const;
};

/// Rays, or pieces of them: the points origin + t direction, first <= t <= last.
struct Rays {
  std::size_t dimension = 0;
  std::vector<double> origin, direction;  ///< [rays, dimension]
  std::vector<double> first, last;        ///< one a ray

  std::size_t size() const { return first.size(); }
  void add(std::span<const double> from, std::span<const double> along, double t_first, double t_last);
};

/// What is known of f along rays, side by side: for every t of ray i
/// |f(origin + t direction) - middle[i] - tangent[i] (t - at[i])| <= rest[i], infinite where nothing is known.
struct RayRanges {
  std::vector<double> at, middle, tangent, rest;
};

struct RegionOptions {
  double iso = 0.0;  ///< f is the scalar of the network minus this
  bool gradients = true;
  bool rounding = true;
  /// Errors of linearisation that a cell follows by themselves, 0 to 4096; the others are added up. More of them are
  /// tighter and slower. -1: 32 for networks that are linear in pieces, else 0, which encloses a surface soonest
  int symbols = 32;
  /// Bounds of rounding errors inside the network that a cell has a sweep of their own for, 0 to 4096: those with the
  /// largest effect on Range::rounding (T-188).
  int refined_radii = 16;
  int threads = 1;
};

/// Encloses f = scalar of the exact network - iso over boxes. The exact network is the graph over the reals. Every cell
/// is enclosed by an affine function of its coordinates and a radius, layer by layer, and one backward sweep of linear
/// bounds; cells go through the layers together. A cheap handle: copies share everything. const methods may be called
/// by several threads at a time.
/// Guarantee: proven
/// Tightness: error of second order in the width of the box, where no kink of the network lies in it
/// Source:    docs/theory.md T-150 to T-153, T-156, T-188
class RegionEvaluator {
public:
  /// For a network with one input and one output element a sample.
  /// Throws:    InvalidArgument (another number of inputs, outputs or elements; an option out of range), Unsupported for
  ///            a network that takes one sample at a time, and for an op without a relaxation, naming it; ShapeMismatch
  explicit RegionEvaluator(Graph graph, const RegionOptions& options = {});
  /// For one output element, or the difference of two.
  /// Throws:    InvalidArgument also where the target does not exist
  RegionEvaluator(Graph graph, const Target& target, const RegionOptions& options = {});

  /// Coordinates of a point.
  std::size_t dimension() const;
  const Graph& graph() const;
  const Target& target() const;
  const RegionOptions& options() const;
  /// Whether float32 holds every constant of the network and the iso value. Where it does not, Range::rounding is
  /// infinite.
  bool has_float32_constants() const;

  /// SHA-256 over the steps of the function with all their numbers, lower-case hex: target and iso value count.
  std::string fingerprint() const;

  /// Throws:    InvalidArgument for a box with another number of coordinates, bounds that are not finite or beyond the
  ///            largest float32 number, or a lower bound above the upper one; UnsoundEnvironment
  Range range(const Box& box) const;
  /// Throws:    as range(), naming the first box
  Ranges ranges(const Boxes& boxes) const;
  /// f along rays, as a function of t alone: tighter and cheaper than over the boxes that hold them.
  /// Throws:    InvalidArgument for another number of coordinates, numbers that are not finite or beyond the largest
  ///            float32 number, `first` above `last`, naming the first ray; UnsoundEnvironment
  /// Source:    docs/theory.md T-156
  RayRanges ranges_along(const Rays& rays) const;

private:
  class State;
  std::shared_ptr<const State> state_;
};

}  // namespace driftbound

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "driftbound/region/octree.hpp"

namespace driftbound {

// Where rays meet the surface f = 0 first.

enum class RayVerdict : std::int8_t {
  miss,      ///< f has no zero on the part of the ray in the domain
  hit,       ///< f changes its sign in [lower, upper], and has no zero before
  undecided  ///< f has no zero before `lower`; nothing is known from there on
};
std::string_view name_of(RayVerdict verdict);

struct RayHit {
  RayVerdict verdict = RayVerdict::undecided;
  double lower = 0.0, upper = 0.0;  ///< of t: of the zero; where undecided: from where on nothing is known
  /// Hold Clarke's gradient at the zero, one interval a coordinate, as many as there are; of hits alone.
  std::array<double, 4> gradient_lower{}, gradient_upper{};
};

struct RayOptions {
  /// Hits are narrowed to this length of t, or until rounding ends it
  double tolerance = 0x1p-20;
  /// Pieces of a ray that are no longer than this share of it are not cut any more
  double shortest = 0x1p-24;
  int threads = 1;
};

/// The first crossing of every ray with the zero set of the tree's function in its domain. Certain cells are passed
/// without evaluation; in others the function is enclosed along pieces of the ray, many rays at a time.
/// Guarantee: proven
/// Tightness: undecided stay rays that touch the surface, begin on it, or meet it at the border of the domain
/// Throws:    InvalidArgument for another number of coordinates, numbers that are not finite or beyond float32, a zero
///            direction, `first` above `last`, options out of range; UnsoundEnvironment
/// Source:    docs/theory.md T-155, T-156
std::vector<RayHit> first_hits(const Octree& tree, const Rays& rays, const RayOptions& options = {});

}  // namespace driftbound

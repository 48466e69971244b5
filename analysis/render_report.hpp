#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "driftbound/region/rays.hpp"

namespace driftbound::analysis {

/// A picture of a surface: one ray a pixel, row by row from the top.
struct View {
  std::int64_t width = 512, height = 512;
  std::vector<double> eye, target, up;  ///< of three coordinates
  double angle = 40.0;                  ///< between the left and the right border, in degrees

  /// Rays from the eye; `last` reaches behind the domain.
  /// Throws:    InvalidArgument for an eye at the target, or `up` along the view
  Rays rays(const Box& domain) const;
};

/// What `driftbound render` has to say.
struct RenderReport {
  std::string command, version, date, model_file, model_sha256, scalar, file;
  double iso = 0.0, octree_seconds = 0.0, ray_seconds = 0.0;
  View view;
  int threads = 1;
  std::int64_t hits = 0, misses = 0, undecided = 0;
};

enum class PictureFormat { ppm, png };
/// By the ending of the name.
/// Throws:    InvalidArgument for another ending
PictureFormat picture_format(const std::string& file);

/// The picture: the direction of the gradient as a colour, misses white, undecided pixels magenta.
std::string picture_of(const View& view, const std::vector<RayHit>& hits, PictureFormat format);

Document document_of(const RenderReport& report);

}  // namespace driftbound::analysis

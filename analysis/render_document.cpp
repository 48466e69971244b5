#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "analysis/png.hpp"
#include "analysis/render_report.hpp"
#include "analysis/scalar.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

using Vector = std::array<double, 3>;

Vector difference(const std::vector<double>& a, const std::vector<double>& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double length(const Vector& a) {
  return std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
}
Vector scaled(const Vector& a, double factor) {
  return {a[0] * factor, a[1] * factor, a[2] * factor};
}

std::array<char, 3> colour_of(const RayHit& hit) {
  const auto byte = [](double x) { return static_cast<char>(static_cast<unsigned char>(std::lround(255.0 * x))); };
  if (hit.verdict == RayVerdict::miss) return {byte(1.0), byte(1.0), byte(1.0)};
  if (hit.verdict == RayVerdict::undecided) return {byte(1.0), byte(0.0), byte(1.0)};
  Vector normal;
  for (std::size_t j = 0; j < 3; ++j) normal[j] = hit.gradient_lower[j] / 2.0 + hit.gradient_upper[j] / 2.0;
  const double size = length(normal);
  if (!(size > 0.0 && std::isfinite(size))) return {byte(0.5), byte(0.5), byte(0.5)};
  return {byte(0.5 + 0.5 * normal[0] / size), byte(0.5 + 0.5 * normal[1] / size), byte(0.5 + 0.5 * normal[2] / size)};
}

}  // namespace

Rays View::rays(const Box& domain) const {
  const Vector forward = difference(target, eye);
  const Vector side = cross(forward, {up[0], up[1], up[2]});
  if (!(length(forward) > 0.0) || !(length(side) > 0.0))
    throw InvalidArgument("render: the eye is at the point that it looks at, or looks along the direction that is up");
  const double half = std::tan(angle / 360.0 * std::numbers::pi);
  const Vector ahead = scaled(forward, 1.0 / length(forward));
  const Vector right = scaled(side, half / length(side));
  const Vector down = scaled(cross(ahead, right), static_cast<double>(height) / static_cast<double>(width));
  double last = 0.0;
  for (std::size_t j = 0; j < 3; ++j)
    last += std::max(std::fabs(domain.lower[j] - eye[j]), std::fabs(domain.upper[j] - eye[j]));
  Rays rays;
  rays.dimension = 3;
  for (std::int64_t row = 0; row < height; ++row)
    for (std::int64_t column = 0; column < width; ++column) {
      const double x = (2.0 * static_cast<double>(column) + 1.0) / static_cast<double>(width) - 1.0;
      const double y = (2.0 * static_cast<double>(row) + 1.0) / static_cast<double>(height) - 1.0;
      Vector along;
      for (std::size_t j = 0; j < 3; ++j) along[j] = ahead[j] + x * right[j] + y * down[j];
      rays.add(eye, along, 0.0, last);
    }
  return rays;
}

PictureFormat picture_format(const std::string& file) {
  if (file.ends_with(".png")) return PictureFormat::png;
  if (file.ends_with(".ppm")) return PictureFormat::ppm;
  throw InvalidArgument(file + ": a picture is written as .png or .ppm, by the ending of its name");
}

std::string picture_of(const View& view, const std::vector<RayHit>& hits, PictureFormat format) {
  std::string pixels;
  for (const RayHit& hit : hits) {
    const std::array<char, 3> colour = colour_of(hit);
    pixels.append(colour.data(), colour.size());
  }
  if (format == PictureFormat::png) return png_of(view.width, view.height, pixels);
  return fmt::format("P6\n{} {}\n255\n", view.width, view.height) + pixels;
}

Document document_of(const RenderReport& report) {
  const std::int64_t rays = report.hits + report.misses + report.undecided;
  Document document;
  document.verb = "render";
  document.title = report.model_file;
  document.date = report.date;
  document.seconds = report.octree_seconds + report.ray_seconds;
  document.headline =
      fmt::format("{} of {} pixels are certain of {} = 0: {} hits, {} misses, {} undecided.", rays - report.undecided,
                  rays, function_text(report.scalar, report.iso), report.hits, report.misses, report.undecided);
  document.sections = {
      {},
      {Paragraph{fmt::format("{:.0f} rays/s with {} thread{}; octree {:.1f} s, rays {:.1f} s; written to {}.",
                             static_cast<double>(rays) / std::max(report.ray_seconds, 1e-9), report.threads,
                             report.threads == 1 ? "" : "s", report.octree_seconds, report.ray_seconds, report.file),
                 Style::plain}}};
  document.fields = object("schema"_key = "driftbound/render/1", "version"_key = report.version,
                           "date"_key = report.date, "command"_key = report.command,
                           "model"_key = object("file"_key = report.model_file, "sha256"_key = report.model_sha256),
                           "scalar"_key = report.scalar, "iso"_key = report.iso, "file"_key = report.file,
                           "width"_key = report.view.width, "height"_key = report.view.height,
                           "eye"_key = report.view.eye, "hits"_key = report.hits, "misses"_key = report.misses,
                           "undecided"_key = report.undecided, "threads"_key = report.threads,
                           "octree_seconds"_key = report.octree_seconds, "ray_seconds"_key = report.ray_seconds);
  return document;
}

}  // namespace driftbound::analysis

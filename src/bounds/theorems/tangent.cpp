#include "bounds/theorems/tangent.hpp"

#include <algorithm>

namespace driftbound::bounds::inline theorems {

Linear along(const Point& p, const Tangent& tangent, Magnitude (*moved)(const Point&)) {
  if (!std::isfinite(p.x) || !std::isfinite(p.y)) return nowhere();
  const auto [lower, upper] = tangent.derivative;
  const double slope = 0.5 * lower + 0.5 * upper;
  const bool at_rest = p.e == Magnitude();
  if (!std::isfinite(slope)) return {0.0, at_rest ? Magnitude() : moved(p), Magnitude::infinite()};
  const Magnitude steepness = std::max(Magnitude(lower), Magnitude(upper));
  if (at_rest) return {slope, Magnitude(), std::min(tangent.steepest, steepness)};
  const Magnitude bend = std::min(tangent.bend, (tangent.steepest + steepness) * p.e);
  const Magnitude linear = Magnitude(slope) * p.e;
  Magnitude remainder = std::max(distance_up(upper, slope), distance_up(slope, lower)) * p.e + bend;
  if (linear < remainder) remainder = std::min(remainder, moved(p) + linear);
  return {slope, remainder, std::min(tangent.steepest, steepness + divide_up(bend, p.e.value()))};
}

}  // namespace driftbound::bounds::inline theorems

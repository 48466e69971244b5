#include <vector>

#include "sabotage/faults.hpp"
#include "support/sketch_checks.hpp"

// Faults in radii by random directions (T-78).

namespace checks {

std::vector<BoundFault> sketch_faults() {
  using bounds::Rules;
  return {
      {"coin flips are half as large",
       [](Rules& r) { r.sketch.coin_flips = [](std::uint64_t bits) { return 0.5 * bounds::coin_flips(bits); }; },
       [](const Rules& r) { return check_quantile(r); }},
      {"a quantile is that of twice the directions",
       [](Rules& r) {
         r.sketch.quantile = [](std::int64_t directions, double failure) {
           return bounds::sketch_quantile(2 * directions, failure);
         };
       },
       [](const Rules& r) { return check_quantile(r); }},
      {"a source's share is not squared",
       [](Rules& r) { r.sketch.share = [](Magnitude amplitude, double noise) { return divide_up(amplitude, noise); }; },
       check_share},
      {"what directions lost on the way is forgotten",
       [](Rules& r) {
         r.sketch.radius = [](Magnitude shares, Magnitude norm, double chi, Magnitude) {
           return bounds::sketch_radius(shares, norm, chi, Magnitude());
         };
       },
       check_radius},
      {"amplitudes cover whatever enters", [](Rules& r) { r.sketch.covers = [](double, double) { return true; }; },
       check_cover}};
}

}  // namespace checks

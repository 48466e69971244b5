#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/sketch_checks.hpp"

// Faults in radii by random directions (T-78).

namespace checks {

std::vector<BoundFault> sketch_faults() {
  return {{"coin flips are half as large",
           [](Theorems& r) { r.coin_flips = [](std::uint64_t bits) { return 0.5 * proven::coin_flips(bits); }; },
           []() { return check_quantile(); }},
          {"a quantile is that of twice the directions",
           [](Theorems& r) {
             r.sketch_quantile = [](std::int64_t directions, double failure) {
               return proven::sketch_quantile(2 * directions, failure);
             };
           },
           []() { return check_quantile(); }},
          {"a source's share is not squared",
           [](Theorems& r) {
             r.sketch_share = [](Magnitude amplitude, double noise) { return divide_up(amplitude, noise); };
           },
           check_share},
          {"what directions lost on the way is forgotten",
           [](Theorems& r) {
             r.sketch_radius = [](Magnitude shares, Magnitude norm, double chi, Magnitude) {
               return proven::sketch_radius(shares, norm, chi, Magnitude());
             };
           },
           check_radius},
          {"amplitudes cover whatever enters",
           [](Theorems& r) { r.sketch_covers = [](double, double) { return true; }; }, check_cover}};
}

}  // namespace checks

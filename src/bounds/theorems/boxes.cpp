#include "bounds/theorems/boxes.hpp"

#include <algorithm>

#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {

Magnitude box_reach(Magnitude range, Magnitude error) {
  return range + error;
}

Magnitude left_over(const Interval& slopes, double slope, Magnitude error) {
  return (slopes - Interval(slope)).magnitude() * error;
}

Magnitude crossed(double alpha, double product) {
  return Magnitude(alpha) * Magnitude(product);
}

bool stays_larger(double a, Magnitude a_reach, double b, Magnitude b_reach) {
  return sub_down(a, a_reach.value()) >= add_up(b, b_reach.value());
}

Magnitude softmax_left_over(Magnitude p, Magnitude range, Magnitude apart, Magnitude mean_of_ranges) {
  return range * apart + p * mean_of_ranges;
}

Magnitude by_sources(Magnitude shares, Magnitude own) {
  return shares + own;
}

}  // namespace driftbound::bounds::inline theorems

#include "bounds/nodes/recorded_block.hpp"

namespace driftbound::bounds {

Interval deviation_at(double computed, double shadow) {
  return Interval(computed) - Interval(shadow);
}

}  // namespace driftbound::bounds

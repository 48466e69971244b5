#include "bounds/theorems/bodies.hpp"

#include "driftbound/model/composite.hpp"

namespace driftbound::bounds::inline theorems {

std::vector<Graph> foreign_bodies(const Op& op, std::span<const Shape> inputs) {
  return composite_bodies(op, inputs);
}

}  // namespace driftbound::bounds::inline theorems

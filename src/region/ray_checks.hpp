#pragma once

#include <cstddef>

#include "driftbound/region/range.hpp"

namespace driftbound::region {

/// Throws:    InvalidArgument for rays that do not have `dimension` coordinates and numbers in the range of float32
void check_rays(const Rays& rays, std::size_t dimension);

}  // namespace driftbound::region

#pragma once

#include <span>
#include <string>
#include <vector>

#include "driftbound/bounds/box.hpp"

namespace driftbound::analysis {

/// "0.5,-1": every number as short as it can be without loss.
std::string describe(std::span<const double> numbers);
/// "-1:1,0:2"
std::string describe(const Box& box);
/// SHA-256 of a text.
std::string hash_of(const std::string& text);

}  // namespace driftbound::analysis

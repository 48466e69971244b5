#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace driftbound::analysis {

/// A PNG file of a picture of three bytes a pixel (red, green, blue), row by row from the top. Areas of one colour take
/// little room, others about their own size.
/// Source:    W3C, Portable Network Graphics (second edition), 2003; RFC 1950 and 1951
std::string png_of(std::int64_t width, std::int64_t height, std::string_view pixels);

}  // namespace driftbound::analysis

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Characters of a line of UTF-8.
inline std::size_t columns(const std::string& line) {
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), is_first_byte));
}

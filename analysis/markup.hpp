#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace driftbound::analysis {

/// Bytes of the character of UTF-8 that text begins with; 0 where there is none.
inline std::size_t first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  unsigned character = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    character = character << 6 | (byte(i) & 0x3fU);
  }
  constexpr unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  return lead < 0xc0 || lead > 0xf4 || character < least[length] || character > 0x10ffff || is_surrogate ? 0 : length;
}

/// Text as it stands in HTML and XML, in content and in quoted attributes; control characters
/// become spaces, line ends stay, and what is no UTF-8 is replaced byte by byte.
inline std::string escape_markup(std::string_view text) {
  std::string result;
  for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
    const char c = text[at];
    length = first_character(text.substr(at));
    if (length != 1) {
      result += length == 0 ? "\xef\xbf\xbd" : text.substr(at, length);
      length += length == 0 ? 1 : 0;
      continue;
    }
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return result;
}

}  // namespace driftbound::analysis

#pragma once

#include <string>
#include <string_view>

namespace driftbound::analysis {

/// Text as it stands in HTML and XML, in content and in quoted attributes; control characters
/// become spaces, line ends stay.
inline std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char c : text) {
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

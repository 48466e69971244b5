#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace driftbound::analysis {

/// The same text where it is UTF-8; what is not is replaced byte by byte.
inline std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

/// Text as it stands in HTML and XML, in content and in quoted attributes; control characters
/// become spaces, line ends stay, and what is no UTF-8 is replaced.
inline std::string escape_markup(std::string_view text) {
  std::string result;
  for (const char c : valid_utf8(text)) {
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

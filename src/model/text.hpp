#pragma once

#include <string>
#include <string_view>

namespace driftbound {

/// A name from a file, fit for messages, terminals and JSON: control characters and bytes that are not
/// UTF-8 become \xNN.
std::string printable(std::string_view text);

/// The same, cut to `limit` bytes with "…" at the end: for quoting hostile text in messages.
std::string in_quotes(std::string_view text, std::size_t limit = 80);

}  // namespace driftbound

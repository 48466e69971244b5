#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace driftbound {

/// Parses JSON from outside: bounded nesting, no key twice in one object.
/// Throws:    ParseError that starts with `where`
nlohmann::json parse_json(std::string_view text, const std::string& where);

/// One line; strings that are not UTF-8 lose the bytes that are not.
std::string dump_json(const nlohmann::json& value);

}  // namespace driftbound

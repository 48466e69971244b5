#include "model/json_text.hpp"

#include <set>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr int deepest_nesting = 16;

}  // namespace

json parse_json(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> keys_of_open_objects;
  const json::parser_callback_t check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > deepest_nesting) throw ParseError(where + ": JSON nested too deeply");
    if (event == json::parse_event_t::object_start) keys_of_open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) keys_of_open_objects.pop_back();
    if (event == json::parse_event_t::key && !keys_of_open_objects.back().insert(parsed.get<std::string>()).second) {
      throw ParseError(where + ": key " + in_quotes(parsed.get<std::string>()) + " occurs twice");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw ParseError(where + ": not valid JSON: " + printable(error.what()));
  }
}

std::string dump_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::ignore);
}

}  // namespace driftbound

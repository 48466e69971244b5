#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "analysis/sign_file.hpp"

namespace driftbound::analysis {

/// The state of an interrupted certification.
struct SignState {
  std::int64_t points = 0;
  std::map<std::string, std::string> identity;
  SignProgress progress;
};

std::string to_json(const SignState& state);
/// Throws:    ParseError
SignState parse_sign_state(const std::string& text, const std::string& where);

}  // namespace driftbound::analysis

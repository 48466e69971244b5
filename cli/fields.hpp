#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "cli/parse.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {

// What verbs about the sign of an output ask for.

inline std::optional<std::int64_t> read_number(std::string_view text, std::int64_t) {
  return number_of<std::int64_t>(text);
}

inline std::optional<double> read_number(std::string_view text, double) {
  return decimal_or_hexadecimal(text);
}

/// Throws:    InvalidArgument naming the option, and how to write it
template <class Number>
Number parse_number(const std::string& text, const std::string& option, const char* usage) {
  if (const auto value = read_number(text, Number{})) return *value;
  throw InvalidArgument(fmt::format("{}: '{}' is not a number; write {}", option, text, usage));
}

/// --scalar, --iso and --threads.
struct FieldSettings {
  std::string scalar, iso_text = "0";
  int threads = 0;

  /// Throws:    InvalidArgument where the text is no number
  double iso() const { return parse_number<double>(iso_text, "--iso", "it as -0.25 or -0x1p-2"); }
};
/// `whose`: what is asked of the scalar: "Whose sign".
void add_field_options(CLI::App& app, FieldSettings& settings, const std::string& whose);

}  // namespace driftbound::cli

#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/tensor.hpp"

namespace driftbound::cli {

/// The number that all of a text is, in the format of std::from_chars if one is given; none where it is not one.
template <class Number, class... Format>
std::optional<Number> number_of(std::string_view text, Format... format) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format...);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The number that a text is, in hexadecimal too, as -0x1.8p-3, or a power of two, as 2^-7.
std::optional<double> real_of(std::string_view text);
/// A number as 0.25, -1e-3 or -0x1.8p-3; empty for other text.
std::optional<double> decimal_or_hexadecimal(std::string_view text);

/// The parts between separators.
std::vector<std::string> split(const std::string& text, char separator);

/// Text that is an integer from 1 to 2^40.
CLI::Validator counts();
/// Text that is an integer of 64 bits without a sign.
CLI::Validator seeds();

/// Throws:    InvalidArgument naming the option
std::vector<std::pair<double, double>> parse_domain(const std::string& text, std::string_view option = "--domain");

/// Rows by number and by range first:last[:step], the last excluded, comma-separated: "0:10000:157", "1,5,7:9".
/// Throws:    InvalidArgument where they do not ascend or there are no such samples
std::vector<std::int64_t> parse_rows(const std::string& text, std::int64_t samples);

/// "800M", "12G" or "1.5G" as bytes, by powers of 1000.
/// Throws:    InvalidArgument naming the option
std::uint64_t parse_bytes(const std::string& text, std::string_view option);

/// "x=1x3x48x320" as the name of an input and a shape.
/// Throws:    InvalidArgument naming the option
std::pair<std::string, Shape> parse_shape(const std::string& text);

}  // namespace driftbound::cli

#include "cli/parse.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 40;

double parse_number(const std::string& text, const std::string& whole, std::string_view option) {
  const auto value = number_of<double>(text);
  if (value && std::isfinite(*value)) return *value;
  throw InvalidArgument(
      fmt::format("{} '{}': '{}' is not a finite number; write lo:hi or lo:hi,lo:hi,…", option, whole, text));
}

/// "first", "first:last" or "first:last:step" as three numbers.
std::array<std::int64_t, 3> parse_range(const std::string& part, const std::string& whole) {
  const std::vector<std::string> texts = split(part, ':');
  std::array<std::int64_t, 3> numbers = {0, 0, 1};
  bool is_range = texts.size() <= numbers.size();
  for (std::size_t i = 0; is_range && i < texts.size(); ++i) {
    numbers[i] = number_of<std::int64_t>(texts[i]).value_or(-1);
    is_range = numbers[i] >= 0 && numbers[i] <= most;
  }
  if (is_range && texts.size() == 1) numbers[1] = numbers[0] + 1;
  if (is_range && numbers[1] > numbers[0] && numbers[2] > 0) return numbers;
  throw InvalidArgument(fmt::format(
      "--rows '{}': '{}' is neither a number nor a range first:last[:step] with first < last", whole, part));
}

}  // namespace

std::optional<double> decimal_or_hexadecimal(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::string_view magnitude = text.substr(is_negative ? 1 : 0);
  if (!magnitude.starts_with("0x") || magnitude.size() == 2 || magnitude[2] == '-') return number_of<double>(text);
  const auto value = number_of<double>(magnitude.substr(2), std::chars_format::hex);
  return value && is_negative ? -*value : value;
}

std::optional<double> real_of(std::string_view text) {
  if (!text.starts_with("2^")) return decimal_or_hexadecimal(text);
  const auto exponent = number_of<int>(text.substr(2));
  return exponent ? std::optional(std::ldexp(1.0, *exponent)) : std::nullopt;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

CLI::Validator counts() {
  const auto complaint = [](const std::string& text) -> std::string {
    const std::int64_t number = number_of<std::int64_t>(text).value_or(0);
    if (number >= 1 && number <= most) return "";
    return fmt::format("'{}' is not an integer from 1 to {}, written in digits alone", text, most);
  };
  return CLI::Validator(complaint, "a number from 1 on");
}

CLI::Validator seeds() {
  const auto complaint = [](const std::string& text) -> std::string {
    if (number_of<std::uint64_t>(text)) return "";
    return fmt::format("'{}' is not an integer from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
  };
  return CLI::Validator(complaint, "");
}

std::vector<std::pair<double, double>> parse_domain(const std::string& text, std::string_view option) {
  std::vector<std::pair<double, double>> domain;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string::npos)
      throw InvalidArgument(fmt::format("{} '{}': '{}' lacks a ':'; write lo:hi or lo:hi,lo:hi,…", option, text, part));
    domain.emplace_back(parse_number(part.substr(0, colon), text, option),
                        parse_number(part.substr(colon + 1), text, option));
  }
  return domain;
}

std::vector<std::int64_t> parse_rows(const std::string& text, std::int64_t samples) {
  std::vector<std::int64_t> rows;
  if (text.empty()) return rows;
  for (const std::string& part : split(text, ',')) {
    const auto [first, last, step] = parse_range(part, text);
    if (last > samples)
      throw InvalidArgument(fmt::format("--rows '{}': there are {} samples, counted from 0", text, samples));
    if (!rows.empty() && first <= rows.back())
      throw InvalidArgument(fmt::format("--rows '{}': {} follows {}; rows must ascend", text, first, rows.back()));
    for (std::int64_t row = first; row < last; row += step) {
      rows.push_back(row);
      if (step > last - row) break;
    }
  }
  return rows;
}

std::uint64_t parse_bytes(const std::string& text, std::string_view option) {
  const double unit = text.ends_with('M') ? 1e6 : text.ends_with('G') ? 1e9 : text.ends_with('T') ? 1e12 : 0.0;
  const std::optional<double> number =
      text.empty() ? std::nullopt : number_of<double>(std::string_view(text).substr(0, text.size() - 1));
  if (unit == 0.0 || !number || !(*number > 0.0) || !(*number * unit < 0x1p62))
    throw InvalidArgument(fmt::format("{} '{}': write a number above 0 and M, G or T: 800M, 12G", option, text));
  return static_cast<std::uint64_t>(*number * unit);
}

std::pair<std::string, Shape> parse_shape(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  Shape shape;
  bool is_shape = equals != std::string::npos && equals > 0;
  for (const std::string& part : split(is_shape ? text.substr(equals + 1) : "", 'x')) {
    const std::int64_t extent = number_of<std::int64_t>(part).value_or(0);
    is_shape = is_shape && extent >= 1 && extent <= most;
    shape.push_back(extent);
  }
  if (!is_shape)
    throw InvalidArgument(fmt::format("--shape '{}': write the name of an input and its extents: x=1x3x48x320", text));
  return {text.substr(0, equals), std::move(shape)};
}

}  // namespace driftbound::cli

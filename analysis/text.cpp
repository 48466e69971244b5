#include "analysis/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace driftbound::analysis {
namespace {

bool starts_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
}

/// The characters [first, first + count) of UTF-8 text.
std::string characters(const std::string& text, std::size_t first, std::size_t count) {
  std::string result;
  std::size_t at = 0;
  for (const char c : text) {
    if (starts_character(c)) ++at;
    if (at > first && at <= first + count) result += c;
  }
  return result;
}

std::string number_text(double x, int digits) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return "inf";
  if (x == 0.0) return "0";
  const std::string text = fmt::format("{:.{}e}", x, digits - 1);
  const std::size_t e = text.find('e');
  return text.substr(0, e + 1) + std::to_string(std::stoi(text.substr(e + 1)));
}

double shown(double x, int digits) {
  return std::strtod(number_text(x, digits).c_str(), nullptr);
}

}  // namespace

std::string error_text(double x) {
  return number_text(x, 2);
}

std::string excess_text(double error, double bound) {
  constexpr int most_digits = 17;
  int digits = 2;
  while (digits < most_digits && !(shown(error, digits) > shown(decimal_above(bound, digits), digits))) ++digits;
  return fmt::format("{} against {}", number_text(error, digits), number_text(decimal_above(bound, digits), digits));
}

double decimal_above(double x, int digits) {
  if (!std::isfinite(x) || x == 0.0) return x;
  const std::string nearest = fmt::format("{:.{}e}", x, digits - 1);
  const double shown = std::strtod(nearest.c_str(), nullptr);
  if (shown >= x) return shown;
  const int exponent = std::stoi(nearest.substr(nearest.find('e') + 1));
  const std::string above = fmt::format("{:.{}e}", shown + std::pow(10.0, exponent - digits + 1), digits - 1);
  return std::strtod(above.c_str(), nullptr);
}

std::string bound_text(double x) {
  return error_text(decimal_above(x, 2));
}

std::string brief(double x) {
  if (x >= 0.0095 && x < 9.95) return fmt::format("{:.2f}", x);
  if (x >= 9.95 && x < 9999.5) return fmt::format("{:.0f}", x);
  return error_text(x);
}

std::string percent(double share) {
  return share > 0.0 && share < 0.0001 ? "<0.01%" : brief(100.0 * share) + "%";
}

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string shorten(const std::string& name, std::size_t width) {
  const std::size_t length = columns_of(name);
  if (length <= width) return name;
  const std::size_t head = (width - 2) / 2, tail = width - 2 - head;
  return characters(name, 0, head) + ".." + characters(name, length - tail, tail);
}

std::string list_of(const std::vector<std::string>& names, std::size_t most) {
  constexpr std::size_t width = 40;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) shown.push_back("'" + shorten(names[i], width) + "'");
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0, position = 0;
  while (position < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", position), text.size());
    const std::string word = text.substr(position, end - position);
    if (column > 0 && column + 1 + word.size() > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    if (end < text.size() && text[end] == '\n') {
      result += '\n';
      column = 0;
    }
    position = end + 1;
  }
  return result;
}

}  // namespace driftbound::analysis

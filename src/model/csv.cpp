#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view unquoted(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return is_quoted ? trimmed(text.substr(1, text.size() - 2)) : text;
}

/// The nearest double; empty where the text is not a number of double's range.
std::optional<double> parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  if (text.starts_with('-')) return std::nullopt;
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            hexadecimal ? std::chars_format::hex : std::chars_format::general);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return negative ? -value : value;
}

/// Takes the next line off the text.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

enum class Separator { comma, semicolon, blank };

Separator separator_of(std::string_view line) {
  if (line.find(',') != std::string_view::npos) return Separator::comma;
  return line.find(';') != std::string_view::npos ? Separator::semicolon : Separator::blank;
}

/// Takes the next field off a trimmed, non-empty line.
std::string_view next_field(std::string_view& line, Separator separator) {
  const std::string_view ends = separator == Separator::comma ? "," : separator == Separator::semicolon ? ";" : blanks;
  const std::size_t end = line.find_first_of(ends);
  const std::string_view field = trimmed(line.substr(0, end));
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  if (separator == Separator::blank) line = trimmed(line);
  return unquoted(field);
}

/// A line of names: no field of it is a number.
bool is_header(std::string_view line, Separator separator) {
  while (!line.empty())
    if (parse_number(next_field(line, separator))) return false;
  return true;
}

/// Runs of what is neither blank nor separator.
std::size_t count_words(std::string_view line) {
  constexpr std::string_view between = " \t\r,;";
  std::size_t count = 0;
  bool is_inside = false;
  for (const char c : line) {
    const bool was_inside = std::exchange(is_inside, between.find(c) == std::string_view::npos);
    if (is_inside && !was_inside) ++count;
  }
  return count;
}

/// How many numbers the text may hold; its comments and its header hold none.
std::size_t most_numbers(std::string_view text) {
  std::size_t count = 0;
  for (bool may_be_header = true; !text.empty();) {
    const std::string_view line = trimmed(next_line(text));
    if (line.empty() || line.front() == '#') continue;
    if (!std::exchange(may_be_header, false) || !is_header(line, separator_of(line))) count += count_words(line);
  }
  return count;
}

class CsvReader {
public:
  CsvReader(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  StoredTensor read() {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text_.starts_with(byte_order_mark)) text_.remove_prefix(byte_order_mark.size());
    reserve(most_numbers(text_));
    while (!text_.empty()) {
      const std::string_view line = trimmed(next_line(text_));
      ++line_number_;
      if (!line.empty() && line.front() != '#') read_row(line);
    }
    if (rows_ == 0)
      throw ParseError(where_ + ": no numbers; expected one sample a line, its values separated by commas");
    return StoredTensor(ElementType::f64, {rows_, columns_}, std::move(bytes_));
  }

private:
  /// The text and its numbers stay below 64 MiB and twice the text.
  void reserve(std::size_t numbers) {
    constexpr std::size_t least_bytes = std::size_t{62} << 20;
    const std::size_t most = (least_bytes + text_.size()) / sizeof(double);
    if (numbers > most) {
      throw Unsupported(where_ + ": " + std::to_string(numbers) + " numbers of 8 bytes, a text of this size may have " +
                        std::to_string(most) + "; store the samples as .npy");
    }
    bytes_.reserve(numbers * sizeof(double));
  }

  void read_row(std::string_view line) {
    if (!separator_) separator_ = separator_of(line);
    if (*separator_ != Separator::blank && (line.back() == ',' || line.back() == ';'))
      fail("a value is missing at its end");
    if (rows_ == 0 && !has_header_ && is_header(line, *separator_)) {
      has_header_ = true;
      return;
    }
    std::int64_t columns = 0;
    while (!line.empty()) {
      ++columns;
      const std::string_view field = next_field(line, *separator_);
      const std::optional<double> value = parse_number(field);
      if (!value)
        fail("column " + std::to_string(columns) + ": " + in_quotes(field) + " is not a number of double's range");
      const auto bytes = std::as_bytes(std::span(&*value, 1));
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    if (rows_ == 0) columns_ = columns;
    if (columns != columns_) {
      throw ShapeMismatch(where_ + ", line " + std::to_string(line_number_) + ": " + std::to_string(columns) +
                          " values, the lines before have " + std::to_string(columns_));
    }
    ++rows_;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw ParseError(where_ + ", line " + std::to_string(line_number_) + ": " + why);
  }

  std::string_view text_;
  std::string where_;
  std::optional<Separator> separator_;
  bool has_header_ = false;
  std::int64_t line_number_ = 0, rows_ = 0, columns_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace

StoredTensor parse_csv(std::string_view text, const std::string& where) {
  return CsvReader(text, where).read();
}

}  // namespace driftbound

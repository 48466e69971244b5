#include "model/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/npy_header.hpp"
#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

constexpr std::size_t highest_rank = 64;

struct HeaderFields {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  HeaderFields parse() {
    HeaderFields header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        header.descr = descr();
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape") {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail("unknown key " + in_quotes(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (!text_.empty()) fail("text after its closing brace");
    if (!(has_descr && has_order && has_shape)) fail("descr, fortran_order or shape is missing");
    return header;
  }

private:
  [[noreturn]] void fail(const std::string& why) const { throw ParseError(where_ + ": .npy header: " + why); }

  void skip_blanks() {
    const std::size_t first = text_.find_first_not_of(" \n\t\r");
    text_.remove_prefix(first == std::string_view::npos ? text_.size() : first);
  }

  bool accept(char c) {
    skip_blanks();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }

  std::string string() {
    skip_blanks();
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '\'' && quote != '"') fail("expected a quoted string");
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) fail("a string without an end");
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }

  std::string descr() {
    skip_blanks();
    if (!text_.empty() && text_.front() == '[') {
      throw Unsupported(where_ + ": arrays of structures are not read; store one plain array per name");
    }
    return string();
  }

  bool boolean() {
    skip_blanks();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    fail("fortran_order must be True or False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == highest_rank) fail("more than 64 dimensions");
      shape.push_back(extent());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::int64_t extent() {
    skip_blanks();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) fail("a shape entry is not a valid extent");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    if (!text_.empty() && text_.front() == 'L') text_.remove_prefix(1);  // written by Python 2
    return value;
  }

  std::string_view text_;
  const std::string& where_;
};

std::optional<ElementType> element_type_of(std::string_view code) {
  constexpr std::array<std::pair<std::string_view, ElementType>, 12> codes = {{{"f8", ElementType::f64},
                                                                               {"f4", ElementType::f32},
                                                                               {"f2", ElementType::f16},
                                                                               {"i8", ElementType::i64},
                                                                               {"i4", ElementType::i32},
                                                                               {"i2", ElementType::i16},
                                                                               {"i1", ElementType::i8},
                                                                               {"u8", ElementType::u64},
                                                                               {"u4", ElementType::u32},
                                                                               {"u2", ElementType::u16},
                                                                               {"u1", ElementType::u8},
                                                                               {"b1", ElementType::boolean}}};
  for (const auto& [name, type] : codes) {
    if (name == code) return type;
  }
  return std::nullopt;
}

ElementType element_type(std::string_view descr, const std::string& where) {
  constexpr std::string_view byte_orders = "<>=|";
  const bool has_order = !descr.empty() && byte_orders.find(descr.front()) != std::string_view::npos;
  if (const auto type = element_type_of(descr.substr(has_order ? 1 : 0))) return *type;
  std::string advice = "convert the array, for instance to float64";
  if (descr.find('O') != std::string_view::npos) advice = "an array of Python objects (pickled) is never read";
  if (descr.find('V') != std::string_view::npos) advice = "bfloat16 arrays are read from .safetensors files";
  throw Unsupported(where + ": element type " + in_quotes(descr) + " is not supported: " + advice);
}

std::size_t little_endian(std::span<const std::byte> bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = (value << 8) | std::to_integer<std::size_t>(bytes[i]);
  return value;
}

/// Where the text of the header lies: after the magic string, the version and its own length.
struct HeaderText {
  std::size_t begin = 0, size = 0;
};

HeaderText locate_header_text(std::span<const std::byte> start, const std::string& where) {
  constexpr std::string_view magic = "\x93NUMPY";
  if (start.size() < 10 || std::memcmp(start.data(), magic.data(), magic.size()) != 0) {
    throw ParseError(where + ": not an .npy file (no \\x93NUMPY at its start)");
  }
  const int version = std::to_integer<int>(start[6]);
  if (version < 1 || version > 3) throw Unsupported(where + ": .npy format version " + std::to_string(version));
  const std::size_t begin = version == 1 ? 10 : 12;
  if (start.size() < begin) throw ParseError(where + ": truncated .npy header");
  const HeaderText text{begin, little_endian(start.subspan(8, begin - 8))};
  if (begin + text.size > longest_npy_header) throw ParseError(where + ": .npy header longer than 64 KiB");
  if (begin + text.size > start.size()) throw ParseError(where + ": truncated .npy header");
  return text;
}

std::size_t data_size(const NpyHeader& header, const std::string& where) {
  try {
    const auto count = static_cast<std::size_t>(element_count(header.shape));
    const std::size_t width = bytes_per_element(header.type);
    if (count <= std::numeric_limits<std::size_t>::max() / 2 / width) return count * width;
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(where + ": " + error.what());
  }
  throw ShapeMismatch(where + ": shape " + to_string(header.shape) + " is larger than any file");
}

void swap_bytes(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t i = 0; i < bytes.size(); i += width) std::reverse(bytes.data() + i, bytes.data() + i + width);
}

/// Offset of element `index` (row-major) in column-major data.
std::size_t column_major_offset(std::size_t index, const Shape& shape, std::size_t width) {
  std::size_t stride = width * static_cast<std::size_t>(element_count(shape));
  std::size_t offset = 0;
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
    const auto size = static_cast<std::size_t>(*extent);
    stride /= size;
    offset += index % size * stride;
    index /= size;
  }
  return offset;
}

std::vector<std::byte> to_row_major(std::span<const std::byte> bytes, const Shape& shape, std::size_t width) {
  std::vector<std::byte> result(bytes.size());
  for (std::size_t i = 0; i < result.size() / width; ++i) {
    std::memcpy(result.data() + i * width, bytes.data() + column_major_offset(i, shape, width), width);
  }
  return result;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> start, const std::string& where) {
  const HeaderText location = locate_header_text(start, where);
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + location.begin, location.size);
  HeaderFields fields = HeaderParser(text, where).parse();
  NpyHeader header;
  header.type = element_type(fields.descr, where);
  header.shape = std::move(fields.shape);
  header.fortran_order = fields.fortran_order;
  header.big_endian = fields.descr.front() == '>';
  header.size = location.begin + location.size;
  header.data_size = data_size(header, where);
  return header;
}

std::string npy_header(std::string_view type, const Shape& shape) {
  constexpr std::size_t before = 10, multiple = 64;
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  text.append(multiple - 1 - (before + text.size()) % multiple, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xFFU);
  header += static_cast<char>(text.size() >> 8U);
  return header + text;
}

StoredTensor npy_tensor(const NpyHeader& header, std::span<const std::byte> data, std::shared_ptr<const void> owner) {
  const std::size_t width = bytes_per_element(header.type);
  const bool as_stored = !(header.big_endian && width > 1) && !(header.fortran_order && header.shape.size() > 1);
  if (as_stored) return StoredTensor(header.type, header.shape, data, std::move(owner));
  std::vector<std::byte> bytes =
      header.fortran_order ? to_row_major(data, header.shape, width) : std::vector<std::byte>(data.begin(), data.end());
  if (header.big_endian) swap_bytes(bytes, width);
  return StoredTensor(header.type, header.shape, std::move(bytes));
}

StoredTensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where) {
  const NpyHeader header = parse_npy_header(bytes, where);
  const std::span<const std::byte> data = bytes.subspan(header.size);
  if (data.size() != header.data_size) {
    throw ParseError(where + ": shape " + to_string(header.shape) + " of " + std::string(name_of(header.type)) +
                     " takes " + std::to_string(header.data_size) + " bytes, the file holds " +
                     std::to_string(data.size()));
  }
  return npy_tensor(header, data, std::move(owner));
}

}  // namespace driftbound

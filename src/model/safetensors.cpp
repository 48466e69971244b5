#include "model/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "driftbound/num/errors.hpp"
#include "model/atomic_file.hpp"
#include "model/json_text.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr std::size_t length_field = 8;
constexpr std::size_t longest_header = 100'000'000;  ///< as in the reference implementation
constexpr std::size_t highest_rank = 64;
constexpr std::string_view metadata_key = "__metadata__";

constexpr std::array<std::pair<std::string_view, ElementType>, 13> type_names = {{{"F64", ElementType::f64},
                                                                                  {"F32", ElementType::f32},
                                                                                  {"F16", ElementType::f16},
                                                                                  {"BF16", ElementType::bf16},
                                                                                  {"I64", ElementType::i64},
                                                                                  {"I32", ElementType::i32},
                                                                                  {"I16", ElementType::i16},
                                                                                  {"I8", ElementType::i8},
                                                                                  {"U64", ElementType::u64},
                                                                                  {"U32", ElementType::u32},
                                                                                  {"U16", ElementType::u16},
                                                                                  {"U8", ElementType::u8},
                                                                                  {"BOOL", ElementType::boolean}}};

const ElementType* find_type(std::string_view name) {
  const auto found =
      std::find_if(type_names.begin(), type_names.end(), [&](const auto& entry) { return entry.first == name; });
  return found == type_names.end() ? nullptr : &found->second;
}

std::string_view type_name(ElementType type) {
  const auto found =
      std::find_if(type_names.begin(), type_names.end(), [&](const auto& entry) { return entry.second == type; });
  return found->first;
}

/// A non-negative integer of a header.
std::int64_t natural(const json& value, const std::string& where) {
  const bool fits = value.is_number_unsigned() &&
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!fits) throw ParseError(where + ": expected non-negative integers in shape and data_offsets");
  return value.get<std::int64_t>();
}

const json& field(const json& entry, const char* name, const std::string& where) {
  const auto found = entry.is_object() ? entry.find(name) : entry.end();
  if (found == entry.end()) throw ParseError(where + ": field '" + name + "' is missing");
  return *found;
}

/// The JSON header and the data behind it.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Sections split(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() < length_field) throw ParseError(where + ": not a .safetensors file (shorter than 8 bytes)");
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), length_field);
  bytes = bytes.subspan(length_field);
  if (size > bytes.size() || size > longest_header) {
    throw ParseError(where + ": not a .safetensors file, or truncated (its header would be " + std::to_string(size) +
                     " bytes long)");
  }
  const auto header_size = static_cast<std::size_t>(size);
  return {{reinterpret_cast<const char*>(bytes.data()), header_size}, bytes.subspan(header_size)};
}

std::map<std::string, std::string> parse_metadata(const json& object, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!object.is_object()) throw ParseError(where + ": __metadata__ is not a JSON object");
  for (const auto& item : object.items()) {
    if (!item.value().is_string())
      throw ParseError(where + ": __metadata__ " + in_quotes(item.key()) + " is not a string");
    metadata.emplace(item.key(), item.value().get<std::string>());
  }
  return metadata;
}

}  // namespace

std::optional<ElementType> element_type_of(std::string_view name) {
  const ElementType* type = find_type(name);
  return type == nullptr ? std::nullopt : std::optional(*type);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file)
    : SafetensorsFile(MappedFile::open(file), printable(file.string())) {}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const MappedFile> file, std::string where)
    : where_(std::move(where)), file_(std::move(file)) {
  const Sections sections = split(file_->bytes(), where_);
  data_ = sections.data;
  const json header = parse_json(sections.header, where_ + ": header");
  if (!header.is_object()) throw ParseError(where_ + ": its header is not a JSON object");
  for (const auto& item : header.items()) {
    if (item.key() == metadata_key) {
      metadata_ = parse_metadata(item.value(), where_);
    } else {
      add_entry(item.key(), item.value());
    }
  }
  using Position = std::pair<std::size_t, const std::string*>;
  std::vector<Position> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(entry.begin, &name);
  std::sort(order.begin(), order.end(), [](const Position& a, const Position& b) {
    return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
  });
  for (const auto& [begin, name] : order) names_.push_back(*name);
}

void SafetensorsFile::add_entry(const std::string& name, const json& value) {
  const std::string where = where_ + ": tensor " + in_quotes(name);
  const json& type = field(value, "dtype", where);
  const json& shape = field(value, "shape", where);
  const json& offsets = field(value, "data_offsets", where);
  if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw ParseError(where + ": dtype, shape or data_offsets is not what it must be");
  }
  if (shape.size() > highest_rank) throw ParseError(where + ": more than 64 dimensions");
  Entry entry;
  entry.type = type.get<std::string>();
  for (const json& extent : shape) entry.shape.push_back(natural(extent, where));
  const auto begin = static_cast<std::uint64_t>(natural(offsets[0], where));
  const auto end = static_cast<std::uint64_t>(natural(offsets[1], where));
  if (begin > end || end > data_.size())
    throw ParseError(where + ": its data lie outside the file, which may be truncated");
  entry.begin = static_cast<std::size_t>(begin);
  entry.end = static_cast<std::size_t>(end);
  entries_.emplace(name, std::move(entry));
}

StoredTensor SafetensorsFile::tensor(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const std::string where = where_ + ": tensor " + in_quotes(name);
  const ElementType* type = find_type(entry.type);
  if (type == nullptr) throw Unsupported(where + ": element type " + in_quotes(entry.type) + " is not supported");
  try {
    return StoredTensor(*type, entry.shape, data_.subspan(entry.begin, entry.end - entry.begin), file_);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(where + ": " + error.what());
  }
}

void write_safetensors(const std::filesystem::path& file,
                       const std::vector<std::pair<std::string, const StoredTensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // The format allows no gaps, so that the widest elements come first: then everything lies aligned.
  std::vector<const std::pair<std::string, const StoredTensor*>*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return bytes_per_element(a->second->type()) > bytes_per_element(b->second->type());
  });

  json header = json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  std::size_t offset = 0;
  for (const auto* entry : order) {
    const StoredTensor& tensor = *entry->second;
    const std::size_t end = offset + tensor.bytes().size();
    header[entry->first] = {
        {"dtype", type_name(tensor.type())}, {"shape", tensor.shape()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = dump_json(header);
  text.resize((text.size() + length_field - 1) / length_field * length_field, ' ');

  AtomicFile out(file);
  const std::uint64_t size = text.size();
  out.write(std::as_bytes(std::span(&size, 1)));
  out.write(text);
  for (const auto* entry : order) out.write(entry->second->bytes());
  out.commit();
}

}  // namespace driftbound

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "model/mapped_file.hpp"

namespace driftbound {

/// A .safetensors file: 8 bytes with the length of a JSON header, the header, the data.
class SafetensorsFile {
public:
  /// Checks the whole header: every tensor's bytes lie inside the file.
  /// Throws:    FileError, ParseError
  explicit SafetensorsFile(const std::filesystem::path& file);
  SafetensorsFile(std::shared_ptr<const MappedFile> file, std::string where);

  /// Names in the order in which the data lie in the file.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  const Shape& shape(const std::string& name) const { return entries_.at(name).shape; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Throws:    Unsupported (an element type there is no tensor of), ShapeMismatch (bytes that do not fit the shape)
  StoredTensor tensor(const std::string& name) const;
  /// As MappedFile has it.
  void release_pages() const { file_->release_pages(); }

private:
  struct Entry {
    std::string type;
    Shape shape;
    std::size_t begin = 0, end = 0;
  };
  void add_entry(const std::string& name, const nlohmann::json& value);

  std::string where_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> data_;
  std::map<std::string, Entry> entries_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> metadata_;
};

/// The element type that a header names "F32", "BF16" …; empty for names of types that there is no tensor of.
std::optional<ElementType> element_type_of(std::string_view name);

/// Writes a .safetensors file, whole or not at all; every tensor lies aligned to its element size.
/// Throws:    FileError
void write_safetensors(const std::filesystem::path& file,
                       const std::vector<std::pair<std::string, const StoredTensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace driftbound

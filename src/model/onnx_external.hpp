#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "model/mapped_file.hpp"
#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// Data files of a model: they lie in its folder, or below it, and nowhere else.
class DataFiles {
public:
  explicit DataFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Range {
    Bytes bytes;
    std::shared_ptr<const void> owner;  ///< keeps the file mapped
  };
  /// The bytes that a tensor points to, `expected` many. A file is mapped once, however many tensors lie in it.
  /// Throws:    ParseError (a location outside the folder, numbers that are none, a range beyond the end),
  ///            FileError (missing, a directory, a device), ShapeMismatch (a length other than expected)
  Range find(const ExternalData& external, std::uint64_t expected);

  /// The whole file at a location.
  /// Throws:    ParseError, FileError
  const std::shared_ptr<const MappedFile>& map(std::string_view location);

  /// Location as the model names it, and bytes of the file, of all files opened so far.
  const std::map<std::string, std::uint64_t>& opened() const { return sizes_; }
  /// Bytes of all files opened so far.
  std::uint64_t total_bytes() const;

private:
  std::filesystem::path resolve(std::string_view location) const;

  std::filesystem::path folder_;
  std::map<std::filesystem::path, std::shared_ptr<const MappedFile>> files_;  ///< by resolved path
  std::map<std::string, std::uint64_t> sizes_;
};

/// Bytes of all files that the initialisers of an unparsed model lie in, up to the first that is damaged or cannot be
/// opened: reading the model tells why.
std::uint64_t bytes_of_data_files(Bytes model, const std::filesystem::path& folder);

}  // namespace driftbound::onnx

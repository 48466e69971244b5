#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace driftbound {

/// The bytes of a regular file, mapped read-only. Whoever holds the pointer keeps the bytes alive.
class MappedFile {
public:
  /// Throws:    FileError (missing, a directory, not a regular file, unreadable)
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& file);
  /// Bytes in memory taken for a file's.
  static std::shared_ptr<const MappedFile> holding(std::vector<std::byte> bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the memory of pages that were read back to the system. They are read again when they are asked for.
  void release_pages() const;

private:
  explicit MappedFile(std::span<const std::byte> mapped) : bytes_(mapped) {}
  explicit MappedFile(std::vector<std::byte> owned) : owned_(std::move(owned)), bytes_(owned_) {}
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

inline std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace driftbound

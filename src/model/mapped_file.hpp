#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace driftbound {

/// A regular file, mapped read-only. Whoever holds the pointer keeps the bytes alive.
class MappedFile {
public:
  /// Throws:    FileError (missing, a directory, not a regular file, unreadable)
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace driftbound

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace driftbound {

/// A file written under a temporary name in the same folder and renamed when whole, so that the name
/// asked for never holds half a file, and keeps the permissions of what it replaces. Destroyed without commit(), it
/// leaves nothing behind.
class AtomicFile {
public:
  /// Throws:    FileError (no such folder, not writable, or the name is taken by something that is not a file)
  explicit AtomicFile(const std::filesystem::path& file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws:    FileError
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Throws:    FileError
  void commit();

private:
  void keep_permissions() const;
  [[noreturn]] void fail(const std::string& why) const;

  std::filesystem::path file_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace driftbound

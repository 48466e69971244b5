#include "model/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {

AtomicFile::AtomicFile(const std::filesystem::path& file) : file_(file) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored)) {
    fail("it exists and is not a regular file");
  }
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_ = file;
    temporary_ += ".part-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) fail(std::strerror(errno));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// What is replaced keeps who may read it, where the file system knows such a thing.
void AtomicFile::keep_permissions() const {
  struct stat replaced = {};
  if (::stat(file_.c_str(), &replaced) == 0) static_cast<void>(::fchmod(descriptor_, replaced.st_mode & 0777));
}

void AtomicFile::commit() {
  keep_permissions();
  const int closed = ::close(descriptor_);
  const int close_error = errno;
  descriptor_ = -1;
  const bool renamed = closed == 0 && ::rename(temporary_.c_str(), file_.c_str()) == 0;
  if (renamed) return;
  const int error = closed != 0 ? close_error : errno;
  ::unlink(temporary_.c_str());
  fail(std::strerror(error));
}

void AtomicFile::fail(const std::string& why) const {
  throw FileError("cannot write " + printable(file_.string()) + ": " + why);
}

}  // namespace driftbound

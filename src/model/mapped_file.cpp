#include "model/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

class Descriptor {
public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

private:
  int value_;
};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw FileError("cannot read " + printable(file.string()) + ": " + why);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& file) {
  // O_NONBLOCK: opening a pipe without a writer must not hang.
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.value() < 0) fail(file, std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor.value(), &status) != 0) fail(file, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail(file, "it is a directory; name a file");
  if (!S_ISREG(status.st_mode)) fail(file, "it is not a regular file; copy its contents to one first");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(std::span<const std::byte>()));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.value(), 0);
  if (address == MAP_FAILED) fail(file, std::strerror(errno));
  return std::shared_ptr<const MappedFile>(new MappedFile(std::span(static_cast<const std::byte*>(address), size)));
}

std::shared_ptr<const MappedFile> MappedFile::holding(std::vector<std::byte> bytes) {
  return std::shared_ptr<const MappedFile>(new MappedFile(std::move(bytes)));
}

void MappedFile::release_pages() const {
  // Nothing is lost where the system refuses.
  if (owned_.empty() && !bytes_.empty())
    ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (owned_.empty() && !bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace driftbound

#include "driftbound/model/row_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/npy.hpp"
#include "model/text.hpp"

namespace driftbound {

class RowReader::File {
public:
  explicit File(const std::filesystem::path& name) : where_(printable(name.string())) {
    // O_NONBLOCK: opening a pipe without a writer must not hang.
    descriptor_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) fail(std::strerror(errno));
    try {
      read_header();
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const NpyHeader& header() const { return header_; }
  std::int64_t rows() const { return header_.shape.front(); }
  std::int64_t columns() const { return columns_; }

  void read(std::int64_t first, std::int64_t count, std::span<double> out) const {
    if (first < 0 || count < 0 || first > rows() - count || out.size() != static_cast<std::size_t>(count * columns_))
      throw InvalidArgument(where_ + ": has no rows " + std::to_string(first) + " to " + std::to_string(first + count) +
                            ", or the room for them has another size");
    if (count == 0 || columns_ == 0) return;
    if (!header_.fortran_order) {
      convert(first * columns_, count * columns_, out.data(), 1);
      return;
    }
    const Shape axes(header_.shape.begin() + 1, header_.shape.end());
    for (std::int64_t column = 0; column < columns_; ++column)
      convert(column_major(column, axes) * rows() + first, count, out.data() + column, columns_);
  }

private:
  [[noreturn]] void fail(const std::string& why) const { throw FileError("cannot read " + where_ + ": " + why); }

  std::vector<std::byte> bytes(std::size_t offset, std::size_t count) const {
    std::vector<std::byte> bytes(count);
    for (std::size_t done = 0; done < count;) {
      const ssize_t got = ::pread(descriptor_, bytes.data() + done, count - done, static_cast<::off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(std::strerror(errno));
      if (got == 0) fail("it became shorter while it was read");
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }

  void read_header() {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail(std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail("it is not a regular file; copy its contents to one first");
    size_ = static_cast<std::size_t>(status.st_size);
    header_ = parse_npy_header(bytes(0, std::min(size_, longest_npy_header)), where_);
    if (!is_float(header_.type))
      throw Unsupported(where_ + ": holds " + std::string(name_of(header_.type)) +
                        "; store float32 or float64 (float16 is read too)");
    if (header_.shape.empty()) throw ShapeMismatch(where_ + ": holds a single number; axis 0 counts rows");
    if (size_ - header_.size != header_.data_size)
      throw ParseError(where_ + ": shape " + to_string(header_.shape) + " of " + std::string(name_of(header_.type)) +
                       " takes " + std::to_string(header_.data_size) + " bytes, the file holds " +
                       std::to_string(size_ - header_.size));
    columns_ = element_count(Shape(header_.shape.begin() + 1, header_.shape.end()));
  }

  /// Position of a row's element in column-major order.
  static std::int64_t column_major(std::int64_t index, const Shape& axes) {
    std::int64_t stride = element_count(axes), offset = 0;
    for (auto extent = axes.rbegin(); extent != axes.rend(); ++extent) {
      stride /= *extent;
      offset += index % *extent * stride;
      index /= *extent;
    }
    return offset;
  }

  /// Elements that lie side by side in the file, `stride` apart in memory.
  void convert(std::int64_t first, std::int64_t count, double* out, std::int64_t stride) const {
    const std::size_t width = bytes_per_element(header_.type);
    const auto raw =
        bytes(header_.size + static_cast<std::size_t>(first) * width, static_cast<std::size_t>(count) * width);
    NpyHeader part = header_;
    part.shape = {count};
    const Tensor<double> values = npy_tensor(part, raw, nullptr).to_double();
    for (std::int64_t i = 0; i < count; ++i) out[i * stride] = values.values[static_cast<std::size_t>(i)];
  }

  std::string where_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
  NpyHeader header_;
  std::int64_t columns_ = 0;
};

RowReader::RowReader(const std::filesystem::path& file) : file_(std::make_shared<const File>(file)) {}

ElementType RowReader::type() const {
  return file_->header().type;
}

std::int64_t RowReader::rows() const {
  return file_->rows();
}

std::int64_t RowReader::columns() const {
  return file_->columns();
}

void RowReader::read(std::int64_t first, std::int64_t count, std::span<double> out) const {
  file_->read(first, count, out);
}

}  // namespace driftbound

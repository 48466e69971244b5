#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Rows of the array in an .npy file, read where they lie: memory of the rows asked for, whatever the size of the file.
/// Axis 0 counts rows; the other axes are one row, row-major. const methods may be called by several threads at a time.
class RowReader {
public:
  /// Throws:    FileError, ParseError (also for a file of another size than its header says), Unsupported (elements
  /// that
  ///            are not float16, float32 or float64), ShapeMismatch (no axis 0)
  explicit RowReader(const std::filesystem::path& file);

  ElementType type() const;
  std::int64_t rows() const;
  std::int64_t columns() const;

  /// Rows [first, first + count) as doubles, one after the other.
  /// Shapes:    `out` has count * columns() elements
  /// Throws:    InvalidArgument where there are no such rows or `out` has another size; FileError
  void read(std::int64_t first, std::int64_t count, std::span<double> out) const;

private:
  class File;
  std::shared_ptr<const File> file_;
};

}  // namespace driftbound

#pragma once

#include <filesystem>

#include "model/array_files.hpp"

namespace driftbound::test {

/// The array of an .npy file.
inline StoredTensor npy_of_file(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  return parse_npy(mapped->bytes(), mapped, file.string());
}

}  // namespace driftbound::test

#pragma once

#include <filesystem>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "support/temporary_folder.hpp"

namespace driftbound::test {

/// Whether a reader copes with a file: it refuses it with an error of the library, or its result passes.
/// Any other exception leaves the test case and fails it.
template <class Reader>
bool refuses_or(Reader reader) {
  try {
    return reader();
  } catch (const Error&) {
    return true;
  }
}

/// Writes a file anew: some file systems wait for the disk when a file is overwritten, thousands of times here.
inline std::filesystem::path write_anew(const TemporaryFolder& folder, std::string_view name,
                                        std::string_view contents) {
  std::filesystem::remove(folder / name);
  return folder.write(name, contents);
}

}  // namespace driftbound::test

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace fs = std::filesystem;

namespace {

// Headers that the lines of a file include by quotes.
std::set<std::string> included_by(const fs::path& file) {
  const std::string directive = "#include \"";
  std::set<std::string> headers;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(directive, 0) == 0)
      headers.insert(line.substr(directive.size(), line.rfind('"') - directive.size()));
  return headers;
}

// Public headers, but adapters to other libraries and those for C.
std::set<std::string> public_headers(const fs::path& include) {
  std::set<std::string> headers;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(include / "driftbound")) {
    const fs::path header = fs::relative(entry.path(), include);
    const bool is_apart = header.parent_path() == "driftbound/adapters" || header.parent_path() == "driftbound/c";
    if (entry.is_regular_file() && !is_apart) headers.insert(header.string());
  }
  return headers;
}

}  // namespace

TEST_CASE("driftbound.hpp includes every public header but adapters and those for C") {
  const fs::path include = fs::path(DRIFTBOUND_SOURCE_DIR) / "include";
  const std::set<std::string> all = public_headers(include), included = included_by(include / "driftbound.hpp");
  CHECK(all.count("driftbound/num/errors.hpp") == 1);
  for (const std::string& header : all) CHECK_MESSAGE(included.count(header) == 1, header);
  for (const std::string& header : included) CHECK_MESSAGE(all.count(header) == 1, header);
}

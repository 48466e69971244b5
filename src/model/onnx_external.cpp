#include "model/onnx_external.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <unordered_set>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

namespace fs = std::filesystem;

std::uint64_t number(const std::optional<std::string_view>& text, const char* what, std::uint64_t fallback) {
  if (!text) return fallback;
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (text->empty() || stopped != end || error != std::errc())
    throw ParseError(std::string("its ") + what + " " + in_quotes(*text) + " is not a number of 64 bits");
  return value;
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
}

}  // namespace

/// The file that a location stands for, without symbolic links.
fs::path DataFiles::resolve(std::string_view location) const {
  if (location.empty()) throw ParseError("it names no file");
  if (location.find('\0') != std::string_view::npos) throw ParseError("the name of its file holds a zero byte");
  const fs::path relative{std::string(location)};
  if (relative.is_absolute())
    throw ParseError("the path is absolute; data files must lie in the model's folder and be named relative to it");
  if (std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end())
    throw ParseError("the path goes up with '..'; data files must lie in the model's folder");
  try {
    const fs::path folder = fs::weakly_canonical(folder_.empty() ? fs::path(".") : folder_);
    const fs::path file = fs::weakly_canonical(folder / relative);
    if (lies_in(file, folder)) return file;
  } catch (const fs::filesystem_error& error) {
    throw FileError(error.code().message());
  }
  throw ParseError("a symbolic link leads out of the model's folder; copy the file next to the model");
}

const std::shared_ptr<const MappedFile>& DataFiles::map(std::string_view location) {
  const fs::path file = resolve(location);
  auto found = files_.find(file);
  if (found == files_.end()) {
    found = files_.emplace(file, MappedFile::open(file)).first;
    sizes_.emplace(printable(location), found->second->bytes().size());
  }
  return found->second;
}

DataFiles::Range DataFiles::find(const ExternalData& external, std::uint64_t expected) {
  const std::shared_ptr<const MappedFile>& file = map(external.location.value_or(""));
  const std::uint64_t offset = number(external.offset, "offset", 0);
  const std::uint64_t length = number(external.length, "length", expected);
  const std::uint64_t size = file->bytes().size();
  if (offset > size || length > size - offset) {
    throw ParseError(std::to_string(length) + " bytes from offset " + std::to_string(offset) +
                     " on reach beyond the end of the file, which has " + std::to_string(size) + " bytes");
  }
  if (length != expected) {
    throw ShapeMismatch(std::to_string(length) + " bytes where the tensor's shape and type need " +
                        std::to_string(expected));
  }
  return {file->bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length)), file};
}

std::uint64_t DataFiles::total_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [path, file] : files_) total += file->bytes().size();
  return total;
}

std::uint64_t bytes_of_data_files(Bytes model, const fs::path& folder) {
  DataFiles files(folder);
  std::unordered_set<std::string_view> seen;
  try {
    for (WireReader reader(model, "ModelProto"); reader.next();) {
      if (reader.field() != 7) continue;
      for (WireReader graph(reader.bytes(), "GraphProto"); graph.next();) {
        if (graph.field() != 5) continue;
        const auto location = parse_data_location(graph.bytes());
        if (location && seen.insert(*location).second) files.map(*location);
      }
    }
  } catch (const Error&) {
  }
  return files.total_bytes();
}

}  // namespace driftbound::onnx

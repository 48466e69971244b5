#include "cli/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "driftbound/num/errors.hpp"

namespace driftbound::cli {

void require_distinct(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<std::filesystem::path> taken;
  // absolute: what does not exist has no canonical folder otherwise
  const auto resolved = [](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(target_of(name)));
  };
  for (const std::string& name : inputs)
    if (!name.empty()) taken.push_back(resolved(name));
  for (const std::string& name : outputs) {
    if (name.empty() || name == "-" || (std::filesystem::exists(name) && !std::filesystem::is_regular_file(name)))
      continue;
    if (std::find(taken.begin(), taken.end(), resolved(name)) != taken.end())
      throw InvalidArgument(
          fmt::format("{}: would replace an input or another output of this run; choose another name", name));
    taken.push_back(resolved(name));
  }
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw FileError("standard output cannot be written (disk full, or closed)");
}

std::filesystem::path target_of(const std::filesystem::path& file) {
  constexpr int most_links = 40;
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file)) return file;
  std::filesystem::path target = file;
  for (int links = 0; std::filesystem::is_symlink(target); ++links) {
    if (links == most_links) throw FileError(fmt::format("{}: too many symbolic links", file.string()));
    target = target.parent_path() / std::filesystem::read_symlink(target);
  }
  return target;
}

void require_writable(const std::filesystem::path& name) {
  if (name.empty()) return;
  const std::filesystem::path file = target_of(name);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder))
    throw FileError(fmt::format("{}: cannot be written: there is no folder '{}'", file.string(), folder.string()));
  if (std::filesystem::is_directory(file))
    throw FileError(fmt::format("{}: cannot be written: it is a folder", file.string()));
  if (access(folder.c_str(), W_OK) != 0)
    throw FileError(
        fmt::format("{}: cannot be written: no permission to write in '{}'", file.string(), folder.string()));
}

void require_tensor_file(const std::string& file, const char* option) {
  std::string extension = std::filesystem::path(file).extension().string();
  for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const std::string_view other : {".npz", ".npy", ".csv", ".json", ".html", ".xml", ".onnx"})
    if (extension == other)
      throw InvalidArgument(
          fmt::format("{} {}: what is written there is a .safetensors file; name it so", option, file));
}

void write_whole(const std::filesystem::path& name, const std::string& text) {
  require_writable(name);
  const std::filesystem::path file = target_of(name);
  if (std::filesystem::exists(file) &&
      !std::filesystem::is_regular_file(file)) {  // a device or a pipe: no renaming over it
    std::ofstream device(file, std::ios::binary);
    device << text << std::flush;
    if (!device) throw FileError(fmt::format("{}: cannot be written", file.string()));
    return;
  }
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.tmp", getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (std::filesystem::exists(file))  // who may read it stays as it is, where the file system knows such a thing
    std::filesystem::permissions(temporary, std::filesystem::status(file).permissions(), error);
  error.clear();
  if (out) std::filesystem::rename(temporary, file, error);
  if (!out || error) {
    std::filesystem::remove(temporary, error);
    throw FileError(fmt::format("{}: cannot be written (disk full, or no permission)", file.string()));
  }
}

}  // namespace driftbound::cli

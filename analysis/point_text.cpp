#include "analysis/point_text.hpp"

#include <fmt/format.h>

#include <fstream>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

std::string describe(std::span<const double> numbers) {
  std::string text;
  for (const double x : numbers) text += fmt::format("{}{}", text.empty() ? "" : ",", x);
  return text;
}

std::string describe(const Box& box) {
  std::string text;
  for (std::size_t c = 0; c < box.lower.size(); ++c)
    text += fmt::format("{}{}:{}", c == 0 ? "" : ",", box.lower[c], box.upper[c]);
  return text;
}

std::string hash_of(const std::string& text) {
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

std::string hash_of_file(const std::filesystem::path& file) {
  constexpr std::size_t part_size = std::size_t{1} << 24;
  std::ifstream in(file, std::ios::binary);
  std::string part(part_size, '\0'), hashes;
  while (in.read(part.data(), static_cast<std::streamsize>(part_size)) || in.gcount() > 0)
    hashes += sha256_of(std::as_bytes(std::span(part.data(), static_cast<std::size_t>(in.gcount()))));
  if (!in.eof()) throw FileError(fmt::format("cannot read {}", file.string()));
  return hash_of(hashes);
}

}  // namespace driftbound::analysis

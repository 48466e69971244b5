#include "analysis/png.hpp"

#include <zlib.h>

#include <cstddef>
#include <new>

namespace driftbound::analysis {
namespace {

constexpr std::size_t bytes_of_pixel = 3;

void append_number(std::string& text, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xffU);
}

const Bytef* bytes_of(const std::string& text) {
  return reinterpret_cast<const Bytef*>(text.data());
}

void append_chunk(std::string& file, std::string_view name, std::string_view content) {
  append_number(file, static_cast<std::uint32_t>(content.size()));
  const std::string text = std::string(name) + std::string(content);
  file += text;
  append_number(file, static_cast<std::uint32_t>(crc32_z(0, bytes_of(text), text.size())));
}

std::string deflated(const std::string& text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string content(size, '\0');
  if (compress(reinterpret_cast<Bytef*>(content.data()), &size, bytes_of(text), static_cast<uLong>(text.size())) !=
      Z_OK)
    throw std::bad_alloc();  // the only way to fail into this much room
  content.resize(size);
  return content;
}

/// Every row after the number of its filter, each byte less that of the pixel before.
std::string filtered(std::size_t width, std::size_t height, std::string_view pixels) {
  std::string text;
  for (std::size_t row = 0; row < height; ++row) {
    const std::string_view bytes = pixels.substr(row * width * bytes_of_pixel, width * bytes_of_pixel);
    text += '\1';
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const int before = i < bytes_of_pixel ? 0 : static_cast<unsigned char>(bytes[i - bytes_of_pixel]);
      text += static_cast<char>(static_cast<unsigned char>(bytes[i]) - before);
    }
  }
  return text;
}

}  // namespace

std::string png_of(std::int64_t width, std::int64_t height, std::string_view pixels) {
  std::string file = "\x89PNG\r\n\x1a\n", header;
  append_number(header, static_cast<std::uint32_t>(width));
  append_number(header, static_cast<std::uint32_t>(height));
  header += std::string_view("\x8\x2\0\0\0", 5);  // bits of a colour, red-green-blue, and the only methods there are
  append_chunk(file, "IHDR", header);
  const std::string text = filtered(static_cast<std::size_t>(width), static_cast<std::size_t>(height), pixels);
  append_chunk(file, "IDAT", deflated(text));
  append_chunk(file, "IEND", "");
  return file;
}

}  // namespace driftbound::analysis

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace driftbound::test {

inline std::uint32_t crc32_of(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, value >>= 8) text += static_cast<char>(value);
  return text;
}

/// A zip archive whose members are stored as they are.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string archive, directory;
  for (const auto& [name, data] : members) {
    const std::string common = little_endian(20, 2) + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) +
                               little_endian(crc32_of(data), 4) + little_endian(data.size(), 4) +
                               little_endian(data.size(), 4) + little_endian(name.size(), 2) + little_endian(0, 2);
    directory += "PK\x01\x02" + little_endian(20, 2) + common + little_endian(0, 2) + little_endian(0, 2) +
                 little_endian(0, 2) + little_endian(0, 4) + little_endian(archive.size(), 4) + name;
    archive += "PK\x03\x04" + common + name + data;
  }
  const std::string end = "PK\x05\x06" + little_endian(0, 4) + little_endian(members.size(), 2) +
                          little_endian(members.size(), 2) + little_endian(directory.size(), 4) +
                          little_endian(archive.size(), 4) + little_endian(0, 2);
  return archive + directory + end;
}

}  // namespace driftbound::test

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "support/zip_writer.hpp"

namespace driftbound::test {

/// An .npy file with the header text given, padded as NumPy does.
inline std::string npy_with_header(std::string header, std::string_view data, int version = 1) {
  const std::size_t before = version == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
         little_endian(header.size(), version == 1 ? 2 : 4) + header + std::string(data);
}

inline std::string npy_header(std::string_view descr, const std::vector<std::int64_t>& shape,
                              bool fortran_order = false) {
  std::string text =
      "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': (";
  for (const std::int64_t extent : shape) text += std::to_string(extent) + ", ";
  return text + "), }";
}

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  std::string raw(values.size() * sizeof(T), '\0');
  if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

template <class T>
std::string npy_of(std::string_view descr, const std::vector<std::int64_t>& shape, const std::vector<T>& values,
                   bool fortran_order = false) {
  return npy_with_header(npy_header(descr, shape, fortran_order), raw_bytes(values));
}

}  // namespace driftbound::test

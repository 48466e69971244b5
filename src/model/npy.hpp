#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// What the header of an .npy file says.
struct NpyHeader {
  ElementType type = ElementType::f32;
  Shape shape;
  bool fortran_order = false;  ///< column-major
  bool big_endian = false;
  std::size_t size = 0;       ///< bytes of the header
  std::size_t data_size = 0;  ///< bytes of the array
};

/// No header is longer (with the ten or twelve bytes before its text).
constexpr std::size_t longest_npy_header = (std::size_t{1} << 16) + 12;

/// Throws:    ParseError, Unsupported (element types there is no tensor of), ShapeMismatch (absurd shapes)
NpyHeader parse_npy_header(std::span<const std::byte> start, const std::string& where);

/// The array as a tensor that shares `data` with `owner` where it lies there as tensors do.
StoredTensor npy_tensor(const NpyHeader& header, std::span<const std::byte> data, std::shared_ptr<const void> owner);

}  // namespace driftbound

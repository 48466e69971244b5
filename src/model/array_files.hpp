#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "model/mapped_file.hpp"

namespace driftbound {

/// Readers of array files. Messages start with `where` or the file's name. Nothing is converted, and no more
/// memory is taken than the file's own bytes justify.

/// An .npy file in memory (format 1.0 to 3.0; f2 f4 f8, i1 … i8, u1 … u8, b1; both byte orders; C and Fortran
/// order, the latter rearranged to row-major). The tensor shares `bytes` with `owner` where it can.
/// Throws:    ParseError, Unsupported (element types there is no tensor of)
StoredTensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where);

using NamedTensors = std::vector<std::pair<std::string, StoredTensor>>;

/// Every .npy member of an .npz file in file order, names without ".npy".
/// Throws:    FileError, ParseError, Unsupported (unpacks to more than 48 MiB and twice the file)
NamedTensors read_npz(const std::filesystem::path& file);
NamedTensors parse_npz(const std::shared_ptr<const MappedFile>& file, const std::string& where);

/// One sample a row, as float64 [rows, columns]. Separator: comma, else semicolon, else blanks, whichever the first
/// line holds. Empty lines and lines that start with # are skipped; a first line with a field that is not
/// a number is a header. Decimal and 0x… hexadecimal numbers, inf and nan.
/// Throws:    ParseError (names line and column), ShapeMismatch (rows of different length)
StoredTensor parse_csv(std::string_view text, const std::string& where);

}  // namespace driftbound

#pragma once

#include <cstdint>
#include <string>

#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// The tensor with its elements rounded to nearest even in another type; the same bytes where the type is the same.
/// Integer targets take integral values in range only.
/// Throws:    ShapeMismatch that starts with `where` (a value that the integer target cannot hold)
StoredTensor converted(const StoredTensor& tensor, ElementType type, const std::string& where);

/// Whether every element survives the conversion unchanged (NaN as NaN).
bool converts_exactly(const StoredTensor& tensor, ElementType type);

/// The same bytes under another shape of as many elements; shares ownership, copies nothing.
/// Throws:    ShapeMismatch
StoredTensor reshaped(const StoredTensor& tensor, Shape shape);

/// Entries [first, first + count) of axis 0; shares ownership, copies nothing.
/// Throws:    ShapeMismatch where axis 0 has no such entries
StoredTensor rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t count);

}  // namespace driftbound

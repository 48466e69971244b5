#pragma once

#include <memory>
#include <optional>
#include <string>

#include "driftbound/model/tensor.hpp"
#include "model/onnx_external.hpp"
#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// Element type of a tensor; empty where there is none (strings, complex numbers, fp8, 4-bit types …).
std::optional<ElementType> element_type(DataType type);
/// "float32", "string", "float8e4m3fn" …
std::string name_of(DataType type);

/// The tensor with every element as the file stores it; shares the file's bytes with `owner` where they lie there
/// as tensors do, and those of a data file with that. Messages start with `where`.
/// Throws:    ParseError (damaged), ShapeMismatch (data that do not fit the shape), FileError (data files),
///            Unsupported (element types there is no tensor of; data outside the file where there are no data files)
StoredTensor to_stored(const TensorProto& tensor, const std::shared_ptr<const void>& owner, const std::string& where,
                       DataFiles* data_files = nullptr);

/// A repeated number of an attribute.
std::vector<std::int64_t> to_integers(const Pieces& varints);
StoredTensor to_float_vector(const Pieces& reals);

}  // namespace driftbound::onnx

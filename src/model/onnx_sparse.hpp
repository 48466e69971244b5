#pragma once

#include <memory>
#include <string>

#include "driftbound/model/tensor.hpp"
#include "model/fold.hpp"
#include "model/onnx_external.hpp"
#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// A sparse tensor with its zeros written out. Messages start with `where`.
/// Throws:    ParseError, ShapeMismatch (indices out of order, twice, or outside the shape), FileError,
///            Unsupported (element types there is no tensor of, dense forms larger than the allowance)
StoredTensor to_dense(const SparseTensorProto& tensor, const std::shared_ptr<const void>& owner,
                      const std::string& where, DataFiles& data_files, Allowance& allowance);

}  // namespace driftbound::onnx

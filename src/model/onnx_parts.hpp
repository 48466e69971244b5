#pragma once

#include <cstddef>
#include <string_view>

#include "driftbound/model/ops.hpp"
#include "model/wire.hpp"

namespace driftbound::onnx {

/// The memory that the parts of a model take while it is read (nodes, values, names, numbers stored more densely than
/// they are kept), counted before any of it is taken: a node of twenty bytes in the file is a thousand in memory.
/// Throws:    ParseError
std::size_t memory_of_parts(WireReader::Bytes model);

/// What an op of the graph takes besides: its layer's name, its lists, and `rank` extents of its result.
std::size_t memory_of_op(const Op& op, std::string_view layer, std::size_t rank);

/// What a node with very many inputs or outputs takes besides: a Split is an op for every part, a Sum one for every term.
std::size_t memory_of_further_values(std::size_t inputs, std::size_t outputs);

}  // namespace driftbound::onnx

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "driftbound/model/ops.hpp"

namespace driftbound {

/// An op of ONNX's default domain as the loader takes it.
struct OnnxOp {
  std::string_view name;
  std::int64_t since;              ///< the first opset whose meaning is known; there is no last one
  std::vector<std::size_t> kinds;  ///< alternatives of Op that a node becomes; none: a constant
  std::string_view limits;         ///< what a node must be to be taken; empty: as ONNX defines it
};

/// Every op of ONNX that the loader takes, from the rules that it follows.
std::vector<OnnxOp> onnx_ops();

/// Ops of ONNX that the loader computes on integers that follow from shapes and constants.
std::vector<std::string_view> onnx_integer_ops();

}  // namespace driftbound

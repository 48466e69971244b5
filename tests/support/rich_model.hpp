#pragma once

#include "support/onnx_writer.hpp"

namespace driftbound::test {

/// Something of everything: packed and single numbers, attributes of every kind, a folded constant, an open dimension.
inline OnnxModel rich_model() {
  OnnxModel model(13);
  model.input("x", {"N", 3})
      .initializer("W", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6})
      .initializer(onnx_tensor_header("b", onnx_float, {2}).fixed32(4, 1).fixed32(4, 2))
      .initializer(onnx_tensor_header("t", onnx_int64, {2}).varint(7, 0).varint(7, 2))
      .node("Gemm", {"x", "W", "b"}, "h", {OnnxAttribute::of_float("alpha", 2), OnnxAttribute::of_int("transB", 0)},
            "gemm")
      .node("Constant", {}, "c", {OnnxAttribute::of_tensor("value", onnx_tensor("", {2}, std::vector<float>{1, 2}))})
      .node("Mul", {"h", "c"}, "m")
      .node("Reshape", {"m", "t"}, "r")
      .node("Transpose", {"r"}, "u", {OnnxAttribute::of_ints("perm", {1, 0})})
      .node("Softmax", {"u"}, "y", {OnnxAttribute::of_int("axis", -1)})
      .output("y");
  return model;
}

}  // namespace driftbound::test

#pragma once

#include <string>

#include "driftbound/model/ops.hpp"

namespace driftbound::analysis {

/// What docs/ops.md says of an op.
struct OpRow {
  std::string name, onnx, evaluation, local, guarantee, propagation;
};
/// An op with the default attributes of its kind.
OpRow row_of(const Op& op);

/// Every op with its ONNX names and opsets, its evaluation, its bounds with their theorems, and the bodies of
/// composites: docs/ops.md, from the code that loads, evaluates and bounds.
std::string describe_ops();

}  // namespace driftbound::analysis

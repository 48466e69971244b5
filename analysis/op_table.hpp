#pragma once

#include <string>

namespace driftbound::analysis {

/// Every op with its ONNX names and opsets, its evaluation, its bounds with their theorems, and the bodies of
/// composites: docs/ops.md, from the code that loads, evaluates and bounds.
std::string describe_ops();

}  // namespace driftbound::analysis

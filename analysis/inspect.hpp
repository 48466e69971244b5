#pragma once

#include <string>

#include "driftbound/model/load.hpp"

namespace driftbound::analysis {

/// What a model file holds: inputs and outputs, one line per layer with op, output shape and parameters,
/// totals, and every node this version does not support, all at once.
std::string describe(const ModelDescription& description, const std::string& file);

/// How accurate the functions of every known library are: docs/functions.md, from the data that bounds use.
std::string describe_functions();

/// What docs/ops.md says of an op.
struct OpRow {
  std::string name, onnx, evaluation, local, guarantee, propagation;
};
/// An op with the default attributes of its kind.
OpRow row_of(const Op& op);

/// Every op with its ONNX names and opsets, its evaluation, its bounds with their theorems, and the bodies of
/// composites: docs/ops.md, from the code that loads, evaluates and bounds.
/// Throws:    NotAvailable in builds that record only
std::string describe_ops();

}  // namespace driftbound::analysis

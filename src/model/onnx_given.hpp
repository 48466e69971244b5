#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/load.hpp"
#include "model/onnx_ops.hpp"

namespace driftbound::onnx {

/// A value that follows from given integers: for every sample alone, and for all samples in one run.
struct GivenValue {
  std::vector<StoredTensor> each;   ///< all of one type and shape
  std::optional<StoredTensor> all;  ///< empty: samples are stacked in front of the declared shape, not rows of it
};

/// The shapes and data that a run gives a model's inputs, and which extents follow from them.
class GivenShapes {
public:
  /// Throws:    InvalidArgument where no input has the name of a given tensor or shape; ShapeMismatch where extents of
  ///            one name differ
  GivenShapes(const GivenInputs& given, std::span<const ValueInfoProto> inputs);

  /// The shape given for an input; null where none is.
  const Shape* shape_of(std::string_view name) const;
  const StoredTensor* data_of(std::string_view name) const;
  /// Whether axis 0 of this input counts samples.
  bool counts_samples(const ValueInfoProto& input) const;
  /// The extent that an axis, left open by the file, has in one evaluation; empty: it stays open.
  std::optional<std::int64_t> extent_of(const ValueInfoProto& input, std::size_t axis) const;
  /// Rows of the inputs that count samples; empty where none does.
  std::optional<std::int64_t> rows() const { return rows_; }
  /// The value of an input of integers.
  /// Throws:    ShapeMismatch where the data have not the declared shape, for one sample or several
  GivenValue value_of(const ValueInfoProto& input) const;

private:
  const GivenInputs& given_;
  std::vector<std::string_view> of_samples_;  ///< inputs whose axis 0 counts samples
  std::optional<std::int64_t> rows_;
};

/// What a node makes of constants, one tensor an output. Empty where that is not exact, or where nothing is known.
/// Throws:    Unsupported, ParseError, ShapeMismatch (the node cannot take these constants)
std::optional<std::vector<StoredTensor>> constant_outputs(const NodeView& node);

/// Extents in which the symbol of the samples is a number; empty where others are unknown.
std::optional<IntegerTensor> with_rows(const IntegerTensor& integers, std::size_t symbol, std::int64_t rows);

/// Joins what the samples give alone, checked against all of them together.
struct JoinedValue {
  GivenValue value;
  OpenShape shape;       ///< with the symbol of the samples
  bool is_same = false;  ///< for all samples, and without an axis that counts them: a constant
};
/// Throws:    Unsupported where samples have other shapes than each other, or depend on each other
JoinedValue join(std::vector<StoredTensor> each, std::optional<StoredTensor> all, std::size_t symbol);

/// Data of a graph input with this value: rows, or samples stacked in front of the shape of one.
/// Throws:    Unsupported where the samples are not along axis 0
StoredTensor data_of(const GivenValue& value, const OpenShape& shape);

/// Integer inputs that reach the indices of a Gather from an initialiser, through nodes that only move or cast them, and
/// how many rows that has.
std::vector<std::pair<std::string, std::int64_t>> index_limits(const GraphProto& graph);

}  // namespace driftbound::onnx

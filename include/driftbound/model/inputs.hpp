#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// One tensor per graph input, by name, of any element type; where the model is batched axis 0 counts
/// samples, else a tensor may carry one more leading axis that does.
struct Inputs {
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  const StoredTensor& at(const std::string& name) const;  // throws InvalidArgument listing the names there are
};

/// Reads .npy, .npz, .safetensors or CSV (one sample a row). A file with one unnamed tensor feeds a
/// graph with one input; otherwise names must match the graph's inputs.
/// Throws:    FileError, ParseError, ShapeMismatch (says expected and found), InvalidArgument (names)
Inputs read_inputs(const Graph& graph, const std::filesystem::path& file);

enum class InputDistribution { uniform, normal, grid, segment };

struct InputGenerator {
  InputDistribution distribution = InputDistribution::uniform;
  std::int64_t samples = 100;
  std::uint64_t seed = 1;
  /// lo:hi per coordinate (the last repeats); for `segment` its two end points; normal: mean +- hi
  std::vector<std::pair<double, double>> domain = {{-1.0, 1.0}};
};

/// Seeded data of the graph's input types, the same bits on every machine (own generator, no libm).
/// `grid` rounds the number of samples down to a full grid; `segment` puts samples evenly between the
/// corner of the lower bounds and the corner of the upper bounds.
/// Throws:    InvalidArgument (no samples, empty or non-finite domain)
Inputs generate_inputs(const Graph& graph, const InputGenerator& generator);

/// Number of samples in the inputs under a layout.
/// Throws:    ShapeMismatch where inputs disagree or do not fit the model
std::int64_t sample_count(const Graph& graph, const BatchLayout& layout, const Inputs& inputs);

/// Samples [first, first + count) as inputs of one evaluation (count must be 1 unless batched).
Inputs slice(const Graph& graph, const BatchLayout& layout, const Inputs& inputs, std::int64_t first, std::int64_t count);

}  // namespace driftbound

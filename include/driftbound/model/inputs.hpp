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
/// Throws:    FileError, ParseError, ShapeMismatch (says expected and found), InvalidArgument (names), Unsupported
///            (several rows of an open axis 0 that a node of the model mixes)
Inputs read_inputs(const Graph& graph, const std::filesystem::path& file);

/// The same without holding shapes against the model, whose extents may follow from these data (GivenInputs).
/// Throws:    FileError, ParseError, InvalidArgument (names; CSV, whose rows have no shape of their own)
Inputs read_given_inputs(const Graph& graph, const std::filesystem::path& file);

/// The array of an .npy file.
/// Throws:    FileError, ParseError
StoredTensor read_array(const std::filesystem::path& file);

enum class InputDistribution { uniform, normal, grid, segment };

struct InputGenerator {
  InputDistribution distribution = InputDistribution::uniform;
  std::int64_t samples = 100;
  std::uint64_t seed = 1;
  /// lo:hi per coordinate of one sample (inputs in turn, row-major; the last range repeats). uniform: in
  /// [lo, hi); normal: lo and hi are one standard deviation below and above the mean; segment: its two end points
  std::vector<std::pair<double, double>> domain = {{-1.0, 1.0}};
  /// Integer inputs by name that select rows of a table, and how many rows it has (ModelDescription::index_limits).
  std::vector<std::pair<std::string, std::int64_t>> index_limits = {};
};

/// The graph's inputs alone, each with the extents of a shape that is given for it by name. An open axis 0 stays open
/// where the shape has 1 there: it counts samples.
/// Throws:    InvalidArgument where no input has the name; ShapeMismatch where a shape contradicts the declared one
Graph inputs_with_shapes(const Graph& graph, const std::vector<std::pair<std::string, Shape>>& shapes);

/// Seeded data of the graph's input types, the same bits on every machine (own generator, no libm).
/// `grid` rounds the number of samples down to a full grid; `segment` puts samples evenly between the
/// corner of the lower bounds and the corner of the upper bounds. Values are rounded to the input's type
/// (nearest even); the first samples do not depend on how many are asked for (uniform, normal).
/// Integer inputs have no coordinates: those with an index limit are uniform below it; the others are masks, ones followed
/// by zeros along the last axis, with at least one of each.
/// Throws:    InvalidArgument (no samples, empty or non-finite domain, a grid over more than 6 coordinates,
///            a domain beyond the input's type)
Inputs generate_inputs(const Graph& graph, const InputGenerator& generator);

/// Number of samples in the inputs under a layout: data are one sample of the sample's shape, N of them
/// [N, sample...], or [N, row...] where the sample has one row (batched models: always).
/// Throws:    ShapeMismatch where inputs disagree or do not fit the model; Unsupported where the data of an open axis 0
///            are N > 1 rows [N, row...] that a node of the model mixes (require_samples_apart)
std::int64_t sample_count(const Graph& graph, const BatchLayout& layout, const Inputs& inputs);

/// Samples [first, first + count) as inputs of one evaluation (count must be 1 unless batched); shares
/// the bytes of the inputs.
/// Throws:    ShapeMismatch where inputs disagree or do not fit the model, InvalidArgument where there are no such
///            samples
Inputs slice(const Graph& graph, const BatchLayout& layout, const Inputs& inputs, std::int64_t first,
             std::int64_t count);

}  // namespace driftbound

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// Whether recording the layers changed the outputs of the recorded samples, by a run without capture compared bit for
/// bit.
enum class ObserverEffect { not_checked, none, changed };
std::string_view name_of(ObserverEffect effect);  // "not checked", "none", "changed"

/// Where a run happened.
struct Provenance {
  std::string program;  ///< "driftbound 0.1.0", "torch 2.4" …
  std::string backend;  ///< "cpu", "cuda" …
  std::string device;
  std::string date;
  std::map<std::string, std::string> details;
  std::int64_t batch = 0;  ///< samples evaluated together; 0: unknown
  ObserverEffect observer_effect = ObserverEffect::not_checked;
};

/// The output of one node. Axis 0 counts samples where the node depends on an input (batched models:
/// it is the value's own axis 0; others: an axis in front of the value's shape).
struct LayerTrace {
  std::string name;  ///< Node::name
  StoredTensor output;
};

/// What one run really computed: the only bridge between what computes and what judges.
struct Trace {
  std::string model_sha256;
  ArithmeticModel arithmetic;
  Provenance provenance;
  Inputs inputs;                   ///< as given
  std::vector<LayerTrace> layers;  ///< one per node of the graph, in graph order
  std::int64_t samples = 0;
};

/// Inputs as the run used them: rounded to the model's input types (identical where nothing was lost).
Inputs used_inputs(const Graph& graph, const Trace& trace);

/// Samples [first, first + count) as the trace of one evaluation, without a sample axis for models
/// that are not batched (count 1 there).
Trace slice(const Graph& graph, const BatchLayout& layout, const Trace& trace, std::int64_t first, std::int64_t count);

/// Reads a trace and fits it to the graph: by layer name, else by value name, else by order and shape.
/// `computed`: data of inputs that the file need not hold, as they follow from given integers (ModelDescription::inputs).
/// Throws:    FileError, ParseError, ShapeMismatch (names the layer), InvalidArgument (another model's
///            hash, missing layers, ambiguous names)
Trace read_trace(const Graph& graph, const std::string& model_sha256, const std::filesystem::path& file,
                 const Inputs& computed = {});

/// Writes a .safetensors file (docs/file-formats.md), whole or not at all.
/// Throws:    FileError
void write_trace(const Trace& trace, const std::filesystem::path& file);

/// SHA-256 of a file of any size, lower-case hex.
/// Throws:    FileError
std::string sha256_of_file(const std::filesystem::path& file);
std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace driftbound

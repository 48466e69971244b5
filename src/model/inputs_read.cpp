#include <algorithm>
#include <cctype>
#include <functional>

#include "driftbound/model/inputs.hpp"
#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/convert.hpp"
#include "model/inputs_parse.hpp"
#include "model/safetensors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

std::string lower_case_extension(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

[[noreturn]] void fail_names(const Graph& graph, const std::string& where, const std::vector<std::string>& found) {
  std::string text = where + ": its tensors must be named as the model's inputs:";
  for (const ValueId id : graph.inputs) text += " " + in_quotes(graph.value(id).name);
  text += "; found:";
  constexpr std::size_t few = 8;
  for (std::size_t i = 0; i < std::min(found.size(), few); ++i) text += " " + in_quotes(found[i]);
  if (found.size() > few) text += " and " + std::to_string(found.size() - few) + " more";
  throw InvalidArgument(text);
}

/// A file with one tensor and no names.
Inputs unnamed(const Graph& graph, StoredTensor tensor, const std::string& where) {
  if (graph.inputs.size() != 1) {
    throw InvalidArgument(where + ": one tensor for a model with " + std::to_string(graph.inputs.size()) +
                          " inputs; give a .npz or .safetensors file with one tensor per input");
  }
  return {{{graph.value(graph.inputs[0]).name, std::move(tensor)}}};
}

using File = std::shared_ptr<const MappedFile>;

Inputs from_npz(const Graph& graph, const File& file, const std::string& where) {
  NamedTensors tensors = parse_npz(file, where);
  // numpy.savez calls an array without a name arr_0.
  if (tensors.size() == 1 && tensors[0].first == "arr_0") return unnamed(graph, std::move(tensors[0].second), where);
  Inputs inputs;
  for (const ValueId id : graph.inputs) {
    const std::string& name = graph.value(id).name;
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == tensors.end()) {
      std::vector<std::string> names;
      for (const auto& entry : tensors) names.push_back(entry.first);
      fail_names(graph, where, names);
    }
    inputs.tensors.emplace_back(name, found->second);
  }
  return inputs;
}

Inputs from_safetensors(const Graph& graph, const File& mapped, const std::string& where) {
  const SafetensorsFile file(mapped, where);
  Inputs inputs;
  for (const ValueId id : graph.inputs) {
    const std::string& name = graph.value(id).name;
    std::string trace_key = "input/" + name;  // a trace holds the inputs it was made with
    std::replace(trace_key.begin() + 6, trace_key.end(), '/', '.');
    const std::string& key = file.contains(name) ? name : trace_key;
    if (!file.contains(key)) fail_names(graph, where, file.names());
    inputs.tensors.emplace_back(name, file.tensor(key));
  }
  return inputs;
}

/// A row of numbers is one sample, whatever the shape of a sample is.
Inputs from_csv(const Graph& graph, const BatchLayout& layout, const File& file, const std::string& where) {
  Inputs inputs = unnamed(graph, parse_csv(text_of(*file), where), where);
  StoredTensor& table = inputs.tensors[0].second;
  Shape shape = layout.sample_shapes[0];
  const std::int64_t rows = table.shape()[0], columns = table.shape()[1];
  if (columns != element_count(shape)) {
    throw ShapeMismatch(where + ": lines of " + std::to_string(columns) + " numbers, a sample of the model's input " +
                        in_quotes(inputs.tensors[0].first) + " has " + std::to_string(element_count(shape)) + " " +
                        to_string(shape));
  }
  if (rows > 1) require_samples_apart(graph, rows);
  if (layout.batched) {
    shape[0] = rows;
  } else {
    shape.insert(shape.begin(), rows);
  }
  table = reshaped(table, std::move(shape));
  return inputs;
}

/// `layout`: what a line of a CSV file is cut into; null: it is not known.
Inputs parse_by_extension(const Graph& graph, const BatchLayout* layout, const File& file,
                          const std::filesystem::path& name) {
  const std::string where = printable(name.string());
  const std::string extension = lower_case_extension(name);
  if (extension == ".npy") return unnamed(graph, parse_npy(file->bytes(), file, where), where);
  if (extension == ".npz") return from_npz(graph, file, where);
  if (extension == ".safetensors") return from_safetensors(graph, file, where);
  const bool is_text = extension == ".csv" || extension == ".txt";
  if (is_text && layout == nullptr)
    throw InvalidArgument(where +
                          ": the model leaves shapes open, which lines of numbers do not tell; give a .npy, .npz "
                          "or .safetensors file");
  if (is_text) return from_csv(graph, *layout, file, where);
  throw InvalidArgument(where + ": inputs are read from .npy, .npz, .safetensors and .csv files, not from " +
                        in_quotes(extension));
}

/// The model's integer inputs take integral values in range only; whatever loses something else is rounded when used.
void check_types(const Graph& graph, const Inputs& inputs, const std::string& where) {
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    if (!is_float(input.type)) converted(inputs.at(input.name), input.type, where + ": input " + in_quotes(input.name));
  }
}

}  // namespace

Inputs parse_inputs(const Graph& graph, const std::shared_ptr<const MappedFile>& file,
                    const std::filesystem::path& name) {
  const std::string where = printable(name.string());
  const BatchLayout layout = batch_layout(graph);
  Inputs inputs = parse_by_extension(graph, &layout, file, name);
  try {
    sample_count(graph, layout, inputs);
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(where + ": " + error.what());
  }
  check_types(graph, inputs, where);
  return inputs;
}

Inputs read_inputs(const Graph& graph, const std::filesystem::path& file) {
  return parse_inputs(graph, MappedFile::open(file), file);
}

StoredTensor read_array(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> mapped = MappedFile::open(file);
  return parse_npy(mapped->bytes(), mapped, printable(file.string()));
}

Inputs read_given_inputs(const Graph& graph, const std::filesystem::path& file) {
  return parse_by_extension(graph, nullptr, MappedFile::open(file), file);
}

}  // namespace driftbound

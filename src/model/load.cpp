#include "driftbound/model/load.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/load_formats.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

bool starts_with(const MappedFile& file, std::string_view magic) {
  return file.bytes().size() >= magic.size() && std::memcmp(file.bytes().data(), magic.data(), magic.size()) == 0;
}

ModelDescription describe(const std::shared_ptr<const MappedFile>& file, const std::filesystem::path& folder,
                          const Inputs& constants, const GivenInputs& given) {
  if (file->bytes().empty()) throw ParseError("the file is empty");
  if (!starts_with(*file, "PK")) return describe_onnx(file, folder, constants, given);
  if (!constants.tensors.empty()) throw InvalidArgument("an .npz model has no inputs that could be constants");
  ModelDescription model = describe_npz(file);
  model.inputs = given.data;
  return model;
}

std::string list_of(const ModelDescription& model) {
  std::string text;
  for (const UnsupportedNode& node : model.unsupported)
    text += "\n  " + node.op + " (" + in_quotes(node.node) + "): " + node.reason;
  return text;
}

}  // namespace

namespace {

ModelDescription describe_file(const std::filesystem::path& file, const Inputs& constants, const GivenInputs& given) {
  const std::string name = printable(file.string());
  const auto mapped = MappedFile::open(file);
  try {
    ModelDescription model = describe(mapped, file.parent_path(), constants, given);
    model.graph.source = name;
    return model;
  } catch (const ParseError& error) {
    throw ParseError(name + ": " + error.what());
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(name + ": " + error.what());
  } catch (const FileError& error) {
    throw FileError(name + ": " + error.what());
  } catch (const Unsupported& error) {
    throw Unsupported(name + ": " + error.what());
  } catch (const NotAvailable& error) {
    throw NotAvailable(name + ": " + error.what());
  } catch (const InvalidArgument& error) {
    throw ParseError(name + ": " + error.what());
  }
}

/// Whether a graph can be run, its rows apart where an open axis 0 counts samples.
bool is_complete(const ModelDescription& model, std::int64_t samples) {
  if (!model.unsupported.empty()) return false;
  try {
    batch_layout(model.graph);
  } catch (const Unsupported&) {
    return false;
  }
  return !node_that_mixes_samples(model.graph, samples);
}

/// The largest extent of axis 0: at least as many as there are samples.
std::int64_t most_rows(const GivenInputs& given) {
  std::int64_t rows = 1;
  const auto count = [&](const Shape& shape) { rows = std::max(rows, shape.empty() ? 1 : shape.front()); };
  for (const auto& [name, tensor] : given.data.tensors) count(tensor.shape());
  for (const auto& [name, shape] : given.shapes) count(shape);
  return rows;
}

}  // namespace

ModelDescription describe_model(const std::filesystem::path& file, const Inputs& constants) {
  return describe_file(file, constants, {});
}

ModelDescription describe_model(const std::filesystem::path& file, const GivenInputs& given) {
  std::optional<ModelDescription> by_rows;
  std::exception_ptr why_not;
  try {
    by_rows = describe_file(file, {}, given);
  } catch (const ShapeMismatch&) {  // a row alone may not have a shape that all have together
    why_not = std::current_exception();
  }
  const bool has_other_way = !given.empty() && given.rows_are_samples;
  if (by_rows && (!has_other_way || is_complete(*by_rows, most_rows(given)))) return std::move(*by_rows);
  if (has_other_way) {
    GivenInputs as_one = given;
    as_one.rows_are_samples = false;
    try {
      ModelDescription together = describe_file(file, {}, as_one);
      if (is_complete(together, 1)) return together;
    } catch (const ShapeMismatch&) {  // the reason above is told
      if (!why_not) throw;
    }
  }
  if (why_not) std::rethrow_exception(why_not);
  return std::move(*by_rows);
}

Graph load_model(const std::filesystem::path& file) {
  ModelDescription model = describe_model(file);
  require_supported(model);
  return std::move(model.graph);
}

void require_supported(const ModelDescription& model) {
  if (model.unsupported.empty()) return;
  const std::size_t count = model.unsupported.size();
  throw Unsupported(model.graph.source + ": " + model.graph.format + ": " + std::to_string(count) +
                    (count == 1 ? " node is" : " nodes are") + " not supported by this version:" + list_of(model));
}

}  // namespace driftbound

#include "driftbound/model/load.hpp"

#include <cstring>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "model/load_formats.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

bool starts_with(const MappedFile& file, std::string_view magic) {
  return file.bytes().size() >= magic.size() && std::memcmp(file.bytes().data(), magic.data(), magic.size()) == 0;
}

ModelDescription describe(const std::shared_ptr<const MappedFile>& file, const std::filesystem::path& folder,
                          const Inputs& constants) {
  if (file->bytes().empty()) throw ParseError("the file is empty");
  if (!starts_with(*file, "PK")) return describe_onnx(file, folder, constants);
  if (!constants.tensors.empty()) throw InvalidArgument("an .npz model has no inputs that could be constants");
  return describe_npz(file);
}

std::string list_of(const ModelDescription& model) {
  std::string text;
  for (const UnsupportedNode& node : model.unsupported)
    text += "\n  " + node.op + " (" + in_quotes(node.node) + "): " + node.reason;
  return text;
}

}  // namespace

ModelDescription describe_model(const std::filesystem::path& file, const Inputs& constants) {
  const std::string name = printable(file.string());
  const auto mapped = MappedFile::open(file);
  try {
    ModelDescription model = describe(mapped, file.parent_path(), constants);
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

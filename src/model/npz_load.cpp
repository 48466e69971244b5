#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/load_formats.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

/// One layer of a dump: its kind and its parameters by name.
struct DumpedLayer {
  std::string kind;
  std::map<std::string, StoredTensor> parameters;
};

struct Key {
  std::int64_t number = 0;
  std::string_view kind, parameter;
};

/// <number>.<kind>.<parameter>
Key parse_key(std::string_view key) {
  const std::size_t first = key.find('.');
  const std::size_t second = first == std::string_view::npos ? first : key.find('.', first + 1);
  Key parsed;
  if (second != std::string_view::npos) {
    const auto [end, error] = std::from_chars(key.data(), key.data() + first, parsed.number);
    parsed.kind = key.substr(first + 1, second - first - 1);
    parsed.parameter = key.substr(second + 1);
    if (error == std::errc{} && end == key.data() + first && parsed.number >= 0) return parsed;
  }
  throw ParseError("array " + in_quotes(key) +
                   " does not belong to a dump of layers (expected names such as 0000.dense.A)");
}

std::vector<DumpedLayer> collect_layers(NamedTensors tensors) {
  std::map<std::int64_t, DumpedLayer> by_number;
  for (auto& [name, tensor] : tensors) {
    const Key key = parse_key(name);
    DumpedLayer& layer = by_number.try_emplace(key.number, DumpedLayer{std::string(key.kind), {}}).first->second;
    if (layer.kind != key.kind)
      throw ParseError("layer " + std::to_string(key.number) + " is both " + in_quotes(layer.kind) + " and " +
                       in_quotes(key.kind));
    if (!layer.parameters.emplace(key.parameter, std::move(tensor)).second)
      throw ParseError("array " + in_quotes(name) + " occurs twice");
  }
  std::vector<DumpedLayer> layers;
  for (auto& [number, layer] : by_number) {
    if (number != static_cast<std::int64_t>(layers.size()))
      throw ParseError("layer " + std::to_string(layers.size()) + " is missing");
    layers.push_back(std::move(layer));
  }
  if (layers.empty()) throw ParseError("the archive holds no layers");
  return layers;
}

std::string name_of_layer(std::size_t number, const std::string& kind) {
  std::string digits = std::to_string(number);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits + "." + kind;
}

/// The op of a layer without parameters; empty where this version has none.
std::optional<Op> plain_op(std::string_view kind) {
  static const std::array<std::pair<std::string_view, Op>, 10> ops = {{{"relu", op::Relu{}},
                                                                       {"elu", op::Elu{}},
                                                                       {"tanh", op::Tanh{}},
                                                                       {"sigmoid", op::Sigmoid{}},
                                                                       {"softplus", op::Softplus{}},
                                                                       {"sin", op::Sin{}},
                                                                       {"cos", op::Cos{}},
                                                                       {"exp", op::Exp{}},
                                                                       {"identity", op::Identity{}},
                                                                       {"squeeze_last", op::Squeeze{{-1}}}}};
  for (const auto& [name, op] : ops) {
    if (name == kind) return op;
  }
  return std::nullopt;
}

class DumpBuilder {
public:
  explicit DumpBuilder(std::vector<DumpedLayer> layers) : layers_(std::move(layers)) {}

  ModelDescription build() {
    result_.graph.name = "layers";
    result_.graph.format = "npz layer dump";
    add_input();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      result_.operators.push_back(printable(layers_[i].kind));
      add(name_of_layer(i, layers_[i].kind), layers_[i]);
    }
    if (!result_.unsupported.empty()) return std::move(result_);
    result_.graph.outputs = {last_};
    validate(result_.graph);
    infer_shapes(result_.graph, {{1, result_.graph.value(result_.graph.inputs[0]).declared[1].extent}});
    return std::move(result_);
  }

private:
  /// One row a sample; the first dense layer says how many features a sample has.
  void add_input() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].kind != "dense") continue;
      const StoredTensor& weights = weights_of(layers_[i], name_of_layer(i, "dense"));
      features_ = weights.shape()[0];
      last_ = result_.graph.add_input("x", weights.type(), {{-1, "N"}, {features_, ""}});
      return;
    }
    throw ParseError("the dump has no dense layer, so that the number of inputs is open");
  }

  static const StoredTensor& weights_of(const DumpedLayer& layer, const std::string& name) {
    const auto weights = layer.parameters.find("A");
    if (weights == layer.parameters.end()) throw ParseError("layer " + name + " has no matrix (array " + name + ".A)");
    const StoredTensor& a = weights->second;
    if (a.shape().size() != 2 || !is_float(a.type())) {
      throw ShapeMismatch(name + ".A must be a matrix [in, out] of a float type, found " + to_string(a.shape()) +
                          " of " + std::string(name_of(a.type())));
    }
    return a;
  }

  void add(const std::string& name, const DumpedLayer& layer) {
    if (layer.kind == "dense") return add_dense(name, layer);
    const std::optional<Op> op = plain_op(layer.kind);
    for (const auto& [parameter, tensor] : layer.parameters) {
      if (op && parameter != "_")
        throw ParseError("layer " + name + " has an unexpected array " + in_quotes(parameter));
    }
    if (!op) {
      result_.unsupported.push_back({printable(name), printable(layer.kind), "this version has no such layer"});
      return;
    }
    last_ = result_.graph.add_node(name, *op, {last_});
  }

  void add_dense(const std::string& name, const DumpedLayer& layer) {
    const StoredTensor& a = weights_of(layer, name);
    for (const auto& [parameter, tensor] : layer.parameters) {
      if (parameter != "A" && parameter != "b")
        throw ParseError("layer " + name + " has an unexpected array " + in_quotes(parameter));
    }
    if (result_.unsupported.empty() && a.shape()[0] != features_) {
      throw ShapeMismatch(name + ".A takes " + std::to_string(a.shape()[0]) + " features, the layer before gives " +
                          std::to_string(features_));
    }
    features_ = a.shape()[1];
    std::vector<ValueId> inputs = {last_, result_.graph.add_constant(name + ".A", a)};
    if (const auto bias = layer.parameters.find("b"); bias != layer.parameters.end()) {
      const StoredTensor& b = bias->second;
      if (b.shape() != Shape{features_} || b.type() != a.type()) {
        throw ShapeMismatch(name + ".b must be " + to_string({features_}) + " of " + std::string(name_of(a.type())) +
                            " as its matrix is, found " + to_string(b.shape()) + " of " +
                            std::string(name_of(b.type())));
      }
      inputs.push_back(result_.graph.add_constant(name + ".b", b));
    }
    last_ = result_.graph.add_node(name, op::Gemm{}, std::move(inputs));
  }

  std::vector<DumpedLayer> layers_;
  std::int64_t features_ = 0;
  ValueId last_ = 0;
  ModelDescription result_;
};

}  // namespace

ModelDescription describe_npz(const std::shared_ptr<const MappedFile>& file) {
  return DumpBuilder(collect_layers(parse_npz(file, "archive"))).build();
}

}  // namespace driftbound

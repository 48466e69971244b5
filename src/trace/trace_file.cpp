#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "driftbound/trace/recorded_graph.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/convert.hpp"
#include "model/json_text.hpp"
#include "model/safetensors.hpp"
#include "model/text.hpp"
#include "trace/match_layers.hpp"
#include "trace/trace_parse.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr std::string_view version_key = "driftbound.trace";
constexpr std::string_view version = "1";
constexpr std::string_view hash_key = "model_sha256";
constexpr std::string_view provenance_key = "provenance";
constexpr std::string_view arithmetic_key = "arithmetic";

std::string input_key(const std::string& name) {
  return "input/" + key_name(name);
}

std::string layer_key(std::size_t index, const std::string& name) {
  return "layer/" + std::to_string(index) + "/" + key_name(name) + "/output";
}

/// layer/<index>/<name>/output; empty for every other key.
std::optional<RecordedLayer> parse_layer_key(const std::string& key) {
  constexpr std::string_view prefix = "layer/";
  constexpr std::string_view suffix = "/output";
  std::string_view rest = key;
  if (!rest.starts_with(prefix) || !rest.ends_with(suffix) || rest.size() < prefix.size() + suffix.size())
    return std::nullopt;
  rest.remove_prefix(prefix.size());
  rest.remove_suffix(suffix.size());
  RecordedLayer layer;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer.index);
  if (error != std::errc{} || end == rest.data() + rest.size() || *end != '/' || layer.index < 0) return std::nullopt;
  layer.key = key;
  layer.name = key_name(std::string(end + 1, rest.data() + rest.size()));
  return layer;
}

/// output/<name>; empty for every other key.
std::optional<RecordedLayer> parse_output_key(const std::string& key) {
  constexpr std::string_view prefix = "output/";
  if (!key.starts_with(prefix)) return std::nullopt;
  RecordedLayer layer;
  layer.key = key;
  layer.name = key_name(key.substr(prefix.size()));
  layer.is_output = true;
  return layer;
}

std::string to_json(const Provenance& provenance) {
  return dump_json({{"program", provenance.program},
                    {"backend", provenance.backend},
                    {"device", provenance.device},
                    {"date", provenance.date},
                    {"batch", provenance.batch},
                    {"observer_effect", name_of(provenance.observer_effect)},
                    {"details", provenance.details}});
}

std::int64_t batch_from_json(const json& value, const std::string& where) {
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<std::int64_t>::max())
    throw ParseError(where + ": provenance: \"batch\" is not a number of samples");
  return value.get<std::int64_t>();
}

ObserverEffect observer_effect_from_json(const json& value, const std::string& where) {
  for (const ObserverEffect effect : {ObserverEffect::not_checked, ObserverEffect::none, ObserverEffect::changed}) {
    if (value == name_of(effect)) return effect;
  }
  throw ParseError(where + ": provenance: \"observer_effect\" is none of not checked, none, changed");
}

std::string text_of(const json& value) {
  return printable(value.is_string() ? value.get<std::string>() : dump_json(value));
}

/// Nodes whose results are numbers of their type whatever the arithmetic: they are cast to it, or copied or rounded to
/// integers from such.
std::vector<bool> are_of_their_type(const Graph& graph) {
  std::vector<bool> values(graph.values.size(), false), nodes;
  for (std::size_t id = 0; id < values.size(); ++id) values[id] = graph.values[id].kind != ValueKind::computed;
  for (const Node& node : graph.nodes) {
    const bool is_cast = std::holds_alternative<op::Cast>(node.op);
    const bool copies = std::visit(
        []<class T>(const T&) { return Copying<T> || OneOf<T, op::Floor, op::Ceil, op::Round, op::Sign>; }, node.op);
    const bool of_such = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return values[id] || !is_float(graph.value(id).type); });
    nodes.push_back(is_cast || (copies && of_such));
    values[node.output] = nodes.back();
  }
  return nodes;
}

class TraceReader {
public:
  TraceReader(const Graph& graph, std::shared_ptr<const MappedFile> file, const std::string& where,
              const Inputs& computed)
      : graph_(graph),
        where_(where),
        file_(std::move(file), where),
        layout_(batch_layout(graph)),
        computed_(computed) {}

  Trace read(const std::string& model_sha256) {
    Trace trace = head(model_sha256);
    const LayerMatches matches = match(trace);
    require_all(graph_, expected_, matches, where_);
    fill(trace, matches);
    return trace;
  }

  RecordedRunOfModel read_recorded(const std::string& model_sha256) {
    RecordedRunOfModel run;
    run.trace = head(model_sha256);
    const LayerMatches matches = match(run.trace);
    fill(run.trace, matches);
    run.nodes = graph_.nodes.size();
    for (const std::size_t record : matches.copies) run.copies.push_back(recorded_[record].name);
    for (const std::size_t record : matches.unplaced) run.unplaced.push_back(recorded_[record].name);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!matches.of_node[i] || matches.of_node[i]->by == MatchedBy::name) continue;
      const bool is_by_path = matches.of_node[i]->by == MatchedBy::module_path;
      run.matched.push_back({graph_.nodes[i].name, recorded_[matches.of_node[i]->recorded].name,
                             is_by_path ? "module path" : "order and shape"});
    }
    contract(matches, run);
    return run;
  }

private:
  const std::string* metadata(std::string_view key) const {
    const auto found = file_.metadata().find(std::string(key));
    return found == file_.metadata().end() ? nullptr : &found->second;
  }

  void check_version() const {
    const std::string* found = metadata(version_key);
    if (found != nullptr && *found != version) {
      throw Unsupported(where_ + ": a trace of format version " + in_quotes(*found) + "; this version reads version 1");
    }
  }

  std::string checked_hash(const std::string& expected) const {
    const std::string* found = metadata(hash_key);
    if (found == nullptr) return "";
    if (!expected.empty() && *found != expected) {
      throw InvalidArgument(where_ + ": the trace is of another model: it names SHA-256 " + in_quotes(*found) +
                            ", the model's is " + expected);
    }
    return *found;
  }

  Inputs inputs() const {
    Inputs inputs;
    std::set<std::string> keys;
    for (const ValueId id : graph_.inputs) {
      const std::string& name = graph_.value(id).name;
      const std::string key = input_key(name);
      if (!keys.insert(key).second)
        throw InvalidArgument(where_ + ": two inputs of the model share the key " + in_quotes(key));
      const auto computed = std::find_if(computed_.tensors.begin(), computed_.tensors.end(),
                                         [&](const auto& entry) { return entry.first == name; });
      if (computed != computed_.tensors.end()) {
        inputs.tensors.push_back(*computed);
        continue;
      }
      if (!file_.contains(key)) {
        throw InvalidArgument(where_ + ": the trace lacks the model's input " + in_quotes(name) + " (tensor " +
                              in_quotes(key) + ")");
      }
      inputs.tensors.emplace_back(name, file_.tensor(key));
    }
    return inputs;
  }

  std::int64_t samples(const Inputs& inputs) const {
    try {
      return sample_count(graph_, layout_, inputs);
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(where_ + ": " + error.what());
    }
  }

  std::vector<ExpectedLayer> expected_layers(const Trace& trace) const {
    const Inputs evaluation = slice(graph_, layout_, trace.inputs, 0, layout_.batched ? trace.samples : 1);
    std::vector<Shape> input_shapes;
    for (const auto& [name, tensor] : evaluation.tensors) input_shapes.push_back(tensor.shape());
    const std::vector<Shape> shapes = infer_shapes(graph_, input_shapes);
    const std::vector<bool> depends = depends_on_input(graph_);

    std::vector<ExpectedLayer> expected;
    for (const Node& node : graph_.nodes) {
      const Shape& value = shapes[node.output];
      ExpectedLayer layer{value, value};
      if (depends[node.output] && layout_.batched) {
        layer.alternative.insert(layer.alternative.begin() + 1, 1);
      } else if (depends[node.output]) {
        layer.shape.insert(layer.shape.begin(), trace.samples);
        if (trace.samples != 1) layer.alternative = layer.shape;
      }
      expected.push_back(std::move(layer));
    }
    return expected;
  }

  std::vector<RecordedLayer> recorded_layers() const {
    std::vector<RecordedLayer> recorded;
    for (const std::string& key : file_.names()) {
      std::optional<RecordedLayer> layer = parse_layer_key(key);
      if (!layer) layer = parse_output_key(key);
      if (!layer) continue;
      layer->shape = file_.shape(key);
      recorded.push_back(std::move(*layer));
    }
    return recorded;
  }

  /// All of a trace but its layers and its arithmetic.
  Trace head(const std::string& model_sha256) const {
    check_version();
    Trace trace;
    trace.model_sha256 = checked_hash(model_sha256);
    trace.inputs = inputs();
    trace.samples = samples(trace.inputs);
    if (const std::string* text = metadata(provenance_key)) trace.provenance = provenance_from_json(*text, where_);
    return trace;
  }

  LayerMatches match(const Trace& trace) {
    expected_ = expected_layers(trace);
    recorded_ = recorded_layers();
    const auto are_same = [&](std::size_t a, std::size_t b) {
      const StoredTensor x = file_.tensor(recorded_[a].key), y = file_.tensor(recorded_[b].key);
      const auto same_bytes = [&] { return std::equal(x.bytes().begin(), x.bytes().end(), y.bytes().begin()); };
      return x.type() == y.type() && x.bytes().size() == y.bytes().size() && same_bytes();
    };
    return match_layers(graph_, expected_, recorded_, are_same, where_);
  }

  /// Adds the layers that are recorded, in graph order, and the arithmetic.
  void fill(Trace& trace, const LayerMatches& matches) const {
    std::vector<std::size_t> nodes;
    std::string by_order;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!matches.of_node[i]) continue;
      const RecordedLayer& record = recorded_[matches.of_node[i]->recorded];
      nodes.push_back(i);
      trace.layers.push_back({graph_.nodes[i].name, checked_layer(graph_.nodes[i], expected_[i], record)});
      if (matches.of_node[i]->by == MatchedBy::order)
        by_order += (by_order.empty() ? "" : ", ") + graph_.nodes[i].name + " = " + record.name;
    }
    if (!by_order.empty()) trace.provenance.details["layers matched by order and shape"] = by_order;
    trace.arithmetic = arithmetic(trace);
    check_storage(trace, nodes);
  }

  void contract(const LayerMatches& matches, RecordedRunOfModel& run) const {
    std::vector<std::size_t> recorded;
    for (std::size_t i = 0; i < matches.of_node.size(); ++i)
      if (matches.of_node[i]) recorded.push_back(i);
    if (recorded.size() == graph_.nodes.size()) {
      run.graph = graph_;
      return;
    }
    RecordedGraph contracted = recorded_graph(graph_, recorded, run.trace.arithmetic);
    fit_samples(graph_, contracted, run.trace);
    run.graph = std::move(contracted.graph);
    run.segments = std::move(contracted.segments);
    std::set<std::string> inside;
    for (const SegmentParts& parts : run.segments) inside.insert(parts.nodes.begin(), parts.nodes.end());
    for (const Node& node : run.graph.nodes) inside.erase(node.name);
    run.inside = inside.size();
    for (const ValueId id : graph_.outputs) {
      const std::optional<std::size_t> node = graph_.producer(id);
      if (node && !matches.of_node[*node]) run.outputs_left_out.push_back(graph_.value(id).name);
    }
  }

  StoredTensor checked_layer(const Node& node, const ExpectedLayer& expected, const RecordedLayer& record) const {
    const std::string layer = where_ + ": layer " + in_quotes(node.name);
    if (!expected.fits(record.shape)) {
      throw ShapeMismatch(layer + ": expected shape " + to_string(expected.shape) + ", found " +
                          to_string(record.shape) + " in " + in_quotes(record.key));
    }
    StoredTensor tensor = file_.tensor(record.key);
    if (is_float(graph_.value(node.output).type) && !is_float(tensor.type())) {
      throw ShapeMismatch(layer + ": expected a float type, found " + std::string(name_of(tensor.type())));
    }
    return tensor.shape() == expected.shape ? tensor : reshaped(tensor, expected.shape);
  }

  ArithmeticModel arithmetic(const Trace& trace) const {
    if (const std::string* text = metadata(arithmetic_key)) {
      try {
        return arithmetic_from_json(*text);
      } catch (const ParseError& error) {
        throw ParseError(where_ + ": " + error.what());
      }
    }
    for (const LayerTrace& layer : trace.layers) {
      const ElementType type = layer.output.type();
      if (type != ElementType::f16 && type != ElementType::bf16) continue;
      throw InvalidArgument(
          where_ + ": layer " + in_quotes(layer.name) + " is stored as " + std::string(name_of(type)) +
          ", but the trace does not say in which arithmetic it was computed; add the metadata 'arithmetic' "
          "(docs/file-formats.md)");
    }
    ArithmeticModel assumed = assumed_arithmetic(assumed_functions(trace.provenance));
    for (FunctionAccuracy& other : assumed_arithmetic().functions) {
      const auto is_it = [&](const FunctionAccuracy& entry) { return entry.function == other.function; };
      if (std::none_of(assumed.functions.begin(), assumed.functions.end(), is_it))
        assumed.functions.push_back(std::move(other));
    }
    return assumed;
  }

  /// A layer stored more narrowly than its arithmetic rounds to has lost what is to be judged.
  void check_storage(const Trace& trace, const std::vector<std::size_t>& nodes) const {
    const std::vector<bool> are_narrow = are_of_their_type(graph_);
    for (std::size_t i = 0; i < trace.layers.size(); ++i) {
      const ElementType type = trace.layers[i].output.type();
      const ElementType declared = graph_.value(graph_.nodes[nodes[i]].output).type;
      const Format& output = format(stored_format(trace.arithmetic, declared));
      const auto storage = float_format(type);
      const bool loses_nothing = are_narrow[nodes[i]] && type == declared;
      if (!storage || loses_nothing || holds_all_of(format(*storage), output)) continue;
      throw ShapeMismatch(where_ + ": layer " + in_quotes(trace.layers[i].name) + " is stored as " +
                          std::string(name_of(type)) + ", but its arithmetic's results are " +
                          std::string(output.name) + "; store the layers as computed, or correct the metadata " +
                          "'arithmetic' (docs/file-formats.md)");
    }
  }

  const Graph& graph_;
  std::string where_;
  SafetensorsFile file_;
  BatchLayout layout_;
  const Inputs& computed_;
  std::vector<ExpectedLayer> expected_;
  std::vector<RecordedLayer> recorded_;
};

}  // namespace

std::string_view assumed_functions(const Provenance& provenance) {
  if (!provenance.program.starts_with("torch")) return "cuda";
  return provenance.device.starts_with("cpu") || provenance.backend == "cpu" ? "pytorch-cpu" : "pytorch-cuda";
}

ArithmeticModel assumed_arithmetic(std::string_view functions) {
  ArithmeticModel arithmetic;
  arithmetic.evidence = Evidence::assumed;
  arithmetic.source = "default: the trace states no arithmetic";
  for (FunctionAccuracy entry : function_library(functions).functions) {
    entry.evidence = Evidence::assumed;
    arithmetic.functions.push_back(std::move(entry));
  }
  return arithmetic;
}

Provenance provenance_from_json(const std::string& text, const std::string& where) {
  const json object = parse_json(text, where + ": provenance");
  if (!object.is_object()) throw ParseError(where + ": provenance: expected a JSON object");
  Provenance provenance;
  for (const auto& item : object.items()) {
    if (item.key() == "program") {
      provenance.program = text_of(item.value());
    } else if (item.key() == "backend") {
      provenance.backend = text_of(item.value());
    } else if (item.key() == "device") {
      provenance.device = text_of(item.value());
    } else if (item.key() == "date") {
      provenance.date = text_of(item.value());
    } else if (item.key() == "batch") {
      provenance.batch = batch_from_json(item.value(), where);
    } else if (item.key() == "observer_effect") {
      provenance.observer_effect = observer_effect_from_json(item.value(), where);
    } else if (item.key() == "details" && item.value().is_object()) {
      for (const auto& detail : item.value().items()) provenance.details[detail.key()] = text_of(detail.value());
    } else {
      provenance.details[item.key()] = text_of(item.value());
    }
  }
  return provenance;
}

Trace read_trace(const Graph& graph, const std::string& model_sha256, const std::filesystem::path& file,
                 const Inputs& computed) {
  return parse_trace(graph, model_sha256, MappedFile::open(file), printable(file.string()), computed);
}

Trace parse_trace(const Graph& graph, const std::string& model_sha256, std::shared_ptr<const MappedFile> file,
                  const std::string& where, const Inputs& computed) {
  return TraceReader(graph, std::move(file), where, computed).read(model_sha256);
}

RecordedRunOfModel read_recorded(const Graph& graph, const std::string& model_sha256, const std::filesystem::path& file,
                                 const Inputs& computed) {
  return parse_recorded(graph, model_sha256, MappedFile::open(file), printable(file.string()), computed);
}

RecordedRunOfModel parse_recorded(const Graph& graph, const std::string& model_sha256,
                                  std::shared_ptr<const MappedFile> file, const std::string& where,
                                  const Inputs& computed) {
  return TraceReader(graph, std::move(file), where, computed).read_recorded(model_sha256);
}

void write_trace(const Trace& trace, const std::filesystem::path& file) {
  std::vector<std::pair<std::string, const StoredTensor*>> tensors;
  std::set<std::string> keys;
  for (const auto& [name, tensor] : trace.inputs.tensors) {
    if (!keys.insert(input_key(name)).second) {
      throw InvalidArgument("two inputs share the key " + in_quotes(input_key(name)) + " of a trace file; rename one");
    }
    tensors.emplace_back(input_key(name), &tensor);
  }
  for (std::size_t i = 0; i < trace.layers.size(); ++i) {
    tensors.emplace_back(layer_key(i, trace.layers[i].name), &trace.layers[i].output);
  }
  write_safetensors(file, tensors,
                    {{std::string(version_key), std::string(version)},
                     {std::string(hash_key), trace.model_sha256},
                     {std::string(provenance_key), to_json(trace.provenance)},
                     {std::string(arithmetic_key), to_json(trace.arithmetic)}});
}

}  // namespace driftbound

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/fold.hpp"
#include "model/load_formats.hpp"
#include "model/onnx_ops.hpp"
#include "model/onnx_proto.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using namespace onnx;

constexpr std::int64_t oldest_opset = 7;
constexpr std::size_t most_named_in_cycle = 10;

/// Files older than IR version 3 name no opset: theirs is 1.
std::int64_t opset_of(const ModelProto& model) {
  for (const auto& [domain, version] : model.opset_imports) {
    if (domain.empty() || domain == "ai.onnx") return version;
  }
  if (model.ir_version >= 3)
    throw ParseError("the model imports no opset of the default domain; the file is damaged or not ONNX");
  return 1;
}

std::string_view domain_of(const NodeProto& node) {
  return node.domain == "ai.onnx" ? std::string_view() : node.domain;
}

std::string op_name(const NodeProto& node) {
  const std::string_view domain = domain_of(node);
  return printable(domain.empty() ? std::string(node.op_type) : std::string(domain) + "." + std::string(node.op_type));
}

/// The node's name, else that of its first output.
std::string layer_name(const NodeProto& node) {
  return printable(node.name.empty() ? node.outputs.front() : node.name);
}

std::string describe(const NodeProto& node) {
  return "node " + in_quotes(node.name.empty() ? node.outputs.front() : node.name) + " (" + op_name(node) + ")";
}

/// What a name of the file stands for.
struct Known {
  std::optional<StoredTensor> constant;
  std::optional<ValueId> id;  ///< in the graph; constants get there when a node uses them
  ElementType type = ElementType::f32;
  bool is_available = true;     ///< false: not an array of numbers, or computed by something unsupported
  std::string why_unavailable;  ///< empty: an unsupported node computes it
};

/// Positions of the nodes in an order in which every value is computed before it is used; the file's order
/// where that is one.
class NodeOrder {
public:
  explicit NodeOrder(const std::vector<NodeProto>& nodes) : nodes_(nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view output : nodes[i].outputs) {
        if (!output.empty() && !producer_.emplace(output, i).second) {
          throw ParseError("two nodes compute the value " + in_quotes(output));
        }
      }
    }
  }

  bool computes(std::string_view name) const { return producer_.count(name) != 0; }

  std::vector<std::size_t> sorted() const {
    std::vector<std::size_t> missing(nodes_.size(), 0);
    std::vector<std::vector<std::size_t>> users(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (const std::string_view input : nodes_[i].inputs) {
        const auto found = producer_.find(input);
        if (found == producer_.end()) continue;
        users[found->second].push_back(i);
        ++missing[i];
      }
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (missing[i] == 0) ready.push(i);
    }
    std::vector<std::size_t> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order.push_back(i);
      for (const std::size_t user : users[i]) {
        if (--missing[user] == 0) ready.push(user);
      }
    }
    if (order.size() < nodes_.size()) fail_cycle(missing);
    return order;
  }

private:
  [[noreturn]] void fail_cycle(const std::vector<std::size_t>& missing) const {
    std::string text = "nodes depend on their own outputs:";
    std::size_t named = 0;
    for (std::size_t i = 0; i < nodes_.size() && named < most_named_in_cycle; ++i) {
      if (missing[i] == 0) continue;
      text +=
          (named++ == 0 ? " " : ", ") + in_quotes(nodes_[i].name.empty() ? nodes_[i].outputs.front() : nodes_[i].name);
    }
    throw ParseError(text);
  }

  const std::vector<NodeProto>& nodes_;
  std::unordered_map<std::string_view, std::size_t> producer_;
};

class GraphBuilder {
public:
  GraphBuilder(const ModelProto& model, std::shared_ptr<const MappedFile> file)
      : model_(model),
        proto_(*model.graph),
        file_(std::move(file)),
        owner_(file_),
        opset_(opset_of(model)),
        order_(proto_.nodes),
        folder_(4 * file_->bytes().size() + (std::size_t{1} << 20)) {}

  ModelDescription build() {
    require_opset();
    describe_file();
    add_initializers();
    add_inputs();
    find_used_values();
    for (const NodeProto& node : proto_.nodes) result_.operators.push_back(op_name(node));
    for (const std::size_t i : order_.sorted()) add(proto_.nodes[i]);
    add_outputs();
    if (result_.unsupported.empty()) check();
    return std::move(result_);
  }

private:
  Graph& graph() { return result_.graph; }

  void require_opset() const {
    if (opset_ >= oldest_opset) return;
    throw Unsupported(
        "opset " + std::to_string(opset_) +
        " is older than 7, the oldest that this version reads; convert the model with onnx.version_converter");
  }

  void describe_file() {
    graph().name = printable(proto_.name);
    graph().format = "onnx (IR " + std::to_string(model_.ir_version) + ", opset " + std::to_string(opset_) + ")";
    result_.producer = printable(model_.producer_name);
    if (!model_.producer_version.empty()) result_.producer += " " + printable(model_.producer_version);
    for (const auto& [domain, name] : model_.local_functions) {
      local_functions_.emplace(domain == "ai.onnx" ? std::string_view() : domain, name);
    }
  }

  // ---- values that are there from the start -------------------------------------------------------------------------

  void add_initializers() {
    for (const Bytes bytes : proto_.initializers) {
      const TensorProto tensor = parse_tensor(bytes);
      if (tensor.name.empty()) throw ParseError("an initialiser has no name");
      const std::string where = "initialiser " + in_quotes(tensor.name);
      Known known;
      try {
        known.constant = to_stored(tensor, owner_, where);
        known.type = known.constant->type();
      } catch (const Unsupported& error) {
        known.is_available = false;
        known.why_unavailable = error.what();
      }
      introduce(tensor.name, std::move(known));
    }
    for (const std::string_view name : proto_.sparse_initializers) {
      introduce(name,
                Known{{}, {}, {}, false, "initialiser " + in_quotes(name) + " is sparse, which is not supported"});
    }
  }

  /// Until IR version 3 every initialiser is listed as an input too; from then on such an input has a default, which is
  /// used.
  void add_inputs() {
    std::unordered_set<std::string_view> seen;
    for (const ValueInfoProto& input : proto_.inputs) {
      if (!seen.insert(input.name).second) throw ParseError("two inputs are named " + in_quotes(input.name));
      if (values_.count(input.name) == 0) add_input(input);
    }
  }

  void add_input(const ValueInfoProto& input) {
    const std::string where = "input " + in_quotes(input.name);
    if (input.is_tensor && input.element_type == DataType::undefined) throw ParseError(where + " has no element type");
    const std::optional<ElementType> type = input.is_tensor ? element_type(input.element_type) : std::nullopt;
    if (!type) {
      const std::string what =
          input.is_tensor ? "has element type " + onnx::name_of(input.element_type) : "is not a tensor";
      introduce(input.name, Known{{}, {}, {}, false, where + " " + what + ", which is not supported"});
      return;
    }
    std::vector<DeclaredDimension> shape;
    if (input.shape.size() > 64) throw ParseError(where + " has more than 64 dimensions");
    for (const Dimension& dimension : input.shape) {
      const bool is_fixed = dimension.value && *dimension.value > 0;  // exporters write 0 and -1 for open extents
      shape.push_back({is_fixed ? *dimension.value : -1, printable(dimension.symbol)});
    }
    const ValueId id = graph().add_input(printable(input.name), *type, std::move(shape));
    graph().values[id].has_declared_shape = input.has_shape;
    introduce(input.name, Known{{}, id, *type, true, ""});
  }

  void introduce(std::string_view name, Known known) {
    if (order_.computes(name))
      throw ParseError("the value " + in_quotes(name) + " is computed by a node and given as well");
    if (!values_.emplace(name, std::move(known)).second) throw ParseError("two values are named " + in_quotes(name));
  }

  void find_used_values() {
    for (const NodeProto& node : proto_.nodes) used_.insert(node.inputs.begin(), node.inputs.end());
    for (const ValueInfoProto& output : proto_.outputs) used_.insert(output.name);
  }

  // ---- nodes --------------------------------------------------------------------------------------------------------

  void add(const NodeProto& node) {
    try {
      add_checked(node);
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(describe(node) + ": " + error.what());
    } catch (const ParseError& error) {
      throw ParseError(describe(node) + ": " + error.what());
    }
  }

  void add_checked(const NodeProto& node) {
    const std::vector<Known*> operands = operands_of(node);
    if (std::string reason = why_not_represented(node, operands); !reason.empty())
      return reject(node, operands, std::move(reason));
    std::vector<Operand> views;
    for (const Known* known : operands) {
      views.push_back({known != nullptr, known != nullptr && known->constant ? &*known->constant : nullptr});
    }
    Mapping mapping = map_node({node, opset_, views, owner_});
    if (auto* not_mapped = std::get_if<NotMapped>(&mapping))
      return reject(node, operands, std::move(not_mapped->reason));
    if (auto* constant = std::get_if<MappedConstant>(&mapping))
      return define_constant(node, std::move(constant->value));
    add_op(node, operands, std::get<MappedOp>(mapping));
  }

  /// One entry an input, null where it is left out; inputs left out at the end are dropped.
  std::vector<Known*> operands_of(const NodeProto& node) {
    std::vector<Known*> operands;
    for (const std::string_view input : node.inputs) {
      const auto found = values_.find(input);
      if (found == values_.end() && !input.empty())
        throw ParseError("its input " + in_quotes(input) + " is not defined anywhere");
      operands.push_back(input.empty() ? nullptr : &found->second);
    }
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    return operands;
  }

  /// Reasons that do not depend on the op; empty where there is none.
  std::string why_not_represented(const NodeProto& node, const std::vector<Known*>& operands) const {
    if (local_functions_.count({domain_of(node), node.op_type}) != 0)
      return "functions defined inside the model are not supported";
    if (!domain_of(node).empty()) return "this version has no ops of the domain " + in_quotes(node.domain);
    for (const Known* known : operands) {
      if (known != nullptr && !known->is_available && !known->why_unavailable.empty()) return known->why_unavailable;
    }
    for (std::size_t i = 1; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty() && used_.count(node.outputs[i]) != 0)
        return "its output " + in_quotes(node.outputs[i]) + " is used";
    }
    return "";
  }

  void reject(const NodeProto& node, const std::vector<Known*>& operands, std::string reason) {
    result_.unsupported.push_back({layer_name(node), op_name(node), std::move(reason)});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool is_parameter = operands[i] != nullptr && operands[i]->constant && is_float(operands[i]->type);
      if (is_parameter) id_of(*operands[i], printable(node.inputs[i]));  // counted all the same
    }
    define_unavailable(node);
  }

  void define_unavailable(const NodeProto& node) {
    for (const std::string_view output : node.outputs) define(output, Known{{}, {}, {}, false, ""});
  }

  void define_constant(const NodeProto& node, StoredTensor value) {
    const ElementType type = value.type();
    define(node.outputs.front(), Known{std::move(value), {}, type, true, ""});
  }

  void define(std::string_view name, Known known) {
    if (!name.empty()) values_.emplace(name, std::move(known));
  }

  void add_op(const NodeProto& node, const std::vector<Known*>& all, MappedOp& mapped) {
    std::vector<Known*> operands;
    for (const std::size_t slot : mapped.slots) operands.push_back(all[slot]);
    const bool available =
        std::all_of(operands.begin(), operands.end(), [](const Known* known) { return known->is_available; });
    if (!available) return define_unavailable(node);
    if (auto folded = fold(mapped.op, operands)) return define_constant(node, std::move(*folded));
    if (std::string reason = why_not_real(mapped.op, operands); !reason.empty())
      return reject(node, all, std::move(reason));
    require_one_type(operands);

    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < operands.size(); ++i)
      inputs.push_back(id_of(*operands[i], printable(node.inputs[mapped.slots[i]])));
    const ValueId output = graph().add_node(unique_layer_name(node), std::move(mapped.op), std::move(inputs));
    graph().values[output].name = printable(node.outputs.front());
    define(node.outputs.front(), Known{{}, output, graph().value(output).type, true, ""});
  }

  std::optional<StoredTensor> fold(const Op& op, const std::vector<Known*>& operands) {
    std::vector<const StoredTensor*> constants;
    for (const Known* known : operands) {
      if (!known->constant || known->type != operands.front()->type) return std::nullopt;
      constants.push_back(&*known->constant);
    }
    return folder_.fold(op, constants);
  }

  /// Integers wrap around and divide with truncation, and casts to them truncate: that is not arithmetic of reals.
  static std::string why_not_real(const Op& op, const std::vector<Known*>& operands) {
    if (const auto* cast = std::get_if<op::Cast>(&op)) {
      return is_float(cast->to) ? "" : "casts computed values to " + std::string(name_of(cast->to));
    }
    if (is_selection(op)) return "";
    for (const Known* known : operands) {
      if (!is_float(known->type))
        return "computes in " + std::string(name_of(known->type)) + "; only float arithmetic is supported";
    }
    return "";
  }

  static void require_one_type(const std::vector<Known*>& operands) {
    for (const Known* known : operands) {
      if (known->type == operands.front()->type) continue;
      throw ShapeMismatch("its inputs have element types " + std::string(name_of(operands.front()->type)) + " and " +
                          std::string(name_of(known->type)));
    }
  }

  ValueId id_of(Known& known, std::string name) {
    if (!known.id) known.id = graph().add_constant(std::move(name), *known.constant);
    return *known.id;
  }

  std::string unique_layer_name(const NodeProto& node) {
    const std::string name = layer_name(node);
    std::string candidate = name;
    for (std::size_t& number = times_named_[name]; !layer_names_.insert(candidate).second;)
      candidate = name + "#" + std::to_string(++number + 1);
    return candidate;
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void add_outputs() {
    if (proto_.outputs.empty()) throw ParseError("the graph has no output");
    for (const ValueInfoProto& output : proto_.outputs) {
      const auto found = values_.find(output.name);
      if (found == values_.end())
        throw ParseError("the graph's output " + in_quotes(output.name) + " is not defined anywhere");
      Known& known = found->second;
      if (known.is_available) graph().outputs.push_back(id_of(known, printable(output.name)));
    }
  }

  void check() const {
    const Graph& graph = result_.graph;
    validate(graph);
    std::vector<Shape> shapes;
    for (const ValueId input : graph.inputs) {
      const Value& value = graph.value(input);
      if (!value.has_declared_shape) return;
      shapes.emplace_back();
      for (const DeclaredDimension& dimension : value.declared) {
        if (dimension.extent < 0) return;
        shapes.back().push_back(dimension.extent);
      }
    }
    infer_shapes(graph, shapes);
  }

  const ModelProto& model_;
  const GraphProto& proto_;
  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const void> owner_;
  std::int64_t opset_;
  NodeOrder order_;
  ConstantFolder folder_;
  std::unordered_map<std::string_view, Known> values_;
  std::unordered_set<std::string_view> used_;
  std::set<std::pair<std::string_view, std::string_view>> local_functions_;
  std::unordered_set<std::string> layer_names_;
  std::unordered_map<std::string, std::size_t> times_named_;
  ModelDescription result_;
};

}  // namespace

ModelDescription describe_onnx(const std::shared_ptr<const MappedFile>& file) {
  const ModelProto model = parse_model(file->bytes());
  if (!model.graph) throw ParseError("not an ONNX model: it holds no graph");
  return GraphBuilder(model, file).build();
}

}  // namespace driftbound

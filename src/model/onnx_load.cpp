#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "model/fold.hpp"
#include "model/load_formats.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_functions.hpp"
#include "model/onnx_given.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_masks.hpp"
#include "model/onnx_ops.hpp"
#include "model/onnx_order.hpp"
#include "model/onnx_parts.hpp"
#include "model/onnx_proto.hpp"
#include "model/onnx_scope.hpp"
#include "model/onnx_sparse.hpp"
#include "model/onnx_tensor.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using namespace onnx;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Files older than IR version 3 name no opset: theirs is 1. Empty where a file has ops of other domains only.
std::optional<std::int64_t> opset_of(const ModelProto& model) {
  if (const auto opset = default_opset(model.opset_imports)) return opset;
  if (model.ir_version < 3) return 1;
  if (!model.opset_imports.empty()) return std::nullopt;
  throw ParseError("the model imports no opset; the file is damaged or not ONNX");
}

std::string op_name(const NodeProto& node) {
  const std::string_view domain = normalized_domain(node.domain);
  return printable(domain.empty() ? std::string(node.op_type) : std::string(domain) + "." + std::string(node.op_type));
}

/// The node's name, else that of its first output.
std::string layer_name(const NodeProto& node) {
  return printable(node.name.empty() ? node.outputs.front() : node.name);
}

std::string describe(const NodeProto& node) {
  return "node " + in_quotes(node.name.empty() ? node.outputs.front() : node.name) + " (" + op_name(node) + ")";
}

constexpr const char* open_extent_hint =
    "it depends on an extent that the model leaves open; export the model with fixed input shapes";

constexpr const char* too_many_parts =
    "the model has more nodes, values or numbers than a file of its size justifies (64 MiB of memory, twice its "
    "files)";

class GraphBuilder {
public:
  GraphBuilder(const ModelProto& model, std::shared_ptr<const MappedFile> file, const std::filesystem::path& folder,
               const Inputs& constants, const GivenInputs& given, Allowance allowance)
      : model_(model),
        proto_(*model.graph),
        constants_(constants),
        has_given_(!given.empty()),
        given_(given, model.graph->inputs),
        file_(std::move(file)),
        owner_(file_),
        data_files_(folder),
        functions_(model.functions),
        allowance_(allowance) {}

  ModelDescription build() {
    Scope scope;
    scope.opset = opset_of(model_);
    describe_file(scope.opset);
    const NodeOrder order(proto_.nodes);
    add_initializers(scope, order, proto_);
    graph().values.reserve(proto_.nodes.size() + proto_.initializers.size() + proto_.inputs.size());
    graph().nodes.reserve(proto_.nodes.size());
    result_.operators.reserve(proto_.nodes.size());
    add_inputs(scope, order);
    result_.index_limits = index_limits(proto_);
    mark_used(scope, proto_.nodes);
    for (const ValueInfoProto& output : proto_.outputs) scope.used.insert(output.name);
    for (const NodeProto& node : proto_.nodes) result_.operators.push_back(op_name(node));
    add_nodes(scope, order, proto_.nodes);
    add_outputs(scope);
    add_rest_of_data();
    for (const auto& [location, bytes] : data_files_.opened()) result_.data_files.push_back({location, bytes});
    known_.clear();  // makes room for the tables of the check
    if (result_.unsupported.empty() || !graph().outputs.empty()) check();
    return std::move(result_);
  }

private:
  Graph& graph() { return result_.graph; }

  void require_memory(std::size_t bytes) {
    if (!allowance_.take(bytes)) throw Unsupported(too_many_parts);
  }

  /// For one more element. A list that grows is there twice for a moment.
  template <class List>
  void make_room(List& list) {
    if (list.size() < list.capacity()) return;
    constexpr std::size_t fewest = 16;
    constexpr std::size_t width = sizeof(typename List::value_type);
    const std::size_t now = list.capacity(), more = std::max(now, fewest);
    if (!allowance_.take(more * width, now * width)) throw Unsupported(too_many_parts);
    list.reserve(now + more);
  }

  void describe_file(std::optional<std::int64_t> opset) {
    graph().name = printable(proto_.name);
    graph().format = "onnx (IR " + std::to_string(model_.ir_version) + ", opset " +
                     (opset ? std::to_string(*opset) : "none of the default domain") + ")";
    result_.producer = printable(model_.producer_name);
    if (!model_.producer_version.empty()) result_.producer += " " + printable(model_.producer_version);
  }

  // ---- values that are there from the start -------------------------------------------------------------------------

  void add_initializers(Scope& scope, const NodeOrder& order, const GraphProto& proto) {
    for (const Bytes bytes : proto.initializers) {
      const TensorProto tensor = parse_tensor(bytes);
      const std::string where = initializer_name(tensor.name);
      introduce(scope, order, tensor.name,
                known_or_why_not([&] { return to_stored(tensor, owner_, where, &data_files_); }));
    }
    for (const Bytes bytes : proto.sparse_initializers) {
      const SparseTensorProto tensor = parse_sparse_tensor(bytes);
      const std::string where = initializer_name(tensor.name);
      introduce(scope, order, tensor.name,
                known_or_why_not([&] { return to_dense(tensor, owner_, where, data_files_, allowance_); }));
    }
  }

  static std::string initializer_name(std::string_view name) {
    if (name.empty()) throw ParseError("an initialiser has no name");
    return "initialiser " + in_quotes(name);
  }

  /// A tensor of a kind that there is none of is reported where a node uses it.
  template <class Read>
  static Known known_or_why_not(Read read) {
    try {
      return Known::of(read());
    } catch (const Unsupported& error) {
      return Known::unavailable(error.what());
    }
  }

  /// Until IR version 3 every initialiser is listed as an input too; from then on such an input has a default, which is
  /// used.
  void add_inputs(Scope& scope, const NodeOrder& order) {
    std::unordered_set<std::string_view> seen;
    for (const ValueInfoProto& input : proto_.inputs) {
      if (!seen.insert(input.name).second) throw ParseError("two inputs are named " + in_quotes(input.name));
      if (scope.values.count(input.name) != 0) continue;
      const StoredTensor* constant = constant_input(input);
      introduce(scope, order, input.name, constant != nullptr ? Known::of(*constant) : known_input(input));
      remember_open_input(known_.back());
    }
    for (const auto& [name, tensor] : constants_.tensors) {
      if (seen.count(name) == 0) throw InvalidArgument("the model has no input " + in_quotes(name));
    }
  }

  void remember_open_input(Known& known) {
    open_inputs_.resize(open_extents_);
    known_open_inputs_.resize(open_extents_, nullptr);
    if (!known.id || !known.shape || known.shape->empty() || !known.shape->front().is_open()) return;
    open_inputs_[known.shape->front().symbol()] = known.type;
    known_open_inputs_[known.shape->front().symbol()] = &known;
  }

  /// The tensor that the caller fixed an input to; null for the others.
  const StoredTensor* constant_input(const ValueInfoProto& input) const {
    for (const auto& [name, tensor] : constants_.tensors) {
      if (name != input.name) continue;
      if (element_type(input.element_type) != tensor.type()) {
        throw ShapeMismatch("the constant for input " + in_quotes(name) + " is " + std::string(name_of(tensor.type())) +
                            ", the model declares " + onnx::name_of(input.element_type));
      }
      return &tensor;
    }
    return nullptr;
  }

  Known known_input(const ValueInfoProto& input) {
    const std::string where = "input " + in_quotes(input.name);
    if (input.is_tensor && input.element_type == DataType::undefined) throw ParseError(where + " has no element type");
    const std::optional<ElementType> type = input.is_tensor ? element_type(input.element_type) : std::nullopt;
    if (!type) {
      const std::string what =
          input.is_tensor ? "has element type " + onnx::name_of(input.element_type) : "is not a tensor";
      return Known::unavailable(where + " " + what + ", which is not supported");
    }
    if (input.shape.size() > highest_rank) throw ParseError(where + " has more than 64 dimensions");
    std::vector<DeclaredDimension> declared;
    OpenShape shape;
    for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
      const Dimension& dimension = input.shape[axis];
      const bool is_fixed = dimension.value && *dimension.value > 0;  // exporters write 0 and -1 for open extents
      const std::optional<std::int64_t> extent = is_fixed ? dimension.value : given_.extent_of(input, axis);
      declared.push_back({extent.value_or(-1), printable(dimension.symbol)});
      shape.push_back(extent                                      ? Extent::number(*extent)
                      : axis == 0 && given_.counts_samples(input) ? Extent::open(symbol_of_samples())
                                                                  : open_extent(dimension.symbol));
    }
    const StoredTensor* data = given_.data_of(input.name);
    if (data != nullptr && (!is_float(*type) || is_mask(*data))) {
      GivenValue value = given_.value_of(input);
      if (value.each.size() == 1 && !value.all) return Known::of(std::move(value.each.front()));
      require_samples(input.name, value.each.size());
      Known known;
      known.type = *type;
      if (input.has_shape) known.shape = std::move(shape);
      known.given = std::move(value);
      return known;
    }
    Known known;
    known.id = graph().add_input(printable(input.name), *type, std::move(declared));
    known.type = *type;
    graph().values[*known.id].has_declared_shape = input.has_shape;
    if (input.has_shape) known.shape = std::move(shape);
    if (data != nullptr) result_.inputs.tensors.emplace_back(graph().values[*known.id].name, *data);
    return known;
  }

  /// Throws:    ShapeMismatch where another input of integers has another number of samples
  void require_samples(std::string_view input, std::size_t samples) {
    if (!sampled_) sampled_ = {input, samples};
    if (sampled_->second != samples)
      throw ShapeMismatch("input " + in_quotes(sampled_->first) + " has " + std::to_string(sampled_->second) +
                          " samples, input " + in_quotes(input) + " has " + std::to_string(samples));
  }

  std::size_t symbol_of_samples() {
    if (!samples_) samples_ = open_extents_++;
    return *samples_;
  }

  /// Extents of the same name are the same; one without a name is like no other.
  Extent open_extent(std::string_view symbol) {
    const std::size_t fresh = open_extents_++;
    return Extent::open(symbol.empty() ? fresh : symbols_.emplace(symbol, fresh).first->second);
  }

  void introduce(Scope& scope, const NodeOrder& order, std::string_view name, Known known) {
    introduce(scope, order, name, &known_.emplace_back(std::move(known)));
  }

  static void introduce(Scope& scope, const NodeOrder& order, std::string_view name, Known* known) {
    if (order.computes(name))
      throw ParseError("the value " + in_quotes(name) + " is computed by a node and given as well");
    if (scope.has(name)) throw ParseError("two values are named " + in_quotes(name));
    add_name(scope, name, known);
  }

  static void add_name(Scope& scope, std::string_view name, Known* known) {
    if (known != nullptr && known->name.empty()) known->name = name;
    scope.values.emplace(name, known);
  }

  static void mark_used(Scope& scope, const std::vector<NodeProto>& nodes) {
    for (const NodeProto& node : nodes) {
      for (const std::string_view name : names_read(node)) scope.used.insert(name);
    }
  }

  // ---- nodes --------------------------------------------------------------------------------------------------------

  void add_nodes(Scope& scope, const NodeOrder& order, const std::vector<NodeProto>& nodes) {
    for (const std::size_t i : order.sorted()) add(scope, nodes[i]);
  }

  void add(Scope& scope, const NodeProto& node) {
    try {
      add_checked(scope, with_arguments(node, scope.arguments));
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(describe(node) + ": " + error.what());
    } catch (const ParseError& error) {
      throw ParseError(describe(node) + ": " + error.what());
    } catch (const FileError& error) {
      throw FileError(describe(node) + ": " + error.what());
    }
  }

  void add_checked(Scope& scope, const NodeProto& node) {
    const std::vector<Known*> operands = operands_of(scope, node);
    try {
      add_supported(scope, node, operands);
    } catch (const Unsupported& error) {
      reject(scope, node, operands, error.what());
    }
  }

  /// Throws:    Unsupported where this version cannot represent the node
  void add_supported(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    require_memory(memory_of_further_values(node.inputs.size(), node.outputs.size()));
    if (Function* function = functions_.find(node)) return add_call(scope, node, operands, *function);
    require_represented(scope, node, operands);
    const std::optional<ElementType> integers = integers_moved(node, operands);
    if (node.op_type == "If") return add_branch(scope, node, operands);
    if (node.op_type == "Loop") return add_loop(scope, node, operands);
    if (node.op_type == "Scan") return add_scan(scope, node, operands);
    if (node.op_type == "Shape" && is_computed_by_unsupported(operands)) return define_unavailable(scope, node);
    const bool asks_for_shape = node.op_type == "Shape" || node.op_type == "Size";
    if (!asks_for_shape && add_masked(scope, node, operands)) return;
    if (!asks_for_shape && reads_given(operands) && add_given(scope, node, operands)) return;

    const std::vector<Operand> views = views_of(operands);
    const NodeView view = view_of(scope, node, views, allowance_);
    require_form(view);
    if (std::optional<IntegerTensor> folded = fold_integers(view)) {
      const bool is_partial = std::any_of(folded->elements.begin(), folded->elements.end(),
                                          [](const Extent& element) { return !element.is_known(); });
      if (is_partial && samples_ && add_given(scope, node, operands)) return;
      return define_integers(scope, node, *folded);
    }
    Mapping mapping = map_node(view);
    if (auto* not_mapped = std::get_if<NotMapped>(&mapping)) {
      if (samples_ && add_given(scope, node, operands)) return;
      throw Unsupported(not_mapped->reason);
    }
    if (auto* constant = std::get_if<MappedConstant>(&mapping))
      return define(scope, node.outputs.front(), Known::of(std::move(constant->value)));
    const auto* one = std::get_if<MappedOp>(&mapping);
    MappedOps ops = one != nullptr ? as_list(*one) : std::move(std::get<MappedOps>(mapping));
    if (integers) ops.quantised.assign(ops.outputs.size(), integers);
    add_ops(scope, node, operands, std::move(ops));
  }

  /// The type of the integers that floats among the operands stand for, where the node moves or compares them. Empty
  /// where there are none, and where the node makes floats or other integers of them.
  /// Throws:    Unsupported for other nodes, as integers wrap around and divide with truncation
  static std::optional<ElementType> integers_moved(const NodeProto& node, const std::vector<Known*>& operands) {
    static const std::set<std::string_view> moves = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten",
                                                     "Slice",   "Identity",  "Concat",  "Gather",    "GatherElements",
                                                     "Split",   "GatherND",  "Expand",  "Tile",      "MaxPool",
                                                     "Max",     "Min",       "Pad",     "ReduceMax", "ReduceMin"};
    static const std::set<std::string_view> reads = {
        "DequantizeLinear", "MatMulInteger", "QLinearMatMul", "QLinearConv", "ConvInteger", "Cast",
        "CastLike",         "Shape",         "Size",          "Equal",       "Greater",     "Less"};
    std::optional<ElementType> type;
    for (const Known* known : operands)
      if (known != nullptr && known->quantised) type = known->quantised;
    if (!type || reads.count(node.op_type) != 0) return std::nullopt;
    if (moves.count(node.op_type) == 0)
      throw Unsupported("computes in " + std::string(name_of(*type)) + "; only float arithmetic is supported");
    for (const Known* known : operands)
      if (known != nullptr && is_float(known->type) && known->quantised != type)
        throw ShapeMismatch("its inputs have element types " + std::string(name_of(*type)) + " and " +
                            std::string(name_of(known->quantised.value_or(known->type))));
    return type;
  }

  NodeView view_of(const Scope& scope, const NodeProto& node, std::span<const Operand> operands, Allowance& allowance) {
    return {node, *scope.opset, operands, outputs_used(scope, node), owner_, data_files_, allowance, open_inputs_};
  }

  // ---- minus infinity in masks --------------------------------------------------------------------------------------

  Known* remember(Known known) {
    require_memory(sizeof(Known));
    return &known_.emplace_back(std::move(known));
  }

  Known* computed_step(const Scope& scope, const NodeProto& node, const char* part, Op op,
                       const std::vector<Known*>& operands) {
    return remember(computed(scope.prefix + layer_name(node) + part, std::move(op), operands));
  }

  /// Where and Add that make scores minus infinity, and Softmax of such scores. Returns false for other nodes.
  /// Throws:    Unsupported where another node reads such scores
  bool add_masked(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    if (is_computed_by_unsupported(operands) || std::count(operands.begin(), operands.end(), nullptr) > 0) return false;
    const bool reads_masked = std::any_of(operands.begin(), operands.end(),
                                          [](const Known* known) { return known != nullptr && known->masked; });
    if (reads_masked && node.op_type == "Softmax") return add_masked_softmax(scope, node, *operands[0]);
    if (reads_masked && node.op_type == "Identity") {
      define(scope, node.outputs.front(), operands[0]);
      return true;
    }
    if (node.op_type == "Mul" && operands.size() == 2) {
      for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
        if (holds_minus_infinity(*operands[slot]) && is_one(*operands[1 - slot], *operands[slot])) {
          define(scope, node.outputs.front(), operands[slot]);
          return true;
        }
    }
    if (node.op_type == "Where" && operands.size() == 3) {
      for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
        const Known *hides = operands[slot], *other = operands[3 - slot];
        const bool masks = hides->constant && is_minus_infinity(*hides->constant);
        if (!masks || other->constant || other->given) continue;
        require_one_type(op::Add{}, {operands[1], operands[2]});
        if (!keeps_shape(*hides, *other))
          throw Unsupported("minus infinity " + to_string(hides->constant->shape()) +
                            " gives the scores further elements or axes; expand the scores first");
        return define_masked(scope, node, operands[3 - slot], kept_by(scope, node, *operands[0], slot == 2));
      }
    }
    if (node.op_type == "Add" && operands.size() == 2) {
      for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
        if (!operands[1 - slot]->constant && !operands[1 - slot]->given &&
            add_mask(scope, node, *operands[slot], operands[1 - slot]))
          return true;
    }
    if (reads_masked)
      throw Unsupported("it reads minus infinity, which a mask made; only Softmax has a number for that");
    return false;
  }

  bool holds_minus_infinity(const Known& known) { return known.masked || split_mask(known).first != nullptr; }
  /// Whether a value times this one is that value, of the same shape.
  static bool is_one(const Known& known, const Known& other) {
    return known.constant && known.constant->size() == 1 && known.type == other.type && is_float(known.type) &&
           known.constant->shape().size() <= (other.shape ? other.shape->size() : 0) &&
           known.constant->to_double().values[0] == 1.0;
  }

  /// What follows from given data; its name in the graph is that of the data and `part`.
  Known* remember_given(const Known& data, const char* part, GivenValue value, ElementType type) {
    Known known;
    known.name = made_names_.emplace_back(std::string(data.name) + part);
    require_memory(known.name.size());
    known.type = type;
    known.shape = data.shape;
    known.given = std::move(value);
    return remember(std::move(known));
  }

  /// The truth values of a condition, or the others.
  Known* kept_by(const Scope& scope, const NodeProto& node, Known& condition, bool as_it_is) {
    if (condition.type != ElementType::boolean) throw ParseError("its condition is no boolean");
    if (as_it_is) return &condition;
    if (!condition.given && !condition.constant)
      return computed_step(scope, node, "/not", op::Choice{}, {&condition, truth(false), truth(true)});
    Known*& others = inverted_[&condition];
    if (others == nullptr)
      others = condition.given ? remember_given(condition, "/not", inverted(*condition.given), ElementType::boolean)
                               : remember(Known::of(inverted(*condition.constant)));
    return others;
  }

  Known* truth(bool value) { return remember(Known::of(StoredTensor(ElementType::boolean, {}, {std::byte{value}}))); }

  /// Scores plus a mask that holds minus infinity. Returns false for other operands.
  bool add_mask(Scope& scope, const NodeProto& node, Known& mask, Known* scores) {
    const auto [kept, added] = split_mask(mask);
    if (kept == nullptr) return false;
    if (scores->masked && added != nullptr)
      throw Unsupported("it adds a bias to scores that a mask made minus infinity; add it before the mask");
    require_one_type(op::Add{}, {scores, &mask});
    if (added != nullptr) scores = computed_step(scope, node, "", op::Add{}, {scores, added});
    return define_masked(scope, node, scores, kept);
  }

  /// The parts of a mask (parts_of_mask), the same for every node that adds it; null where no element is minus infinity.
  std::pair<Known*, Known*> split_mask(const Known& mask) {
    const auto known = split_masks_.find(&mask);
    if (known != split_masks_.end()) return known->second;
    Known *kept = nullptr, *added = nullptr;
    if (mask.given) {
      if (auto parts = parts_of_mask(*mask.given)) {
        kept = remember_given(mask, "/kept", std::move(parts->kept), ElementType::boolean);
        if (parts->added) added = remember_given(mask, "/added", std::move(*parts->added), mask.type);
      }
    } else if (mask.constant) {
      if (auto parts = parts_of_mask(*mask.constant)) {
        kept = remember(Known::of(std::move(parts->kept)));
        if (parts->added) added = remember(Known::of(std::move(*parts->added)));
      }
    }
    return split_masks_[&mask] = {kept, added};
  }

  /// Whether a tensor of minus infinity leaves the shape of scores as it is, where it takes their place.
  static bool keeps_shape(const Known& fill, const Known& scores) {
    const std::size_t rank = fill.shape->size();
    if (rank > (scores.shape ? scores.shape->size() : 1)) return false;  // a Softmax has an axis
    for (std::size_t i = 1; i <= rank; ++i) {
      const Extent& extent = (*fill.shape)[rank - i];
      const Extent scored = scores.shape ? (*scores.shape)[scores.shape->size() - i] : Extent::number(1);
      const bool is_same = scored.is_number() && scored.value() == extent.value();
      if (extent.value() != 1 && !is_same) return false;
    }
    return true;
  }

  bool define_masked(Scope& scope, const NodeProto& node, Known* scores, Known* kept) {
    if (scores->masked) {  // hidden by either mask
      kept = both(scope, node, scores->masked->kept, kept);
      scores = scores->masked->scores;
    }
    Known known;
    known.type = scores->type;
    known.shape = scores->shape;
    known.masked = Known::Masked{scores, kept};
    define(scope, node.outputs.front(), std::move(known));
    return true;
  }

  Known* both(const Scope& scope, const NodeProto& node, Known* a, Known* b) {
    return computed_step(scope, node, "/both", op::Choice{}, {a, b, truth(false)});
  }

  bool add_masked_softmax(Scope& scope, const NodeProto& node, const Known& of) {
    const std::size_t first_new = graph().values.size();
    op::MaskedSoftmax softmax{integer_or(node, "axis", *scope.opset < 13 ? 1 : -1), {}, {}};
    const auto rank = of.shape ? static_cast<std::int64_t>(of.shape->size()) : 0;
    const bool is_last = softmax.axis == -1 || (rank > 0 && softmax.axis == rank - 1);
    if (*scope.opset < 13 && !is_last)
      throw Unsupported("a Softmax over several axes of scores that a mask made minus infinity");
    std::vector<Known*> inputs = {of.masked->scores};
    if (const auto& kept = of.masked->kept->constant; kept && !of.masked->kept->given) {
      softmax.kept_shape = kept->shape();
      for (const std::byte truth : kept->bytes()) softmax.kept.push_back(truth != std::byte{0});
    } else {
      inputs.push_back(of.masked->kept);
    }
    Known* const result = computed_step(scope, node, "", std::move(softmax), inputs);
    bind(scope, node.outputs.front(), result, first_new);
    return true;
  }

  // ---- what follows from given integers -----------------------------------------------------------------------------

  static bool reads_given(const std::vector<Known*>& operands) {
    return std::any_of(operands.begin(), operands.end(),
                       [](const Known* known) { return known != nullptr && known->given; });
  }

  /// Computes a node for every sample alone, and for all together, where it depends on given integers, extents and
  /// constants alone and its result is exact. Returns false for other nodes, which are added to the graph.
  bool add_given(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    std::size_t samples = 1;
    bool has_all = samples_.has_value();
    for (const Known* known : operands) {
      if (known == nullptr) continue;
      if (!known->constant && !known->given && !known->integers) return false;
      if (!known->given) continue;
      samples = std::max(samples, known->given->each.size());
      has_all = has_all && known->given->all.has_value();
    }
    std::vector<std::vector<StoredTensor>> each;  // by output
    for (std::size_t sample = 0; sample < samples; ++sample) {
      auto outputs = outputs_for(scope, node, operands, sample, 1);
      if (!outputs) return false;
      each.resize(outputs->size());
      for (std::size_t i = 0; i < outputs->size(); ++i) each[i].push_back(std::move((*outputs)[i]));
    }
    std::optional<std::vector<StoredTensor>> all;
    if (has_all) {
      const std::int64_t rows = std::max<std::int64_t>(given_.rows().value_or(1), 2);
      all = outputs_for(scope, node, operands, std::nullopt, rows);
      if (!all) return false;
    }
    for (std::size_t i = 0; i < std::min(each.size(), node.outputs.size()); ++i) {
      std::optional<StoredTensor> of_all;
      if (all) of_all = std::move((*all)[i]);
      define(scope, node.outputs[i], Known::of(join(std::move(each[i]), std::move(of_all), samples_.value_or(0))));
    }
    return true;
  }

  /// The outputs of a node for one sample, or for all (`sample` empty), in which an open extent is `rows`. Empty where
  /// they are not exact.
  std::optional<std::vector<StoredTensor>> outputs_for(const Scope& scope, const NodeProto& node,
                                                       const std::vector<Known*>& operands,
                                                       std::optional<std::size_t> sample, std::int64_t rows) {
    std::vector<Operand> views(operands.size());
    std::deque<StoredTensor> values;
    std::deque<OpenShape> shapes;
    for (std::size_t slot = 0; slot < operands.size(); ++slot) {
      const Known* known = operands[slot];
      if (known == nullptr) continue;
      if (known->constant) {
        values.push_back(*known->constant);
      } else if (known->given) {
        const std::vector<StoredTensor>& each = known->given->each;
        values.push_back(sample ? each[each.size() == 1 ? 0 : *sample] : *known->given->all);
      } else {
        const auto integers = samples_ ? with_rows(*known->integers, *samples_, rows) : std::nullopt;
        auto constant = integers ? to_constant(*integers) : std::nullopt;
        if (!constant) return std::nullopt;
        values.push_back(std::move(*constant));
      }
      shapes.push_back(to_open(values.back().shape()));
      views[slot] = {true, &values.back(), nullptr, values.back().type(), &shapes.back()};
    }
    const NodeView view = view_of(scope, node, views, of_given_);
    require_form(view);
    return constant_outputs(view);
  }

  /// One entry an input, null where it is left out; inputs left out at the end are dropped.
  std::vector<Known*> operands_of(const Scope& scope, const NodeProto& node) const {
    std::vector<Known*> operands;
    for (const std::string_view input : node.inputs) {
      const std::optional<Known*> known = input.empty() ? nullptr : scope.find(input);
      if (!known) throw ParseError("its input " + in_quotes(input) + " is not defined anywhere");
      operands.push_back(*known);
    }
    while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    return operands;
  }

  static std::vector<bool> outputs_used(const Scope& scope, const NodeProto& node) {
    std::vector<bool> used;
    for (const std::string_view output : node.outputs) used.push_back(!output.empty() && scope.used.count(output) != 0);
    return used;
  }

  static std::vector<Operand> views_of(const std::vector<Known*>& operands) {
    std::vector<Operand> views;
    for (const Known* known : operands) {
      Operand& view = views.emplace_back();
      if (known == nullptr) continue;
      view.is_given = true;
      if (known->constant) view.constant = &*known->constant;
      if (known->integers) view.integers = &*known->integers;
      if (known->is_available) view.type = known->type;
      if (known->shape) view.shape = &*known->shape;
    }
    return views;
  }

  static bool is_computed_by_unsupported(const std::vector<Known*>& operands) {
    return std::any_of(operands.begin(), operands.end(),
                       [](const Known* known) { return known != nullptr && !known->is_available; });
  }

  /// Reasons that do not depend on the op.
  static void require_represented(const Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    if (!normalized_domain(node.domain).empty())
      throw Unsupported("this version has no ops of the domain " + in_quotes(node.domain));
    if (!scope.opset) throw ParseError("the model or function around it imports no opset of the default domain");
    if (*scope.opset < 1) throw ParseError("there is no opset " + std::to_string(*scope.opset));
    for (const Known* known : operands) {
      if (known != nullptr && !known->is_available && !known->why_unavailable.empty())
        throw Unsupported(known->why_unavailable);
    }
  }

  void reject(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands, std::string reason) {
    const bool is_open = std::any_of(operands.begin(), operands.end(),
                                     [](const Known* known) { return known != nullptr && known->integers; });
    if (is_open && reason != open_extent_hint) reason += std::string("; ") + open_extent_hint;
    report({scope.prefix + layer_name(node), op_name(node), std::move(reason)});
    for (Known* known : operands) {
      if (known != nullptr && known->constant && is_float(known->type)) id_of(*known);  // counted all the same
    }
    define_unavailable(scope, node);
  }

  void report(UnsupportedNode reported) {
    require_memory(reported.node.size() + reported.op.size() + reported.reason.size());
    make_room(result_.unsupported);
    result_.unsupported.push_back(std::move(reported));
  }

  void define_unavailable(Scope& scope, const NodeProto& node) {
    for (const std::string_view output : node.outputs) {
      if (scope.values.count(output) == 0) define(scope, output, Known::unavailable());
    }
  }

  void define_integers(Scope& scope, const NodeProto& node, IntegerTensor& integers) {
    std::optional<StoredTensor> constant = to_constant(integers);
    define(scope, node.outputs.front(), constant ? Known::of(std::move(*constant)) : Known::of(std::move(integers)));
  }

  void define(Scope& scope, std::string_view name, Known known) {
    if (!name.empty()) define(scope, name, &known_.emplace_back(std::move(known)));
  }

  static void define(Scope& scope, std::string_view name, Known* known) {
    if (name.empty()) return;
    if (scope.has(name)) throw ParseError("two values are named " + in_quotes(name));
    add_name(scope, name, known);
  }

  // ---- ops ----------------------------------------------------------------------------------------------------------

  static MappedOps as_list(const MappedOp& mapped) {
    std::vector<MappedOps::Input> inputs;
    for (const std::size_t slot : mapped.slots) inputs.push_back(MappedOps::slot(slot));
    MappedOps list;
    list.outputs = {list.add(mapped.op, std::move(inputs))};
    return list;
  }

  void add_ops(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands, MappedOps mapped) {
    for (std::size_t i = mapped.outputs.size(); i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty() && scope.used.count(node.outputs[i]) != 0)
        throw Unsupported("its output " + in_quotes(node.outputs[i]) + " is used, which this version does not compute");
    }
    const std::size_t first_new = graph().values.size();
    std::vector<Known*> constants, results;
    for (StoredTensor& constant : mapped.constants) {
      constexpr std::size_t owner = 96;
      require_memory(sizeof(Known) + owner);
      constants.push_back(&known_.emplace_back(Known::of(std::move(constant))));
    }
    const auto known_of = [&](const MappedOps::Input& input) {
      if (input.source == MappedOps::Source::slot) return operands.at(input.index);
      if (input.source == MappedOps::Source::open_input) return known_open_inputs_.at(input.index);
      return input.source == MappedOps::Source::step ? results.at(input.index) : constants.at(input.index);
    };
    for (std::size_t i = 0; i < mapped.steps.size(); ++i) {
      std::vector<Known*> inputs;
      for (const MappedOps::Input& input : mapped.steps[i].inputs) inputs.push_back(known_of(input));
      std::string name = scope.prefix + layer_name(node);
      if (mapped.steps.size() > 1) name += "/" + std::to_string(i);
      if (i > 0) require_memory(sizeof(Known));  // the first one's counts as that of the node's output
      results.push_back(&known_.emplace_back(computed(std::move(name), std::move(mapped.steps[i].op), inputs)));
    }
    for (std::size_t i = 0; i < std::min(mapped.outputs.size(), node.outputs.size()); ++i) {
      Known* const output = known_of(mapped.outputs[i]);
      if (i < mapped.quantised.size() && mapped.quantised[i]) output->quantised = mapped.quantised[i];
      bind(scope, node.outputs[i], output, first_new);
    }
  }

  /// The result of one op: a constant where it can be folded, else that of a layer.
  Known computed(std::string layer, Op op, const std::vector<Known*>& operands) {
    for (const Known* known : operands) {
      if (!known->is_available) return Known::unavailable();
    }
    if (std::optional<Known> folded = fold_constants(op, operands)) return std::move(*folded);
    for (const Known* known : operands) {
      if (known->integers) throw Unsupported(open_extent_hint);
    }
    require_real(op, operands);
    require_one_type(op, operands);
    std::vector<ValueId> inputs;
    std::vector<const OpenShape*> shapes;
    for (Known* known : operands) {
      inputs.push_back(id_of(*known));
      shapes.push_back(known->shape ? &*known->shape : nullptr);
    }
    Known known;
    known.shape = output_extents(op, shapes);
    require_memory(memory_of_op(op, layer, known.shape ? known.shape->size() : 0));
    make_room(graph().values);
    make_room(graph().nodes);
    known.id = graph().add_node(unique(std::move(layer)), std::move(op), std::move(inputs));
    known.type = graph().value(*known.id).type;
    return known;
  }

  std::optional<Known> fold_constants(const Op& op, const std::vector<Known*>& operands) {
    std::vector<const StoredTensor*> constants;
    for (const Known* known : operands) {
      if (known->type != operands.front()->type) return std::nullopt;
      if (known->given) return std::nullopt;
      if (known->constant) constants.push_back(&*known->constant);
    }
    if (constants.size() < operands.size()) {
      auto integers = select_integers(op, views_of(operands), allowance_);
      return integers ? std::optional(Known::of(std::move(*integers))) : std::nullopt;
    }
    auto folded = fold(op, constants, allowance_);
    return folded ? std::optional(Known::of(std::move(*folded))) : std::nullopt;
  }

  /// Integers wrap around and divide with truncation, and casts to them truncate: that is not arithmetic of reals.
  static void require_real(const Op& op, const std::vector<Known*>& operands) {
    if (const auto* cast = std::get_if<op::Cast>(&op)) {
      if (!is_float(cast->to)) throw Unsupported("casts computed values to " + std::string(name_of(cast->to)));
      return;
    }
    if (is_selection(op) || std::holds_alternative<op::Choice>(op) || std::holds_alternative<op::MaskedSoftmax>(op))
      return;
    const bool takes_truths = std::visit([]<class T>(const T&) { return Comparison<T>; }, op);
    for (const Known* known : operands) {
      if (takes_truths && known->type == ElementType::boolean) continue;
      if (!is_float(known->type))
        throw Unsupported("computes in " + std::string(name_of(known->type)) + "; only float arithmetic is supported");
    }
  }

  static void require_one_type(const Op& op, const std::vector<Known*>& operands) {
    if (std::holds_alternative<op::MaskedSoftmax>(op)) return;  // scores and truth values
    const bool has_condition = std::holds_alternative<op::Choice>(op);
    const ElementType type = operands.at(has_condition ? 1 : 0)->type;
    for (std::size_t slot = 0; slot < operands.size(); ++slot) {
      const bool is_condition = has_condition && slot == 0;
      if (operands[slot]->type == (is_condition ? ElementType::boolean : type)) continue;
      throw ShapeMismatch("its inputs have element types " + std::string(name_of(operands.front()->type)) + " and " +
                          std::string(name_of(operands[slot]->type)));
    }
  }

  ValueId id_of(Known& known) {
    if (known.id) return *known.id;
    if (known.given) return *(known.id = add_input(known));
    make_room(graph().values);
    known.id = graph().add_constant(printable(known.name), *known.constant);
    return *known.id;
  }

  /// An input of the graph in place of given integers, from which its data follow.
  ValueId add_input(const Known& known) {
    StoredTensor data = data_of(*known.given, *known.shape);
    std::vector<DeclaredDimension> declared;
    for (const Extent& extent : *known.shape) declared.push_back({extent.is_number() ? extent.value() : -1, ""});
    const ValueId id = graph().add_input(printable(known.name), known.type, std::move(declared));
    graph().values[id].has_declared_shape = true;
    result_.inputs.tensors.emplace_back(graph().values[id].name, std::move(data));
    return id;
  }

  std::string unique(std::string name) {
    if (layer_names_.insert(name).second) return name;
    std::string candidate;
    for (std::size_t& number = times_named_[name]; candidate.empty() || !layer_names_.insert(candidate).second;)
      candidate = name + "#" + std::to_string(++number + 1);
    return candidate;
  }

  /// Gives a value its name around a node. What the node computed is called so in the graph too.
  void bind(Scope& scope, std::string_view name, Known* known, std::size_t first_new) {
    if (name.empty()) return;
    const bool is_new = known->id && *known->id >= first_new && graph().value(*known->id).kind == ValueKind::computed;
    if (is_new) graph().values[*known->id].name = scope.prefix + printable(name);
    define(scope, name, known);
  }

  // ---- functions and branches ---------------------------------------------------------------------------------------

  Scope inner_scope(const Scope& scope, const NodeProto& node, std::size_t bytes, std::size_t nodes) {
    if (scope.depth >= deepest_nesting) throw ParseError("functions and subgraphs are nested more than 64 deep");
    Scope inner;
    inner.depth = scope.depth + 1;
    inner.prefix = scope.prefix + layer_name(node) + "/";
    constexpr std::size_t bytes_per_node = 1024;
    if (!allowance_.take(bytes + nodes * (bytes_per_node + inner.prefix.size())))
      throw Unsupported(
          "the functions, branches and loops of the model written out are larger than a file of this size justifies; "
          "export the model with its functions inlined, and its loops with fewer turns");
    return inner;
  }

  /// Marks a function while its body is written, whether that ends or throws.
  class ActiveCall {
  public:
    explicit ActiveCall(Function& function) : function_(function) { function_.is_active = true; }
    ~ActiveCall() { function_.is_active = false; }
    ActiveCall(const ActiveCall&) = delete;
    ActiveCall& operator=(const ActiveCall&) = delete;

  private:
    Function& function_;
  };

  void add_call(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands, Function& function) {
    const FunctionProto& proto = function.proto;
    if (function.is_active) throw ParseError("the function " + function.name + " calls itself");
    if (operands.size() > proto.inputs.size() || node.outputs.size() > proto.outputs.size())
      throw ParseError("the function " + function.name + " has fewer inputs or outputs than the call");
    Scope inner = inner_scope(scope, node, function.bytes, proto.nodes.size());
    const Attributes arguments = arguments_of(function, node);
    inner.arguments = &arguments;
    inner.opset = default_opset(proto.opset_imports);
    const NodeOrder order(proto.nodes);
    for (std::size_t i = 0; i < proto.inputs.size(); ++i)
      introduce(inner, order, proto.inputs[i], i < operands.size() ? operands[i] : nullptr);
    const ActiveCall call(function);
    add_body(scope, node, inner, order, proto.nodes, proto.outputs);
  }

  void add_branch(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    for (const auto& [name, bytes] : node.attributes) {
      if (name != "then_branch" && name != "else_branch")
        throw Unsupported("attribute " + in_quotes(name) + " is not supported");
    }
    if (operands.size() != 1) throw ParseError("an If takes one input, its condition");
    if (!operands[0]->is_available) return define_unavailable(scope, node);
    if (operands[0]->given && !operands[0]->constant)
      throw Unsupported("its condition follows from integers and differs between samples; give one sample at a time");
    if (!operands[0]->constant)
      throw Unsupported(
          "its condition is computed; an If is supported where the condition is a constant: export the branch that is "
          "taken");
    const StoredTensor& condition = *operands[0]->constant;
    if (condition.type() != ElementType::boolean || condition.size() != 1)
      throw ParseError("its condition is not one boolean");
    const char* branch = condition.bytes()[0] != std::byte{0} ? "then_branch" : "else_branch";
    const auto attribute = find_attribute(node, branch, AttributeType::graph);
    if (!attribute || !attribute->graph) throw ParseError(std::string("its ") + branch + " is missing");

    const GraphProto proto = parse_graph(*attribute->graph);
    if (!proto.inputs.empty()) throw ParseError(std::string("its ") + branch + " has inputs");
    if (proto.outputs.size() < node.outputs.size())
      throw ParseError(std::string("its ") + branch + " has fewer outputs than the node");
    Scope inner = inner_scope(scope, node, attribute->graph->size(), proto.nodes.size());
    inner.outer = &scope;
    inner.arguments = scope.arguments;
    inner.opset = scope.opset;
    const NodeOrder order(proto.nodes);
    add_initializers(inner, order, proto);
    std::vector<std::string_view> outputs;
    for (const ValueInfoProto& output : proto.outputs) outputs.push_back(output.name);
    add_body(scope, node, inner, order, proto.nodes, outputs);
  }

  void add_body(Scope& scope, const NodeProto& node, Scope& inner, const NodeOrder& order,
                const std::vector<NodeProto>& nodes, const std::vector<std::string_view>& outputs) {
    const std::size_t first_new = graph().values.size();
    mark_used(inner, nodes);
    const std::vector<bool> used = outputs_used(scope, node);
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) inner.used.insert(outputs[i]);
    }
    add_nodes(inner, order, nodes);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::optional<Known*> known = inner.find(outputs[i]);
      if (!known || *known == nullptr)
        throw ParseError("its output " + in_quotes(outputs[i]) + " is not defined anywhere");
      bind(scope, node.outputs[i], *known, first_new);
    }
  }

  // ---- loops: their bodies once for every turn ----------------------------------------------------------------------

  /// The body of a loop.
  struct LoopBody {
    GraphProto proto;
    std::size_t bytes = 0;
  };

  static LoopBody body_of(const NodeProto& node) {
    const auto attribute = find_attribute(node, "body", AttributeType::graph);
    if (!attribute || !attribute->graph) throw ParseError("its body is missing");
    return {parse_graph(*attribute->graph), attribute->graph->size()};
  }

  /// One turn of a loop. Returns what the body's outputs are.
  std::vector<Known*> add_turn(const Scope& scope, const NodeProto& node, const LoopBody& body, std::int64_t turn,
                               const std::vector<Known*>& inputs) {
    const GraphProto& proto = body.proto;
    Scope inner = inner_scope(scope, node, body.bytes, proto.nodes.size());
    inner.prefix += std::to_string(turn) + "/";
    inner.shadows = true;
    inner.outer = &scope;
    inner.arguments = scope.arguments;
    inner.opset = scope.opset;
    const NodeOrder order(proto.nodes);
    add_initializers(inner, order, proto);
    for (std::size_t i = 0; i < inputs.size(); ++i) introduce(inner, order, proto.inputs[i].name, inputs[i]);
    mark_used(inner, proto.nodes);
    for (const ValueInfoProto& output : proto.outputs) inner.used.insert(output.name);
    add_nodes(inner, order, proto.nodes);
    std::vector<Known*> outputs;
    for (const ValueInfoProto& output : proto.outputs) {
      const std::optional<Known*> known = inner.find(output.name);
      if (!known || *known == nullptr)
        throw ParseError("its output " + in_quotes(output.name) + " is not defined anywhere");
      outputs.push_back(*known);
    }
    return outputs;
  }

  /// The parts that turns give, along a new axis.
  Known* stacked(const Scope& scope, const NodeProto& node, std::size_t output, std::int64_t axis,
                 const std::vector<Known*>& parts) {
    if (parts.empty())
      throw Unsupported("it makes no turn, so that the shape of its output " + std::to_string(output) +
                        " is not known");
    const std::string layer = scope.prefix + layer_name(node) + "/stacked" + std::to_string(output);
    std::vector<Known*> rows;
    for (Known* part : parts) {
      if (!part->is_available) return remember(Known::unavailable());
      rows.push_back(remember(computed(layer + "/" + std::to_string(rows.size()), op::Unsqueeze{{axis}}, {part})));
    }
    return rows.size() == 1 ? rows.front() : remember(computed(layer, op::Concat{axis}, rows));
  }

  static bool truth_of(const Known& known) {
    if (!known.constant || known.given)
      throw Unsupported("its condition is computed; a loop is supported whose number of turns follows from constants");
    if (known.type != ElementType::boolean || known.constant->size() != 1)
      throw ParseError("its condition is not one boolean");
    return known.constant->bytes()[0] != std::byte{0};
  }

  /// Most turns that a Loop without a condition makes; none where only its condition ends it.
  static std::optional<std::int64_t> turns_of(const Known* count) {
    if (count == nullptr) return std::nullopt;
    if (!count->constant || count->given)
      throw Unsupported("its number of turns is computed; a loop is supported where it is a constant");
    if (count->constant->size() != 1) throw ParseError("its number of turns is not one integer");
    return count->constant->to_int64().values.front();
  }

  void add_loop(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    constexpr std::int64_t most_turns = 1 << 16;
    if (is_computed_by_unsupported(operands)) return define_unavailable(scope, node);
    const LoopBody body = body_of(node);
    const auto operand = [&](std::size_t slot) { return slot < operands.size() ? operands[slot] : nullptr; };
    const std::optional<std::int64_t> count = turns_of(operand(0));
    bool goes_on = operand(1) == nullptr || truth_of(*operand(1));
    std::vector<Known*> carried(
        operands.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(operands.size(), 2)), operands.end());
    const std::size_t states = carried.size();
    if (body.proto.inputs.size() != states + 2 || body.proto.outputs.size() < states + 1)
      throw ParseError("its body has " + std::to_string(body.proto.inputs.size()) + " inputs and " +
                       std::to_string(body.proto.outputs.size()) + " outputs for " + std::to_string(states) +
                       " values that turns hand on");
    const std::size_t stacks = body.proto.outputs.size() - states - 1, first_new = graph().values.size();
    std::vector<std::vector<Known*>> parts(stacks);
    for (std::int64_t turn = 0; goes_on && turn < count.value_or(most_turns); ++turn) {
      if (turn == most_turns) throw Unsupported("it makes more than " + std::to_string(most_turns) + " turns");
      std::vector<Known*> inputs = {remember(Known::of(StoredTensor::from(Tensor<std::int64_t>({}, {turn})))),
                                    remember(Known::of(StoredTensor(ElementType::boolean, {}, {std::byte{1}})))};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      const std::vector<Known*> outputs = add_turn(scope, node, body, turn, inputs);
      goes_on = truth_of(*outputs.front());
      carried.assign(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(states));
      for (std::size_t i = 0; i < stacks; ++i) parts[i].push_back(outputs[states + 1 + i]);
    }
    if (goes_on && !count) throw Unsupported("it makes more than " + std::to_string(most_turns) + " turns");
    bind_turns(scope, node, carried, parts, std::vector<std::int64_t>(stacks, 0), first_new);
  }

  void bind_turns(Scope& scope, const NodeProto& node, const std::vector<Known*>& carried,
                  const std::vector<std::vector<Known*>>& parts, const std::vector<std::int64_t>& axes,
                  std::size_t first_new) {
    const std::vector<bool> used = outputs_used(scope, node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (i >= carried.size() + parts.size()) throw ParseError("its body has fewer outputs than the node");
      if (!used[i]) continue;
      const std::size_t stack = i - std::min(i, carried.size());
      Known* const known = i < carried.size() ? carried[i] : stacked(scope, node, i, axes[stack], parts[stack]);
      bind(scope, node.outputs[i], known, first_new);
    }
  }

  /// Axes, or directions, of the values that a Scan takes apart or puts together.
  static std::vector<std::int64_t> listed(const NodeProto& node, std::string_view name, std::size_t count) {
    std::vector<std::int64_t> values = find_integers(node, name).value_or(std::vector<std::int64_t>());
    if (!values.empty() && values.size() != count)
      throw ParseError("attribute " + in_quotes(name) + " has " + std::to_string(values.size()) + " entries for " +
                       std::to_string(count) + " values");
    values.resize(count, 0);
    return values;
  }

  void add_scan(Scope& scope, const NodeProto& node, const std::vector<Known*>& operands) {
    if (*scope.opset < 9) throw Unsupported("a Scan before opset 9 scans every sample by itself");
    if (is_computed_by_unsupported(operands)) return define_unavailable(scope, node);
    const LoopBody body = body_of(node);
    const std::int64_t given = required_integer(node, "num_scan_inputs");
    if (given < 1 || std::cmp_greater(given, operands.size()))
      throw ParseError("attribute 'num_scan_inputs' does not fit");
    const auto scanned = static_cast<std::size_t>(given), states = operands.size() - scanned;
    if (body.proto.inputs.size() != operands.size() || body.proto.outputs.size() < states)
      throw ParseError("its body has other inputs than the node, or fewer outputs than states");
    const std::size_t stacks = body.proto.outputs.size() - states, first_new = graph().values.size();
    const std::vector<std::int64_t> axes = listed(node, "scan_input_axes", scanned);
    const std::vector<std::int64_t> directions = listed(node, "scan_input_directions", scanned);
    const std::vector<std::int64_t> backward = listed(node, "scan_output_directions", stacks);
    for (const std::vector<std::int64_t>* list : {&directions, &backward})
      for (const std::int64_t direction : *list)
        if (direction != 0 && direction != 1)
          throw ParseError("a direction of " + std::to_string(direction) + "; there are 0 and 1");
    std::optional<std::int64_t> turns;
    for (std::size_t i = 0; i < scanned; ++i) {
      const Known* known = operands[states + i];
      if (known == nullptr || !known->shape)
        throw Unsupported("it scans a value whose shape is not known when loading");
      const Extent extent = (*known->shape)[normalized_axis(axes[i], known->shape->size())];
      if (!extent.is_number()) throw Unsupported("it scans an axis whose extent is not known when loading");
      if (turns.value_or(extent.value()) != extent.value()) throw ShapeMismatch("it scans axes of several extents");
      turns = extent.value();
    }
    std::vector<Known*> carried(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(states));
    std::vector<std::vector<Known*>> parts(stacks);
    for (std::int64_t turn = 0; turn < *turns; ++turn) {
      std::vector<Known*> inputs = carried;
      for (std::size_t i = 0; i < scanned; ++i) {
        const std::int64_t at = directions[i] == 0 ? turn : *turns - 1 - turn;
        inputs.push_back(remember(
            computed(scope.prefix + layer_name(node) + "/" + std::to_string(turn) + "/element" + std::to_string(i),
                     op::Gather{axes[i], {}, {at}}, {operands[states + i]})));
      }
      const std::vector<Known*> outputs = add_turn(scope, node, body, turn, inputs);
      carried.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(states));
      for (std::size_t i = 0; i < stacks; ++i)
        parts[i].insert(backward[i] == 0 ? parts[i].end() : parts[i].begin(), outputs[states + i]);
    }
    bind_turns(scope, node, carried, parts, listed(node, "scan_output_axes", stacks), first_new);
  }

  /// Given data that are no inputs of the graph, as others follow from them.
  void add_rest_of_data() {
    for (const ValueInfoProto& input : proto_.inputs) {
      const StoredTensor* data = given_.data_of(input.name);
      const std::string name = printable(input.name);
      const auto is_it = [&](const auto& entry) { return entry.first == name; };
      const auto& known = result_.inputs.tensors;
      if (data != nullptr && std::none_of(known.begin(), known.end(), is_it))
        result_.inputs.tensors.emplace_back(name, *data);
    }
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  void add_outputs(const Scope& scope) {
    if (proto_.outputs.empty()) throw ParseError("the graph has no output");
    for (const ValueInfoProto& output : proto_.outputs) {
      const std::optional<Known*> known = scope.find(output.name);
      if (!known) throw ParseError("the graph's output " + in_quotes(output.name) + " is not defined anywhere");
      if ((*known)->integers) {
        report({printable(output.name), "output", open_extent_hint});
      } else if ((*known)->masked) {
        report({printable(output.name), "output", "it holds minus infinity, which a mask made"});
      } else if ((*known)->is_available) {
        graph().outputs.push_back(id_of(**known));
      }
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
  const Inputs& constants_;
  const bool has_given_;
  const GivenShapes given_;
  Allowance of_given_{std::size_t{4} << 30};                         ///< for what follows from given integers
  std::optional<std::size_t> samples_;                               ///< symbol of the samples of given inputs
  std::optional<std::pair<std::string_view, std::size_t>> sampled_;  ///< an input of integers, and its samples
  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const void> owner_;
  DataFiles data_files_;
  FunctionTable functions_;
  Allowance allowance_;  ///< for what is made from the file's parts
  std::deque<Known> known_;
  std::deque<std::string> made_names_;                             ///< of what follows from given data
  std::map<const Known*, std::pair<Known*, Known*>> split_masks_;  ///< by mask: what it keeps, and adds
  std::map<const Known*, Known*> inverted_;                        ///< by condition
  std::size_t open_extents_ = 0;
  std::vector<std::optional<ElementType>> open_inputs_;  ///< by symbol: an input whose axis 0 has this extent
  std::vector<Known*> known_open_inputs_;                ///< the same
  std::unordered_map<std::string_view, std::size_t> symbols_;
  std::unordered_set<std::string> layer_names_;
  std::unordered_map<std::string, std::size_t> times_named_;
  ModelDescription result_;
};

/// What exporters make of weights of 8 and 16 bits takes: float32 numbers less their zero point, the same scaled, and
/// one copy of them.
std::size_t memory_of_widened_weights(const GraphProto& graph, std::size_t bytes_of_files) {
  constexpr std::size_t copies = 3;
  std::size_t elements = 0;
  for (const Bytes bytes : graph.initializers) {
    const TensorProto tensor = parse_tensor(bytes);
    const std::optional<ElementType> type = element_type(tensor.data_type);
    const std::size_t width = type ? bytes_per_element(*type) : 0;
    if (width != 1 && width != 2) continue;
    std::size_t count = 1;
    for (const std::int64_t extent : tensor.dims)
      count = extent <= 0 || count > bytes_of_files ? 0 : count * static_cast<std::size_t>(extent);
    if (count <= bytes_of_files / width) elements += count;
  }
  return copies * sizeof(float) * std::min(elements, bytes_of_files);
}

}  // namespace

ModelDescription describe_onnx(const std::shared_ptr<const MappedFile>& file, const std::filesystem::path& folder,
                               const Inputs& constants, const GivenInputs& given) {
  // The files' bytes and what is made from them stay below 64 MiB, twice their size, and what widens narrow weights.
  const std::size_t size = file->bytes().size() + bytes_of_data_files(file->bytes(), folder);
  const std::size_t parts = memory_of_parts(file->bytes());
  if (parts > size + 62 * mebibyte) throw Unsupported(too_many_parts);
  const ModelProto model = parse_model(file->bytes());
  if (!model.graph) throw ParseError("not an ONNX model: it holds no graph");
  const std::size_t widened = memory_of_widened_weights(*model.graph, size);
  const Allowance allowance(std::min(size + 62 * mebibyte - parts, size + 40 * mebibyte) + widened);
  return GraphBuilder(model, file, folder, constants, given, allowance).build();
}

}  // namespace driftbound

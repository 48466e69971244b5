#include "driftbound/trace/record_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/recorded_graph.hpp"
#include "model/convert.hpp"
#include "model/fold.hpp"
#include "model/onnx_masks.hpp"
#include "model/text.hpp"
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

template <class T>
const T* only_node(const CallMeaning& meaning) {
  return meaning.graph.nodes.size() == 1 ? std::get_if<T>(&meaning.graph.nodes.front().op) : nullptr;
}

/// Whether the results follow from operands by moves, or are made of arguments alone.
bool moves_alone(const CallMeaning& meaning) {
  return std::all_of(meaning.graph.nodes.begin(), meaning.graph.nodes.end(), [](const Node& node) {
    return std::visit([]<class T>(const T&) { return Selection<T>; }, node.op);
  });
}

bool is_usable(const StoredTensor& tensor) {
  return !is_float(tensor.type()) || tensor.all_finite();
}

/// One arithmetic for records that declare several: products round their operands, and nothing else does, so that those
/// of other ops may differ from that of products in it.
class CommonArithmetic {
public:
  void add(const ArithmeticModel& arithmetic, bool is_product) {
    std::optional<ArithmeticModel>& own = is_product ? of_products_ : of_others_;
    if (own && own->name != arithmetic.name) differ(own->name, arithmetic.name);
    if (own && own->stores_declared_types != arithmetic.stores_declared_types) store_alike_ = false;
    own = arithmetic;
  }

  /// That of the products, if there are any.
  /// Throws:    Unsupported where some store their results otherwise
  ArithmeticModel common() const {
    if (!of_products_ || !of_others_) return of_products_ ? *of_products_ : of_others_.value_or(ArithmeticModel());
    if (!store_alike_ || of_products_->stores_declared_types != of_others_->stores_declared_types)
      throw Unsupported(differing());
    return *of_products_;
  }

  /// Names two that are not alike; empty: all are.
  std::string differing() const {
    if (!differing_.empty() || !of_products_ || !of_others_) return differing_;
    const ArithmeticModel &a = *of_products_, &b = *of_others_;
    const bool are_alike = a.accumulator == b.accumulator && a.output == b.output && a.rounding == b.rounding &&
                           a.flushes_subnormals == b.flushes_subnormals &&
                           a.stores_declared_types == b.stores_declared_types &&
                           (b.functions.empty() || a.functions.size() == b.functions.size());
    return are_alike ? "" : text_of(a.name, b.name);
  }

private:
  static std::string text_of(const std::string& a, const std::string& b) {
    return fmt::format("its records declare arithmetics that differ, '{}' and '{}'", a, b);
  }
  void differ(const std::string& a, const std::string& b) {
    if (differing_.empty()) differing_ = text_of(a, b);
  }

  std::optional<ArithmeticModel> of_products_, of_others_;
  std::string differing_;
  bool store_alike_ = true;
};

class ChainBuilder {
public:
  ChainBuilder(const RecordedRun& run, std::int64_t most_numbers, const NumbersOf& numbers)
      : run_(run), values_(run), most_numbers_(most_numbers), numbers_of_(numbers), moves_(run.records().size()) {}

  RecordChain build() && {
    RecordChain chain;
    try {
      for (std::size_t i = 0; i < run_.records().size(); ++i) {
        join(i);
        if (numbers_ > most_numbers_)
          throw Unsupported(fmt::format("its operands and results hold more than {} numbers", most_numbers_));
      }
      finish(chain);
    } catch (const Unsupported& error) {
      chain = RecordChain();
      chain.why_not = error.what();
    }
    return chain;
  }

private:
  /// Scores of which a mask makes some minus infinity.
  struct Masked {
    ValueId scores = 0;
    StoredTensor kept;  ///< truth values
  };

  // ---- where numbers come from

  enum class Origin { outside, given, inside };

  /// Moves of elements are looked through.
  Origin origin_of(const std::string& id) const {
    if (placed_.count(id) != 0) return Origin::inside;
    const std::optional<std::size_t> producer = run_.producer_of(id);
    if (!producer) return Origin::outside;
    if (!moves_[*producer]) return Origin::given;
    Origin origin = Origin::outside;
    for (const std::size_t slot : moves_[*producer]->slots)
      origin = std::max(origin, origin_of(run_.records()[*producer].operands[slot].value()));
    return origin;
  }

  bool depends_on_input(const std::string& id) const {
    if (const auto placed = placed_.find(id); placed != placed_.end()) return depends_.at(placed->second);
    const Origin origin = origin_of(id);
    if (origin != Origin::inside) return origin == Origin::given;
    const std::size_t producer = run_.producer_of(id).value();
    const std::vector<std::size_t>& slots = moves_[producer]->slots;
    return std::any_of(slots.begin(), slots.end(), [&](std::size_t slot) {
      return depends_on_input(run_.records()[producer].operands[slot].value());
    });
  }

  // ---- values

  void note(ValueId id, bool depends) {
    depends_.resize(graph_.values.size(), false);
    known_.resize(graph_.values.size());
    depends_[id] = depends;
  }

  void count(const Shape& shape) { numbers_ += element_count(shape); }

  ValueId add_constant(const std::string& name, StoredTensor tensor) {
    if (!is_usable(tensor)) throw Unsupported("an operand holds numbers that are not finite");
    count(tensor.shape());
    const ValueId id = graph_.add_constant(name, std::move(tensor));
    note(id, false);
    known_[id] = graph_.value(id).constant;
    return id;
  }

  ValueId add_input(const std::string& name, StoredTensor tensor) {
    if (!is_usable(tensor)) throw Unsupported("an operand holds numbers that are not finite");
    count(tensor.shape());
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : tensor.shape()) declared.push_back({extent, ""});
    const ValueId id = graph_.add_input(name, tensor.type(), std::move(declared));
    graph_.values[id].has_declared_shape = true;
    note(id, true);
    known_[id] = std::move(tensor);
    return id;
  }

  /// A value of the run as one of the graph. `may_be_input`: whether numbers from outside are an input, else a constant.
  ValueId place(const std::string& id, bool may_be_input) {
    if (masked_.count(id) != 0) throw Unsupported("an op that is no Softmax reads minus infinity");
    if (const auto placed = placed_.find(id); placed != placed_.end()) return placed->second;
    const Origin origin = origin_of(id);
    if (origin == Origin::inside) {
      add_moves(run_.producer_of(id).value());
      return placed_.at(id);
    }
    if (origin == Origin::given && numbers_of_) return place_given(id);
    StoredTensor numbers = values_.view(id).tensor();
    const bool is_input = origin == Origin::given || (may_be_input && is_float(numbers.type()));
    if (origin == Origin::given) note_given(id);
    return placed_[id] = is_input ? add_input(id, std::move(numbers)) : add_constant(id, std::move(numbers));
  }

  /// What another run has of the result of a record that is no part.
  ValueId place_given(const std::string& id) {
    const std::size_t producer = run_.producer_of(id).value();
    if (moves_[producer]) {
      add_moves(producer);
      return placed_.at(id);
    }
    const auto& results = run_.records()[producer].results;
    const auto result = static_cast<std::size_t>(std::find(results.begin(), results.end(), id) - results.begin());
    std::optional<StoredTensor> numbers = numbers_of_({producer, result});
    if (!numbers) throw Unsupported("the other run does not have a value that it reads");
    note_given(id);
    return placed_[id] = add_input(id, std::move(*numbers));
  }

  void note_given(const std::string& id) {
    const std::size_t producer = run_.producer_of(id).value();
    const std::string& name = run_.records()[producer].name;
    if (!moves_[producer] && given_names_.insert(name).second) given_.push_back(name);
  }

  // ---- records

  void join(std::size_t index) {
    const Record& record = run_.records()[index];
    for (const auto& id : record.operands)
      if (id && !run_.has(*id)) return;
    try {
      CallMeaning meaning = meaning_of(values_.call_of(record));
      if (add_mask(record, meaning)) return;
      if (moves_alone(meaning)) {
        moves_[index] = std::move(meaning);
        return;
      }
      if (!add_masked_softmax(index, meaning)) add(index, meaning);
    } catch (const Error&) {
      // Why is said where the record is judged by itself. What reads its results starts from them.
    }
  }

  /// Operands of a record, by input of its op's graph.
  std::vector<ValueId> operands_of(const Record& record, const CallMeaning& meaning) {
    const auto id_of = [&](std::size_t slot) { return record.operands[slot].value(); };
    bool has_input = std::any_of(meaning.slots.begin(), meaning.slots.end(),
                                 [&](std::size_t slot) { return depends_on_input(id_of(slot)); });
    std::vector<ValueId> operands;
    for (const std::size_t slot : meaning.slots) {
      operands.push_back(place(id_of(slot), !has_input));
      has_input = has_input || depends_[operands.back()];
    }
    return operands;
  }

  /// Adds the graph of a call. `name`: of the node that computes the first result.
  void append(const Record& record, const CallMeaning& meaning, const std::vector<ValueId>& operands) {
    const Graph& body = meaning.graph;
    std::vector<ValueId> at(body.values.size());
    for (std::size_t i = 0; i < operands.size(); ++i) at[body.inputs[i]] = operands[i];
    for (ValueId id = 0; id < body.values.size(); ++id)
      if (body.is_constant(id)) at[id] = add_constant(record.name + "/" + body.value(id).name, body.value(id).constant);
    std::vector<std::optional<std::size_t>> result_of(body.values.size());
    for (std::size_t i = meaning.results.size(); i-- > 0;)
      if (meaning.results[i] && i < record.results.size() && record.results[i]) result_of[*meaning.results[i]] = i;
    for (const Node& node : body.nodes) {
      const std::optional<std::size_t> result = result_of[node.output];
      std::string name = record.name;
      if (!result) name += "/" + node.name;
      if (result && record.results.size() > 1) name += fmt::format("[{}]", *result);
      std::vector<ValueId> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(at[id]);
      at[node.output] = add_node(name, node, inputs, inner_type(record));
      if (result) graph_.values[at[node.output]].type = run_.type_of(*record.results[*result]);
    }
    for (std::size_t i = 0; i < record.results.size() && i < meaning.results.size(); ++i)
      if (record.results[i] && meaning.results[i]) placed_[*record.results[i]] = at[*meaning.results[i]];
  }

  /// Inside of an op nothing is stored, so that nothing is rounded to the type of its operands.
  ElementType inner_type(const Record& record) const {
    const auto is_double = [&](const auto& id) { return id && run_.has(*id) && run_.type_of(*id) == ElementType::f64; };
    const bool is_any = std::any_of(record.operands.begin(), record.operands.end(), is_double) ||
                        std::any_of(record.results.begin(), record.results.end(), is_double);
    return is_any ? ElementType::f64 : ElementType::f32;
  }

  ValueId add_node(const std::string& name, const Node& node, const std::vector<ValueId>& inputs, ElementType type) {
    const ValueId added = graph_.add_node(name, node.op, inputs);
    const bool keeps_type = std::visit([]<class T>(const T&) { return Selection<T> || OneOf<T, op::Cast>; }, node.op);
    if (is_float(graph_.value(added).type) && !keeps_type) graph_.values[added].type = type;
    note(added, std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) { return depends_[id]; }));
    return added;
  }

  void add_moves(std::size_t index) {
    const Record& record = run_.records()[index];
    const CallMeaning& meaning = *moves_[index];
    append(record, meaning, operands_of(record, meaning));
    keep_recorded(index, false);
  }

  void add(std::size_t index, const CallMeaning& meaning) {
    const Record& record = run_.records()[index];
    const ArithmeticModel arithmetic = arithmetic_of(record);
    append(record, meaning, operands_of(record, meaning));
    keep_recorded(index, true);
    arithmetics_.add(arithmetic, is_product(meaning));
    may_round_numbers_ = may_round_numbers_ || meaning.may_round_numbers;
  }

  static bool is_product(const CallMeaning& meaning) {
    return std::any_of(meaning.graph.nodes.begin(), meaning.graph.nodes.end(), [](const Node& node) {
      return multiplies_matrices(node.op) ||
             std::visit(
                 []<class T>(const T&) { return OneOf<T, op::Conv, op::ConvTranspose, op::Attention, op::Einsum>; },
                 node.op);
    });
  }

  ArithmeticModel arithmetic_of(const Record& record) const {
    return run_.arithmetic_of(record, inner_type(record) == ElementType::f64);
  }

  /// Takes over the results that are recorded whole.
  void keep_recorded(std::size_t index, bool are_layers) {
    const Record& record = run_.records()[index];
    for (std::size_t i = 0; i < record.results.size(); ++i) {
      const std::optional<std::string>& id = record.results[i];
      if (!id || placed_.count(*id) == 0) continue;
      const ValueId value = placed_.at(*id);
      count(run_.shape_of(*id));
      if (!graph_.producer(value) || (numbers_of_ && !are_layers)) continue;
      std::optional<StoredTensor> known = recorded_numbers({index, i});
      if (!known) continue;
      graph_.values[value].type = known->type();
      known_[value] = std::move(known);
      if (are_layers) results_[value] = RecordedResult{index, i};
    }
  }

  /// What is known of a result: as this run recorded it, or as another one did.
  std::optional<StoredTensor> recorded_numbers(RecordedResult result) const {
    if (numbers_of_) return numbers_of_(result);
    const std::string& id = run_.records()[result.record].results[result.result].value();
    if (!run_.is_stored(id) || run_.part_of(id)) return std::nullopt;
    return run_.stored(id);
  }

  // ---- minus infinity

  /// Where a record makes some scores minus infinity, notes which, and returns true.
  bool add_mask(const Record& record, const CallMeaning& meaning) {
    if (record.results.empty() || !record.results.front()) return false;
    const auto id_of = [&](ValueId id) -> std::optional<std::string> {
      const std::vector<ValueId>& inputs = meaning.graph.inputs;
      const auto at = std::find(inputs.begin(), inputs.end(), id);
      if (at == inputs.end()) return std::nullopt;
      return record.operands[meaning.slots[static_cast<std::size_t>(at - inputs.begin())]];
    };
    const auto numbers_of = [&](ValueId id) -> std::optional<StoredTensor> {
      if (meaning.graph.is_constant(id)) return meaning.graph.value(id).constant;
      const std::optional<std::string> name = id_of(id);
      if (!name || origin_of(*name) == Origin::inside) return std::nullopt;
      return values_.view(*name).tensor();
    };
    // ONNX's Where with a known condition means a selection, and its operands are those of the record.
    const bool is_where = record.op == "Where" && record.operands.size() == 3 && record.operands[0];
    if (is_where || only_node<op::Choice>(meaning) != nullptr) {
      const auto name_at = [&](std::size_t slot) {
        return is_where ? record.operands[slot] : id_of(meaning.graph.nodes.front().inputs[slot]);
      };
      const auto numbers_at = [&](std::size_t slot) -> std::optional<StoredTensor> {
        if (!is_where) return numbers_of(meaning.graph.nodes.front().inputs[slot]);
        const std::optional<std::string>& name = record.operands[slot];
        if (!name || origin_of(*name) == Origin::inside) return std::nullopt;
        return values_.view(*name).tensor();
      };
      for (const bool masks_where_true : {true, false}) {
        const std::optional<StoredTensor> filling = numbers_at(masks_where_true ? 1 : 2);
        const std::optional<std::string> scores = name_at(masks_where_true ? 2 : 1);
        if (!filling || !onnx::is_minus_infinity(*filling) || !scores) continue;
        const std::optional<StoredTensor> condition = numbers_at(0);
        if (!condition) return false;  // the network computes it
        masked_[*record.results.front()] = {place(*scores, true),
                                            masks_where_true ? onnx::inverted(*condition) : *condition};
        return true;
      }
    }
    if (only_node<op::Add>(meaning) == nullptr) return false;
    const std::vector<ValueId>& inputs = meaning.graph.nodes.front().inputs;
    for (const std::size_t slot : {std::size_t{1}, std::size_t{0}}) {
      const std::optional<std::string> scores = id_of(inputs[1 - slot]);
      const std::optional<StoredTensor> mask = numbers_of(inputs[slot]);
      if (!scores || !mask) continue;
      std::optional<onnx::MaskParts<StoredTensor>> parts = onnx::parts_of_mask(*mask);
      if (!parts) continue;
      ValueId at = place(*scores, true);
      if (parts->added) {
        const ValueId added = add_constant(record.name + "/mask", *parts->added);
        at = add_node(record.name, Node{"", op::Add{}, {}, 0}, {at, added}, run_.type_of(*record.results.front()));
        arithmetics_.add(arithmetic_of(record), false);
      }
      masked_[*record.results.front()] = {at, std::move(parts->kept)};
      return true;
    }
    return false;
  }

  bool add_masked_softmax(std::size_t index, const CallMeaning& meaning) {
    const Record& record = run_.records()[index];
    const auto* softmax = only_node<op::Softmax>(meaning);
    if (softmax == nullptr || softmax->all_trailing_axes) return false;
    const auto masked = masked_.find(record.operands[meaning.slots.front()].value());
    if (masked == masked_.end()) return false;
    op::MaskedSoftmax op{softmax->axis, masked->second.kept.shape(), {}};
    for (const std::byte truth : masked->second.kept.bytes()) op.kept.push_back(truth != std::byte{0});
    const std::string& id = record.results.front().value();
    placed_[id] = add_node(record.name, Node{"", op, {}, 0}, {masked->second.scores}, run_.type_of(id));
    keep_recorded(index, true);
    arithmetics_.add(arithmetic_of(record), false);
    return true;
  }

  // ---- what is recorded

  /// Moves of elements that are known are known, forward and back.
  void spread_known() {
    Allowance allowance(std::numeric_limits<std::size_t>::max());
    for (const Node& node : graph_.nodes) {
      std::vector<const StoredTensor*> operands;
      for (const ValueId id : node.inputs)
        if (known_[id]) operands.push_back(&*known_[id]);
      if (known_[node.output] || operands.size() != node.inputs.size()) continue;
      const bool is_move = std::visit([]<class T>(const T&) { return Selection<T>; }, node.op);
      if (is_move) known_[node.output] = fold(node.op, operands, allowance);
    }
    const std::vector<Shape> shapes = shapes_of_values();
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      const bool is_reshaping = std::visit([]<class T>(const T&) { return Reshaping<T>; }, node->op);
      if (!is_reshaping || !known_[node->output] || known_[node->inputs.front()]) continue;
      const ValueId x = node->inputs.front();
      known_[x] = reshaped(*known_[node->output], shapes[x]);
      graph_.values[x].type = known_[x]->type();
      if (const auto result = results_.find(node->output); result != results_.end()) {
        results_[x] = result->second;
        results_.erase(node->output);
      }
    }
  }

  std::vector<Shape> shapes_of_values() const {
    std::vector<Shape> inputs;
    for (const ValueId id : graph_.inputs) inputs.push_back(known_[id]->shape());
    return infer_shapes(graph_, inputs);
  }

  void finish(RecordChain& chain) {
    spread_known();
    if (results_.empty()) throw Unsupported("no result that is recorded whole follows from others");
    std::vector<std::size_t> recorded;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (known_[graph_.nodes[i].output]) recorded.push_back(i);
    chain.trace.arithmetic = arithmetics_.common();
    chain.no_arithmetic = arithmetics_.differing();
    chain.trace.provenance = run_.provenance();
    chain.trace.samples = 1;
    RecordedGraph contracted = recorded_graph(graph_, recorded, chain.trace.arithmetic);
    chain.graph = std::move(contracted.graph);
    if (chain.graph.inputs.empty()) throw Unsupported("it has no inputs");
    validate(chain.graph);
    const bool has_sample_axis = !batch_layout(chain.graph).batched;
    const auto with_samples = [&](const StoredTensor& tensor, bool depends) {
      Shape shape = tensor.shape();
      if (depends && has_sample_axis) shape.insert(shape.begin(), 1);
      return reshaped(tensor, std::move(shape));
    };
    for (const ValueId id : graph_.inputs)
      chain.trace.inputs.tensors.emplace_back(graph_.value(id).name, with_samples(*known_[id], true));
    for (const std::size_t node : recorded) {
      const ValueId value = graph_.nodes[node].output;
      chain.trace.layers.push_back({graph_.nodes[node].name, with_samples(*known_[value], depends_[value])});
      const auto result = results_.find(value);
      chain.results.push_back(result == results_.end() ? std::nullopt : std::optional(result->second));
    }
    chain.given = given_;
    chain.may_round_numbers = may_round_numbers_;
  }

  const RecordedRun& run_;
  RecordedValues values_;
  std::int64_t most_numbers_, numbers_ = 0;
  const NumbersOf& numbers_of_;
  std::vector<std::optional<CallMeaning>> moves_;  ///< by record: its meaning, where it only moves elements
  Graph graph_;
  std::map<std::string, ValueId> placed_;  ///< by id of the run
  std::map<std::string, Masked> masked_;
  std::vector<bool> depends_;                       ///< by value of the graph
  std::vector<std::optional<StoredTensor>> known_;  ///< by value of the graph
  std::map<ValueId, RecordedResult> results_;
  std::vector<std::string> given_;
  std::set<std::string> given_names_;
  CommonArithmetic arithmetics_;
  bool may_round_numbers_ = false;
};

}  // namespace

RecordChain chain_records(const RecordedRun& run, std::int64_t most_numbers, const NumbersOf& numbers) {
  return ChainBuilder(run, most_numbers, numbers).build();
}

}  // namespace driftbound

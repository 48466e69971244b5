#include "trace/run_outline.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/run_alignment.hpp"
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

bool is_move(const Node& node) {
  return std::visit([]<class T>(const T&) { return Selection<T>; }, node.op);
}

/// MatMul and Gemm are one kind, with an addend or without.
std::string kind_of(const Node& node) {
  if (!multiplies_matrices(node.op)) return std::string(name_of(node.op));
  return node.inputs.size() > 2 ? "product+Add" : "product";
}

/// "b.0.attn" of "/b.0/attn"
/// "b/b.0/attn" and "b.0.attn" are the same path: exporters repeat the name of a list in front of its members.
std::string dotted(std::string_view path) {
  std::string all, before;
  for (std::size_t first = 0; first <= path.size();) {
    const std::size_t end = std::min(path.find('/', first), path.size());
    const std::string_view part = path.substr(first, end - first);
    first = end + 1;
    if (part.empty()) continue;
    const bool repeats = !before.empty() && part.starts_with(before + ".");
    if (repeats) all.resize(all.size() - before.size());
    if (!repeats && !all.empty()) all += '.';
    all += part;
    before = part;
  }
  return all;
}

/// The module of a record. Exporters name nodes by the path of the module and the op: "/b.0/attn/MatMul".
std::string module_of(const Record& record) {
  const std::size_t last = record.name.rfind('/');
  const bool is_path = record.module.empty() && record.name.starts_with('/') && last > 0;
  return dotted(is_path ? record.name.substr(0, last) : record.module);
}

class Outliner {
public:
  explicit Outliner(const RecordedRun& run) : run_(run) {}

  RunOutline outline() && {
    for (std::size_t i = 0; i < run_.records().size(); ++i) add(i);
    return std::move(outline_);
  }

private:
  void add(std::size_t index) {
    const Record& record = run_.records()[index];
    const RecordKind computed = kind_of_record(run_, record);
    // What is drawn follows from nothing, and is a result all the same.
    const std::string kind = computed.kind.empty() && draws_at_random(record.op) ? record.op : computed.kind;
    const std::string module = module_of(record);
    std::vector<std::vector<Root>> operands;
    for (const auto& id : record.operands)
      operands.push_back(id && run_.has(*id) ? roots_of(*id) : std::vector<Root>());
    if (kind.empty()) return look_through(record, operands, computed.is_cast);
    for (std::size_t slot = 0; slot < operands.size(); ++slot) {
      const auto is_outside = [](const Root& root) { return !root.result; };
      if (operands[slot].empty() || !std::all_of(operands[slot].begin(), operands[slot].end(), is_outside)) continue;
      outline_.outside.push_back({*record.operands[slot], kind, slot});
      const std::string& root = operands[slot].front().id;
      if (operands[slot].size() == 1 && root != *record.operands[slot]) outline_.outside.push_back({root, kind, slot});
    }
    for (std::size_t slot = 0; slot < operands.size(); ++slot)
      for (const Root& root : operands[slot])
        if (!root.result && seen_.insert(root.id).second)
          outline_.sources.push_back({root.id, kind, module, slot, index});
    for (std::size_t i = 0; i < record.results.size(); ++i) {
      const std::optional<std::string>& id = record.results[i];
      if (!id || !run_.has(*id) || (!computed.kind.empty() && !computed.is_judged.empty() && !computed.is_judged[i]))
        continue;
      roots_[*id] = {{RecordedResult{index, i}, *id, false}};
      outline_.computed.push_back({{index, i}, *id, module, kind, run_.shape_of(*id), operands});
    }
  }

  /// The results of a record that moves elements, or casts them, come from where its operands do.
  void look_through(const Record& record, const std::vector<std::vector<Root>>& operands, bool is_cast) {
    std::vector<Root> roots;
    for (const std::vector<Root>& of_operand : operands)
      for (Root root : of_operand) {
        root.is_cast = root.is_cast || is_cast;
        if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
      }
    const bool is_outside = std::none_of(roots.begin(), roots.end(), [](const Root& root) { return root.result; });
    for (const auto& id : record.results) {
      if (!id) continue;
      roots_[*id] = roots;
      if (is_outside && !is_cast && run_.has(*id)) outline_.moved.push_back(*id);
    }
  }

  std::vector<Root> roots_of(const std::string& id) const {
    const auto known = roots_.find(id);
    return known == roots_.end() ? std::vector<Root>{{std::nullopt, id, false}} : known->second;
  }

  const RecordedRun& run_;
  std::map<std::string, std::vector<Root>> roots_;  ///< of results, by id
  RunOutline outline_;
  std::set<std::string> seen_;
};

}  // namespace

bool draws_at_random(std::string_view op) {
  static const std::set<std::string_view> known = {
      "bernoulli",        "binomial",         "cauchy",           "exponential", "geometric",   "_fused_dropout",
      "native_dropout",   "log_normal",       "multinomial",      "normal",      "poisson",     "rand",
      "rand_like",        "randint",          "randint_like",     "randn",       "randn_like",  "random",
      "randperm",         "rrelu_with_noise", "uniform",          "Bernoulli",   "Multinomial", "RandomNormal",
      "RandomNormalLike", "RandomUniform",    "RandomUniformLike"};
  op = op.substr(op.rfind(':') + 1);
  op = op.substr(0, op.find('.'));
  while (op.ends_with('_')) op.remove_suffix(1);
  return known.count(op) != 0;
}

RecordKind kind_of_record(const RecordedRun& run, const Record& record) {
  const auto is_known = [&](const auto& id) { return !id || run.has(*id); };
  if (!std::all_of(record.operands.begin(), record.operands.end(), is_known)) return {record.op, false, {}};
  try {
    const CallMeaning meaning = meaning_of(RecordedValues(run).call_of(record));
    RecordKind computed;
    for (const Node& node : meaning.graph.nodes)
      if (!is_move(node) && !std::holds_alternative<op::Cast>(node.op))
        computed.kind += (computed.kind.empty() ? "" : "+") + kind_of(node);
    computed.is_cast = std::any_of(meaning.graph.nodes.begin(), meaning.graph.nodes.end(),
                                   [](const Node& node) { return std::holds_alternative<op::Cast>(node.op); });
    for (std::size_t i = 0; i < record.results.size(); ++i)
      computed.is_judged.push_back(i < meaning.results.size() && meaning.results[i]);
    return computed;
  } catch (const Error&) {
    return {record.op, false, {}};  // why it is not judged is said where it would be judged
  }
}

RunOutline outline_of(const RecordedRun& run) {
  return Outliner(run).outline();
}

namespace {

/// The positions of a sequence that a value follows from.
struct Reach {
  enum class Kind { none, up_to, along, unknown };
  Kind kind = Kind::none;
  std::int64_t last = -1;  ///< up_to: all elements follow from positions up to this one
  std::int64_t inner = 1;  ///< along: element i follows from position (i / inner) % positions alone
};

/// Follows positions through the records of a run, in the order of the calls.
class PositionTracker {
public:
  PositionTracker(const RecordedRun& run, const SequenceSource& sequence,
                  const std::function<bool(const std::string&)>& is_same)
      : run_(run), sequence_(sequence), is_same_(is_same) {}

  void add(const Record& record, bool computes) {
    for (std::size_t i = 0; i < record.results.size(); ++i)
      if (record.results[i] && run_.has(*record.results[i]))
        reaches_[*record.results[i]] = computes ? computed(record, *record.results[i]) : moved(record, i);
  }

  Reach of(const std::string& id) const {
    if (id == sequence_.id) return {Reach::Kind::along, -1, sequence_.inner};
    if (const auto known = reaches_.find(id); known != reaches_.end()) return known->second;
    return {is_same_(id) ? Reach::Kind::none : Reach::Kind::unknown};
  }

private:
  /// The last position of all operands; unknown where one has several of them.
  Reach together(const Record& record) const {
    Reach all;
    for (const auto& id : record.operands) {
      if (!id || !run_.has(*id)) continue;
      const Reach one = of(*id);
      if (one.kind == Reach::Kind::none) continue;
      if (one.kind != Reach::Kind::up_to) return {Reach::Kind::unknown};
      all = {Reach::Kind::up_to, std::max(all.last, one.last)};
    }
    return all;
  }

  /// A function of every row: of one operand that has positions, and of others that have none.
  Reach computed(const Record& record, const std::string& result) const {
    if (record.operands.empty()) return {is_same_(result) ? Reach::Kind::none : Reach::Kind::unknown};
    std::optional<std::string> along;
    for (const auto& id : record.operands) {
      if (!id || !run_.has(*id)) continue;
      const Reach one = of(*id);
      if (one.kind == Reach::Kind::none) continue;
      if (one.kind != Reach::Kind::along || along) return together(record);
      along = *id;
    }
    if (!along) return together(record);
    const Shape &from = run_.shape_of(*along), &to = run_.shape_of(result);
    const std::int64_t inner = of(*along).inner;
    if (from.empty() || to.empty() || from.back() < 1 || to.back() < 1 || !is_by_rows(record, *along))
      return {Reach::Kind::unknown};
    const bool has_same_rows = element_count(from) / from.back() == element_count(to) / to.back();
    if (!has_same_rows || inner % from.back() != 0) return {Reach::Kind::unknown};
    return {Reach::Kind::along, -1, inner / from.back() * to.back()};
  }

  /// Whether an op computes every row from the same row of an operand: products with a matrix, elementwise functions, and
  /// lookups by it.
  bool is_by_rows(const Record& record, const std::string& operand) const {
    static const std::set<std::string_view> products = {"aten::addmm", "aten::mm", "aten::matmul", "aten::linear"};
    static const std::set<std::string_view> elementwise = {"aten::add",
                                                           "aten::add_",
                                                           "aten::sub",
                                                           "aten::sub_",
                                                           "aten::mul",
                                                           "aten::mul_",
                                                           "aten::div",
                                                           "aten::sigmoid",
                                                           "aten::tanh",
                                                           "aten::relu",
                                                           "aten::gelu",
                                                           "aten::silu",
                                                           "aten::native_layer_norm"};
    if (elementwise.count(record.op) != 0) return true;
    const std::size_t first = record.op == "aten::addmm" ? 1 : 0;
    return products.count(record.op) != 0 && record.operands.size() > first && record.operands[first] == operand;
  }

  Reach moved(const Record& record, std::size_t result) const {
    if (record.operands.empty()) return {is_same_(*record.results[result]) ? Reach::Kind::none : Reach::Kind::unknown};
    if (record.operands.empty() || !record.operands.front() || !run_.has(*record.operands.front()))
      return {Reach::Kind::unknown};
    if (record.op == "aten::embedding" && record.operands.size() > 1 && record.operands[1]) {
      const Reach tokens = of(*record.operands[1]);
      const std::int64_t width = run_.shape_of(*record.operands.front()).back();
      if (tokens.kind == Reach::Kind::along) return {Reach::Kind::along, -1, tokens.inner * width};
    }
    if (record.op == "aten::stack") return stacked(record, *record.results[result]);
    const std::string& id = *record.operands.front();
    const Reach one = of(id);
    if (one.kind != Reach::Kind::along || record.operands.size() > 1) return together(record);
    const Shape& shape = run_.shape_of(id);
    static const std::set<std::string_view> same_order = {
        "aten::view",       "aten::_unsafe_view", "aten::reshape", "aten::_reshape_alias", "aten::flatten",
        "aten::contiguous", "aten::clone",        "aten::alias",   "aten::detach",         "aten::squeeze",
        "aten::unsqueeze",  "aten::unflatten",    "aten::_to_copy"};
    if (same_order.count(record.op) != 0) return one;
    const std::optional<std::size_t> axis = axis_of_positions(shape, one.inner);
    if (!axis) return {Reach::Kind::unknown};
    const auto dim = [&](const char* name) { return dim_of(record, name, shape.size()); };
    if (record.op == "aten::t" && shape.size() == 2) return turned(shape, 0, 1, *axis);
    if (record.op == "aten::transpose") return turned(shape, dim("dim0"), dim("dim1"), *axis);
    const bool takes_apart = record.op == "aten::unbind" || record.op == "aten::select";
    if (!takes_apart || dim("dim") != *axis) return {Reach::Kind::unknown};
    if (record.op == "aten::unbind") return {Reach::Kind::up_to, static_cast<std::int64_t>(result)};
    const std::optional<std::int64_t> index = integer(record, "index");
    if (!index) return {Reach::Kind::unknown};
    return {Reach::Kind::up_to, *index < 0 ? *index + sequence_.positions : *index};
  }

  /// Values of one position after the other have positions again.
  Reach stacked(const Record& record, const std::string& result) const {
    if (static_cast<std::int64_t>(record.operands.size()) != sequence_.positions) return together(record);
    for (std::size_t i = 0; i < record.operands.size(); ++i) {
      if (!record.operands[i]) return {Reach::Kind::unknown};
      const Reach one = of(*record.operands[i]);
      if (one.kind != Reach::Kind::up_to || one.last != static_cast<std::int64_t>(i)) return together(record);
    }
    const Shape& shape = run_.shape_of(result);
    std::int64_t inner = 1;
    for (std::size_t axis = dim_of(record, "dim", shape.size()) + 1; axis < shape.size(); ++axis) inner *= shape[axis];
    return {Reach::Kind::along, -1, inner};
  }

  Reach turned(const Shape& shape, std::size_t one, std::size_t other, std::size_t axis) const {
    Shape after = shape;
    std::swap(after[one], after[other]);
    const std::size_t at = axis == one ? other : axis == other ? one : axis;
    std::int64_t inner = 1;
    for (std::size_t i = at + 1; i < after.size(); ++i) inner *= after[i];
    return {Reach::Kind::along, -1, inner};
  }

  /// The axis that counts positions alone.
  std::optional<std::size_t> axis_of_positions(const Shape& shape, std::int64_t inner) const {
    std::int64_t behind = 1;
    for (std::size_t axis = shape.size(); axis-- > 0; behind *= shape[axis])
      if (behind == inner && shape[axis] == sequence_.positions) return axis;
    return std::nullopt;
  }

  static std::optional<std::int64_t> integer(const Record& record, const char* name) {
    const auto found = record.attributes.find(name);
    const auto* given = found == record.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second.value);
    return given == nullptr ? std::nullopt : std::optional(*given);
  }

  static std::size_t dim_of(const Record& record, const char* name, std::size_t rank) {
    const std::int64_t given = integer(record, name).value_or(0);
    const std::int64_t axis = given < 0 ? given + static_cast<std::int64_t>(rank) : given;
    return axis < 0 || axis >= static_cast<std::int64_t>(rank) ? 0 : static_cast<std::size_t>(axis);
  }

  const RecordedRun& run_;
  const SequenceSource& sequence_;
  const std::function<bool(const std::string&)>& is_same_;
  std::map<std::string, Reach> reaches_;
};

}  // namespace

std::vector<std::optional<std::int64_t>> last_positions(const RecordedRun& run, const RunOutline& outline,
                                                        const SequenceSource& sequence,
                                                        const std::function<bool(const std::string&)>& is_same) {
  std::set<std::size_t> computing;
  for (const ComputedResult& one : outline.computed) computing.insert(one.at.record);
  PositionTracker tracker(run, sequence, is_same);
  for (std::size_t i = 0; i < run.records().size(); ++i) tracker.add(run.records()[i], computing.count(i) != 0);
  std::vector<std::optional<std::int64_t>> last;
  for (const ComputedResult& one : outline.computed) {
    const Reach reach = tracker.of(one.id);
    last.push_back(reach.kind == Reach::Kind::up_to ? std::optional(reach.last) : std::nullopt);
  }
  return last;
}

}  // namespace driftbound

#include "trace/run_outline.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"
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
std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path.substr(std::min(path.find_first_not_of('.'), path.size()));
}

/// The module of a record. Exporters name nodes by the path of the module and the op: "/b.0/attn/MatMul".
std::string module_of(const Record& record) {
  const std::size_t last = record.name.rfind('/');
  const bool is_path = record.module.empty() && record.name.starts_with('/') && last > 0;
  return dotted(is_path ? record.name.substr(0, last) : record.module);
}

class Outliner {
public:
  explicit Outliner(const RecordedRun& run) : run_(run), values_(run) {}

  RunOutline outline() && {
    for (std::size_t i = 0; i < run_.records().size(); ++i) add(i);
    return std::move(outline_);
  }

private:
  struct Computed {
    std::string kind;  ///< empty: the record moves elements, or casts them
    bool is_cast = false;
    std::vector<bool> is_judged;  ///< by result; others are statistics beside a result. Empty: all are
  };

  /// What a record computes.
  Computed computed_by(const Record& record) const {
    const auto is_known = [&](const auto& id) { return !id || run_.has(*id); };
    if (!std::all_of(record.operands.begin(), record.operands.end(), is_known)) return {record.op, false, {}};
    try {
      const CallMeaning meaning = meaning_of(values_.call_of(record));
      Computed computed;
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

  void add(std::size_t index) {
    const Record& record = run_.records()[index];
    const Computed computed = computed_by(record);
    const std::string &kind = computed.kind, module = module_of(record);
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
        if (!root.result && seen_.insert(root.id).second) outline_.sources.push_back({root.id, kind, module, slot});
    for (std::size_t i = 0; i < record.results.size(); ++i) {
      const std::optional<std::string>& id = record.results[i];
      if (!id || !run_.has(*id) || (!computed.is_judged.empty() && !computed.is_judged[i])) continue;
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
  RecordedValues values_;
  std::map<std::string, std::vector<Root>> roots_;  ///< of results, by id
  RunOutline outline_;
  std::set<std::string> seen_;
};

}  // namespace

RunOutline outline_of(const RecordedRun& run) {
  return Outliner(run).outline();
}

}  // namespace driftbound

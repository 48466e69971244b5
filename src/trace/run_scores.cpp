#include "driftbound/trace/run_scores.hpp"

#include <algorithm>
#include <set>

#include "trace/run_outline.hpp"

namespace driftbound {
namespace {

/// Ops that masks go through on their way to a softmax, whatever their operands are.
bool is_of_masks(const std::string& kind) {
  static const std::set<std::string> kinds = {"Where", "Add", "Max", "Min", "Clip"};
  return kinds.count(kind) != 0;
}

/// The slot of what a call of a product adds to it: the first of PyTorch's, the third of ONNX's.
std::size_t addend_of_product(const Record& record) {
  return record.op.starts_with("aten::") ? 0 : 2;
}

bool is_factor(const std::string& kind) {
  return kind == "Mul" || kind == "Div";
}

}  // namespace

ScoreFinder::ScoreFinder(const RecordedRun& run) : run_(run) {
  for (std::size_t record = 0; record < run.records().size(); ++record) {
    const auto& operands = run.records()[record].operands;
    for (std::size_t slot = 0; slot < operands.size(); ++slot)
      if (operands[slot]) readers_[*operands[slot]].emplace_back(record, slot);
  }
}

bool ScoreFinder::are_scores(const std::string& id) {
  const auto [known, is_new] = known_.try_emplace(id, false);
  if (!is_new) return known->second;
  const auto readers = readers_.find(id);
  const bool are = readers != readers_.end() &&
                   std::all_of(readers->second.begin(), readers->second.end(),
                               [&](const auto& reader) { return are_scores_at(reader.first, reader.second); });
  return known_[id] = are;
}

bool ScoreFinder::are_scores_at(std::size_t index, std::size_t slot) {
  constexpr std::size_t mask_of_attention = 3;
  const Record& record = run_.records()[index];
  const std::string kind = kind_of_record(run_, record).kind;
  if (kind.find("Softmax") != std::string::npos) return kind != "LogSoftmax";
  if (kind == "Attention") return slot >= mask_of_attention;
  const auto others = std::count_if(record.operands.begin(), record.operands.end(),
                                    [](const std::optional<std::string>& id) { return id.has_value(); });
  const bool is_addend = kind == "product+Add" && slot == addend_of_product(record);
  const bool goes_on = kind.empty() || is_of_masks(kind) || is_addend || (is_factor(kind) && others == 1);
  return goes_on && !record.results.empty() && record.results[0] && are_scores(*record.results[0]);
}

}  // namespace driftbound

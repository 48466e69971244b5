#include "analysis/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// "aten::argmax", "ArgMax", "aten::max.dim": "argmax", "argmax", "max".
std::string plain_name(const std::string& op) {
  const std::size_t colons = op.rfind("::");
  std::string name = colons == std::string::npos ? op : op.substr(colons + 2);
  name = name.substr(0, name.find('.'));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name;
}

bool picks_numbers(const std::string& name) {
  static const std::set<std::string> names = {"topk", "top_k", "max", "amax", "sort"};
  return names.count(name) != 0;
}

bool is_softmax(const std::string& name) {
  static const std::set<std::string> names = {"softmax", "_softmax", "log_softmax", "_log_softmax", "logsoftmax"};
  return names.count(name) != 0;
}

const Attribute* attribute_of(const Record& record, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const auto found = record.attributes.find(name);
    if (found != record.attributes.end() && !found->second.is_none()) return &found->second;
  }
  return nullptr;
}

/// An integer, or a list of one. Empty: an argument that is neither.
std::optional<std::int64_t> integer_of(const Record& record, std::initializer_list<const char*> names,
                                       std::optional<std::int64_t> otherwise) {
  const Attribute* const found = attribute_of(record, names);
  if (found == nullptr) return otherwise;
  const auto* const list = std::get_if<Attribute::List>(&found->value);
  if (list != nullptr && list->size() != 1) return std::nullopt;
  const auto* const integer = std::get_if<std::int64_t>(list != nullptr ? &list->front().value : &found->value);
  return integer != nullptr ? std::optional(*integer) : std::nullopt;
}

bool truth_of(const Record& record, std::initializer_list<const char*> names, bool otherwise) {
  const Attribute* const found = attribute_of(record, names);
  if (found == nullptr) return otherwise;
  if (const auto* const truth = std::get_if<bool>(&found->value)) return *truth;
  const auto* const integer = std::get_if<std::int64_t>(&found->value);
  return integer != nullptr ? *integer != 0 : otherwise;
}

/// A call that chooses the largest numbers along an axis.
struct Choosing {
  std::string operand, indices;
  std::size_t axis = 0;
  bool flattens = false;  ///< all numbers are one row
  bool is_smallest = false;
};

std::optional<Choosing> choosing_of(const RecordedRun& run, const Record& record) {
  const std::string name = plain_name(record.op);
  const bool is_one = name == "argmax" || name == "argmin", is_top = name == "topk" || name == "top_k";
  const bool is_of_onnx = record.op.find("::") == std::string::npos;
  const std::size_t result = is_top ? 1 : 0;
  if ((!is_one && !is_top) || record.operands.empty() || !record.operands[0] || record.results.size() <= result ||
      !record.results[result])
    return std::nullopt;
  Choosing choosing{*record.operands[0], *record.results[result]};
  const auto is_whole = [&](const std::string& id) { return run.has(id) && run.is_stored(id) && !run.part_of(id); };
  if (!is_whole(choosing.operand) || !is_whole(choosing.indices) || is_float(run.type_of(choosing.indices)))
    return std::nullopt;
  const auto rank = static_cast<std::int64_t>(run.shape_of(choosing.operand).size());
  const bool names_axis = attribute_of(record, {"dim", "axis", "axes"}) != nullptr;
  choosing.flattens = is_one && !is_of_onnx && !names_axis;
  choosing.is_smallest = name == "argmin" || (is_top && !truth_of(record, {"largest"}, true));
  std::optional<std::int64_t> axis = integer_of(record, {"dim", "axis", "axes"}, is_top ? -1 : 0);
  if (!axis || rank == 0 || *axis < -rank || *axis >= rank) return std::nullopt;
  choosing.axis = static_cast<std::size_t>(*axis < 0 ? *axis + rank : *axis);
  return choosing;
}

/// The numbers of a row, each `step` elements behind the one before.
struct RowOf {
  const double* first;
  std::size_t step, size;
  double at(std::size_t i) const { return first[i * step]; }
};

/// Adds a row: the indices chosen must be different ones, and no other number larger than the smallest of theirs.
void judge_row(const RowOf& row, const std::vector<double>& chosen, double sign, WrongChoice& found) {
  for (std::size_t i = 0; i < row.size; ++i)
    if (std::isnan(row.at(i))) return;
  const std::int64_t number = found.rows++;
  std::vector<bool> is_chosen(row.size, false);
  double least = std::numeric_limits<double>::infinity();
  std::optional<std::pair<double, double>> wrong;  // the index, and its number
  for (const double index : chosen) {
    const bool fits = index >= 0.0 && index < static_cast<double>(row.size);
    if (!fits || is_chosen[static_cast<std::size_t>(index)]) {
      wrong = {index, std::numeric_limits<double>::quiet_NaN()};
      continue;
    }
    const auto at = static_cast<std::size_t>(index);
    is_chosen[at] = true;
    if (sign * row.at(at) < least) {
      least = sign * row.at(at);
      if (!wrong || !std::isnan(wrong->second)) wrong = {index, row.at(at)};
    }
  }
  std::optional<std::size_t> better;
  for (std::size_t i = 0; i < row.size; ++i)
    if (!is_chosen[i] && (!better || sign * row.at(i) > sign * row.at(*better))) better = i;
  const bool is_no_index = wrong && std::isnan(wrong->second);
  const bool is_smaller = better && sign * row.at(*better) > least;
  if (!is_no_index && !is_smaller) return;
  if (found.wrong++ > 0) return;
  found.row = number;
  found.chosen = static_cast<std::int64_t>(wrong->first);
  found.number = wrong->second;
  found.better = better ? static_cast<std::int64_t>(*better) : -1;
  found.of_better = better ? row.at(*better) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

ChosenFrom::ChosenFrom(const RecordedRun& run) : run_(run) {
  for (std::size_t i = 0; i < run.records().size(); ++i)
    for (const std::optional<std::string>& id : run.records()[i].operands)
      if (id) readers_[*id].push_back(i);
}

bool ChosenFrom::are_chosen_from(const std::string& id) const {
  return ends_in_choices(id) && !is_softmax_of_logits(id);
}

bool ChosenFrom::ends_in_choices(const std::string& id) const {
  const auto readers = readers_.find(id);
  if (readers == readers_.end()) return true;
  return std::all_of(readers->second.begin(), readers->second.end(), [&](std::size_t i) {
    const Record& record = run_.records()[i];
    const std::string name = plain_name(record.op);
    const auto holds_of_results = [&](const auto& holds) {
      return std::all_of(record.results.begin(), record.results.end(), [&](const std::optional<std::string>& result) {
        return !result || !run_.has(*result) || holds(*result);
      });
    };
    if (picks_numbers(name) || holds_of_results([&](const auto& result) { return !is_float(run_.type_of(result)); }))
      return true;
    const bool is_moved = holds_of_results([&](const auto& result) { return !run_.is_stored(result); });
    // The results of a record have later readers than its operands: this ends.
    return (is_moved || is_softmax(name)) &&
           holds_of_results([&](const auto& result) { return ends_in_choices(result); });
  });
}

bool ChosenFrom::is_softmax_of_logits(const std::string& id) const {
  const std::optional<std::size_t> producer = run_.producer_of(id);
  if (!producer) return false;
  const Record& record = run_.records()[*producer];
  return is_softmax(plain_name(record.op)) && !record.operands.empty() && record.operands[0] &&
         run_.has(*record.operands[0]) && run_.producer_of(*record.operands[0]) && ends_in_choices(*record.operands[0]);
}

std::string WrongChoice::text() const {
  const std::string reason = std::isnan(number)
                                 ? fmt::format("index {}, which is none or chosen twice", chosen)
                                 : fmt::format("index {} ({}), where index {} ({}) is {}", chosen, brief(number),
                                               better, brief(of_better), is_smallest ? "smaller" : "larger");
  return fmt::format("the recorded choice is not the {} number in {} of {} rows: row {} has {}",
                     is_smallest ? "smallest" : "largest", wrong, rows, row, reason);
}

std::optional<WrongChoice> wrong_choice(const RecordedRun& run, std::size_t record) {
  const std::optional<Choosing> choosing = choosing_of(run, run.records()[record]);
  if (!choosing) return std::nullopt;
  const std::vector<double> numbers = run.stored(choosing->operand).to_double().values;
  const std::vector<double> indices = run.stored(choosing->indices).to_double().values;
  const Shape& shape = run.shape_of(choosing->operand);
  std::size_t size = numbers.size(), step = 1;
  if (!choosing->flattens) {
    size = static_cast<std::size_t>(shape[choosing->axis]);
    for (std::size_t i = choosing->axis + 1; i < shape.size(); ++i) step *= static_cast<std::size_t>(shape[i]);
  }
  if (size == 0 || numbers.empty() || (indices.size() * size) % numbers.size() != 0) return std::nullopt;
  const std::size_t rows = numbers.size() / size, each = indices.size() / rows;  // indices of a row
  const double sign = choosing->is_smallest ? -1.0 : 1.0;
  WrongChoice found;
  found.is_smallest = choosing->is_smallest;
  for (std::size_t row = 0; row < rows && each > 0; ++row) {
    const std::size_t outer = row / step, inner = row % step;
    std::vector<double> chosen;
    for (std::size_t k = 0; k < each; ++k) chosen.push_back(indices[(outer * each + k) * step + inner]);
    judge_row({&numbers[outer * size * step + inner], step, size}, chosen, sign, found);
  }
  return found.wrong > 0 ? std::optional(found) : std::nullopt;
}

}  // namespace driftbound::analysis

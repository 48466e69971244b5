#include "analysis/run_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "analysis/drift_verdict.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

bool are_same_part(const std::optional<RecordedPart>& a, const std::optional<RecordedPart>& b) {
  return (!a && !b) || (a && b && a->axes == b->axes && a->elements == b->elements);
}

}  // namespace

std::string id_of(const RecordedRun& run, RecordedResult at) {
  return run.records()[at.record].results[at.result].value();
}

std::string name_of_result(const Record& record, RecordedResult at) {
  return record.results.size() > 1 && at.result > 0 ? fmt::format("{}[{}]", record.name, at.result) : record.name;
}

bool is_choice(ElementType type) {
  return !is_float(type) && type != ElementType::boolean;
}

bool reads_integers_alone(const RecordedRun& run, const Record& record) {
  return std::none_of(record.operands.begin(), record.operands.end(), [&](const std::optional<std::string>& id) {
    return id && run.has(*id) && is_float(run.type_of(*id));
  });
}

std::set<std::string> read_in(const RecordedRun& run, const std::set<std::string>& computed) {
  std::set<std::string> ids;
  const std::vector<Record>& records = run.records();
  for (std::size_t i = records.size(); i-- > 0;) {
    const bool leads_on = std::any_of(records[i].results.begin(), records[i].results.end(), [&](const auto& id) {
      return id && (ids.count(*id) != 0 || computed.count(*id) != 0);
    });
    if (!leads_on) continue;
    for (const std::optional<std::string>& id : records[i].operands)
      if (id) ids.insert(*id);
  }
  return ids;
}

std::set<std::string> leading_to(const RecordedRun& run, std::set<std::string> ids) {
  ids.merge(read_in(run, ids));
  return ids;
}

std::set<std::string> made_of_more(const RecordedRun& run, const std::map<std::string, std::string>& behind,
                                   const std::set<std::string>& of_both) {
  std::set<std::string> known = leading_to(run, of_both), more;
  for (const Record& record : run.records()) {
    // A known value whose elements are moved, as a weight that is transposed in every call.
    const auto& operands = record.operands;
    const bool is_moved = operands.size() == 1 && operands[0] && known.count(*operands[0]) != 0 &&
                          record.results.size() == 1 && record.results[0] && run.has(*record.results[0]) &&
                          element_count(run.shape_of(*operands[0])) == element_count(run.shape_of(*record.results[0]));
    if (is_moved) known.insert(*record.results[0]);
    const auto is_more = [&](const std::optional<std::string>& id) {
      if (!id || !run.has(*id) || !is_float(run.type_of(*id))) return false;
      if (behind.count(*id) != 0) return more.count(*id) != 0;
      return known.count(*id) == 0;
    };
    const bool follows = std::any_of(record.operands.begin(), record.operands.end(),
                                     [&](const auto& id) { return id && behind.count(*id) != 0; });
    if (!follows || !std::any_of(record.operands.begin(), record.operands.end(), is_more)) continue;
    for (const std::optional<std::string>& id : record.results)
      if (id) more.insert(*id);
  }
  return more;
}

std::map<std::string, std::string> following_from(const RecordedRun& run, const std::vector<std::string>& ids,
                                                  bool through_floats_alone) {
  std::map<std::string, std::string> from;
  for (const std::string& id : ids)
    if (is_float(run.type_of(id))) from[id] = id;
  for (const Record& record : run.records())
    for (const std::optional<std::string>& operand : record.operands) {
      const auto found = operand ? from.find(*operand) : from.end();
      if (found == from.end()) continue;
      const std::string source = found->second;
      for (const std::optional<std::string>& id : record.results)
        if (id && (!through_floats_alone || is_float(run.type_of(*id)))) from.emplace(*id, source);
    }
  return from;
}

std::optional<AlignedNumbers> numbers_of_both(const RecordedRun& a, const std::string& id_a, const RecordedRun& b,
                                              const std::string& id_b, const std::optional<AlignedRows>& rows) {
  if (!a.is_stored(id_a) || !b.is_stored(id_b)) return std::nullopt;
  const std::optional<RecordedPart> part_a = a.part_of(id_a), part_b = b.part_of(id_b);
  if (!are_same_part(part_a, part_b) || (part_a && rows)) return std::nullopt;
  return aligned_numbers(a.stored(id_a), b.stored(id_b), rows);
}

StoredTensor nearest_numbers(const Tensor<Ball>& exact, const Shape& shape) {
  Tensor<double> numbers(shape);
  std::transform(exact.values.begin(), exact.values.end(), numbers.values.begin(),
                 [](const Ball& ball) { return ball.hi; });
  return StoredTensor::from(numbers);
}

std::optional<double> unit_of(ElementType a, ElementType b) {
  const std::optional<FormatId> of_a = float_format(a), of_b = float_format(b);
  if (!of_a || !of_b) return std::nullopt;
  return std::ldexp(1.0, -std::min(format(*of_a).precision, format(*of_b).precision));
}

double rounded_constants_of(ElementType a, ElementType b) {
  constexpr double of_double = 0x1p-50;
  return a == ElementType::f64 && b == ElementType::f64 ? of_double : rounded_constants;
}

bool are_same_function(const StoredTensor& of_a, const StoredTensor& of_b, const SameFunction& same) {
  constexpr double large = -least_mask;  // as of masked numbers: the others are not measured by them
  const std::vector<double> x = of_a.to_double().values, y = of_b.to_double().values;
  const auto is_masked = [&](std::size_t i) { return same.are_scores && x[i] <= least_mask && y[i] <= least_mask; };
  const Shape& shape = of_b.shape();
  const std::size_t width = shape.empty() ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(shape.back(), 1));
  for (std::size_t first = 0; first < x.size(); first += width) {
    double size = 0.0, count = 0.0, errors = 0.0;
    for (std::size_t i = first; i < first + width; ++i) {
      if (!same.errors.empty()) errors += same.errors[i] * same.errors[i] / static_cast<double>(width);
      if (!(std::abs(y[i]) < large)) continue;
      size += std::abs(y[i]);
      count += 1.0;
    }
    double of_row = count > 0.0 ? same.relative * size / count : 0.0;
    if (!same.errors.empty()) of_row = std::min(of_row, std::sqrt(errors));
    for (std::size_t i = first; i < first + width; ++i)
      if (!is_masked(i) && !(std::abs(x[i] - y[i]) <= same.relative * std::abs(y[i]) + of_row)) return false;
  }
  return true;
}

bool has_all_of(const AlignedRows& rows) {
  for (std::size_t row = 0; row < rows.of_b.size(); ++row)
    if (rows.of_b[row] < 0 || (rows.positions && rows.positions->of_b[row].count < rows.positions->b)) return false;
  return true;
}

AlignedRows exchanged(const AlignedRows& rows) {
  AlignedRows other{rows.b, rows.a, std::vector<std::int64_t>(static_cast<std::size_t>(rows.a), -1), std::nullopt,
                    rows.lacks_rows};
  if (rows.positions)
    other.positions = AlignedPositions{rows.positions->b,
                                       rows.positions->a,
                                       std::vector<AlignedStretch>(static_cast<std::size_t>(rows.a)),
                                       rows.positions->tokens_in_b,
                                       rows.positions->tokens_in_a,
                                       std::nullopt,
                                       rows.positions->lie_first};
  for (std::size_t row = rows.of_b.size(); row-- > 0;) {
    if (rows.of_b[row] < 0) continue;
    const auto of_a = static_cast<std::size_t>(rows.of_b[row]);
    other.of_b[of_a] = static_cast<std::int64_t>(row);
    if (!rows.positions) continue;
    const AlignedStretch& stretch = rows.positions->of_b[row];
    other.positions->of_b[of_a] = {stretch.first_b, stretch.first_a, stretch.count};
  }
  return other;
}

}  // namespace driftbound::analysis

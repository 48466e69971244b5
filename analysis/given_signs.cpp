#include "analysis/given_signs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

SignStatistics counts_of(std::span<const PointSign> signs) {
  SignStatistics counts;
  for (const PointSign& point : signs) {
    if (point.sign == Sign::undecided) continue;
    ++counts.points;
    ++(point.sign == Sign::negative ? counts.negative : point.sign == Sign::zero ? counts.zero : counts.positive);
    ++counts.stages[static_cast<std::size_t>(point.stage)].decided;
  }
  return counts;
}

/// Every n-th row that a given value decides, 64 at most.
std::vector<std::int64_t> decided_by_values(std::span<const PointSign> signs) {
  constexpr std::size_t most = 64;
  std::vector<std::int64_t> rows, some;
  for (std::size_t row = 0; row < signs.size(); ++row)
    if (signs[row].stage == SignStage::given) rows.push_back(static_cast<std::int64_t>(row));
  const std::size_t step = std::max(std::size_t{1}, rows.size() / most);
  for (std::size_t i = 0; i < rows.size() && some.size() < most; i += step) some.push_back(rows[i]);
  return some;
}

/// Whether every number of a format is one of that type.
bool type_holds(ElementType type, const Format& numbers) {
  const auto storage = float_format(type);
  return storage && holds_all_of(format(*storage), numbers);
}

/// Whether the network itself casts its output to that type.
bool is_cast_to(ElementType type, const SignField& field) {
  const Graph& graph = field.graph();
  const auto producer = graph.producer(graph.outputs.at(static_cast<std::size_t>(field.target().positive.output)));
  const auto* cast = producer ? std::get_if<op::Cast>(&graph.nodes[*producer].op) : nullptr;
  return cast != nullptr && cast->to == type;
}

/// Values that were rounded once more, to be stored, are none of a run.
void require_as_computed(const std::filesystem::path& file, ElementType stored, const SignField& field,
                         const ArithmeticModel& arithmetic) {
  const bool is_difference = field.target().negative.has_value();
  const ValueId output = field.graph().outputs.at(static_cast<std::size_t>(field.target().positive.output));
  const FormatId results = stored_format(arithmetic, field.graph().value(output).type);
  const Format& computed = format(is_difference ? FormatId::fp64 : results);
  if (type_holds(stored, computed) || (!is_difference && is_cast_to(stored, field))) return;
  throw InvalidArgument(
      fmt::format("{}: holds {}, but {} are {}; store the values as they were computed", file.string(), name_of(stored),
                  is_difference ? "differences of two outputs" : "results of the arithmetic", computed.name));
}

}  // namespace

GivenSigns::GivenSigns(const SignField& field, const ArithmeticModel& arithmetic, const std::filesystem::path& file,
                       std::int64_t points)
    : field_(field), given_(field, arithmetic), values_(file), file_(file) {
  require_as_computed(file, values_.type(), field, arithmetic);
  if (values_.columns() != 1 || values_.rows() != points)
    throw ShapeMismatch(fmt::format("{}: holds {} rows of {} numbers; give one value for each of the {} points",
                                    file.string(), values_.rows(), values_.columns(), points));
}

SignStatistics GivenSigns::decide(std::int64_t first, std::span<const double> points, std::span<PointSign> out) const {
  const std::size_t dimension = field_.dimension();
  const auto stride = static_cast<std::ptrdiff_t>(dimension);
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> values(out.size());
  values_.read(first, static_cast<std::int64_t>(out.size()), values);
  const std::vector<std::int64_t> left = given_.signs(points.data(), stride, 1, values, out);
  SignStatistics counts = counts_of(out);
  counts.stages[static_cast<std::size_t>(SignStage::given)].seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::vector<PointSign> certified(left.size());
  counts += evaluate(points, left, certified);
  for (std::size_t i = 0; i < left.size(); ++i) {
    PointSign& sign = out[static_cast<std::size_t>(left[i])];
    require_agreement(first + left[i], sign, certified[i]);
    sign = certified[i];
  }
  const std::vector<std::int64_t> some = decided_by_values(out);
  certified.resize(some.size());
  evaluate(points, some, certified);
  for (std::size_t i = 0; i < some.size(); ++i)
    require_agreement(first + some[i], out[static_cast<std::size_t>(some[i])], certified[i]);
  return counts;
}

SignStatistics GivenSigns::evaluate(std::span<const double> points, std::span<const std::int64_t> rows,
                                    std::span<PointSign> out) const {
  const std::size_t dimension = field_.dimension();
  std::vector<double> coordinates;
  for (const std::int64_t row : rows) {
    const auto point = points.subspan(static_cast<std::size_t>(row) * dimension, dimension);
    coordinates.insert(coordinates.end(), point.begin(), point.end());
  }
  return field_.signs(coordinates.data(), static_cast<std::int64_t>(rows.size()),
                      static_cast<std::ptrdiff_t>(dimension), 1, out);
}

void GivenSigns::require_agreement(std::int64_t point, const PointSign& given, const PointSign& certified) const {
  const double apart = std::fabs(given.value - certified.value), allowed = given.bound + certified.bound;
  if (!(apart * (1.0 - 0x1p-50) > allowed * (1.0 + 0x1p-50))) return;
  throw InvalidArgument(fmt::format(
      "{}: the value of point {} is {:.3g} from the exact one, a run of the arithmetic declared is {:.3g} at most: it "
      "is of another arithmetic, or of other points, another model or scalar",
      file_.string(), point, apart, allowed));
}

}  // namespace driftbound::analysis

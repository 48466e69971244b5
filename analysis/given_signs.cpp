#include "analysis/given_signs.hpp"

#include <fmt/format.h>

#include <chrono>
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

}  // namespace

GivenSigns::GivenSigns(const SignField& field, ArithmeticModel arithmetic, const std::filesystem::path& file,
                       std::int64_t points)
    : field_(field), given_(field, std::move(arithmetic)), values_(file) {
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

  std::vector<double> open;
  for (const std::int64_t row : left) {
    const auto point = points.subspan(static_cast<std::size_t>(row) * dimension, dimension);
    open.insert(open.end(), point.begin(), point.end());
  }
  std::vector<PointSign> signs(left.size());
  counts += field_.signs(open.data(), static_cast<std::int64_t>(left.size()), stride, 1, signs);
  for (std::size_t i = 0; i < left.size(); ++i) out[static_cast<std::size_t>(left[i])] = signs[i];
  return counts;
}

}  // namespace driftbound::analysis

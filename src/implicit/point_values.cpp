#include "implicit/point_values.hpp"

#include <cstddef>
#include <utility>

namespace driftbound::implicit {

namespace {

SignOptions options_for(int max_bits, int threads) {
  SignOptions options;
  options.domain = Box{{0.0}, {1.0}};
  options.max_bits = max_bits;
  options.threads = threads;
  return options;
}

}  // namespace

PointValues::PointValues(const Graph& line, int max_bits, int threads)
    : line_(line), field_(line, options_for(max_bits, threads)), maker_(line), batched_(batch_layout(line).batched) {
  policy_.max_bits = max_bits;
  policy_.relative_radius = 0x1p-10;
  policy_.threads = threads;
  policy_.outputs_only = true;
}

std::vector<Interval> PointValues::precise(std::span<const double> t) const {
  std::vector<Interval> values;
  const std::size_t step = batched_ ? t.size() : 1;
  for (std::size_t first = 0; first < t.size(); first += step) {
    Inputs inputs;
    const std::span<const double> rows = t.subspan(first, step);
    const Tensor<double> tensor(Shape{static_cast<std::int64_t>(step), 1}, {rows.begin(), rows.end()});
    inputs.tensors.emplace_back(line_.value(line_.inputs.front()).name, StoredTensor::from(tensor));
    const Reference reference = maker_.accumulated(inputs, policy_);
    for (std::size_t row = 0; row < step; ++row) values.push_back(output(reference, row));
  }
  return values;
}

Interval PointValues::output(const Reference& reference, std::size_t row) const {
  const Tensor<Ball>& balls = reference.layers[*line_.producer(line_.outputs.front())];
  return balls.values[balls.size() == 1 ? 0 : row].enclosure();
}

std::vector<Sign> PointValues::signs(std::span<const double> t) const {
  std::vector<PointSign> found(t.size());
  field_.signs(t.data(), static_cast<std::int64_t>(t.size()), 1, 1, found);
  std::vector<Sign> signs;
  for (const PointSign& point : found) signs.push_back(point.sign);
  return signs;
}

}  // namespace driftbound::implicit

#include "implicit/reference_stage.hpp"

#include <algorithm>

#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

constexpr int pair_bits = 106;
constexpr int first_bits = 256;
/// A radius of at most this much of the midpoint leaves a sign.
constexpr double relative_radius = 0.25;

PointSign of_ball(const Ball& ball, SignStage stage, int bits) {
  PointSign result;
  result.bits = static_cast<std::int16_t>(bits);
  if (!ball.is_finite()) return result;
  result.value = ball.hi;
  result.bound = (ball.radius + Magnitude(ball.lo)).value();
  result.sign = sign_of(ball.enclosure());
  if (result.sign != Sign::undecided) result.stage = stage;
  return result;
}

}  // namespace

ReferenceStage::ReferenceStage(const Graph& graph)
    : graph_(graph),
      batched_(batch_layout(graph).batched),
      sample_(batch_layout(graph).sample_shapes.front()),
      maker_(graph) {}

void ReferenceStage::decide_in_pairs(std::span<const double> points, std::span<PointSign> out) const {
  PrecisionPolicy policy;
  policy.max_bits = pair_bits;
  decide(points, policy, SignStage::double_double, out);
}

void ReferenceStage::decide(std::span<const double> points, int max_bits, std::span<PointSign> out) const {
  const std::size_t dimension = points.size() / out.size();
  std::vector<double> open_points(points.begin(), points.end());
  std::vector<std::size_t> open(out.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (int bits = std::min(first_bits, max_bits); !open.empty(); bits = std::min(2 * bits, max_bits)) {
    PrecisionPolicy policy;
    policy.initial_bits = policy.max_bits = bits;
    std::vector<PointSign> signs(open.size());
    decide(open_points, policy, SignStage::multiprecision, signs);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      out[open[i]] = signs[i];
      if (signs[i].sign != Sign::undecided) continue;
      std::copy_n(open_points.begin() + static_cast<std::ptrdiff_t>(i * dimension), dimension,
                  open_points.begin() + static_cast<std::ptrdiff_t>(kept * dimension));
      open[kept++] = open[i];
    }
    open.resize(kept);
    open_points.resize(kept * dimension);
    if (bits == max_bits) break;
  }
}

void ReferenceStage::decide(std::span<const double> points, const PrecisionPolicy& given, SignStage stage,
                            std::span<PointSign> out) const {
  PrecisionPolicy policy = given;
  policy.relative_radius = relative_radius;
  policy.outputs_only = true;
  const std::size_t dimension = points.size() / out.size();
  const std::size_t at_once = batched_ ? out.size() : 1;
  for (std::size_t first = 0; first < out.size(); first += at_once) {
    Tensor<double> input;
    input.shape = sample_;
    if (batched_) input.shape.front() = static_cast<std::int64_t>(at_once);
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first * dimension);
    input.values.assign(begin, begin + static_cast<std::ptrdiff_t>(at_once * dimension));
    const Inputs inputs{{{graph_.value(graph_.inputs.front()).name, StoredTensor::from(input)}}};
    const Reference reference = maker_.accumulated(inputs, policy);
    const std::vector<Ball>& balls = reference.layers.back().values;
    for (std::size_t i = 0; i < at_once; ++i)
      out[first + i] = of_ball(balls.at(balls.size() == 1 ? 0 : i), stage, policy.max_bits);
  }
}

}  // namespace driftbound::implicit

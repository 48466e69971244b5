#include <fmt/core.h>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"
#include "model/shapes.hpp"

namespace driftbound::composites {
namespace {

/// One number a channel, in the shape that broadcasts over x [N, C, D...].
ValueId per_channel(Body& body, ValueId numbers, ValueId x) {
  const Shape channels = body.shape(x), given = body.shape(numbers);
  if (channels.size() < 2) throw ShapeMismatch("an input without an axis of channels");
  if (element_count(given) != channels[1]) {
    throw ShapeMismatch(
        fmt::format("numbers {} for the {} channels of {}", to_string(given), channels[1], to_string(channels)));
  }
  Shape shape(channels.size() - 1, 1);
  shape[0] = channels[1];
  return body.reshape(numbers, shape);
}

/// x / sqrt(v + epsilon)
ValueId over_root(Body& body, ValueId x, ValueId v, double epsilon) {
  return body.divide(x, body.apply(op::Sqrt{}, {body.add(v, body.number(epsilon))}));
}

/// (x - mean) / sqrt(variance + epsilon) over the axes, in two passes
ValueId standardised(Body& body, ValueId x, const std::vector<std::int64_t>& axes, double epsilon) {
  const ValueId centred = body.subtract(x, body.mean(x, axes));
  return over_root(body, centred, body.mean(body.multiply(centred, centred), axes), epsilon);
}

ValueId scaled_by_channel(Body& body, ValueId x, ValueId scale, ValueId bias) {
  return body.add(body.multiply(x, per_channel(body, scale, x)), per_channel(body, bias, x));
}

}  // namespace

ValueId write(Body& body, const op::BatchNormalization& norm) {
  const ValueId x = body.input(0);
  const ValueId centred = body.subtract(x, per_channel(body, body.input(3), x));
  const ValueId unit = over_root(body, centred, per_channel(body, body.input(4), x), norm.epsilon);
  return scaled_by_channel(body, unit, body.input(1), body.input(2));
}

namespace {

/// scale / sqrt(variance + epsilon) of every channel, by a reciprocal
ValueId factor_of(Body& body, const op::BatchNormalization& norm) {
  const ValueId root = body.apply(op::Sqrt{}, {body.add(body.input(4), body.number(norm.epsilon))});
  return body.multiply(body.apply(op::Reciprocal{}, {root}), body.input(1));
}

ValueId centred_and_scaled(Body& body, const op::BatchNormalization& norm) {
  const ValueId x = body.input(0);
  const ValueId centred = body.subtract(x, per_channel(body, body.input(3), x));
  return scaled_by_channel(body, centred, factor_of(body, norm), body.input(2));
}

/// x a + b with the numbers a and b of a channel
ValueId folded(Body& body, const op::BatchNormalization& norm) {
  const ValueId factor = factor_of(body, norm);
  const ValueId addend = body.subtract(body.input(2), body.multiply(body.input(3), factor));
  return scaled_by_channel(body, body.input(0), factor, addend);
}

}  // namespace

std::vector<Steps<op::BatchNormalization>> other_steps(const op::BatchNormalization&) {
  return {centred_and_scaled, folded};
}

ValueId write(Body& body, const op::InstanceNormalization& norm) {
  const ValueId x = body.input(0);
  const std::size_t rank = body.shape(x).size();
  if (rank < 3) throw ShapeMismatch("an input without axes behind [N, C]");
  return scaled_by_channel(body, standardised(body, x, axes_from(2, rank), norm.epsilon), body.input(1), body.input(2));
}

ValueId write(Body& body, const op::GroupNormalization& norm) {
  const Shape shape = body.shape(body.input(0));
  if (shape.size() < 2 || norm.groups < 1 || shape[1] % norm.groups != 0) {
    throw ShapeMismatch(fmt::format("{} groups of the channels of {}", norm.groups, to_string(shape)));
  }
  Shape grouped = {shape[0], norm.groups, shape[1] / norm.groups};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  const ValueId x = body.reshape(body.input(0), grouped);
  const ValueId unit = standardised(body, x, axes_from(2, grouped.size()), norm.epsilon);
  if (norm.scales_groups) {
    return body.reshape(scaled_by_channel(body, unit, body.input(1), body.input(2)), shape);
  }
  return scaled_by_channel(body, body.reshape(unit, shape), body.input(1), body.input(2));
}

ValueId write(Body& body, const op::LayerNormalization& norm) {
  const ValueId x = body.input(0);
  const std::size_t rank = body.shape(x).size();
  const ValueId unit = standardised(body, x, axes_from(normalized_axis(norm.axis, rank), rank), norm.epsilon);
  const ValueId scaled = body.multiply(unit, body.input(1));
  return body.input_count() > 2 ? body.add(scaled, body.input(2)) : scaled;
}

ValueId write(Body& body, const op::RMSNormalization& norm) {
  const ValueId x = body.input(0);
  const std::size_t rank = body.shape(x).size();
  const std::vector<std::int64_t> axes = axes_from(normalized_axis(norm.axis, rank), rank);
  return body.multiply(over_root(body, x, body.mean(body.multiply(x, x), axes), norm.epsilon), body.input(1));
}

ValueId write(Body& body, const op::LpNormalization& norm) {
  const ValueId x = body.input(0);
  const std::vector<std::int64_t> axis = {norm.axis};
  const ValueId size =
      norm.p == 1 ? body.apply(op::ReduceL1{axis, true}, {x}) : body.apply(op::ReduceL2{axis, true}, {x});
  return body.divide(x, size);
}

}  // namespace driftbound::composites

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

/// Mean, x - mean and variance over the axes, in two passes. Other programs may merge them from those of parts.
struct Moments {
  ValueId mean, centred, variance;
};
Moments moments_of(Body& body, ValueId x, const std::vector<std::int64_t>& axes) {
  const ValueId mean = body.mean(x, axes, true);
  const ValueId centred = body.subtract(x, mean);
  return {mean, centred, body.mean(body.multiply(centred, centred), axes, true)};
}

/// (x - mean) / sqrt(variance + epsilon) over the axes
ValueId standardised(Body& body, ValueId x, const std::vector<std::int64_t>& axes, double epsilon) {
  const Moments moments = moments_of(body, x, axes);
  return over_root(body, moments.centred, moments.variance, epsilon);
}

/// 1 / sqrt(v + epsilon)
ValueId reciprocal_root(Body& body, ValueId v, double epsilon) {
  return body.apply(op::Reciprocal{}, {body.apply(op::Sqrt{}, {body.add(v, body.number(epsilon))})});
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

namespace {

ValueId scaled_by_inputs(Body& body, ValueId unit) {
  const ValueId scaled = body.multiply(unit, body.input(1));
  return body.input_count() > 2 ? body.add(scaled, body.input(2)) : scaled;
}

Moments moments_of(Body& body, const op::LayerNormalization& norm) {
  const ValueId x = body.input(0);
  const std::size_t rank = body.shape(x).size();
  return moments_of(body, x, axes_from(normalized_axis(norm.axis, rank), rank));
}

ValueId centred_times_root(Body& body, const op::LayerNormalization& norm) {
  const Moments moments = moments_of(body, norm);
  return scaled_by_inputs(body, body.multiply(moments.centred, reciprocal_root(body, moments.variance, norm.epsilon)));
}

/// x r - m r with the mean m and r = 1 / sqrt(variance + epsilon)
ValueId scaled_and_shifted(Body& body, const op::LayerNormalization& norm) {
  const Moments moments = moments_of(body, norm);
  const ValueId root = reciprocal_root(body, moments.variance, norm.epsilon);
  const ValueId shift = body.multiply(root, moments.mean);
  return scaled_by_inputs(body, body.subtract(body.multiply(body.input(0), root), shift));
}

/// x a + b with the numbers a = scale / sqrt(variance + epsilon) and b = bias - a mean of a channel
ValueId folded(Body& body, const op::GroupNormalization& norm) {
  if (norm.scales_groups) return write(body, norm);
  const Shape shape = body.shape(body.input(0));
  Shape grouped = {shape[0], norm.groups, shape[1] / norm.groups};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  Shape channels(grouped.size(), 1);
  channels[1] = grouped[1];
  channels[2] = grouped[2];
  const ValueId x = body.reshape(body.input(0), grouped);
  const Moments moments = moments_of(body, x, axes_from(2, grouped.size()));
  const ValueId root = reciprocal_root(body, moments.variance, norm.epsilon);
  const ValueId factor = body.multiply(root, body.reshape(body.input(1), channels));
  const ValueId addend = body.subtract(body.reshape(body.input(2), channels), body.multiply(factor, moments.mean));
  return body.reshape(body.add(body.multiply(x, factor), addend), shape);
}

ValueId mean_of_squares(Body& body, const op::RMSNormalization& norm) {
  const ValueId x = body.input(0);
  const std::size_t rank = body.shape(x).size();
  return body.mean(body.multiply(x, x), axes_from(normalized_axis(norm.axis, rank), rank));
}

ValueId times_root(Body& body, const op::RMSNormalization& norm) {
  const ValueId root = reciprocal_root(body, mean_of_squares(body, norm), norm.epsilon);
  return body.multiply(body.multiply(body.input(0), root), body.input(1));
}

}  // namespace

ValueId write(Body& body, const op::LayerNormalization& norm) {
  const Moments moments = moments_of(body, norm);
  return scaled_by_inputs(body, over_root(body, moments.centred, moments.variance, norm.epsilon));
}

std::vector<Steps<op::LayerNormalization>> other_steps(const op::LayerNormalization&) {
  return {centred_times_root, scaled_and_shifted};
}

std::vector<Steps<op::GroupNormalization>> other_steps(const op::GroupNormalization&) {
  return {folded};
}

std::vector<Steps<op::RMSNormalization>> other_steps(const op::RMSNormalization&) {
  return {times_root};
}

ValueId write(Body& body, const op::RMSNormalization& norm) {
  return body.multiply(over_root(body, body.input(0), mean_of_squares(body, norm), norm.epsilon), body.input(1));
}

ValueId write(Body& body, const op::LpNormalization& norm) {
  const ValueId x = body.input(0);
  const std::vector<std::int64_t> axis = {norm.axis};
  const ValueId size =
      norm.p == 1 ? body.apply(op::ReduceL1{axis, true}, {x}) : body.apply(op::ReduceL2{axis, true}, {x});
  return body.divide(x, size);
}

}  // namespace driftbound::composites

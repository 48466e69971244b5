#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"
#include "model/shapes.hpp"

namespace driftbound::composites {
namespace {

/// Operands joined by a binary op, from the left.
template <class BinaryOp>
ValueId fold(Body& body) {
  ValueId result = body.input(0);
  for (std::size_t slot = 1; slot < body.input_count(); ++slot)
    result = body.apply(BinaryOp{}, {result, body.input(slot)});
  return result;
}

/// Drops the axes that a reduction kept with extent 1, where it is not to keep them.
ValueId finished(Body& body, ValueId kept, const std::vector<std::int64_t>& axes, bool keep_axes) {
  if (keep_axes) return kept;
  const std::vector<bool> reduced = reduced_axes(axes, body.shape(kept).size());
  Shape target;
  for (std::size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis]) target.push_back(body.extent(kept, axis));
  }
  return body.reshape(kept, target);
}

ValueId sum(Body& body, ValueId x, const std::vector<std::int64_t>& axes) {
  return body.apply(op::ReduceSum{axes, true}, {x});
}

ValueId square(Body& body, ValueId x) {
  return body.multiply(x, x);
}

}  // namespace

ValueId write(Body& body, const op::SumOf&) {
  return fold<op::Add>(body);
}
ValueId write(Body& body, const op::MinOf&) {
  return fold<op::Min>(body);
}
ValueId write(Body& body, const op::MaxOf&) {
  return fold<op::Max>(body);
}
ValueId write(Body& body, const op::MeanOf&) {
  return body.divide(fold<op::Add>(body), body.number(static_cast<double>(body.input_count())));
}

ValueId write(Body& body, const op::LogSoftmax& softmax) {
  const ValueId x = body.input(0);
  const std::size_t axis = normalized_axis(softmax.axis, body.shape(x).size());
  const std::vector<std::int64_t> axes = axes_from(axis, softmax.all_trailing_axes ? body.shape(x).size() : axis + 1);
  const ValueId shifted = body.subtract(x, body.apply(op::ReduceMax{axes, true}, {x}));
  const ValueId total = sum(body, body.apply(op::Exp{}, {shifted}), axes);
  return body.subtract(shifted, body.apply(op::Log{}, {total}));
}

/// In the maximum the smallest element, which is no larger, stands for those that are masked.
ValueId write(Body& body, const op::MaskedSoftmax& softmax) {
  const ValueId x = body.input(0);
  const auto axis = static_cast<std::int64_t>(normalized_axis(softmax.axis, body.shape(x).size()));
  const auto chosen = [&](ValueId kept, ValueId other) {
    if (softmax.kept.empty()) return body.apply(op::Choice{}, {body.input(1), kept, other});
    return body.apply(op::Where{softmax.kept_shape, softmax.kept}, {kept, other});
  };
  const ValueId seen = chosen(x, body.apply(op::ReduceMin{{axis}, true}, {x}));
  if (body.shape(seen) != body.shape(x))
    throw ShapeMismatch("a mask of more elements than the scores " + to_string(body.shape(x)));
  const ValueId largest = body.apply(op::ReduceMax{{axis}, true}, {seen});
  const ValueId powers = chosen(body.apply(op::Exp{}, {body.subtract(seen, largest)}), body.number(0.0));
  return body.divide(powers, sum(body, powers, {axis}));
}

ValueId write(Body& body, const op::ReduceMean& mean) {
  return finished(body, body.mean(body.input(0), mean.axes), mean.axes, mean.keep_axes);
}
ValueId write(Body& body, const op::ReduceL1& norm) {
  const ValueId kept = sum(body, body.apply(op::Abs{}, {body.input(0)}), norm.axes);
  return finished(body, kept, norm.axes, norm.keep_axes);
}
ValueId write(Body& body, const op::ReduceL2& norm) {
  const ValueId kept = body.apply(op::Sqrt{}, {sum(body, square(body, body.input(0)), norm.axes)});
  return finished(body, kept, norm.axes, norm.keep_axes);
}
ValueId write(Body& body, const op::ReduceSumSquare& squares) {
  return finished(body, sum(body, square(body, body.input(0)), squares.axes), squares.axes, squares.keep_axes);
}
ValueId write(Body& body, const op::ReduceLogSum& log) {
  const ValueId kept = body.apply(op::Log{}, {sum(body, body.input(0), log.axes)});
  return finished(body, kept, log.axes, log.keep_axes);
}
ValueId write(Body& body, const op::ReduceLogSumExp& log) {
  const ValueId x = body.input(0);
  const ValueId largest = body.apply(op::ReduceMax{log.axes, true}, {x});
  const ValueId total = sum(body, body.apply(op::Exp{}, {body.subtract(x, largest)}), log.axes);
  return finished(body, body.add(largest, body.apply(op::Log{}, {total})), log.axes, log.keep_axes);
}

}  // namespace driftbound::composites

#include "model/sample_axis.hpp"

#include <algorithm>

#include "driftbound/model/composite.hpp"
#include "model/selections.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

using Axis = std::optional<std::size_t>;

/// One function per op; its first operand counts samples where the op has only one.
class Follower {
public:
  Follower(const Op& op, const std::vector<SampleOperand>& operands, const Shape& result)
      : op_(op), operands_(operands), result_(result) {}

  Axis operator()(const op::Gemm& gemm) const {
    const bool takes_rows =
        result_.size() == 2 && operands_[0].axis && !operands_[1].axis && *operands_[0].axis == (gemm.transpose_a ? 1u : 0u);
    if (!takes_rows) return std::nullopt;
    const bool keeps_rows = operands_.size() < 3 || !operands_[2].axis || aligned(operands_[2]) == 0;
    return keeps_rows ? Axis(0) : std::nullopt;
  }
  /// Neither summed over nor, where both operands count samples, paired with every other.
  Axis operator()(const op::MatMul&) const {
    const SampleOperand &a = operands_[0], &b = operands_[1];
    if (a.shape.size() < 2 || b.shape.size() < 2) return std::nullopt;
    const bool is_summed = (a.axis && *a.axis == a.shape.size() - 1) || (b.axis && *b.axis == b.shape.size() - 2);
    const Axis axis = is_summed ? std::nullopt : common_axis();
    const bool is_paired = a.axis && b.axis && axis && *axis + 2 >= result_.size();
    return is_paired ? std::nullopt : axis;
  }
  Axis operator()(const ElementwiseUnary auto&) const { return operands_[0].axis; }
  Axis operator()(const ElementwiseBinary auto&) const { return common_axis(); }
  Axis operator()(const OneOf<op::Choice, op::Where, op::Expand> auto&) const { return common_axis(); }
  Axis operator()(const op::Softmax& softmax) const {
    const std::size_t axis = normalized_axis(softmax.axis, result_.size());
    const bool is_apart = softmax.all_trailing_axes ? *operands_[0].axis < axis : *operands_[0].axis != axis;
    return is_apart ? operands_[0].axis : std::nullopt;
  }
  Axis operator()(const op::Concat& concat) const {
    const Axis axis = common_axis();
    return axis != normalized_axis(concat.axis, result_.size()) ? axis : std::nullopt;
  }
  /// Row-major order: the axis is the one with as many elements before it, and its extent.
  Axis operator()(const OneOf<op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze> auto&) const {
    const SampleOperand& x = operands_[0];
    std::int64_t before = 1, passed = 1;
    for (std::size_t axis = 0; axis < *x.axis; ++axis) before *= x.shape[axis];
    for (std::size_t axis = 0; axis < result_.size(); ++axis) {
      if (passed == before && result_[axis] == x.shape[*x.axis]) return axis;
      passed *= result_[axis];
    }
    return std::nullopt;
  }
  Axis operator()(const op::Transpose& transpose) const {
    const std::vector<std::size_t> from = permutation_of(transpose, result_.size());
    return static_cast<std::size_t>(std::find(from.begin(), from.end(), *operands_[0].axis) - from.begin());
  }
  Axis operator()(const op::Identity&) const { return operands_[0].axis; }
  Axis operator()(const Reduction auto& reduction) const {
    const std::vector<bool> reduced = reduced_axes(reduction.axes, operands_[0].shape.size());
    const std::size_t axis = *operands_[0].axis;
    if (reduced[axis]) return std::nullopt;
    if (reduction.keep_axes) return axis;
    const auto gone = std::count(reduced.begin(), reduced.begin() + static_cast<std::ptrdiff_t>(axis), true);
    return axis - static_cast<std::size_t>(gone);
  }
  Axis operator()(const op::Slice& slice) const {
    const bool keeps = keeps_axis(slice, *operands_[0].axis, operands_[0].shape.size());
    return keeps ? operands_[0].axis : std::nullopt;
  }
  Axis operator()(const op::Gather& gather) const {
    const std::size_t taken = normalized_axis(gather.axis, operands_[0].shape.size()), axis = *operands_[0].axis;
    if (taken == axis) return std::nullopt;
    return taken > axis ? axis : axis + gather.indices_shape.size() - 1;
  }
  Axis operator()(const op::Tile& tile) const {
    return tile.repeats[*operands_[0].axis] == 1 ? operands_[0].axis : std::nullopt;
  }
  Axis operator()(const op::Pad& pad) const {
    const std::size_t axis = *operands_[0].axis;
    return pad.before[axis] == 0 && pad.after[axis] == 0 ? Axis(axis) : std::nullopt;
  }
  Axis operator()(const op::Windows&) const { return *operands_[0].axis == 0 ? Axis(0) : std::nullopt; }
  Axis operator()(const Composite auto&) const {
    std::vector<Shape> inputs;
    for (const SampleOperand& operand : operands_) inputs.push_back(operand.shape);
    const Graph body = composite_body(op_, inputs);
    const std::vector<Shape> shapes = infer_shapes(body, inputs);
    std::vector<SampleOperand> values;
    for (const Shape& shape : shapes) values.push_back({shape, std::nullopt});
    for (std::size_t slot = 0; slot < operands_.size(); ++slot) values[body.inputs[slot]] = operands_[slot];
    for (const Node& node : body.nodes) {
      std::vector<SampleOperand> used;
      for (const ValueId id : node.inputs) used.push_back(values[id]);
      const bool counts =
          std::any_of(used.begin(), used.end(), [](const SampleOperand& o) { return o.axis.has_value(); });
      if (!counts) continue;
      values[node.output].axis = sample_axis_of(node.op, used, shapes[node.output]);
      if (!values[node.output].axis) return std::nullopt;
    }
    return values[body.outputs.front()].axis;
  }

private:
  /// The operand's axis in a result that it broadcasts to.
  std::size_t aligned(const SampleOperand& operand) const {
    return *operand.axis + result_.size() - operand.shape.size();
  }
  /// The one axis at which all operands that count samples have them.
  Axis common_axis() const {
    Axis common;
    for (const SampleOperand& operand : operands_) {
      if (!operand.axis) continue;
      const std::size_t axis = aligned(operand);
      if (result_[axis] != operand.shape[*operand.axis] || (common && *common != axis)) return std::nullopt;
      common = axis;
    }
    return common;
  }

  const Op& op_;
  const std::vector<SampleOperand>& operands_;
  const Shape& result_;
};

}  // namespace

std::optional<std::size_t> sample_axis_of(const Op& op, const std::vector<SampleOperand>& operands,
                                          const Shape& result) {
  return std::visit(Follower(op, operands, result), op);
}

}  // namespace driftbound

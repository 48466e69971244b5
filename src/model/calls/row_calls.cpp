#include <algorithm>
#include <array>
#include <cmath>

#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"

// Norms, softmax, reductions and losses.

namespace driftbound::calls {
namespace {

using Axes = std::vector<std::int64_t>;

/// The last axes of x, as many as the normalised shape has.
Axes normalised_axes(CallWriter& call, ValueId x) {
  const auto count = static_cast<std::int64_t>(call.integers("normalized_shape").size());
  if (count < 1 || count > call.rank(x)) throw ShapeMismatch("its normalized_shape does not fit its operand");
  Axes axes;
  for (std::int64_t axis = call.rank(x) - count; axis < call.rank(x); ++axis) axes.push_back(axis);
  return axes;
}

ValueId ones(CallWriter& call, Shape shape) {
  CallWriter::require_small(shape);
  Tensor<float> tensor(std::move(shape));
  std::fill(tensor.values.begin(), tensor.values.end(), 1.0f);
  return call.constant(StoredTensor::from(tensor));
}

ValueId zeros(CallWriter& call, const Shape& shape) {
  CallWriter::require_small(shape);
  return call.constant(StoredTensor::from(Tensor<float>(shape)));
}

void layer_norm(CallWriter& call) {
  call.ignore({"cudnn_enable"});
  const ValueId x = call.x(0);
  const Axes axes = normalised_axes(call, x);
  const double epsilon = call.real("eps", 1e-5);
  const Shape normalised(call.shape(x).end() - static_cast<std::ptrdiff_t>(axes.size()), call.shape(x).end());
  std::vector<ValueId> operands = {x, call.is_given(1) ? call.x(1) : ones(call, normalised)};
  if (call.is_given(2)) operands.push_back(call.x(2));
  call.result(0, call.add(op::LayerNormalization{axes.front(), epsilon}, operands));
}

/// PyTorch's default epsilon is the one of the operand's type.
double machine_epsilon(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 0x1p-52;
    case ElementType::f16:
      return 0x1p-10;
    case ElementType::bf16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

void rms_norm(CallWriter& call) {
  const ValueId x = call.x(0);
  const Axes axes = normalised_axes(call, x);
  const double epsilon = call.real("eps", machine_epsilon(call.type_of(0)));
  const Shape normalised(call.shape(x).end() - static_cast<std::ptrdiff_t>(axes.size()), call.shape(x).end());
  const ValueId scale = call.is_given(1) ? call.x(1) : ones(call, normalised);
  call.result(0, call.add(op::RMSNormalization{axes.front(), epsilon}, {x, scale}));
}

/// vLLM's form: operands x and weight, over the last axis.
void rms_norm_of_last(CallWriter& call) {
  const double epsilon = call.real("epsilon", 1e-6);
  call.result(0, call.add(op::RMSNormalization{-1, epsilon}, {call.x(0), call.x(1)}));
}

/// x + residual, and its RMSNormalization: operands x, residual and weight, results the norm and the sum.
void added_rms_norm(CallWriter& call) {
  const double epsilon = call.real("epsilon", 1e-6);
  const ValueId sum = call.add(op::Add{}, {call.x(0), call.x(1)});
  call.result(0, call.add(op::RMSNormalization{-1, epsilon}, {sum, call.x(2)}));
  call.result(1, sum);
}

void group_norm(CallWriter& call) {
  call.ignore({"N", "C", "HxW", "cudnn_enabled"});
  const ValueId x = call.x(0);
  const std::int64_t groups = call.integer("group", call.integer("num_groups", 1));
  const double epsilon = call.real("eps", 1e-5);
  if (call.rank(x) < 2) throw ShapeMismatch("it needs an operand [N, C, ...]");
  const Shape channels = {call.shape(x)[1]};
  const ValueId scale = call.is_given(1) ? call.x(1) : ones(call, channels);
  const ValueId bias = call.is_given(2) ? call.x(2) : zeros(call, channels);
  call.result(0, call.add(op::GroupNormalization{groups, epsilon, false}, {x, scale, bias}));
}

/// Operands x, weight, bias, running mean, running variance.
void batch_norm(CallWriter& call) {
  call.ignore({"momentum", "cudnn_enabled", "exponential_average_factor"});
  if (call.truth("training", false)) refuse("it takes statistics of the batch (training)");
  const double epsilon = call.real("eps", call.real("epsilon", 1e-5));
  const ValueId x = call.x(0);
  if (call.rank(x) < 2) throw ShapeMismatch("it needs an operand [N, C, ...]");
  const Shape channels = {call.shape(x)[1]};
  const ValueId scale = call.is_given(1) ? call.x(1) : ones(call, channels);
  const ValueId bias = call.is_given(2) ? call.x(2) : zeros(call, channels);
  call.result(0, call.add(op::BatchNormalization{epsilon}, {x, scale, bias, call.x(3), call.x(4)}));
}

/// Softmax and its logarithm; elements that are minus infinity are masked.
template <class T>
void softmax(CallWriter& call) {
  call.ignore({"half_to_float"});
  T op;
  op.axis = call.integer("dim", -1);
  call.result(0, call.add(op, {call.x_of_its_type(0)}));
}

template <class T>
void reduce(CallWriter& call) {
  T reduction;
  reduction.axes = call.integers("dim");
  reduction.keep_axes = call.truth("keepdim", false);
  call.result(0, call.add(reduction, {call.x_of_its_type(0)}));
}

/// The largest element alone, or with its place along an axis, which is not judged; or the larger of two.
void largest(CallWriter& call) {
  if (call.is_given(1)) return call.result(0, call.add(op::Max{}, {call.x(0), call.x(1)}));
  reduce<op::ReduceMax>(call);
}
void smallest(CallWriter& call) {
  if (call.is_given(1)) return call.result(0, call.add(op::Min{}, {call.x(0), call.x(1)}));
  reduce<op::ReduceMin>(call);
}

/// Of scores [..., classes] the elements that integers [...] choose, as [...].
ValueId chosen(CallWriter& call, ValueId scores, std::size_t slot) {
  const Shape shape = call.shape(scores);
  if (shape.empty()) throw ShapeMismatch("its scores have no axis of classes");
  const std::int64_t classes = shape.back();
  const std::int64_t rows = classes == 0 ? 0 : element_count(shape) / classes;
  const std::vector<std::int64_t> targets = call.integers_of(slot);
  if (static_cast<std::int64_t>(targets.size()) != rows) throw ShapeMismatch("it has not one class a row");
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t target = targets[static_cast<std::size_t>(row)];
    if (target < 0 || target >= classes) refuse("it leaves out rows, or names classes that are not there");
    places.push_back(row * classes + target);
  }
  const ValueId flat = call.reshape(scores, {element_count(shape)});
  return call.add(op::Gather{0, call.shape_of(slot), places}, {flat});
}

/// The loss of a reduction: the mean, the sum, or one number a row.
ValueId reduced(CallWriter& call, ValueId losses) {
  const std::int64_t reduction = call.integer("reduction", 1);
  if (reduction == 0) return losses;
  if (reduction == 1) return call.add(op::ReduceMean{{}, false}, {losses});
  return call.add(op::ReduceSum{{}, false}, {losses});
}

/// (x - y)^2, its mean or its sum.
void squared_differences(CallWriter& call) {
  const ValueId difference = call.add(op::Sub{}, {call.x(0), call.x(1)});
  call.result(0, reduced(call, call.add(op::Mul{}, {difference, difference})));
}

/// The sum of magnitudes, the root of the sum of squares, or the largest magnitude.
void vector_norm(CallWriter& call) {
  const double order = call.real("ord", call.real("p", 2.0));
  const std::vector<std::int64_t> axes = call.integers("dim");
  const bool keeps = call.truth("keepdim", false);
  const ValueId x = call.x_of_its_type(0);
  if (order == 1.0) return call.result(0, call.add(op::ReduceL1{axes, keeps}, {x}));
  if (order == 2.0) return call.result(0, call.add(op::ReduceL2{axes, keeps}, {x}));
  if (std::isinf(order) && order > 0.0)
    return call.result(0, call.add(op::ReduceMax{axes, keeps}, {call.add(op::Abs{}, {x})}));
  refuse("it is a norm of another order than 1, 2 or infinity");
}

void require_plain_loss(CallWriter& call) {
  if (call.is_given(2)) refuse("it weighs classes");
  const std::int64_t ignored = call.integer("ignore_index", -100);
  const std::vector<std::int64_t> classes = call.integers_of(1);
  if (std::find(classes.begin(), classes.end(), ignored) != classes.end()) refuse("it leaves out rows");
  if (call.real("label_smoothing", 0.0) != 0.0) refuse("it smooths labels");
}

void negative_log_likelihood(CallWriter& call) {
  require_plain_loss(call);
  const ValueId losses = call.add(op::Neg{}, {chosen(call, call.x(0), 1)});
  call.result(0, reduced(call, losses));
}

void cross_entropy(CallWriter& call) {
  require_plain_loss(call);
  if (call.rank(call.x(0)) != 2) refuse("its scores are not [rows, classes]");
  const ValueId logarithms = call.add(op::LogSoftmax{-1, false}, {call.x(0)});
  call.result(0, reduced(call, call.add(op::Neg{}, {chosen(call, logarithms, 1)})));
}

/// Operands scores [..., classes] and chosen classes [...].
void log_probability(CallWriter& call) {
  call.result(0, chosen(call, call.add(op::LogSoftmax{-1, false}, {call.x(0)}), 1));
}

constexpr std::array row_rules = {
    CallRule{"_C::fused_add_rms_norm", added_rms_norm, "x + residual, then RMSNormalization"},
    CallRule{"_C::rms_norm", rms_norm_of_last, "RMSNormalization over the last axis"},
    CallRule{"aten::_fused_rms_norm", rms_norm, "RMSNormalization"},
    CallRule{"aten::_log_softmax", softmax<op::LogSoftmax>, "LogSoftmax"},
    CallRule{"aten::_native_batch_norm_legit_no_training", batch_norm, "BatchNormalization at inference"},
    CallRule{"aten::_safe_softmax", softmax<op::Softmax>, "Softmax"},
    CallRule{"aten::_softmax", softmax<op::Softmax>, "Softmax"},
    CallRule{"aten::amax", reduce<op::ReduceMax>, "ReduceMax"},
    CallRule{"aten::amin", reduce<op::ReduceMin>, "ReduceMin"},
    CallRule{"aten::batch_norm", batch_norm, "BatchNormalization at inference"},
    CallRule{"aten::cross_entropy_loss", cross_entropy, "-LogSoftmax of the given class"},
    CallRule{"aten::cudnn_batch_norm", batch_norm, "BatchNormalization at inference"},
    CallRule{"aten::layer_norm", layer_norm, "LayerNormalization"},
    CallRule{"aten::linalg_vector_norm", vector_norm, "ReduceL1, ReduceL2, or ReduceMax of |x|"},
    CallRule{"aten::log_softmax", softmax<op::LogSoftmax>, "LogSoftmax"},
    CallRule{"aten::logsumexp", reduce<op::ReduceLogSumExp>, "ReduceLogSumExp"},
    CallRule{"aten::max", largest, "ReduceMax, or Max of two"},
    CallRule{"aten::mean", reduce<op::ReduceMean>, "ReduceMean"},
    CallRule{"aten::min", smallest, "ReduceMin, or Min of two"},
    CallRule{"aten::mse_loss", squared_differences, "(x - y)^2, its mean or its sum"},
    CallRule{"aten::native_batch_norm", batch_norm, "BatchNormalization at inference"},
    CallRule{"aten::native_group_norm", group_norm, "GroupNormalization"},
    CallRule{"aten::native_layer_norm", layer_norm, "LayerNormalization; its statistics are not judged"},
    CallRule{"aten::nll_loss_forward", negative_log_likelihood, "-x of the given class"},
    CallRule{"aten::norm", vector_norm, "ReduceL1, ReduceL2, or ReduceMax of |x|"},
    CallRule{"aten::rms_norm", rms_norm, "RMSNormalization"},
    CallRule{"aten::softmax", softmax<op::Softmax>, "Softmax"},
    CallRule{"aten::sum", reduce<op::ReduceSum>, "ReduceSum"},
    CallRule{"log_probability", log_probability, "LogSoftmax of the given classes"},
};

}  // namespace

std::span<const CallRule> row_calls() {
  return row_rules;
}

}  // namespace driftbound::calls

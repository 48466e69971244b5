#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/text.hpp"

// Products of matrices, convolutions and attention.

namespace driftbound::calls {
namespace {

void product(CallWriter& call) {
  call.result(0, call.add(op::MatMul{}, {call.x(0), call.x(1)}));
}

/// beta x + alpha A B, the first three operands x, A and B.
void product_and_addend(CallWriter& call) {
  const op::Gemm gemm{call.real("alpha", 1.0), call.real("beta", 1.0), false, false};
  std::vector<ValueId> operands = {call.x(1), call.x(2)};
  if (gemm.beta != 0.0) operands.push_back(call.x(0));  // PyTorch does not read the addend of beta 0
  ValueId result = call.add(gemm, operands);
  if (call.truth("use_gelu", false)) result = call.add(op::Gelu{true}, {result});
  call.result(0, result);
}

void product_with_vector(CallWriter& call) {
  const double alpha = call.real("alpha", 1.0), beta = call.real("beta", 1.0);
  const auto column = [&](ValueId id) { return call.reshape(id, {call.shape(id).at(0), 1}); };
  std::vector<ValueId> operands = {call.x(1), column(call.x(2))};
  if (beta != 0.0) {
    const ValueId addend = call.x(0);
    operands.push_back(call.rank(addend) == 1 ? column(addend) : addend);
  }
  const ValueId result = call.add(op::Gemm{alpha, beta, false, false}, operands);
  call.result(0, call.reshape(result, {call.shape(result)[0]}));
}

/// x W^T + b, over the last axis of x.
ValueId linear_of(CallWriter& call, ValueId x, ValueId w, std::optional<ValueId> bias) {
  Shape result = call.shape(x);
  if (result.empty() || call.rank(w) != 2) throw ShapeMismatch("it needs rows and a matrix of weights");
  const std::int64_t width = result.back();
  const std::int64_t rows = width == 0 ? 0 : element_count(result) / width;
  std::vector<ValueId> operands = {call.reshape(x, {rows, width}), w};
  if (bias) operands.push_back(*bias);
  const ValueId y = call.add(op::Gemm{1.0, 1.0, false, true}, operands);
  result.back() = call.shape(w)[0];
  return call.reshape(y, result);
}

void linear(CallWriter& call) {
  call.result(0, linear_of(call, call.x(0), call.x(1), call.is_given(2) ? std::optional(call.x(2)) : std::nullopt));
}

void einsum(CallWriter& call) {
  call.ignore({"path"});
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  call.result(0, call.add(op::Einsum{equation}, call.all_from(0)));
}

void dot(CallWriter& call) {
  call.result(0, call.add(op::MatMul{}, {call.x(0), call.x(1)}));
}

// ---- windows

std::vector<std::int64_t> spread(std::vector<std::int64_t> numbers, std::size_t axes) {
  if (numbers.size() == 1) numbers.resize(axes, numbers.front());
  return numbers;
}

op::WindowGeometry geometry_of(CallWriter& call, std::size_t axes) {
  op::WindowGeometry geometry;
  geometry.strides = spread(call.integers("stride", {1}), axes);
  geometry.dilations = spread(call.integers("dilation", {1}), axes);
  geometry.pads_before = geometry.pads_after = spread(call.integers("padding", {0}), axes);
  return geometry;
}

void convolution(CallWriter& call) {
  call.ignore({"benchmark", "deterministic", "cudnn_enabled", "allow_tf32"});
  const ValueId x = call.x(0), w = call.x(1);
  if (call.rank(x) < 3 || call.rank(w) != call.rank(x)) throw ShapeMismatch("it needs images [N, C, ...] and filters");
  const std::size_t axes = call.shape(x).size() - 2;
  std::vector<ValueId> operands = {x, w};
  if (call.is_given(2)) operands.push_back(call.x(2));
  const std::int64_t groups = call.integer("groups", 1);
  const op::WindowGeometry geometry = geometry_of(call, axes);
  const std::vector<std::int64_t> output_padding = spread(call.integers("output_padding", {0}), axes);
  if (call.truth("transposed", false)) {
    call.result(0, call.add(op::ConvTranspose{geometry, groups, output_padding, {}}, operands));
    return;
  }
  call.result(0, call.add(op::Conv{geometry, groups}, operands));
}

op::WindowGeometry pooling_of(CallWriter& call) {
  const ValueId x = call.x(0);
  const std::size_t axes = call.shape(x).size() < 2 ? 0 : call.shape(x).size() - 2;
  op::WindowGeometry geometry;
  geometry.kernel = spread(call.integers("kernel_size"), axes);
  geometry.strides = spread(call.integers("stride"), axes);
  if (geometry.strides.empty()) geometry.strides = geometry.kernel;
  geometry.dilations = spread(call.integers("dilation", {1}), axes);
  geometry.pads_before = geometry.pads_after = spread(call.integers("padding", {0}), axes);
  geometry.ceil_mode = call.truth("ceil_mode", false);
  return geometry;
}

void max_pool(CallWriter& call) {
  call.result(0, call.add(op::MaxPool{pooling_of(call)}, {call.x(0)}));
}

void average_pool(CallWriter& call) {
  if (call.has("divisor_override")) refuse("it divides by a number of its own (divisor_override)");
  const bool counts = call.truth("count_include_pad", true);
  call.result(0, call.add(op::AveragePool{pooling_of(call), counts}, {call.x(0)}));
}

/// Sums of windows of one size, divided by one extent of the window after the other.
void adaptive_average_pool(CallWriter& call) {
  const ValueId x = call.x(0);
  const std::vector<std::int64_t> size = call.integers("output_size");
  const Shape shape = call.shape(x);
  if (shape.size() != size.size() + 2) throw ShapeMismatch("it needs images [N, C, ...]");
  Shape split = {shape[0], shape[1]};
  std::vector<std::int64_t> summed, extents;
  for (std::size_t i = 0; i < size.size(); ++i) {
    const std::int64_t extent = shape[i + 2];
    if (size[i] < 1 || extent % size[i] != 0) refuse("its windows are not all of one size");
    split.push_back(size[i]);
    summed.push_back(static_cast<std::int64_t>(split.size()));
    extents.push_back(extent / size[i]);
    split.push_back(extents.back());
  }
  ValueId average = call.add(op::ReduceSum{summed, false}, {call.reshape(x, split)});
  for (const std::int64_t extent : extents)
    average = call.add(op::Div{}, {average, call.number(static_cast<double>(extent))});
  call.result(0, average);
}

// ---- attention

/// Booleans of a mask say which keys are seen; of numbers minus infinity hides a key, and the others are added.
void read_mask(CallWriter& call, std::size_t slot, op::Attention& attention, std::vector<ValueId>& operands) {
  const StoredTensor stored = call.numbers(slot);
  const bool is_boolean = stored.type() == ElementType::boolean;
  Tensor<double> numbers = stored.to_double();
  bool hides = false, adds = false;
  std::vector<bool> visible;
  for (double& number : numbers.values) {
    const bool is_seen = is_boolean ? number != 0.0 : number != -std::numeric_limits<double>::infinity();
    visible.push_back(is_seen);
    hides = hides || !is_seen;
    adds = adds || (!is_boolean && is_seen && number != 0.0);
    if (!is_seen) number = 0.0;
  }
  if (hides) {
    attention.visible_shape = numbers.shape;
    attention.visible = std::move(visible);
  }
  if (adds) operands.push_back(hides ? call.constant(StoredTensor::from(numbers)) : call.x(slot));
}

/// softmax(scale Q K^T + mask) V of operands [..., heads, length, size].
void attend(CallWriter& call, std::optional<std::size_t> mask) {
  call.ignore({"need_attn_weights", "return_debug_mask", "compute_log_sumexp", "enable_gqa"});
  if (call.real("dropout_p", 0.0) != 0.0) refuse("it drops weights at random (dropout_p)");
  const Shape shape = call.shape_of(0);
  if (shape.size() < 3) throw ShapeMismatch("it needs queries [..., heads, length, size]");
  const auto four_axes = [&](std::size_t slot) {
    Shape target = call.shape_of(slot);
    while (target.size() < 4) target.insert(target.begin(), 1);
    if (target.size() > 4) refuse("its operands have more than four axes");
    return call.reshape(call.x(slot), target);
  };
  std::vector<ValueId> operands = {four_axes(0), four_axes(1), four_axes(2)};
  op::Attention attention;
  attention.is_causal = call.truth("is_causal", false);
  attention.scale = call.real("scale", 0.0);
  if (mask && call.is_given(*mask)) read_mask(call, *mask, attention, operands);
  const ValueId attended = call.add(attention, operands);
  Shape result = call.shape(attended);
  result.erase(result.begin(),
               result.begin() + static_cast<std::ptrdiff_t>(4 - std::min<std::size_t>(shape.size(), 4)));
  call.result(0, call.reshape(attended, result));
}

void attention(CallWriter& call) {
  attend(call, 3);
}
void attention_without_mask(CallWriter& call) {
  attend(call, std::nullopt);
}

/// Which keys a boolean mask leaves visible that is true where a key is hidden. `kind`: 0 of queries and keys, 1 of rows and
/// keys, 2 of rows, heads, queries and keys.
void read_hiding_mask(CallWriter& call, std::size_t slot, std::int64_t kind, op::Attention& attention) {
  const StoredTensor mask = call.numbers(slot);
  if (mask.type() != ElementType::boolean) refuse("its mask holds numbers that are added");
  attention.visible_shape = mask.shape();
  if (kind == 1) attention.visible_shape.insert(attention.visible_shape.begin() + 1, {1, 1});
  for (const double hides : mask.to_double().values) attention.visible.push_back(hides == 0.0);
}

/// Attention with its products, of sequences [rows, length, width]: queries, keys and values by the three parts of one
/// matrix of weights, attention in heads, and a product over all heads. `weights`: slot of that matrix; its bias, and
/// weights and bias of the last product follow.
ValueId attend_in_heads(CallWriter& call, const std::array<ValueId, 3>& sequences, std::int64_t heads,
                        std::size_t weights, std::size_t mask) {
  const Shape shape = call.shape(sequences[0]);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    throw ShapeMismatch("it needs rows [N, length, width], and heads that divide the width");
  const std::int64_t width = shape[2];
  const auto part = [&](ValueId of, std::int64_t i) {
    return call.add(op::Slice{{i * width}, {(i + 1) * width}, {0}, {1}}, {of});
  };
  const ValueId all_weights = call.x(weights), biases = call.x(weights + 1);
  std::vector<ValueId> operands;
  for (std::int64_t i = 0; i < 3; ++i) {
    const ValueId sequence = sequences[static_cast<std::size_t>(i)];
    const ValueId one = linear_of(call, sequence, part(all_weights, i), part(biases, i));
    const Shape in_heads = {call.shape(one)[0], call.shape(one)[1], heads, width / heads};
    operands.push_back(call.add(op::Transpose{{0, 2, 1, 3}}, {call.reshape(one, in_heads)}));
  }
  op::Attention attention;
  const std::int64_t kind = call.integer("mask_type", 0);
  if (call.is_given(mask)) read_hiding_mask(call, mask, kind, attention);
  const ValueId attended = call.add(op::Transpose{{0, 2, 1, 3}}, {call.add(attention, operands)});
  return linear_of(call, call.reshape(attended, shape), call.x(weights + 2), call.x(weights + 3));
}

/// PyTorch's fused attention with its products: operands query, key, value, weights and biases, mask.
void native_attention(CallWriter& call) {
  call.ignore({"embed_dim", "need_weights", "average_attn_weights"});
  call.result(0, attend_in_heads(call, {call.x(0), call.x(1), call.x(2)}, call.integer("num_head", 1), 3, 7));
}

/// PyTorch's fused layer of a transformer's encoder, of operands x, the weights and biases of attention, of both norms and
/// of both products behind it, and a mask.
void encoder_layer(CallWriter& call) {
  call.ignore({"embed_dim"});
  const double epsilon = call.real("eps", 1e-5);
  const bool is_norm_first = call.truth("norm_first", false), has_gelu = call.truth("use_gelu", false);
  const auto norm = [&](ValueId of, std::size_t slot) {
    return call.add(op::LayerNormalization{-1, epsilon}, {of, call.x(slot), call.x(slot + 1)});
  };
  const auto feed_forward = [&](ValueId of) {
    const ValueId hidden = linear_of(call, of, call.x(9), call.x(10));
    const ValueId active = has_gelu ? call.add(op::Gelu{}, {hidden}) : call.add(op::Relu{}, {hidden});
    return linear_of(call, active, call.x(11), call.x(12));
  };
  const std::int64_t heads = call.integer("num_heads", 1);
  const ValueId x = call.x(0);
  const ValueId read = is_norm_first ? norm(x, 5) : x;
  const ValueId attended = attend_in_heads(call, {read, read, read}, heads, 1, 13);
  ValueId sum = call.add(op::Add{}, {attended, x});
  if (!is_norm_first) sum = norm(sum, 5);
  ValueId result = call.add(op::Add{}, {feed_forward(is_norm_first ? norm(sum, 7) : sum), sum});
  call.result(0, is_norm_first ? result : norm(result, 7));
}

/// Pairs of the first half and the second half of every head rotated, as x cos + rotate_half(x) sin.
void rotary(CallWriter& call) {
  op::RotaryEmbedding embedding;
  embedding.interleaved = call.truth("interleaved", false);
  embedding.heads = call.integer("heads", 0);
  embedding.rotary_size = call.integer("rotary_size", 0);
  call.result(0, call.add(embedding, {call.x(0), call.x(1), call.x(2)}));
}

constexpr std::array product_rules = {
    CallRule{"aten::_adaptive_avg_pool2d", adaptive_average_pool, "means over windows of one size"},
    CallRule{"aten::_addmm_activation", product_and_addend, "Gemm, then Gelu in its tanh form where `use_gelu`"},
    CallRule{"aten::_convolution", convolution, "Conv or ConvTranspose"},
    CallRule{"aten::_native_multi_head_attention", native_attention, "attention with its products"},
    CallRule{"aten::_scaled_dot_product_attention", attention, "Attention"},
    CallRule{"aten::_scaled_dot_product_attention_forward", attention, "Attention"},
    CallRule{"aten::_scaled_dot_product_attention_math", attention, "Attention"},
    CallRule{"aten::_scaled_dot_product_cudnn_attention", attention, "Attention"},
    CallRule{"aten::_scaled_dot_product_efficient_attention", attention, "Attention"},
    CallRule{"aten::_scaled_dot_product_flash_attention", attention_without_mask, "Attention"},
    CallRule{"aten::_scaled_dot_product_flash_attention_for_cpu", attention, "Attention"},
    CallRule{"aten::_transformer_encoder_layer_fwd", encoder_layer, "a layer of a transformer's encoder"},
    CallRule{"aten::addmm", product_and_addend, "Gemm"},
    CallRule{"aten::addmv", product_with_vector, "Gemm with a vector"},
    CallRule{"aten::avg_pool2d", average_pool, "AveragePool"},
    CallRule{"aten::baddbmm", product_and_addend, "Gemm over batches"},
    CallRule{"aten::bmm", product, "MatMul"},
    CallRule{"aten::conv1d", convolution, "Conv"},
    CallRule{"aten::conv2d", convolution, "Conv"},
    CallRule{"aten::conv3d", convolution, "Conv"},
    CallRule{"aten::convolution", convolution, "Conv or ConvTranspose"},
    CallRule{"aten::dot", dot, "MatMul"},
    CallRule{"aten::einsum", einsum, "Einsum"},
    CallRule{"aten::linear", linear, "x W^T + b"},
    CallRule{"aten::matmul", product, "MatMul"},
    CallRule{"aten::max_pool2d", max_pool, "MaxPool"},
    CallRule{"aten::max_pool2d_with_indices", max_pool, "MaxPool"},
    CallRule{"aten::mkldnn_convolution", convolution, "Conv"},
    CallRule{"aten::mm", product, "MatMul"},
    CallRule{"aten::mv", product, "MatMul"},
    CallRule{"aten::scaled_dot_product_attention", attention, "Attention"},
    CallRule{"aten::thnn_conv2d", convolution, "Conv"},
    CallRule{"rotary_embedding", rotary, "RotaryEmbedding of x by cosines and sines"},
};

}  // namespace

std::span<const CallRule> product_calls() {
  return product_rules;
}

}  // namespace driftbound::calls

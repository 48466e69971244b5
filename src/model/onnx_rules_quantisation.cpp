#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

// Quantised numbers are integers, and here the real numbers that they are: a product of them is exact until it is scaled.
// A number that is quantised is divided by the scale, rounded to the nearest integer, shifted and limited.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;

/// What a quantised type holds.
struct Limits {
  double least = 0.0, most = 255.0;
};

std::optional<Limits> limits_of(ElementType type) {
  switch (type) {
    case ElementType::u8:
      return Limits{0.0, 255.0};
    case ElementType::i8:
      return Limits{-128.0, 127.0};
    case ElementType::u16:
      return Limits{0.0, 65535.0};
    case ElementType::i16:
      return Limits{-32768.0, 32767.0};
    default:
      return std::nullopt;
  }
}

/// Steps of quantised ops over the inputs of one node.
class Quantised {
public:
  explicit Quantised(const NodeView& node) : node_(node) {}

  MappedOps ops;

  /// An input as floats, of 32 bits or more, exactly.
  Input number(std::size_t slot) {
    const auto& type = node_.operands[slot].type;
    if (!type || (is_float(*type) && !is_half(type))) return MappedOps::slot(slot);
    return ops.add(op::Cast{ElementType::f32}, {MappedOps::slot(slot)});
  }

  /// Casts x back to the type of a slot whose floats have 16 bits: number() made float32 of them.
  Input like(Input x, std::size_t slot) {
    const auto& type = node_.operands[slot].type;
    return is_half(type) ? ops.add(op::Cast{*type}, {x}) : x;
  }

  /// A scale or zero point, placed along an axis of a value of `rank` axes where it is a list.
  /// Throws:    Unsupported where shapes are not known
  Input along_axis(std::size_t slot, std::optional<std::size_t> rank, std::int64_t axis) {
    const Input values = number(slot);
    const auto own = rank_of(node_, slot);
    if (!own) throw Unsupported("its scale or zero point has a shape that is not known when loading");
    if (*own == 0) return values;
    const Extent count = node_.operands[slot].shape->front();
    if (*own == 1 && count.is_number() && count.value() == 1) return ops.add(op::Reshape{{}, false}, {values});
    if (*own != 1) throw Unsupported("it is quantised in blocks");
    if (!rank) throw Unsupported("quantises along an axis of a value whose rank is not known when loading");
    if (axis < 0) axis += static_cast<std::int64_t>(*rank);
    op::Unsqueeze behind;
    for (std::int64_t i = 1; i < static_cast<std::int64_t>(*rank) - axis; ++i) behind.axes.push_back(i);
    return behind.axes.empty() ? values : ops.add(std::move(behind), {values});
  }

  bool is_zero(std::size_t slot) const {
    if (!is_given(node_, slot)) return true;
    const StoredTensor* zero = node_.operands[slot].constant;
    if (zero == nullptr) return false;
    for (const std::byte byte : zero->bytes())
      if (byte != std::byte{0}) return false;
    return true;
  }

  /// x - zero point.
  Input centred(std::size_t slot, std::size_t zero, std::int64_t axis) {
    const Input x = number(slot);
    if (is_zero(zero)) return x;
    return ops.add(op::Sub{}, {x, along_axis(zero, rank_of(node_, slot), axis)});
  }

  /// Rounds, shifts by the zero point, and limits to its type (unsigned bytes where there is none).
  Input stored(Input scaled, std::size_t zero, std::optional<std::size_t> rank, std::int64_t axis) {
    Limits limits;
    if (is_given(node_, zero)) {
      const auto& type = node_.operands[zero].type;
      const auto known = type ? limits_of(*type) : std::nullopt;
      if (!known)
        throw Unsupported("quantises to " + (type ? std::string(driftbound::name_of(*type)) : "an unknown type"));
      limits = *known;
    }
    Input result = ops.add(op::Round{}, {scaled});
    if (!is_zero(zero)) result = ops.add(op::Add{}, {result, along_axis(zero, rank, axis)});
    return ops.add(op::Clip{limits.least, limits.most}, {result});
  }

  /// The type of a zero point, which is that of the values; unsigned bytes where there is none.
  ElementType type_of(std::size_t zero) const {
    return is_given(node_, zero) ? node_.operands[zero].type.value_or(ElementType::u8) : ElementType::u8;
  }

  /// An output of floats, or of integers of this type.
  Mapping finish(Input output, std::optional<ElementType> integers = std::nullopt) {
    ops.outputs = {output};
    ops.quantised = {integers};
    return std::move(ops);
  }

private:
  const NodeView& node_;
};

Mapping map_quantise(const NodeView& node) {
  if (integer_or(node.proto, "block_size", 0) != 0) return NotMapped{"it quantises in blocks"};
  const std::int64_t axis = integer_or(node.proto, "axis", 1);
  Quantised quantised(node);
  const Input scale = quantised.along_axis(1, rank_of(node, 0), axis);
  const Input scaled = quantised.ops.add(op::Div{}, {quantised.number(0), scale});
  const Input stored = quantised.stored(scaled, 2, rank_of(node, 0), axis);
  return quantised.finish(stored, quantised.type_of(2));
}

Mapping map_dequantise(const NodeView& node) {
  if (integer_or(node.proto, "block_size", 0) != 0) return NotMapped{"it is quantised in blocks"};
  const std::int64_t axis = integer_or(node.proto, "axis", 1);
  Quantised quantised(node);
  const Input centred = quantised.centred(0, 2, axis);
  const Input scale = quantised.along_axis(1, rank_of(node, 0), axis);
  return quantised.finish(quantised.like(quantised.ops.add(op::Mul{}, {centred, scale}), 1));
}

Mapping map_integer_product(const NodeView& node) {
  Quantised quantised(node);
  const auto rank = rank_of(node, 0).value_or(2);
  const Input a = quantised.centred(0, 2, static_cast<std::int64_t>(rank) - 2);
  const Input b = quantised.centred(1, 3, -1);
  return quantised.finish(quantised.ops.add(op::MatMul{}, {a, b}), ElementType::i32);
}

/// (a - a_zero)(b - b_zero) a_scale b_scale / y_scale, rounded and stored.
Mapping map_quantised_product(const NodeView& node) {
  Quantised quantised(node);
  const auto rank = rank_of(node, 0).value_or(2);
  const Input a = quantised.centred(0, 2, static_cast<std::int64_t>(rank) - 2);
  const Input b = quantised.centred(3, 5, -1);
  Input y = quantised.ops.add(op::MatMul{}, {a, b});
  y = quantised.ops.add(op::Mul{}, {y, quantised.along_axis(1, rank_of(node, 0), static_cast<std::int64_t>(rank) - 2)});
  y = quantised.ops.add(op::Mul{}, {y, quantised.along_axis(4, rank_of(node, 3), -1)});
  y = quantised.ops.add(op::Div{}, {y, quantised.along_axis(6, rank_of(node, 0), -1)});
  return quantised.finish(quantised.stored(y, 7, rank_of(node, 0), -1), quantised.type_of(7));
}

/// Pads are the zero point, which is 0 when it is centred.
Mapping map_integer_conv(const NodeView& node) {
  Quantised quantised(node);
  const Input x = quantised.centred(0, 2, 1), w = quantised.centred(1, 3, 0);
  return quantised.finish(quantised.ops.add(conv_of(node), {x, w}), ElementType::i32);
}

/// (conv(x - x_zero, w - w_zero) + bias) x_scale w_scale / y_scale, rounded and stored.
Mapping map_quantised_conv(const NodeView& node) {
  Quantised quantised(node);
  const auto rank = rank_of(node, 0);
  const Input x = quantised.centred(0, 2, 1), w = quantised.centred(3, 5, 0);
  std::vector<Input> operands = {x, w};
  if (is_given(node, 8)) operands.push_back(quantised.number(8));
  Input y = quantised.ops.add(conv_of(node), std::move(operands));
  y = quantised.ops.add(op::Mul{}, {y, quantised.along_axis(1, rank, 1)});
  y = quantised.ops.add(op::Mul{}, {y, quantised.along_axis(4, rank, 1)});
  y = quantised.ops.add(op::Div{}, {y, quantised.along_axis(6, rank, 1)});
  return quantised.finish(quantised.stored(y, 7, rank, 1), quantised.type_of(7));
}

/// The least and the largest of 0 and all elements share 255 steps.
Mapping map_dynamic_quantise(const NodeView&) {
  MappedOps ops;
  const auto number = [&](float value) {
    ops.constants.push_back(StoredTensor::from(Tensor<float>({}, {value})));
    return Input{MappedOps::Source::constant, ops.constants.size() - 1};
  };
  const Input x = MappedOps::slot(0), zero = number(0.0F);
  const Input least = ops.add(op::Min{}, {ops.add(op::ReduceMin{{}, false}, {x}), zero});
  const Input most = ops.add(op::Max{}, {ops.add(op::ReduceMax{{}, false}, {x}), zero});
  const Input scale = ops.add(op::Div{}, {ops.add(op::Sub{}, {most, least}), number(255.0F)});
  const Input shift = ops.add(op::Div{}, {ops.add(op::Neg{}, {least}), scale});
  const Input zero_point = ops.add(op::Clip{0.0, 255.0}, {ops.add(op::Round{}, {shift})});
  const Input rounded = ops.add(op::Round{}, {ops.add(op::Div{}, {x, scale})});
  const Input y = ops.add(op::Clip{0.0, 255.0}, {ops.add(op::Add{}, {rounded, zero_point})});
  ops.outputs = {y, scale, zero_point};
  ops.quantised = {ElementType::u8, std::nullopt, ElementType::u8};
  return ops;
}

constexpr std::array<Rule, 7> rules = {{
    {"QuantizeLinear",
     2,
     3,
     composes(map_quantise, "Div, Round, Add, Clip; 8 and 16 bits, by tensor or along an axis"),
     {"axis", "saturate", "block_size", "output_dtype", "precision"},
     10},
    {"DequantizeLinear",
     2,
     3,
     composes(map_dequantise, "Sub, Mul; by tensor or along an axis"),
     {"axis", "block_size", "output_dtype"},
     10},
    {"ConvInteger",
     2,
     4,
     composes(map_integer_conv, "Sub, Conv"),
     {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
     10},
    {"QLinearConv",
     8,
     9,
     composes(map_quantised_conv, "Sub, Conv, Mul, Div, Round, Add, Clip"),
     {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"},
     10},
    {"MatMulInteger", 2, 4, composes(map_integer_product, "Sub, MatMul"), {}, 10},
    {"QLinearMatMul", 8, 8, composes(map_quantised_product, "Sub, MatMul, Mul, Div, Round, Add, Clip"), {}, 10},
    {"DynamicQuantizeLinear",
     1,
     1,
     composes(map_dynamic_quantise, "ReduceMin, ReduceMax, Div, Round, Add, Clip"),
     {},
     11},
}};

}  // namespace

std::span<const Rule> quantisation_rules() {
  return rules;
}

}  // namespace driftbound::onnx

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "analysis/op_text.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::analysis {
namespace {

using Integers = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

std::string joined(const Strings& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

template <class T>
Strings texts_of(const std::vector<T>& values) {
  Strings texts;
  for (const auto value : values) texts.push_back(std::to_string(static_cast<std::int64_t>(value)));
  return texts;
}

std::string brackets(const Strings& values, const Shape& shape, std::size_t axis, std::size_t& next) {
  if (axis == shape.size()) return values.at(next++);
  Strings parts;
  for (std::int64_t i = 0; i < shape[axis]; ++i) parts.push_back(brackets(values, shape, axis + 1, next));
  return "[" + joined(parts) + "]";
}

std::string list(const Integers& values) {
  return "[" + joined(texts_of(values)) + "]";
}

std::string number(double value) {
  return fmt::format("{:.6g}", value);
}

/// A bound of a slice as Python writes it: nothing where the slice goes to the end.
std::string bound(std::int64_t value) {
  using Limits = std::numeric_limits<std::int64_t>;
  return value == Limits::max() || value == Limits::min() ? "" : std::to_string(value);
}

/// Attributes as they are added, one text each.
class Attributes {
public:
  Attributes& add(std::string text) {
    parts_.push_back(std::move(text));
    return *this;
  }
  Attributes& add(std::string_view name, const Integers& values) {
    return values.empty() ? *this : add(fmt::format("{} {}", name, list(values)));
  }
  Attributes& add_if(bool holds, std::string text) { return holds ? add(std::move(text)) : *this; }

  Attributes& add(const op::WindowGeometry& geometry) {
    using AutoPad = op::WindowGeometry::AutoPad;
    add("kernel", geometry.kernel).add("strides", geometry.strides).add("dilations", geometry.dilations);
    add("pads before", geometry.pads_before).add("after", geometry.pads_after);
    add_if(geometry.auto_pad == AutoPad::same_upper, "same upper")
        .add_if(geometry.auto_pad == AutoPad::same_lower, "same lower");
    return add_if(geometry.ceil_mode, "ceil mode");
  }
  Attributes& add(const op::Slice& slice) {
    for (std::size_t i = 0; i < slice.starts.size(); ++i) {
      const std::int64_t axis = slice.axes.empty() ? static_cast<std::int64_t>(i) : slice.axes[i];
      const std::int64_t step = slice.steps.empty() ? 1 : slice.steps[i];
      add(fmt::format("axis {}: {}:{}{}", axis, bound(slice.starts[i]), bound(slice.ends[i]),
                      step == 1 ? "" : ":" + std::to_string(step)));
    }
    return *this;
  }
  std::string text() const { return joined(parts_); }

private:
  Strings parts_;
};

struct AttributesOf {
  using A = Attributes;

  A operator()(const op::Gemm& op) const {
    return A()
        .add_if(op.alpha != 1.0, "alpha " + number(op.alpha))
        .add_if(op.beta != 1.0, "beta " + number(op.beta))
        .add_if(op.transpose_a, "A transposed")
        .add_if(op.transpose_b, "B transposed");
  }
  A operator()(const OneOf<op::LeakyRelu, op::Elu, op::ThresholdedRelu, op::Celu, op::Swish> auto& op) const {
    return A().add("alpha " + number(op.alpha));
  }
  A operator()(const op::Selu& op) const {
    return A().add("alpha " + number(op.alpha)).add("gamma " + number(op.gamma));
  }
  A operator()(const op::HardSigmoid& op) const {
    return A().add("alpha " + number(op.alpha)).add("beta " + number(op.beta));
  }
  A operator()(const op::Gelu& op) const { return A().add_if(op.tanh_form, "tanh"); }
  A operator()(const op::Pow& op) const { return A().add(number(op.exponent)); }
  A operator()(const op::Clip& op) const { return A().add(number(op.least)).add(number(op.most)); }
  A operator()(const op::Cast& op) const { return A().add(std::string(name_of(op.to))); }

  A operator()(const OneOf<op::Softmax, op::LogSoftmax> auto& op) const {
    return A().add(fmt::format("axis {}{}", op.axis, op.all_trailing_axes ? " and after" : ""));
  }
  A operator()(const op::MaskedSoftmax& op) const {
    return A().add(fmt::format("axis {}", op.axis)).add_if(!op.kept.empty(), "constant mask");
  }
  A operator()(const OneOf<op::Concat, op::Flatten> auto& op) const { return A().add(fmt::format("axis {}", op.axis)); }
  A operator()(const op::Reshape& op) const { return A().add(list(op.target)); }
  A operator()(const OneOf<op::Squeeze, op::Unsqueeze> auto& op) const { return A().add("axes", op.axes); }
  A operator()(const op::Transpose& op) const { return A().add("axes", op.permutation); }
  A operator()(const op::Slice& op) const { return A().add(op); }
  A operator()(const op::Gather& op) const {
    return A().add(fmt::format("axis {}", op.axis)).add(nested_text(texts_of(op.indices), op.indices_shape));
  }
  A operator()(const op::Expand& op) const { return A().add(list(op.target)); }
  A operator()(const op::Tile& op) const { return A().add(list(op.repeats)); }
  A operator()(const op::Pad& op) const {
    using Mode = op::Pad::Mode;
    A result = A().add("before", op.before).add("after", op.after);
    result.add_if(op.mode == Mode::constant, "with " + number(op.value)).add_if(op.mode == Mode::reflect, "reflect");
    return result.add_if(op.mode == Mode::edge, "edge").add_if(op.mode == Mode::wrap, "wrap");
  }
  A operator()(const op::Where& op) const {
    return A().add("condition " + nested_text(texts_of(op.condition), op.condition_shape));
  }
  A operator()(const op::Windows& op) const {
    const bool is_zero = op.outside == op::Windows::Outside::zero;
    return A().add(op.geometry).add(is_zero ? "outside 0" : "outside the nearest");
  }
  A operator()(const Reduction auto& op) const { return A().add("axes", op.axes); }
  A operator()(const CompositeReduction auto& op) const { return A().add("axes", op.axes); }

  A operator()(const OneOf<op::BatchNormalization, op::InstanceNormalization> auto& op) const {
    return A().add("epsilon " + number(op.epsilon));
  }
  A operator()(const op::GroupNormalization& op) const {
    A result = A().add(fmt::format("groups {}", op.groups)).add("epsilon " + number(op.epsilon));
    return result.add_if(op.scales_groups, "a scale per group");
  }
  A operator()(const OneOf<op::LayerNormalization, op::RMSNormalization> auto& op) const {
    return A().add(fmt::format("axis {}", op.axis)).add("epsilon " + number(op.epsilon));
  }
  A operator()(const op::LpNormalization& op) const {
    return A().add(fmt::format("axis {}", op.axis)).add(fmt::format("p {}", op.p));
  }
  A operator()(const op::Conv& op) const { return A().add(op.geometry).add_if(op.groups != 1, groups(op.groups)); }
  A operator()(const op::ConvTranspose& op) const {
    A result = A().add(op.geometry).add_if(op.groups != 1, groups(op.groups));
    return result.add("output padding", op.output_padding).add("output shape", op.output_shape);
  }
  A operator()(const op::MaxPool& op) const { return A().add(op.geometry); }
  A operator()(const op::AveragePool& op) const {
    return A().add(op.geometry).add_if(op.counts_padding, "padding counts");
  }
  A operator()(const op::ArgMax& op) const {
    return A()
        .add(fmt::format("axis {}", op.axis))
        .add_if(op.last, "the last of equal ones")
        .add_if(op.smallest, "the smallest");
  }
  A operator()(const op::TopK& op) const {
    const bool is_index = op.result == op::TopK::Result::indices;
    return A()
        .add(fmt::format("axis {}", op.axis))
        .add(fmt::format("{} {}", op.smallest ? "smallest" : "largest", op.count))
        .add_if(is_index, "indices");
  }
  A operator()(const op::Truncate& op) const { return A().add(std::string(name_of(op.to))); }
  A operator()(const op::GridSample& op) const {
    using Sample = op::GridSample;
    A result = A().add(op.mode == Sample::Mode::linear  ? "linear"
                       : op.mode == Sample::Mode::cubic ? "cubic"
                                                        : "nearest");
    result.add(op.outside == Sample::Outside::zero     ? "0 outside"
               : op.outside == Sample::Outside::border ? "the border outside"
                                                       : "reflected outside");
    return result.add_if(op.align_corners, "corners aligned");
  }
  A operator()(const op::Attention& op) const {
    A result = A().add_if(op.is_causal, "causal").add_if(op.scale != 0.0, "scale " + number(op.scale));
    result.add_if(op.softcap != 0.0, "softcap " + number(op.softcap));
    result.add_if(op.query_heads != 0, fmt::format("heads {} and {}", op.query_heads, op.key_heads));
    result.add_if(op.first_query != 0, fmt::format("first query {}", op.first_query));
    if (!op.visible.empty()) result.add("visible " + nested_text(texts_of(op.visible), op.visible_shape));
    return result.add_if(op.result != op::Attention::Result::attended, std::string(result_of(op)));
  }
  A operator()(const op::RotaryEmbedding& op) const {
    A result = A().add_if(op.interleaved, "interleaved").add_if(op.heads != 0, fmt::format("heads {}", op.heads));
    return result.add_if(op.rotary_size != 0, fmt::format("rotated {}", op.rotary_size));
  }
  A operator()(const op::Einsum& op) const { return A().add(op.equation); }
  A operator()(const op::Segment& op) const {
    A result;
    if (op.graph == nullptr) return result;
    for (const Node& node : op.graph->nodes) result.add(std::string(name_of(node.op)));
    return result;
  }

  template <class T>
  requires std::is_empty_v<T> A operator()(const T&) const { return {}; }

private:
  static std::string_view result_of(const op::Attention& attention) {
    using Result = op::Attention::Result;
    switch (attention.result) {
      case Result::products:
        return "products alone";
      case Result::capped:
        return "up to softcap";
      case Result::masked:
        return "up to the mask";
      case Result::weights:
        return "weights alone";
      case Result::attended:
        break;
    }
    return "";
  }
  static std::string groups(std::int64_t count) { return fmt::format("groups {}", count); }
};

}  // namespace

std::string nested_text(const Strings& values, const Shape& shape) {
  constexpr std::size_t most_shown = 16;
  if (values.size() > most_shown) return "of " + to_string(shape);
  std::size_t next = 0;
  return brackets(values, shape, 0, next);
}

std::string attributes_of(const Op& op) {
  return std::visit(AttributesOf(), op).text();
}

}  // namespace driftbound::analysis

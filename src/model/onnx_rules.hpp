#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/op_kinds.hpp"
#include "model/onnx_ops.hpp"

namespace driftbound::onnx {

/// What a node of some kind becomes.
struct Meaning {
  Mapping (*map)(const NodeView&);
  std::span<const std::size_t> kinds;  ///< alternatives of Op; every mapping to ops has one of them, or the identity
  std::string_view limits = {};        ///< what a node must be to be mapped
  bool is_several = false;             ///< several ops, none of which it is; `kinds` is empty
};
template <class... Ops>
inline constexpr std::array<std::size_t, sizeof...(Ops)> kinds = {kind_of<Ops>...};
/// Nodes that `map` makes one of `Ops` of, or more ops with one of them among these; a constant where there are none.
template <class... Ops>
constexpr Meaning means(Mapping (*map)(const NodeView&), std::string_view limits = {}) {
  return {map, kinds<Ops...>, limits};
}

/// Nodes that `map` makes several ops of, none of which they are; `says` tells what they become, or must be.
constexpr Meaning composes(Mapping (*map)(const NodeView&), std::string_view says) {
  return {map, {}, says, true};
}

/// An opset, to be given: it has no default.
struct Opset {
  constexpr Opset(std::int64_t value) : number(value) {}
  std::int64_t number;
};

/// What has been an input since an opset; before, an attribute of that name or not there.
struct Moved {
  std::string_view name;
  std::size_t slot = 0;
  std::int64_t since = 1;
};

/// An op of ONNX that this version has, since the opset in which ONNX introduced it or gave it a form that is read
/// here. What an attribute that is not listed means is not known, nor what an older opset means by the name: a node of
/// that kind is not mapped.
struct Rule {
  std::string_view name;
  std::size_t least_inputs, most_inputs;
  Meaning meaning;
  std::array<std::string_view, 9> attributes;
  Opset since;
  std::array<std::string_view, 2> attributes_before_7 = {};
  std::array<Moved, 4> moved = {};
};
inline constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

// The rules of one family each; the others are in onnx_ops.cpp.
std::span<const Rule> element_rules();
std::span<const Rule> logic_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> selection_rules();
std::span<const Rule> move_rules();
std::span<const Rule> resize_rules();
std::span<const Rule> cumulation_rules();
std::span<const Rule> window_rules();
std::span<const Rule> recurrent_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> normalisation_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> quantisation_rules();

/// Whether a type is a float of 16 bits.
inline bool is_half(const std::optional<ElementType>& type) {
  return type == ElementType::f16 || type == ElementType::bf16;
}
/// A convolution with the attributes of the node.
op::Conv conv_of(const NodeView& node);
/// A Cast to a boolean: whether the value is not 0.
Mapping map_truth_of(const NodeView& node);

// ---- what the rules ask of a node

[[noreturn]] void fail(const std::string& why);  // ParseError

bool is_given(const NodeView& node, std::size_t slot);
std::vector<std::size_t> given_slots(const NodeView& node);
/// Whether an output after the first is read.
bool uses_more_than_first(const NodeView& node);

/// A list of integers that ONNX passes as an input; empty where it is not a constant.
std::optional<std::vector<std::int64_t>> constant_integers(const NodeView& node, std::size_t slot);
/// A constant input of one element; empty where it is not constant.
std::optional<double> constant_number(const NodeView& node, std::size_t slot);
/// Throws:    ParseError for more than 64
std::vector<std::int64_t> checked_rank(std::vector<std::int64_t> axes);
/// Rank of an input, where it is known.
std::optional<std::size_t> rank_of(const NodeView& node, std::size_t slot);
/// Extent of an axis (below 0: from the end) of the first input, where it is known.
/// Throws:    ShapeMismatch where it is known that there is no such axis
std::optional<std::int64_t> extent_along(const NodeView& node, std::int64_t axis);

/// Throws:    ParseError where it is an attribute or input in an opset that has it in the other form
void require_form(const NodeView& node, const Moved& moved);

/// Axes are an attribute, and an input from an opset on.
struct Axes {
  bool are_given = false;
  bool are_known = true;
  std::vector<std::int64_t> values;
};
Axes axes_of(const NodeView& node, std::int64_t input_since);
inline const NotMapped computed_axes{"its axes are computed, not a constant"};

/// The second operand of a node that broadcasts. Before opset 7 it was placed on the axes from `axis` on, for which a
/// step is added; without `axis` on the last ones, as now.
/// Throws:    Unsupported where that takes shapes that are not known
MappedOps::Input place_second(const NodeView& node, MappedOps& ops);

template <class T>
Mapping map_plain(const NodeView& node) {
  return MappedOp{T{}, given_slots(node)};
}
/// An op without attributes.
template <class T>
inline constexpr Meaning plain = means<T>(map_plain<T>);

}  // namespace driftbound::onnx

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"
#include "model/fold.hpp"
#include "model/onnx_extents.hpp"
#include "model/onnx_external.hpp"
#include "model/onnx_proto.hpp"

namespace driftbound::onnx {

/// Integers that follow from shapes and constants, as far as they are known.
struct IntegerTensor {
  ElementType type = ElementType::i64;
  Shape shape;
  std::vector<Extent> elements;
};

/// What is known of one input of a node.
struct Operand {
  bool is_given = false;                    ///< false: an optional input left out
  const StoredTensor* constant = nullptr;   ///< its value where it does not depend on a graph input
  const IntegerTensor* integers = nullptr;  ///< integers that are only partly known; then `constant` is null
  std::optional<ElementType> type;          ///< empty: not an array of numbers, or computed by something unsupported
  const OpenShape* shape = nullptr;         ///< null: not even the rank is known
};

struct NodeView {
  const NodeProto& proto;  ///< with a function's attributes in place of references to them
  std::int64_t opset;      ///< of the default domain, where the node stands
  std::span<const Operand> operands;
  std::vector<bool> is_used;                 ///< for every output of the node, whether anything reads it
  const std::shared_ptr<const void>& owner;  ///< keeps the file alive
  DataFiles& data_files;
  Allowance& allowance;  ///< for constants that the file describes but does not hold
  /// For every symbol of an open extent, the type of a graph input whose axis 0 has this extent.
  std::span<const std::optional<ElementType>> open_inputs;
};

/// The node is one of our ops, which computes its first output …
struct MappedOp {
  Op op;
  std::vector<std::size_t> slots;  ///< inputs of the node that are inputs of the op
};
/// … several of our ops …
struct MappedOps {
  enum class Source { slot, step, constant, open_input };
  struct Input {
    Source source = Source::slot;
    std::size_t index = 0;  ///< of the node's input, of an earlier step, of `constants`, of NodeView::open_inputs
  };
  struct Step {
    Op op;
    std::vector<Input> inputs;
  };
  std::vector<Step> steps;
  std::vector<StoredTensor> constants;
  std::vector<Input> outputs;  ///< what the node's outputs are; as many as it has, or fewer where the others are unused
  std::vector<std::optional<ElementType>> quantised = {};  ///< by output: the integers that its floats stand for

  static Input slot(std::size_t index) { return {Source::slot, index}; }
  /// Appends a step and gives its result.
  Input add(Op op, std::vector<Input> inputs) {
    steps.push_back({std::move(op), std::move(inputs)});
    return {Source::step, steps.size() - 1};
  }
};
/// … a constant …
struct MappedConstant {
  StoredTensor value;
};
/// … or nothing this version has.
struct NotMapped {
  std::string reason;
};
using Mapping = std::variant<MappedOp, MappedOps, MappedConstant, NotMapped>;

/// Throws:    ParseError where an attribute or input of the node has the form that it has in another opset
void require_form(const NodeView& node);

/// The meaning of a node of the default domain.
/// Throws:    ParseError, ShapeMismatch (a node that breaks the rules of its op)
Mapping map_node(const NodeView& node);

}  // namespace driftbound::onnx

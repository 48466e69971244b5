#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

// Ops as programs call them (PyTorch's aten::addmm, ONNX's Gemm …), and the graphs of this library's ops that they are.

/// An argument of a call that is no tensor: nothing, a truth value, a number, a text, or a list of these.
struct Attribute {
  using List = std::vector<Attribute>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List> value;

  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  /// A real or whole number; infinite ones are the texts "inf" and "-inf". Empty: it is something else.
  std::optional<double> number() const;
};

/// A tensor argument of a call.
struct CallOperand {
  ElementType type = ElementType::f32;
  Shape shape;
  /// Reads the numbers; asked for where an op needs them to say what it computes: indices, masks, truth values.
  /// Throws:    Unsupported where they are not recorded
  std::function<StoredTensor()> numbers;
};

/// What is known of a result of a call beside its numbers.
struct CallResult {
  ElementType type = ElementType::f32;
  Shape shape;
};

/// One call of an op.
struct RecordedCall {
  std::string op;           ///< "aten::addmm", "Gemm" …
  std::int64_t opset = 21;  ///< of ops of ONNX
  std::map<std::string, Attribute> attributes;
  std::vector<std::optional<CallOperand>> operands;     ///< in the order of the op's schema; empty: left out
  std::vector<std::optional<CallResult>> results = {};  ///< empty: not recorded
};

/// What a call computes: a graph over the reals with fixed shapes.
struct CallMeaning {
  Graph graph;
  /// Whether a Cast stands for a number among the arguments that programs may round as they read it, or may not.
  bool may_round_numbers = false;
  std::vector<std::size_t> slots;  ///< input i of the graph is operand slots[i] of the call
  /// By result of the call: the value of the graph, which may be one of its inputs; empty: the result is not judged.
  std::vector<std::optional<ValueId>> results;
};

/// The graph of a call. In-place forms (`aten::relu_`) are the plain op.
/// Throws:    Unsupported (says why) for an op or an argument that is not known, and for calls that compute with integers;
///            ShapeMismatch, ParseError for arguments that do not fit the op
CallMeaning meaning_of(const RecordedCall& call);

/// One op of the table of recorded ops that are none of ONNX.
struct CallableOp {
  std::string_view name;     ///< "aten::addmm"
  std::string_view meaning;  ///< in a few words
};
/// In alphabetical order.
std::vector<CallableOp> callable_ops();

}  // namespace driftbound

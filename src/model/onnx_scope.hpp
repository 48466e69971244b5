#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "driftbound/model/graph.hpp"
#include "model/onnx_given.hpp"
#include "model/onnx_ops.hpp"

namespace driftbound::onnx {

/// What a name of the file stands for.
struct Known {
  std::string_view name;                  ///< the first that the file gives it
  std::optional<StoredTensor> constant;   ///< next to `given`: that of every sample
  std::optional<IntegerTensor> integers;  ///< integers that are only partly known; never in the graph
  std::optional<GivenValue> given;        ///< differs by sample; an input of the graph once a node computes with it
  std::optional<ValueId> id;              ///< in the graph; constants get there when a node uses them
  /// Scores of which some are minus infinity: `scores` where `kept` is 1. Only Softmax may read them.
  struct Masked {
    Known* scores = nullptr;
    Known* kept = nullptr;
  };
  std::optional<Masked> masked;
  ElementType type = ElementType::f32;
  std::optional<ElementType> quantised;  ///< type of the integers that these floats stand for
  std::optional<OpenShape> shape;        ///< empty: not even the rank is known
  bool is_available = true;              ///< false: not an array of numbers, or computed by something unsupported
  std::string why_unavailable;           ///< empty: an unsupported node computes it

  static Known of(StoredTensor value) {
    Known known;
    known.type = value.type();
    known.shape = to_open(value.shape());
    known.constant = std::move(value);
    return known;
  }
  static Known of(IntegerTensor integers) {
    Known known;
    known.type = integers.type;
    known.shape = to_open(integers.shape);
    known.integers = std::move(integers);
    return known;
  }
  static Known of(JoinedValue joined) {
    if (joined.is_same) {
      Known known = of(joined.value.each.front());
      // That samples happen to be equal does not make the value one of no sample.
      if (joined.value.each.size() > 1 && !joined.value.all) known.given = std::move(joined.value);
      return known;
    }
    Known known;
    known.type = joined.value.each.front().type();
    known.shape = std::move(joined.shape);
    known.given = std::move(joined.value);
    return known;
  }
  static Known unavailable(std::string why = "") {
    Known known;
    known.is_available = false;
    known.why_unavailable = std::move(why);
    return known;
  }
};

/// The names of one graph, subgraph or body of a function.
struct Scope {
  const Scope* outer = nullptr;                         ///< a subgraph reads the values around it, a function does not
  std::unordered_map<std::string_view, Known*> values;  ///< null: an input of a function that a call leaves out
  std::unordered_set<std::string_view> used;
  std::optional<std::int64_t> opset;      ///< of the default domain
  const Attributes* arguments = nullptr;  ///< attributes of the function around
  std::string prefix;                     ///< of layers' names
  std::size_t depth = 0;
  bool shadows = false;  ///< the body of a loop, whose names hide those around it

  /// Whether a value may not have the name, as another one has it.
  bool has(std::string_view name) const { return shadows ? values.count(name) != 0 : find(name).has_value(); }
  /// Empty where the name is not defined.
  std::optional<Known*> find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      const auto found = scope->values.find(name);
      if (found != scope->values.end()) return found->second;
    }
    return std::nullopt;
  }
};

}  // namespace driftbound::onnx

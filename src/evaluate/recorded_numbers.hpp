#pragma once

#include <cstring>
#include <optional>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// The numbers of a stored tensor; those of float32 are read where they lie.
class Numbers {
public:
  explicit Numbers(const StoredTensor& stored) : stored_(&stored) {
    if (stored.type() != ElementType::f32) converted_ = stored.to_double();
  }
  const Shape& shape() const { return stored_->shape(); }
  /// Empty: integers.
  std::optional<FormatId> format() const { return float_format(stored_->type()); }
  double operator[](std::size_t i) const {
    if (converted_) return converted_->values[i];
    float x = 0.0f;
    std::memcpy(&x, stored_->bytes().data() + i * sizeof x, sizeof x);
    return static_cast<double>(x);
  }

private:
  const StoredTensor* stored_;
  std::optional<Tensor<double>> converted_;
};

/// A value of a run: a constant, a recorded result or an input.
inline const StoredTensor& value_of(const Graph& graph, ValueId id, const Trace& trace) {
  if (graph.is_constant(id)) return graph.value(id).constant;
  if (const std::optional<std::size_t> node = graph.producer(id)) return trace.layers[*node].output;
  return trace.inputs.at(graph.value(id).name);
}

}  // namespace driftbound

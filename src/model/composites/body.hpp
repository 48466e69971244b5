#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::composites {

/// Writes the body of a composite, node after node; shapes are known at every step.
class Body {
public:
  explicit Body(std::span<const Shape> inputs);

  std::size_t input_count() const { return graph_.inputs.size(); }
  ValueId input(std::size_t slot) const { return graph_.inputs.at(slot); }
  const Shape& shape(ValueId id) const { return shapes_.at(id); }
  /// Extent of an axis of a value.
  std::int64_t extent(ValueId id, std::size_t axis) const { return shape(id).at(axis); }

  ValueId number(double value);
  ValueId constant(Tensor<double> values);
  /// A node; a composite is written out in full, by its body `choice` (composite_bodies()), or by its last one where it
  /// has fewer.
  ValueId apply(Op op, std::vector<ValueId> inputs, std::size_t choice = 0);

  ValueId add(ValueId a, ValueId b) { return apply(op::Add{}, {a, b}); }
  ValueId subtract(ValueId a, ValueId b) { return apply(op::Sub{}, {a, b}); }
  ValueId multiply(ValueId a, ValueId b) { return apply(op::Mul{}, {a, b}); }
  ValueId divide(ValueId a, ValueId b) { return apply(op::Div{}, {a, b}); }
  ValueId reshape(ValueId x, Shape target) { return apply(op::Reshape{std::move(target), true}, {x}); }
  /// Sum over the axes (kept) divided by their number of elements. `is_moment`: op::ReduceSum::is_of_moment
  ValueId mean(ValueId x, const std::vector<std::int64_t>& axes, bool is_moment = false);

  /// The nodes of a graph with one output, its inputs these values.
  ValueId apply(const Graph& steps, const std::vector<ValueId>& inputs, std::size_t choice = 0);

  /// The output becomes the last node's.
  Graph finish(ValueId output);

private:
  Graph graph_;
  std::vector<Shape> shapes_;
};

/// first, first + 1 ... rank - 1
std::vector<std::int64_t> axes_from(std::size_t first, std::size_t rank);

// write() of functions of one element: activations.hpp

ValueId write(Body& body, const op::SumOf&);
ValueId write(Body& body, const op::MeanOf&);
ValueId write(Body& body, const op::MinOf&);
ValueId write(Body& body, const op::MaxOf&);
ValueId write(Body& body, const op::LogSoftmax& softmax);
ValueId write(Body& body, const op::MaskedSoftmax& softmax);
ValueId write(Body& body, const op::ReduceMean& reduction);
ValueId write(Body& body, const op::ReduceL1& reduction);
ValueId write(Body& body, const op::ReduceL2& reduction);
ValueId write(Body& body, const op::ReduceSumSquare& reduction);
ValueId write(Body& body, const op::ReduceLogSum& reduction);
ValueId write(Body& body, const op::ReduceLogSumExp& reduction);

ValueId write(Body& body, const op::BatchNormalization& norm);
ValueId write(Body& body, const op::InstanceNormalization& norm);
ValueId write(Body& body, const op::GroupNormalization& norm);
ValueId write(Body& body, const op::LayerNormalization& norm);
ValueId write(Body& body, const op::RMSNormalization& norm);
ValueId write(Body& body, const op::LpNormalization& norm);

ValueId write(Body& body, const op::Conv& conv);
ValueId write(Body& body, const op::ConvTranspose& conv);
ValueId write(Body& body, const op::MaxPool& pool);
ValueId write(Body& body, const op::AveragePool& pool);
ValueId write(Body& body, const op::GlobalAveragePool&);
ValueId write(Body& body, const op::GlobalMaxPool&);

ValueId write(Body& body, const op::ArgMax& largest);
ValueId write(Body& body, const op::TopK& largest);
ValueId write(Body& body, const op::GridSample& sample);

ValueId write(Body& body, const op::Attention& attention);
ValueId write(Body& body, const op::RotaryEmbedding& rotary);
ValueId write(Body& body, const op::Einsum& einsum);
ValueId write(Body& body, const op::Segment& segment);

/// Other steps by which programs compute a composite: over the reals the same function as write().
template <class T>
using Steps = ValueId (*)(Body&, const T&);

std::vector<Steps<op::BatchNormalization>> other_steps(const op::BatchNormalization&);
std::vector<Steps<op::LayerNormalization>> other_steps(const op::LayerNormalization&);
std::vector<Steps<op::GroupNormalization>> other_steps(const op::GroupNormalization&);
std::vector<Steps<op::RMSNormalization>> other_steps(const op::RMSNormalization&);
/// Those in which every composite among the steps takes its second body, its third ...
/// Throws:    InvalidArgument where these are more than there are functions here
std::vector<Steps<op::Segment>> other_steps(const op::Segment& segment);
template <class T>
std::vector<Steps<T>> other_steps(const T&) {
  return {};
}

}  // namespace driftbound::composites

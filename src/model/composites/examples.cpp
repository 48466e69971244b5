#include <memory>

#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/graph.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

using Examples = std::vector<CompositeExample>;
using Operands = std::vector<std::pair<std::string, Shape>>;

constexpr double epsilon = 0.001;
const Operands vector_x = {{"x", {6}}};
const Operands matrix_x = {{"x", {2, 3}}};
const Operands images_x = {{"x", {1, 2, 4, 4}}};
const Operands three = {{"a", {3}}, {"b", {3}}, {"c", {3}}};

Operands with(Operands first, const Operands& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

op::WindowGeometry windows_of_two() {
  op::WindowGeometry geometry;
  geometry.kernel = {2, 2};
  geometry.pads_before = geometry.pads_after = {1, 1};
  return geometry;
}

/// One function per composite: an op without one does not compile.
struct ExamplesOf {
  Examples operator()(const CompositeFunction auto& op) const { return {{op, vector_x}}; }
  Examples operator()(const op::Celu&) const { return {{op::Celu{0.5}, vector_x}}; }
  Examples operator()(const op::Swish&) const { return {{op::Swish{0.5}, vector_x}}; }
  Examples operator()(const op::Gelu&) const { return {{op::Gelu{false}, vector_x}, {op::Gelu{true}, vector_x}}; }
  Examples operator()(const op::LogSoftmax& op) const { return {{op, matrix_x}}; }
  Examples operator()(const op::MaskedSoftmax&) const {
    return {{op::MaskedSoftmax{-1, {3}, {true, true, false}}, matrix_x},
            {op::MaskedSoftmax{}, with(matrix_x, {{"kept", {2, 3}}})}};
  }
  Examples operator()(const OneOf<op::SumOf, op::MeanOf, op::MinOf, op::MaxOf> auto& op) const { return {{op, three}}; }
  Examples operator()(CompositeReduction auto op) const {
    op.axes = {1};
    return {{op, matrix_x}};
  }

  Examples operator()(const op::BatchNormalization&) const {
    const Operands statistics = {{"scale", {3}}, {"bias", {3}}, {"mean", {3}}, {"variance", {3}}};
    return {{op::BatchNormalization{epsilon}, with(matrix_x, statistics)}};
  }
  Examples operator()(const op::InstanceNormalization&) const {
    return {{op::InstanceNormalization{epsilon}, with(images_x, {{"scale", {2}}, {"bias", {2}}})}};
  }
  Examples operator()(const op::GroupNormalization&) const {
    return {{op::GroupNormalization{1, epsilon, false}, with(images_x, {{"scale", {2}}, {"bias", {2}}})}};
  }
  Examples operator()(const op::LayerNormalization&) const {
    return {{op::LayerNormalization{-1, epsilon}, with(matrix_x, {{"scale", {3}}, {"bias", {3}}})}};
  }
  Examples operator()(const op::RMSNormalization&) const {
    return {{op::RMSNormalization{-1, epsilon}, with(matrix_x, {{"scale", {3}}})}};
  }
  Examples operator()(const op::LpNormalization&) const {
    return {{op::LpNormalization{-1, 1}, matrix_x}, {op::LpNormalization{-1, 2}, matrix_x}};
  }

  Examples operator()(const op::Conv& op) const { return {{op, with(images_x, {{"w", {3, 2, 2, 2}}, {"bias", {3}}})}}; }
  Examples operator()(const op::ConvTranspose&) const {
    op::ConvTranspose conv;
    conv.geometry.strides = {2};
    return {{conv, {{"x", {1, 2, 4}}, {"w", {2, 3, 2}}, {"bias", {3}}}}};
  }
  Examples operator()(const op::MaxPool&) const { return {{op::MaxPool{windows_of_two()}, images_x}}; }
  Examples operator()(const op::AveragePool&) const {
    return {{op::AveragePool{windows_of_two(), false}, images_x}, {op::AveragePool{windows_of_two(), true}, images_x}};
  }
  Examples operator()(const OneOf<op::GlobalAveragePool, op::GlobalMaxPool> auto& op) const { return {{op, images_x}}; }

  Examples operator()(const op::ArgMax&) const { return {{op::ArgMax{-1, false, false}, matrix_x}}; }
  Examples operator()(const op::TopK&) const {
    return {{op::TopK{-1, 2, op::TopK::Result::values}, matrix_x},
            {op::TopK{-1, 2, op::TopK::Result::indices}, matrix_x}};
  }
  Examples operator()(const op::GridSample&) const {
    return {{op::GridSample{}, {{"x", {1, 2, 3, 4}}, {"places", {1, 2, 2, 2}}}}};
  }

  Examples operator()(const op::Attention&) const {
    const Operands operands = {{"Q", {1, 2, 3, 4}}, {"K", {1, 2, 5, 4}}, {"V", {1, 2, 5, 4}}};
    op::Attention causal;
    causal.is_causal = true;
    causal.scale = 0.5;
    causal.softcap = 20.0;
    return {{op::Attention{}, with(operands, {{"mask", {3, 5}}})}, {causal, operands}};
  }
  Examples operator()(const op::RotaryEmbedding&) const {
    const Operands operands = {{"x", {1, 2, 3, 4}}, {"cos", {1, 3, 2}}, {"sin", {1, 3, 2}}};
    return {{op::RotaryEmbedding{}, operands}, {op::RotaryEmbedding{true, 0, 0}, operands}};
  }
  Examples operator()(const op::Einsum&) const {
    return {{op::Einsum{"ij,kj,k->i"}, {{"a", {2, 3}}, {"b", {4, 3}}, {"c", {4}}}}};
  }

  Examples operator()(const op::Segment&) const {
    Graph steps;
    const ValueId x = steps.add_input("x", ElementType::f32, {{2, ""}, {3, ""}});
    const ValueId w = steps.add_input("w", ElementType::f32, {{3, ""}, {4, ""}});
    const ValueId product = steps.add_node("product", op::MatMul{}, {x, w});
    steps.outputs = {steps.add_node("activated", op::Gelu{}, {product})};
    return {{op::Segment{std::make_shared<const Graph>(std::move(steps))}, {{"x", {2, 3}}, {"w", {3, 4}}}}};
  }

  template <class T>
  requires(!Composite<T>) Examples operator()(const T&) const { return {}; }
};

}  // namespace

std::vector<CompositeExample> composite_examples(const Op& op) {
  return std::visit(ExamplesOf(), op);
}

}  // namespace driftbound

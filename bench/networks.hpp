#pragma once

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "bench/forward.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/load.hpp"

/// Networks that are timed.
namespace driftbound::bench {

/// x + W relu(V x + b) + c, `blocks` times, weights as they are after training: entries of 1 / root of the width, W's
/// smaller.
inline Graph residual_network(std::int64_t blocks, std::int64_t width) {
  std::mt19937_64 generator(8);
  const auto weights = [&](std::int64_t k, std::int64_t n, double scale) {
    std::normal_distribution<double> normal(0.0, scale / std::sqrt(static_cast<double>(k)));
    Tensor<float> w({n, k});
    for (float& x : w.values) x = static_cast<float>(normal(generator));
    return w;
  };
  Graph graph;
  const op::Gemm gemm{1.0, 1.0, false, true};
  int next = 0;
  const auto layer = [&](ValueId x, std::int64_t k, std::int64_t n, double scale) {
    const std::string name = std::to_string(next++);
    const ValueId w = graph.add_constant("w" + name, StoredTensor::from(weights(k, n, scale)));
    Tensor<float> bias = weights(n, 1, 0.1);
    bias.shape = {n};
    const ValueId b = graph.add_constant("b" + name, StoredTensor::from(bias));
    return graph.add_node("gemm" + name, gemm, {x, w, b});
  };
  ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {8, ""}});
  x = layer(x, 8, width, 1.0);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::string name = std::to_string(block);
    const ValueId hidden = graph.add_node("relu" + name, op::Relu{}, {layer(x, width, width, 0.8)});
    x = graph.add_node("add" + name, op::Add{}, {x, layer(hidden, width, width, 0.2)});
  }
  graph.outputs = {layer(x, width, 2, 1.0)};
  return graph;
}

/// Graphs whose weights are normal with the inverse of the fan-in as variance.
class RandomGraph {
public:
  explicit RandomGraph(std::uint64_t seed) : generator_(seed) {}

  ValueId input(const Shape& sample) {
    std::vector<DeclaredDimension> declared = {{-1, "batch"}};
    for (const std::int64_t extent : sample) declared.push_back({extent, ""});
    return graph_.add_input("x", ElementType::f32, declared);
  }
  ValueId constant(const Shape& shape, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    Tensor<float> values(shape);
    for (float& value : values.values) value = static_cast<float>(normal(generator_));
    return graph_.add_constant("c" + std::to_string(graph_.values.size()), StoredTensor::from(values));
  }
  ValueId node(const Op& op, const std::vector<ValueId>& inputs) {
    return graph_.add_node(std::string(name_of(op)) + std::to_string(graph_.nodes.size()), op, inputs);
  }
  ValueId linear(ValueId x, std::int64_t from, std::int64_t to) {
    const ValueId w = constant({from, to}, 0.0, 1.0 / std::sqrt(static_cast<double>(from)));
    return node(op::Add{}, {node(op::MatMul{}, {x, w}), constant({to}, 0.0, 0.1)});
  }
  ValueId convolution(ValueId x, std::int64_t from, std::int64_t to, std::int64_t stride) {
    op::Conv conv;
    conv.geometry.strides = {stride, stride};
    conv.geometry.pads_before = conv.geometry.pads_after = {1, 1};
    const ValueId w = constant({to, from, 3, 3}, 0.0, std::sqrt(2.0 / (9.0 * static_cast<double>(from))));
    return node(op::Relu{}, {node(conv, {x, w, constant({to}, 0.0, 0.1)})});
  }
  Graph with_output(ValueId output) {
    graph_.outputs = {output};
    return std::move(graph_);
  }

private:
  std::mt19937_64 generator_;
  Graph graph_;
};

struct TransformerSize {
  int blocks;
  std::int64_t tokens, width, heads;
};

/// Blocks x + attention(norm(x)), x + MLP(norm(x)) with causal attention and Gelu, and a norm behind them.
inline Graph transformer(const TransformerSize& size) {
  RandomGraph make(9);
  ValueId x = make.input({size.tokens, size.width});
  const auto norm = [&](ValueId value) {
    return make.node(op::LayerNormalization{},
                     {value, make.constant({size.width}, 1.0, 0.1), make.constant({size.width}, 0.0, 0.1)});
  };
  const auto linear = [&](ValueId value, std::int64_t from, std::int64_t to) { return make.linear(value, from, to); };
  op::Attention attention;
  attention.query_heads = attention.key_heads = size.heads;
  attention.is_causal = true;
  for (int block = 0; block < size.blocks; ++block) {
    const ValueId before = norm(x);
    std::vector<ValueId> operands;
    for (int i = 0; i < 3; ++i) operands.push_back(linear(before, size.width, size.width));
    x = make.node(op::Add{}, {x, linear(make.node(attention, operands), size.width, size.width)});
    const ValueId hidden = make.node(op::Gelu{}, {linear(norm(x), size.width, 4 * size.width)});
    x = make.node(op::Add{}, {x, linear(hidden, 4 * size.width, size.width)});
  }
  return make.with_output(norm(x));
}

/// Convolutions of 3 x 3 with Relu, some of stride 2 so that there are `size` / 4 places a side at last, means of all places
/// and a linear layer.
inline Graph convolution_network(std::int64_t size, std::int64_t channels) {
  RandomGraph make(10);
  ValueId x = make.convolution(make.input({3, size, size}), 3, channels, 1);
  x = make.convolution(x, channels, 2 * channels, 2);
  x = make.convolution(x, 2 * channels, 2 * channels, 1);
  x = make.convolution(x, 2 * channels, 4 * channels, 2);
  x = make.node(op::Flatten{}, {make.node(op::GlobalAveragePool{}, {x})});
  return make.with_output(make.linear(x, 4 * channels, 10));
}

inline Graph bundled(const std::string& name) {
  return load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx"));
}

}  // namespace driftbound::bench

#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/small_networks.hpp"

/// Transformers with random weights.
namespace checks {

struct TransformerSize {
  int blocks = 1;
  std::int64_t tokens = 4, width = 8, heads = 2;
  bool is_causal = false;
};

/// Blocks x + attention(norm(x)), x + MLP(norm(x)), and a norm behind them. Weights are normal with the inverse of the
/// fan-in as variance, biases and the norms' scales lie around 0 and 1.
class TransformerBuilder {
public:
  TransformerBuilder(const TransformerSize& size, Generator& generator) : size_(size), generator_(generator) {}

  Graph build() {
    ValueId x = graph_.add_input("x", ElementType::f64, {{1, ""}, {size_.tokens, ""}, {size_.width, ""}});
    for (int block = 0; block < size_.blocks; ++block) {
      x = node(op::Add{}, {x, attention(norm(x))});
      x = node(op::Add{}, {x, perceptron(norm(x))});
    }
    graph_.outputs = {norm(x)};
    return graph_;
  }

  Tensor<double> inputs() {
    Tensor<double> x({1, size_.tokens, size_.width});
    for (double& value : x.values) value = normal();
    return x;
  }

private:
  double normal() {
    const double angle = uniform(generator_, 0.0, 2.0 * 3.141592653589793);
    return std::sqrt(-2.0 * std::log(uniform(generator_, 0x1p-40, 1.0))) * std::cos(angle);
  }
  ValueId constant(const Shape& shape, double mean, double deviation) {
    Tensor<double> values(shape);
    for (double& value : values.values) value = static_cast<double>(static_cast<float>(mean + deviation * normal()));
    return graph_.add_constant("c" + std::to_string(graph_.values.size()), StoredTensor::from(values));
  }
  ValueId node(const Op& op, const std::vector<ValueId>& inputs) {
    return graph_.add_node("n" + std::to_string(graph_.nodes.size()), op, inputs);
  }
  ValueId norm(ValueId x) {
    return node(op::LayerNormalization{}, {x, constant({size_.width}, 1.0, 0.1), constant({size_.width}, 0.0, 0.1)});
  }
  ValueId linear(ValueId x, std::int64_t from, std::int64_t to) {
    const double deviation = 1.0 / std::sqrt(static_cast<double>(from));
    return node(op::Add{}, {node(op::MatMul{}, {x, constant({from, to}, 0.0, deviation)}), constant({to}, 0.0, 0.1)});
  }
  ValueId attention(ValueId x) {
    op::Attention attention;
    attention.query_heads = attention.key_heads = size_.heads;
    attention.is_causal = size_.is_causal;
    std::vector<ValueId> operands;
    for (int i = 0; i < 3; ++i) operands.push_back(linear(x, size_.width, size_.width));
    return linear(node(attention, operands), size_.width, size_.width);
  }
  ValueId perceptron(ValueId x) {
    return linear(node(op::Gelu{}, {linear(x, size_.width, 4 * size_.width)}), 4 * size_.width, size_.width);
  }

  TransformerSize size_;
  Generator& generator_;
  Graph graph_;
};

}  // namespace checks

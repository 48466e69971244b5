#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"

/// Networks that are timed, and their forward pass by Eigen.
namespace driftbound::bench {

/// The whole forward pass of a graph of Gemm, Relu and the like, by Eigen: products, biases and functions. `order`: how
/// samples x features lie in memory.
template <class Real, int order = Eigen::RowMajor>
class Forward {
public:
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, order>;
  using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Forward(const Graph& graph, const Inputs& inputs) : graph_(graph), values_(graph.values.size()) {
    values_[graph.inputs[0]] = matrix(inputs.tensors.front().second.to_double());
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      if (graph.is_constant(id)) values_[id] = matrix(graph.value(id).constant.to_double());
    }
    for (const Node& node : graph.nodes) {
      const auto* gemm = std::get_if<op::Gemm>(&node.op);
      if (gemm != nullptr && gemm->transpose_b) weights_[node.inputs[1]] = values_[node.inputs[1]].transpose();
      if (gemm != nullptr && !gemm->transpose_b) weights_[node.inputs[1]] = values_[node.inputs[1]];
    }
  }

  /// Other samples, row by row.
  void set_input(const double* points, Eigen::Index rows, Eigen::Index columns) {
    values_[graph_.inputs[0]] = Eigen::Map<const Doubles>(points, rows, columns).template cast<Real>();
  }

  void operator()() {
    for (const Node& node : graph_.nodes) evaluate(node, values_[node.output]);
    sum_ += values_[graph_.outputs[0]](0, 0);
  }

private:
  static Matrix matrix(const Tensor<double>& tensor) {
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    const auto rows = static_cast<std::int64_t>(tensor.size()) / columns;
    return Eigen::Map<const Doubles>(tensor.values.data(), rows, columns).template cast<Real>();
  }

  void evaluate(const Node& node, Matrix& y) {
    const Matrix& x = values_[node.inputs[0]];
    if (std::holds_alternative<op::Gemm>(node.op)) {
      y.noalias() = x * weights_.at(node.inputs[1]);
      if (node.inputs.size() > 2) y.rowwise() += values_[node.inputs[2]].row(0);
    } else if (std::holds_alternative<op::Relu>(node.op)) {
      y = x.cwiseMax(Real(0));
    } else if (std::holds_alternative<op::Softplus>(node.op)) {
      y = x.array().max(Real(0)) + (-x.array().abs()).exp().log1p();
    } else if (std::holds_alternative<op::Tanh>(node.op)) {
      y = x.array().tanh();
    } else if (std::holds_alternative<op::Sin>(node.op)) {
      y = x.array().sin();
    } else if (std::holds_alternative<op::Softmax>(node.op)) {
      y = (x.colwise() - x.rowwise().maxCoeff()).array().exp();
      y.array().colwise() /= y.array().rowwise().sum().eval();
    } else if (std::holds_alternative<op::Add>(node.op)) {
      y = x + values_[node.inputs[1]];
    } else if (std::holds_alternative<op::Mul>(node.op)) {
      const Matrix& b = values_[node.inputs[1]];
      if (b.size() == 1)
        y = x * b(0, 0);
      else
        y = b * x(0, 0);
    } else if (const auto* elu = std::get_if<op::Elu>(&node.op)) {
      const Real alpha = static_cast<Real>(elu->alpha);
      y = (x.array() >= Real(0)).select(x.array(), alpha * (x.array().exp() - Real(1)));
    } else if (std::holds_alternative<op::Squeeze>(node.op)) {
      y = x;
    } else {
      throw std::invalid_argument("bench: no Eigen for " + std::string(name_of(node.op)));
    }
  }

  const Graph& graph_;
  std::vector<Matrix> values_;
  std::map<ValueId, Matrix> weights_;
  Real sum_ = 0;
};

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

inline Graph bundled(const std::string& name) {
  return load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx"));
}

}  // namespace driftbound::bench

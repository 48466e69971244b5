#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <unsupported/Eigen/SpecialFunctions>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"

/// Forward passes by Eigen.
namespace driftbound::bench {

/// The whole forward pass of a graph of Gemm, Relu and the like, of transformers and of convolutions in two dimensions,
/// by Eigen: products, biases and functions. `order`: how samples x features lie in memory.
template <class Real, int order = Eigen::RowMajor>
class Forward {
public:
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, order>;
  using Doubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  Forward(const Graph& graph, const Inputs& inputs) : graph_(graph), values_(graph.values.size()) {
    const Tensor<double> given = inputs.tensors.front().second.to_double();
    shapes_ = infer_shapes(graph, {given.shape});
    values_[graph.inputs[0]] = matrix(given);
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

  /// Of the last pass.
  const Matrix& output() const { return values_[graph_.outputs[0]]; }

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
    } else if (std::holds_alternative<op::MatMul>(node.op)) {
      y.noalias() = x * values_[node.inputs[1]];
    } else if (std::holds_alternative<op::Add>(node.op)) {
      const Matrix& b = values_[node.inputs[1]];
      if (b.rows() == x.rows())
        y = x + b;
      else
        y = x.rowwise() + b.row(0);
    } else if (std::holds_alternative<op::Gelu>(node.op)) {
      y = Real(0.5) * x.array() * (Real(1) + (x.array() * Real(0.7071067811865476)).erf());
    } else if (const auto* norm = std::get_if<op::LayerNormalization>(&node.op)) {
      y = x.colwise() - x.rowwise().mean();
      const auto variance = (y.array().square().rowwise().mean() + static_cast<Real>(norm->epsilon)).eval();
      y.array().colwise() *= variance.rsqrt();
      y.array().rowwise() *= values_[node.inputs[1]].row(0).array();
      y.rowwise() += values_[node.inputs[2]].row(0);
    } else if (const auto* attention = std::get_if<op::Attention>(&node.op)) {
      attend(node, *attention, y);
    } else if (const auto* conv = std::get_if<op::Conv>(&node.op)) {
      convolve(node, conv->geometry, y);
    } else if (std::holds_alternative<op::GlobalAveragePool>(node.op)) {
      const Shape& shape = shapes_[node.inputs[0]];
      y = Rows(x.data(), x.size() / (shape[2] * shape[3]), shape[2] * shape[3]).rowwise().mean();
    } else if (std::holds_alternative<op::Flatten>(node.op)) {
      const std::int64_t columns = shapes_[node.output][1];
      y = Rows(x.data(), x.size() / columns, columns);
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

  using Rows = Eigen::Map<const Matrix>;

  /// Causal softmax(Q K^T / root) V, sample by sample and head by head.
  void attend(const Node& node, const op::Attention& attention, Matrix& y) const {
    const Matrix &q = values_[node.inputs[0]], &k = values_[node.inputs[1]], &v = values_[node.inputs[2]];
    const std::int64_t tokens = shapes_[node.inputs[0]][1], size = q.cols() / attention.query_heads;
    const Real scale = Real(1) / std::sqrt(static_cast<Real>(size));
    y.resize(q.rows(), q.cols());
    for (std::int64_t first = 0; first < q.rows(); first += tokens) {
      for (std::int64_t head = 0; head < q.cols(); head += size) {
        Matrix scores = scale * (q.block(first, head, tokens, size) * k.block(first, head, tokens, size).transpose());
        for (std::int64_t i = 0; attention.is_causal && i < tokens; ++i)
          scores.row(i).tail(tokens - i - 1).setConstant(-std::numeric_limits<Real>::infinity());
        scores = (scores.colwise() - scores.rowwise().maxCoeff().eval()).array().exp();
        scores.array().colwise() /= scores.array().rowwise().sum().eval();
        y.block(first, head, tokens, size).noalias() = scores * v.block(first, head, tokens, size);
      }
    }
  }

  /// What lies under every window as columns, times the weights: row-major alone.
  void convolve(const Node& node, const op::WindowGeometry& geometry, Matrix& y) const {
    if constexpr (order != Eigen::RowMajor) throw std::invalid_argument("bench: convolutions are row-major");
    const Shape &from = shapes_[node.inputs[0]], &to = shapes_[node.output], &kernel = shapes_[node.inputs[1]];
    const std::int64_t inside = from[1] * from[2] * from[3], taps = kernel[1] * kernel[2] * kernel[3];
    const Rows weights(values_[node.inputs[1]].data(), to[1], taps);
    y.resize(to[0] * to[1], to[2] * to[3]);
    Matrix columns(taps, to[2] * to[3]);
    for (std::int64_t sample = 0; sample < to[0]; ++sample) {
      const Real* const x = values_[node.inputs[0]].data() + sample * inside;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t channel = tap / (kernel[2] * kernel[3]);
        const std::int64_t down = tap / kernel[3] % kernel[2] - geometry.pads_before[0];
        const std::int64_t right = tap % kernel[3] - geometry.pads_before[1];
        for (std::int64_t i = 0; i < to[2]; ++i) {
          for (std::int64_t j = 0; j < to[3]; ++j) {
            const std::int64_t r = i * geometry.strides[0] + down, c = j * geometry.strides[1] + right;
            const bool is_inside = r >= 0 && r < from[2] && c >= 0 && c < from[3];
            columns(tap, i * to[3] + j) = is_inside ? x[(channel * from[2] + r) * from[3] + c] : Real(0);
          }
        }
      }
      y.middleRows(sample * to[1], to[1]).noalias() = weights * columns;
      y.middleRows(sample * to[1], to[1]).colwise() += values_[node.inputs[2]].row(0).transpose();
    }
  }

  const Graph& graph_;
  std::vector<Shape> shapes_;
  std::vector<Matrix> values_;
  std::map<ValueId, Matrix> weights_;
  Real sum_ = 0;
};

// Compiled once, in forward.cpp.
extern template class Forward<float>;
extern template class Forward<double>;
extern template class Forward<float, Eigen::ColMajor>;

}  // namespace driftbound::bench

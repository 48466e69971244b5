#pragma once

#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::soundness {

/// Whether a network has the ops that PlainNetwork knows.
bool is_plain_network(const Graph& graph);

/// y += x W, W [k, n] row-major.
void add_product(std::vector<double>& y, const std::vector<double>& x, const std::vector<double>& weights);

/// A network of few ops, one sample at a time in double: what searches for its worst runs start from.
/// Domain:    one input, a row a sample; Gemm with constants (alpha = beta = 1, an addend for every output), Add of two
///            values of one shape, Relu, Softplus, Sin, Tanh
class PlainNetwork {
public:
  /// By value; empty where nothing depends on the sample.
  using Values = std::vector<std::vector<double>>;

  /// Throws:    InvalidArgument for another op; later, for Add of two shapes
  explicit PlainNetwork(const Graph& graph);

  const Graph& graph() const { return graph_; }
  static bool is_product(const Node& node) { return std::holds_alternative<op::Gemm>(node.op); }
  static bool is_sum(const Node& node) { return std::holds_alternative<op::Add>(node.op); }
  /// Of a product: [k, n], row-major.
  const std::vector<double>& weights(const Node& node) const { return weights_[node.output]; }
  /// Of a product: [n].
  const std::vector<double>& addend(const Node& node) const { return addends_[node.output]; }

  /// A node that is no product, exactly but for double.
  std::vector<double> value_of(const Node& node, const Values& values) const;
  Values exact(const std::vector<double>& input) const;
  /// d target / d value at an exact run.
  Values adjoint(const Values& exact, const Target& target) const;
  double value_of(const Target& target, const Values& values) const;

private:
  const Graph& graph_;
  Values weights_, addends_;
};

}  // namespace driftbound::soundness

#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/load.hpp"
#include "reference/oracle.hpp"

/// Networks whose signs tests know by other means than the library's.
namespace implicit_networks {

using driftbound::Graph;
using driftbound::Target;

inline Graph bundled(const std::string& name) {
  return driftbound::load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx"));
}

inline std::vector<std::string> bundled_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models"))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Class 1 against class 0 where there are two outputs.
inline Target scalar_of(const std::string& name) {
  const bool is_classifier = name.rfind("oscillator", 0) == 0 || name.rfind("mlp", 0) == 0;
  return is_classifier ? Target{{0, 1}, driftbound::OutputElement{0, 0}} : Target{};
}

/// |x| + |y| + |z| - 1, by rectifiers.
inline Graph octahedron(driftbound::ElementType type = driftbound::ElementType::f32) {
  Graph graph;
  const auto x = graph.add_input("x", type, {{-1, "batch"}, {3, ""}});
  driftbound::Tensor<float> both({3, 6});
  for (std::size_t c = 0; c < 3; ++c) {
    both.values[c * 6 + 2 * c] = 1.0F;
    both.values[c * 6 + 2 * c + 1] = -1.0F;
  }
  const auto w = graph.add_constant("w", driftbound::StoredTensor::from(both));
  const auto sum = graph.add_constant(
      "sum", driftbound::StoredTensor::from(driftbound::Tensor<float>({6, 1}, std::vector(6, 1.0F))));
  const auto bias = graph.add_constant("bias", driftbound::StoredTensor::from(driftbound::Tensor<float>({1}, {-1.0F})));
  const auto hidden = graph.add_node("hidden", driftbound::op::Gemm{}, {x, w});
  const auto rectified = graph.add_node("rectified", driftbound::op::Relu{}, {hidden});
  graph.outputs = {graph.add_node("distance", driftbound::op::Gemm{}, {rectified, sum, bias})};
  return graph;
}

/// The exact scalar at a point: the oracle's loops, over integers times powers of two or 400 digits.
template <class Real>
Real exact_scalar(const Graph& graph, const Target& target, double iso, std::span<const double> point) {
  oracle::Evaluation<Real> evaluation;
  evaluation.set_constants(graph);
  evaluation.set(graph.inputs.front(),
                 oracle::matrix<Real>(driftbound::Tensor<double>({1, static_cast<std::int64_t>(point.size())},
                                                                 {point.begin(), point.end()})));
  for (const driftbound::Node& node : graph.nodes) evaluation.set(node.output, evaluation.result(node));
  const auto element = [&](const driftbound::OutputElement& of) {
    return evaluation.value(graph.outputs.at(of.output)).values.at(static_cast<std::size_t>(of.element));
  };
  Real value = element(target.positive);
  if (target.negative) value = value - element(*target.negative);
  return value - Real(iso);
}

inline bool is_piecewise_linear(const Graph& graph) {
  for (const driftbound::Node& node : graph.nodes)
    if (!std::holds_alternative<driftbound::op::Gemm>(node.op) &&
        !std::holds_alternative<driftbound::op::Relu>(node.op) && !std::holds_alternative<driftbound::op::Add>(node.op))
      return false;
  return true;
}

}  // namespace implicit_networks

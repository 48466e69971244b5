#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "driftbound/reference/reference.hpp"
#include "networks.hpp"
#include "oracle.hpp"

namespace containment {

struct Counts {
  long outputs = 0;
  long claims_nothing = 0;
  long undecided = 0;
};

inline std::string hex(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", x);
  return text;
}

inline std::string describe(const driftbound::Graph& graph, std::size_t node, std::size_t i,
                            const driftbound::Ball& ball) {
  return graph.nodes[node].name + " " + std::string(driftbound::name_of(graph.nodes[node].op)) + " element " +
         std::to_string(i) + ": " + hex(ball.hi) + " + " + hex(ball.lo) + " +- " + hex(ball.radius.value());
}

template <class Real>
void check_layer(const driftbound::Graph& graph, std::size_t node, const driftbound::Tensor<driftbound::Ball>& layer,
                 const oracle::Matrix<Real>& exact, Counts& counts) {
  REQUIRE(layer.size() == exact.values.size());
  for (std::size_t i = 0; i < layer.size(); ++i) {
    ++counts.outputs;
    if (!layer.values[i].is_finite()) ++counts.claims_nothing;
    if (!oracle::contains(layer.values[i], exact.values[i])) FAIL(describe(graph, node, i, layer.values[i]));
  }
}

/// Every layer's exact value, by the oracle, lies in its ball.
template <class Real>
driftbound::Reference check_accumulated(const networks::Network& network, const driftbound::PrecisionPolicy& policy,
                                        Counts& counts, const driftbound::Trace* computed = nullptr) {
  const driftbound::Graph& graph = network.graph;
  const driftbound::Reference reference = certified_reference(graph, network.inputs, policy, computed);
  REQUIRE(reference.layers.size() == graph.nodes.size());
  oracle::Evaluation<Real> exact;
  exact.set_constants(graph);
  for (const driftbound::ValueId id : graph.inputs)
    exact.set(id, oracle::matrix<Real>(network.inputs.at(graph.value(id).name).to_double()));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    exact.set(graph.nodes[i].output, exact.result(graph.nodes[i]));
    check_layer(graph, i, reference.layers[i], exact.value(graph.nodes[i].output), counts);
  }
  counts.undecided += reference.undecided;
  return reference;
}

/// A run that is a few units off: exact values rounded to double (or float), some moved by up to three units.
inline driftbound::Trace make_trace(const networks::Network& network, const driftbound::Reference& reference,
                                    std::uint64_t seed, bool to_float) {
  networks::Maker make(seed, networks::Scale::ordinary);
  driftbound::Trace trace;
  trace.inputs = network.inputs;
  for (const driftbound::Tensor<driftbound::Ball>& layer : reference.layers) {
    driftbound::Tensor<double> run(layer.shape);
    for (std::size_t i = 0; i < run.size(); ++i) {
      double x = std::isfinite(layer.values[i].hi) ? layer.values[i].hi : 0.0;
      if (to_float && std::fabs(x) < 1e38) x = static_cast<double>(static_cast<float>(x));
      for (std::size_t steps = make.below(4); steps > 0; --steps) x = std::nextafter(x, 0.0);
      run.values[i] = x;
    }
    trace.layers.push_back({"", driftbound::StoredTensor::from(run)});
  }
  const driftbound::Tensor<double> first = network.inputs.tensors.front().second.to_double();
  trace.samples = first.shape.at(0);
  return trace;
}

/// Every layer's exact value on what the run recorded for its operands lies in its ball.
template <class Real>
driftbound::Reference check_local(const networks::Network& network, const driftbound::Trace& trace,
                                  const driftbound::PrecisionPolicy& policy, Counts& counts) {
  const driftbound::Graph& graph = network.graph;
  const driftbound::Reference reference = local_reference(graph, trace, policy);
  REQUIRE(reference.layers.size() == graph.nodes.size());
  oracle::Evaluation<Real> exact;
  exact.set_constants(graph);
  for (const driftbound::ValueId id : graph.inputs)
    exact.set(id, oracle::matrix<Real>(network.inputs.at(graph.value(id).name).to_double()));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    check_layer(graph, i, reference.layers[i], exact.result(graph.nodes[i]), counts);
    exact.set(graph.nodes[i].output, oracle::matrix<Real>(trace.layers[i].output.to_double()));
  }
  counts.undecided += reference.undecided;
  return reference;
}

}  // namespace containment

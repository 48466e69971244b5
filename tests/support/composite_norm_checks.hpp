#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "support/flat_reals.hpp"

/// Norms that maps of several nodes hand on as one, against the same maps in 700 bits at inputs that are off, and against
/// runs in float32.
namespace checks {

struct CompositeCase {
  std::string name;
  Graph graph;
  Tensor<double> x;
};

/// Each of them alone behind x [1, 3, 4]: none has another node between x and what is bounded as one.
inline std::vector<CompositeCase> composite_cases(Generator& generator) {
  std::vector<CompositeCase> cases;
  const auto add = [&](const std::string& name, const auto& write) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {3, ""}, {4, ""}});
    graph.outputs = {write(graph, x)};
    Tensor<double> at({1, 3, 4});
    for (double& value : at.values) value = static_cast<double>(static_cast<float>(uniform(generator, -2.0, 2.0)));
    cases.push_back({name, std::move(graph), std::move(at)});
  };
  const auto constant = [](Graph& graph, const Shape& shape, double value) {
    Tensor<double> values(shape);
    for (double& element : values.values) element = value;
    return graph.add_constant("c" + std::to_string(graph.values.size()), StoredTensor::from(values));
  };
  const auto attention = [](bool is_causal) {
    op::Attention scores;
    scores.query_heads = scores.key_heads = 2;
    scores.is_causal = is_causal;
    return scores;
  };
  add("layer norm", [&](Graph& g, ValueId x) {
    return g.add_node("n", op::LayerNormalization{}, {x, constant(g, {4}, 1.0), constant(g, {4}, 0.0)});
  });
  add("rms norm", [&](Graph& g, ValueId x) {
    return g.add_node("n", op::RMSNormalization{}, {x, constant(g, {4}, 1.0)});
  });
  add("rms norm of one row without epsilon", [&](Graph& g, ValueId x) {
    const ValueId row = g.add_node("row", op::Reshape{{1, 12}}, {x});
    const ValueId squares = g.add_node("squares", op::Mul{}, {row, row});
    const ValueId mean = g.add_node("mean", op::ReduceMean{{1}, true}, {squares});
    return g.add_node("unit", op::Div{}, {row, g.add_node("root", op::Sqrt{}, {mean})});
  });
  add("attention", [&](Graph& g, ValueId x) { return g.add_node("n", attention(false), {x, x, x}); });
  add("causal attention", [&](Graph& g, ValueId x) { return g.add_node("n", attention(true), {x, x, x}); });
  add("softmax times values", [&](Graph& g, ValueId x) {
    const ValueId turned = g.add_node("turned", op::Transpose{{0, 2, 1}}, {x});
    const ValueId scores = g.add_node("scores", op::MatMul{}, {x, turned});
    return g.add_node("n", op::MatMul{}, {g.add_node("p", op::Softmax{-1, false}, {scores}), x});
  });
  add("quotient", [&](Graph& g, ValueId x) {
    const ValueId divisor =
        g.add_node("divisor", op::Add{}, {g.add_node("tanh", op::Tanh{}, {x}), constant(g, {1}, 2.0)});
    return g.add_node("n", op::Div{}, {x, divisor});
  });
  add("gelu", [&](Graph& g, ValueId x) { return g.add_node("n", op::Gelu{}, {x}); });
  return cases;
}

/// Radii and norms of every value of a flat graph.
class HeldNorms {
public:
  HeldNorms(const CompositeCase& subject, const ArithmeticModel& arithmetic)
      : subject_(subject),
        arithmetic_(arithmetic),
        setting_(setting_of(arithmetic_)),
        program_(subject_.graph, {subject_.x.shape}, std::nullopt),
        shadow_(bounds::shadow_of(program_, {subject_.x}, setting_)) {}

  bounds::Deviation within(bounds::Trajectory trajectory, double radius) {
    const std::vector<double> off(radius == 0.0 ? 0 : subject_.x.size(), radius);
    return bounds::deviation_of(trajectory, program_, shadow_, {off}, setting_, operands_);
  }

  double output_norm(const bounds::Deviation& deviation) const {
    return deviation.radii[program_.flat().graph.outputs[0]].norm.at(0);
  }

  /// The exact network at inputs that are off by `signs` radii; `output`: of norms of the last value.
  void check_exact(const bounds::Deviation& deviation, double radius, const std::vector<double>& signs, Tally& all,
                   Tally& output) const {
    const std::vector<Tensor<Real>> exact = exact_values_at(radius, signs);
    for (ValueId id = 0; id < exact.size(); ++id) check(deviation, id, exact[id], all, output);
  }

  /// How near the last value's elements come to their radii there.
  double output_utilisation(const bounds::Deviation& deviation, double radius, const std::vector<double>& signs) const {
    const ValueId id = program_.flat().graph.outputs[0];
    const Tensor<Real> exact = exact_values_at(radius, signs)[id];
    Tally tally;
    for (std::size_t i = 0; i < exact.size(); ++i)
      tally.add(shadow_.values[id].values[i], exact.values[i], deviation.radii[id].element.at(i));
    return tally.utilisation;
  }

  /// A run of the flat graph.
  void check_run(const bounds::Deviation& deviation, Tally& all, Tally& output) const {
    const Graph& flat = program_.flat().graph;
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(subject_.x));
    const Trace trace = cpu_evaluator(arithmetic_).run(flat, inputs);
    for (std::size_t node = 0; node < flat.nodes.size(); ++node) {
      const Tensor<Real> computed = convert<Real>(trace.layers[node].output.to_double());
      check(deviation, flat.nodes[node].output, computed, all, output);
    }
  }

private:
  std::vector<Tensor<Real>> exact_values_at(double radius, const std::vector<double>& signs) const {
    Tensor<Real> moved = convert<Real>(subject_.x);
    for (std::size_t i = 0; i < moved.size(); ++i) moved.values[i] += Real(signs[i] * radius);
    return evaluated(program_, moved);
  }

  void check(const bounds::Deviation& deviation, ValueId id, const Tensor<Real>& values, Tally& all,
             Tally& output) const {
    const bounds::ValueRadii& radii = deviation.radii[id];
    RealVector off;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double centre = shadow_.values[id].values[i];
      all.add(centre, values.values[i], radii.element.empty() ? 0.0 : radii.element[i]);
      off.push_back(values.values[i] - Real(centre));
    }
    const double norm = radii.norm.empty() ? 0.0 : radii.norm[0];
    all.add(0.0, norm_of(off), norm);
    if (id == program_.flat().graph.outputs[0]) output.add(0.0, norm_of(off), norm);
  }

  const CompositeCase& subject_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::Shadow shadow_;
  bounds::OperandCache operands_;
};

struct CompositeTally {
  Tally all, output;
};

/// Every case with inputs that are off by next to nothing, by little, and by so much that only bounded ranges hold.
inline std::map<std::string, CompositeTally> check_composite_norms(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  std::map<std::string, CompositeTally> tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (const CompositeCase& subject : composite_cases(generator)) {
      CompositeTally& tally = tallies[subject.name];
      HeldNorms in_double(subject, double_arithmetic());
      for (const double radius : {0.0, 1e-9, 1e-3, 0.1, 1.0, 30.0}) {
        const bounds::Deviation deviation = in_double.within(bounds::Trajectory::any_order, radius);
        for (int corner = 0; corner < (radius == 0.0 ? 1 : 8); ++corner)
          in_double.check_exact(deviation, radius, random_corner(subject.x.size(), generator), tally.all, tally.output);
      }
      HeldNorms in_single(subject, cpu_arithmetic("fp32", parse_summation_order("blocked:4")));
      for (const bounds::Trajectory trajectory : {bounds::Trajectory::any_order, bounds::Trajectory::declared_order})
        in_single.check_run(in_single.within(trajectory, 0.0), tally.all, tally.output);
    }
  }
  return tallies;
}

}  // namespace checks

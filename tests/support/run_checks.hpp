#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "bounds/blocks/row_bounds.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "bounds/rows/run_walk.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/recorded_block.hpp"
#include "support/trajectory_checks.hpp"

/// Any run by loops over rows (T-88) against networks in 700 bits and runs in float32.
namespace checks {

/// What a function does between products, sums, constants and a product with constants.
inline Graph network_of_rows(const std::string& function, Generator& generator) {
  Graph graph;
  int next = 0;
  const auto constant = [&](Shape shape, double scale) {
    Tensor<float> values(std::move(shape));
    for (float& value : values.values) value = static_cast<float>(uniform(generator, -scale, scale));
    return graph.add_constant("c" + std::to_string(next++), StoredTensor::from(values));
  };
  const auto constant_of = [&](float value) {
    return graph.add_constant("c" + std::to_string(next++), StoredTensor::from(Tensor<float>({1}, {value})));
  };
  const auto node = [&](Op op, std::vector<ValueId> inputs) {
    return graph.add_node("n" + std::to_string(next++), std::move(op), std::move(inputs));
  };
  const auto bent = [&](ValueId x) {
    if (function == "tanh") return node(op::Tanh{}, {x});
    if (function == "softplus") return node(op::Softplus{}, {x});
    if (function == "sin") return node(op::Sin{}, {x});
    if (function == "leaky_relu") return node(op::LeakyRelu{0.1}, {x});
    if (function == "sigmoid") return node(op::Sigmoid{}, {x});
    if (function == "elu") return node(op::Elu{0.7}, {x});
    if (function == "cos") return node(op::Cos{}, {x});
    if (function == "exp") return node(op::Exp{}, {x});
    if (function == "erf") return node(op::Erf{}, {x});
    if (function == "product")
      return node(op::Mul{}, {node(op::Tanh{}, {x}), node(op::MatMul{}, {x, constant({9, 9}, 0.5)})});
    if (function == "quotient") {
      const ValueId other = node(op::Sigmoid{}, {node(op::MatMul{}, {x, constant({9, 9}, 0.5)})});
      return node(op::Div{}, {x, node(op::Add{}, {constant_of(0.5F), other})});
    }
    if (function == "silu") return node(op::Mul{}, {x, node(op::Sigmoid{}, {x})});
    if (function == "hard_swish") {
      const ValueId above = node(op::Max{}, {node(op::Add{}, {x, constant_of(3.0F)}), constant_of(0.0F)});
      const ValueId clipped = node(op::Min{}, {above, constant_of(6.0F)});
      return node(op::Div{}, {node(op::Mul{}, {x, clipped}), constant_of(6.0F)});
    }
    const auto mean = [&](ValueId values) {
      return node(op::Div{}, {node(op::ReduceSum{{1}}, {values}), constant_of(9.0F)});
    };
    if (function == "addend" || function == "no_addend")  // that varies, and is multiplied by 1 or 0
      return node(op::Gemm{1.0, function == "addend" ? 1.0 : 0.0}, {x, constant({9, 9}, 0.5), node(op::Tanh{}, {x})});
    if (function == "less_tanh") return node(op::Sub{}, {x, node(op::Tanh{}, {x})});
    if (function == "doubled")  // by powers of two, which no run rounds
      return node(op::Mul{}, {node(op::Tanh{}, {node(op::Mul{}, {x, constant_of(0.25F)})}), constant_of(2.0F)});
    if (function == "softmax") return node(op::Softmax{1}, {x});
    if (function == "normalised") {
      const ValueId centred = node(op::Sub{}, {x, mean(x)});
      const ValueId variance = node(op::Add{}, {mean(node(op::Mul{}, {centred, centred})), constant_of(0.125F)});
      return node(op::Div{}, {centred, node(op::Sqrt{}, {variance})});
    }
    if (function == "repeated") {  // equal terms, whose roundings are no chance
      const ValueId equal = node(op::Gather{1, {17}, std::vector<std::int64_t>(17, 4)}, {node(op::Relu{}, {x})});
      return node(op::Sub{}, {x, node(op::ReduceSum{{1}}, {equal})});
    }
    if (function == "largest") return node(op::Sub{}, {node(op::ReduceMax{{1}}, {x}), x});
    if (function == "attention" || function == "outer") {
      const ValueId values = node(op::Reshape{{-1, 3, 3}}, {x});
      const ValueId other =
          function == "outer" ? node(op::Transpose{{0, 2, 1}}, {values}) : node(op::Softmax{2}, {values});
      return node(op::Reshape{{-1, 9}}, {node(op::MatMul{}, {other, values})});
    }
    if (function == "tokens" || function == "filters") {
      const ValueId values = node(op::Reshape{{-1, 3, 3}}, {x}), matrix = constant({3, 3}, 1.0);
      const ValueId product = function == "tokens"
                                  ? node(op::Add{}, {node(op::MatMul{}, {values, matrix}), constant({3}, 0.5)})
                                  : node(op::MatMul{}, {matrix, values});
      return node(op::Tanh{}, {node(op::Reshape{{-1, 9}}, {product})});
    }
    if (function == "max") return node(op::Max{}, {x, node(op::Neg{}, {node(op::Tanh{}, {x})})});
    if (function == "min") return node(op::Min{}, {constant({9}, 0.5), x});
    if (function == "prelu") return node(op::PRelu{}, {x, constant({9}, 1.5)});
    if (function == "divided") return node(op::Div{}, {x, constant_of(3.0F)});
    if (function == "moves") {  // one element three times, some negated, some left out, next to a constant
      const ValueId y = node(op::Relu{}, {x});
      const ValueId both = node(op::Concat{1}, {node(op::Neg{}, {y}), x});
      const ValueId picked = node(op::Gather{1, {8}, {0, 3, 3, 9, 17, 10, 12, 3}}, {both});
      const ValueId padded = node(op::Pad{op::Pad::Mode::constant, {0, 1}, {0, 0}, 0.25}, {picked});
      return node(op::Squeeze{{1}}, {node(op::Transpose{{0, 2, 1}}, {node(op::Unsqueeze{{2}}, {padded})})});
    }
    if (function == "gelu" || function == "gelu_tanh") return node(op::Gelu{function == "gelu_tanh"}, {x});
    return node(op::Relu{}, {x});
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
  const ValueId first = bent(node(op::Gemm{1.0, 1.0, false, true}, {x, constant({9, 4}, 1.0), constant({9}, 0.5)}));
  const ValueId second = node(op::Add{}, {first, node(op::MatMul{}, {first, constant({9, 9}, 0.5)})});
  const ValueId scaled = node(op::Mul{}, {constant({9}, 1.5), second});
  const ValueId third = bent(node(op::Sub{}, {scaled, constant({9}, 0.5)}));
  graph.outputs = {node(op::Gemm{}, {node(op::Sub{}, {third, first}), constant({9, 2}, 1.0)})};
  return graph;
}

inline Trace float_run(const Graph& graph, const Tensor<double>& x, const ArithmeticModel& arithmetic) {
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(convert<float>(x)));
  return cpu_evaluator(arithmetic).run(graph, inputs);
}

/// A block of samples of a network, and what a RunWalk says of every element of its output.
class HeldRun {
public:
  /// `recorded`: inputs of a run whose sums of magnitudes are taken, or null
  HeldRun(const Graph& graph, const Tensor<double>& x, double radius, std::int64_t refined_radii = 0,
          const Tensor<double>* recorded = nullptr)
      : graph_(graph),
        arithmetic_(cpu_arithmetic("fp32", parse_summation_order("pairwise"))),
        setting_(setting_of(arithmetic_)),
        program_(graph, {x.shape}, x.shape.front()),
        x_(x),
        radius_(radius) {
    std::string obstacle;
    const auto walk = bounds::RunWalk::of(program_, setting_, operands_, obstacle);
    if (walk == nullptr) return;
    const ValueId output = program_.flat().graph.outputs[0];
    std::vector<std::vector<bounds::Seed>> seeds;
    for (std::int64_t element = 0; element < program_.shape(output).back(); ++element)
      seeds.push_back({{output, element, 1.0}});
    bounds::RunRequest request;
    request.refined_radii = refined_radii;
    request.conditioned = seeds.size();
    std::optional<RecordedRunOf> run;
    if (recorded != nullptr)
      run.emplace(graph, float_run(graph, *recorded, arithmetic_), x, radius, setting_, operands_);
    if (run) request.recorded = &run->block();
    found_ = walk->run(program_, {x}, {std::vector<double>(x.size(), radius)}, seeds, request, setting_);
  }

  bool is_known() const { return found_.has_value(); }
  const bounds::RunCertificates& found() const { return *found_; }

  /// The network at inputs that are off by `signs` radii against that at those given.
  void check_at(const std::vector<double>& signs, Tally& tally) const {
    Tensor<Real> moved = convert<Real>(x_);
    for (std::size_t i = 0; i < moved.size(); ++i) moved.values[i] += Real(signs[i]) * Real(radius_);
    const Tensor<Real> exact = output_at(convert<Real>(x_)), off = output_at(moved);
    for (std::size_t i = 0; i < exact.size(); ++i) tally.add(0.0, off.values[i] - exact.values[i], total(i));
  }

  /// A run in float32 at the inputs given.
  void check_run(const std::string& order, Tally& tally) const {
    const ArithmeticModel arithmetic = cpu_arithmetic("fp32", parse_summation_order(order));
    const Tensor<double> run = float_run(graph_, x_, arithmetic).layers.back().output.to_double();
    const Tensor<Real> exact = output_at(convert<Real>(x_));
    for (std::size_t i = 0; i < run.size(); ++i) tally.add(run.values[i], exact.values[i], total(i));
  }

private:
  double total(std::size_t i) const {
    const std::size_t elements = found_->targets.size();
    return found_->targets[i % elements].total[i / elements];
  }
  Tensor<Real> output_at(const Tensor<Real>& x) const { return exact_values(graph_, x)[graph_.outputs[0]]; }

  const Graph& graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::BoundCache operands_;
  Tensor<double> x_;
  double radius_;
  std::optional<bounds::RunCertificates> found_;
};

inline Tensor<double> moved(Tensor<double> x, double radius, const std::vector<double>& signs) {
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] += 0.99 * radius * signs[i];
  return x;
}

/// The sum of 64 numbers within 2^-8 of 1 next to a run near the lower ends: the magnitudes of its terms, as the condition
/// number of T-79 has them, against the largest there are.
inline Tally check_sums_of_recorded_rows() {
  constexpr std::int64_t terms = 64;
  constexpr double radius = 0x1p-8;
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {terms, ""}});
  const ValueId ones = graph.add_constant("ones", StoredTensor::from(Tensor<float>({terms, 1}, std::vector(64, 1.0F))));
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, ones})};
  const Tensor<double> middle({1, terms}, std::vector<double>(64, 1.0));
  const Tensor<double> run({1, terms}, std::vector<double>(64, 1.0 - 0.875 * radius));
  const HeldRun held(graph, middle, radius, 0, &run);
  const double target = 64.0;
  Tally tally;
  tally.add(0.0, Real((1.0 + radius) * target), held.found().condition[0].layers[0][0] * target);
  return tally;
}

struct RunRowsTallies {
  Tally moved, rounded;
};

/// Networks of one function at coarse distances, and runs of them.
inline RunRowsTallies check_run_rows(const std::string& function, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  RunRowsTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const Graph graph = network_of_rows(function, generator);
    const Tensor<double> x = network_inputs(1.0, false, generator);
    for (const double radius : {1e-9, 1e-5, 1e-3, 0.1}) {
      const Tensor<double> run = moved(x, radius, random_corner(x.size(), generator));
      const HeldRun held(graph, x, radius, repetition % 2 == 0 ? 0 : 5, repetition % 3 == 0 ? nullptr : &run);
      for (int corner = 0; held.is_known() && corner < 6; ++corner)
        held.check_at(random_corner(x.size(), generator), tallies.moved);
    }
    const HeldRun held(graph, x, 0.0, 0, repetition % 3 == 0 ? nullptr : &x);
    for (const std::string order : {"sequential", "pairwise", "blocked:3+fma"})
      if (held.is_known()) held.check_run(order, tallies.rounded);
  }
  return tallies;
}

/// A function whose radius by an adjoint of its own stops before the input, as it weighs little: of 64 x - 63 x + shift,
/// which moves as far as x.
struct StoppedRadius {
  Op function;
  float shift = 0.0F, factor = 1.0F;
  double radius = 1.0;  ///< of x
};
inline StoppedRadius stopped_kink() {
  return {op::Relu{}, -4.9F, 1.0F, 1.0};  // a tenth of it is beyond the kink
}
inline StoppedRadius stopped_bend() {
  return {op::Softplus{}, -14.0F, 100000.0F, 0.75};  // 10 in the tail, where it leaves over a fiftieth of all
}

/// y = factor f(64 x - 63 x + shift) + 100 x at its largest.
inline Tally check_stopped_radius(const StoppedRadius& stopped) {
  Graph graph;
  const auto constant = [&](const char* name, Shape shape, std::vector<float> values) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>(std::move(shape), std::move(values))));
  };
  const auto bent = [&](const char* name, const char* product, Op f, ValueId x, ValueId w, ValueId shift) {
    return graph.add_node(name, std::move(f), {graph.add_node(product, op::Gemm{}, {x, w, shift})});
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {1, ""}});
  const ValueId none = constant("none", {1}, {0.0F});
  const ValueId first = bent("first", "a", op::Relu{}, x, constant("one", {1, 1}, {1.0F}), none);
  const ValueId both = bent("both", "b", op::Relu{}, first, constant("ones", {1, 2}, {1.0F, 1.0F}), none);
  const ValueId last = bent("last", "c", stopped.function, both, constant("less", {2, 1}, {64.0F, -63.0F}),
                            constant("shift", {1}, {stopped.shift}));
  const ValueId scaled = graph.add_node("scaled", op::Mul{}, {last, constant("factor", {1}, {stopped.factor})});
  const ValueId much = graph.add_node("much", op::Mul{}, {x, constant("hundred", {1}, {100.0F})});
  graph.outputs = {graph.add_node("y", op::Add{}, {scaled, much})};
  Tally tally;
  HeldRun(graph, Tensor<double>({1, 1}, {4.0}), stopped.radius, 1000).check_at({1.0}, tally);
  return tally;
}

/// y = relu(softplus(x_2) + shift) where the first of two softplus errs by more than the second hands on: its slope is
/// left out of the row of the kink's radius.
inline Tally check_flat_slope() {
  constexpr double radius = 0x1p-4;
  Graph graph;
  const auto constant = [&](const char* name, Shape shape, std::vector<float> values) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>(std::move(shape), std::move(values))));
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId a = graph.add_node("a", op::MatMul{}, {x, constant("unit", {2, 2}, {1.0F, 0.0F, 0.0F, 1.0F})});
  const ValueId flat = graph.add_node("flat", op::Softplus{}, {a});
  const ValueId b = graph.add_node(
      "b", op::Gemm{}, {flat, constant("second", {2, 1}, {0.0F, 1.0F}), constant("shift", {1}, {-4.7e-5F})});
  graph.outputs = {graph.add_node("y", op::Relu{}, {b})};
  Tally tally;
  HeldRun(graph, Tensor<double>({1, 2}, {1e6, -10.0}), radius, 1000).check_at({0.0, 1.0}, tally);
  return tally;
}

}  // namespace checks

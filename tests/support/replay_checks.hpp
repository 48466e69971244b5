#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "support/naive.hpp"
#include "support/tensor_core.hpp"
#include "support/theorems.hpp"
#include "support/trajectory_checks.hpp"

/// Runs of declared orders (T-97), and of kernels found (T-171), made again, held against plain loops in float, sample by sample, and exact values in
/// 700 bits.
namespace checks {

/// h <- h + relu(W h + b) twice, then h / sqrt(h + 1), a product of two values, a maximum and three sums.
inline Graph replay_network(Data data, std::int64_t inputs, std::int64_t width, Generator& generator) {
  Graph graph;
  int names = 0;
  const auto constant = [&](const Shape& shape, double scale) {
    Tensor<float> values(shape);
    for (float& value : values.values) value = static_cast<float>(scale * draw(data, generator));
    return graph.add_constant("c" + std::to_string(++names), StoredTensor::from(values));
  };
  const auto node = [&](const Op& op, const std::vector<ValueId>& operands) {
    return graph.add_node("n" + std::to_string(++names), op, operands);
  };
  const auto sums = [&](ValueId x, std::int64_t n, std::int64_t m) {
    return node(op::Gemm{}, {x, constant({n, m}, 1.0 / std::sqrt(static_cast<double>(n))), constant({m}, 0.5)});
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {inputs, ""}});
  ValueId h = node(op::Relu{}, {sums(x, inputs, width)});
  for (int block = 0; block < 2; ++block) h = node(op::Add{}, {h, node(op::Relu{}, {sums(h, width, width)})});
  Tensor<float> one({width});
  std::fill(one.values.begin(), one.values.end(), 1.0f);
  const ValueId ones = graph.add_constant("ones", StoredTensor::from(one));
  const ValueId size = node(op::Sqrt{}, {node(op::Add{}, {h, ones})});
  const ValueId scaled = node(op::Div{}, {h, size});
  const ValueId larger = node(op::Max{}, {node(op::Mul{}, {scaled, scaled}), scaled});
  graph.outputs = {sums(larger, width, 3)};
  return graph;
}

/// One sample of such a network in float, by the words of docs/arithmetic.md.
class NaiveRun {
public:
  NaiveRun(const Graph& graph, const ArithmeticModel& arithmetic) : graph_(graph), arithmetic_(arithmetic) {}

  std::vector<float> operator()(const std::vector<float>& x) const {
    std::vector<std::vector<float>> values(graph_.values.size());
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (graph_.is_constant(id))
        for (const double c : graph_.value(id).constant.to_double().values) values[id].push_back(static_cast<float>(c));
    values[graph_.inputs[0]] = x;
    for (const Node& node : graph_.nodes) values[node.output] = result(node, values);
    return values[graph_.outputs[0]];
  }

private:
  std::vector<float> result(const Node& node, const std::vector<std::vector<float>>& values) const {
    const std::vector<float>& a = values[node.inputs[0]];
    const std::vector<float>& b = values[node.inputs.size() > 1 ? node.inputs[1] : node.inputs[0]];
    if (std::holds_alternative<op::Gemm>(node.op)) return product(a, b, values[node.inputs[2]]);
    std::vector<float> y;
    for (std::size_t i = 0; i < a.size(); ++i) y.push_back(element(node.op, a[i], b[i]));
    return y;
  }

  std::vector<float> product(const std::vector<float>& x, const std::vector<float>& w,
                             const std::vector<float>& bias) const {
    std::vector<float> y, left, right;
    for (const float value : x) left.push_back(naive::as_operand(value, arithmetic_.input));
    for (std::size_t j = 0; j < bias.size(); ++j) {
      right.clear();
      for (std::size_t k = 0; k < x.size(); ++k)
        right.push_back(naive::as_operand(w[k * bias.size() + j], arithmetic_.input));
      y.push_back(sum(left, right) + bias[j]);
    }
    return y;
  }

  /// Of operands as they are read; by a matrix unit in integers, slice after slice.
  float sum(const std::vector<float>& left, const std::vector<float>& right) const {
    if (!arithmetic_.tensor_core) return naive::dot(arithmetic_.order, left, right);
    const TensorCore& declared = *arithmetic_.tensor_core;
    const test::TensorCoreUnit unit{declared.fraction_bits, declared.block, format(arithmetic_.input).min_exponent,
                                    declared.sum_bits};
    const bool is_split = arithmetic_.order.kind == SummationOrder::Kind::split_k;
    const std::size_t slices = is_split ? static_cast<std::size_t>(arithmetic_.order.parameter) : 1;
    const auto block = static_cast<std::size_t>(declared.block);
    const std::size_t run = ((left.size() + slices - 1) / slices + block - 1) / block * block;
    float sum = 0.0f;
    for (std::size_t first = 0; first < left.size(); first += run) {
      const auto terms = static_cast<std::int64_t>(std::min(run, left.size() - first));
      const float part = test::tensor_core_chain(
          unit, 0.0f, terms, [&](std::int64_t k) { return left[first + static_cast<std::size_t>(k)]; },
          [&](std::int64_t k) { return right[first + static_cast<std::size_t>(k)]; });
      sum = first == 0 ? part : sum + part;
    }
    return sum;
  }

  static float element(const Op& op, float a, float b) {
    if (std::holds_alternative<op::Relu>(op)) return std::max(a, 0.0f);
    if (std::holds_alternative<op::Sqrt>(op)) return std::sqrt(a);
    if (std::holds_alternative<op::Add>(op)) return a + b;
    if (std::holds_alternative<op::Mul>(op)) return a * b;
    if (std::holds_alternative<op::Div>(op)) return a / b;
    return std::max(a, b);
  }

  const Graph& graph_;
  const ArithmeticModel& arithmetic_;
};

struct ReplayTally {
  Tally bound;
  std::int64_t infinite = 0;  ///< elements that are not finite, and have no bound
};

/// A network and inputs on data of one kind.
struct ReplayedNetwork {
  static constexpr std::int64_t samples = 4;
  std::int64_t inputs;
  Graph graph;
  Tensor<float> x;

  ReplayedNetwork(Data data, Generator& generator) : inputs(5 + static_cast<std::int64_t>(generator() % 40)) {
    graph = replay_network(data, inputs, 9 + static_cast<std::int64_t>(generator() % 30), generator);
    x = Tensor<float>({samples, inputs});
    for (float& value : x.values) value = static_cast<float>(draw(data, generator));
  }

  Trace run(const ArithmeticModel& arithmetic) const {
    Inputs given;
    given.tensors.emplace_back("x", StoredTensor::from(x));
    return cpu_evaluator(arithmetic).run(graph, given);
  }

  /// Plain runs of the arithmetic against the bound "replay" of a trace.
  void compare(const Trace& trace, const KernelsByNode& kernels, const ArithmeticModel& arithmetic,
               ReplayTally& tally) const {
    BoundOptions options;
    options.requests = {BoundKind::replay};
    const BoundResult bound =
        *find_bound(Bounder(graph, options)(trace, {}, {}, kernels).layers.back().accumulated, BoundKind::replay);
    const Tensor<Real> exact = exact_values(graph, convert<Real>(trace.inputs.at("x").to_double()))[graph.outputs[0]];
    const NaiveRun naive(graph, arithmetic);
    for (std::size_t sample = 0; sample < static_cast<std::size_t>(samples); ++sample) {
      const auto first = x.values.begin() + static_cast<std::ptrdiff_t>(sample) * inputs;
      const std::vector<float> y = naive({first, first + inputs});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t at = sample * y.size() + i;
        if (std::isfinite(y[i])) {
          tally.bound.add(static_cast<double>(y[i]), exact.values[at], bound.values.values[at]);
        } else if (std::isinf(bound.values.values[at])) {
          ++tally.infinite;
        } else {
          ++tally.bound.violations;
        }
      }
    }
  }
};

/// Plain runs in one order against "replay" from a trace of another order's run that is said to be of this one.
inline void check_replay(Data data, const ArithmeticModel& arithmetic, Generator& generator, ReplayTally& tally) {
  const ReplayedNetwork network(data, generator);
  const char* other = arithmetic.order.kind == SummationOrder::Kind::pairwise ? "sequential" : "pairwise";
  Trace trace = network.run(cpu_arithmetic(arithmetic.name, parse_summation_order(other)));
  trace.arithmetic = arithmetic;
  network.compare(trace, {}, arithmetic, tally);
}

/// By node: the kernel that one search finds in a run.
inline KernelsByNode kernels_in(const Graph& graph, const Trace& trace) {
  KernelsByNode kernels(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    KernelSearch search(graph, node, 0);
    if (search.add(trace)) kernels[node] = search.finding().kernel;
  }
  return kernels;
}

/// Runs by matrix units, multiplied by an emulator in integers, against "replay" by the kernels found in a recorded run.
inline ReplayTally check_replays_of_units(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  ReplayTally tally;
  for (int i = 0; i < repetitions; ++i)
    for (const auto& [device, name] : std::vector<std::pair<std::string, std::string>>{
             {"h100", "tf32"}, {"a100", "tf32"}, {"h100", "bf16"}, {"v100", "fp16"}, {"h200", "fp8_e4m3"}})
      for (const char* order : {"sequential", "split-k:2"})
        for (const Data data : {Data::uniform, Data::positive, Data::sparse}) {
          const ArithmeticModel arithmetic = simulated_arithmetic(device, name, parse_summation_order(order));
          const ReplayedNetwork network(data, generator);
          Trace trace = network.run(arithmetic);
          const KernelsByNode kernels = kernels_in(network.graph, trace);
          trace.arithmetic.order = {};  // as of a library that does not declare it
          network.compare(trace, kernels, arithmetic, tally);
        }
  return tally;
}

inline const std::vector<std::string>& replay_orders() {
  static const std::vector<std::string> orders = {"sequential", "sequential+fma", "pairwise",  "pairwise+fma",
                                                  "blocked:3",  "blocked:8+fma",  "split-k:4", "split-k:3+fma"};
  return orders;
}

/// Every order in every format that the loops know, on data of every kind.
inline ReplayTally check_replays(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  ReplayTally tally;
  for (int i = 0; i < repetitions; ++i)
    for (const std::string& order : replay_orders())
      for (const char* name : {"fp32", "tf32", "bf16", "fp16"})
        for (const Data data :
             {Data::uniform, Data::positive, Data::wide, Data::sparse, Data::subnormal, Data::huge, Data::integers}) {
          const bool is_beyond_fp16 = std::string(name) == "fp16" && (data == Data::huge || data == Data::wide);
          if (is_beyond_fp16) continue;
          check_replay(data, cpu_arithmetic(name, parse_summation_order(order)), generator, tally);
        }
  return tally;
}

}  // namespace checks

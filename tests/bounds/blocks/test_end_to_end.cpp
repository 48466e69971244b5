#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "evaluate/every_op.hpp"
#include "faults/theorems.hpp"
#include "program/program.hpp"
#include "support/approach.hpp"
#include "support/small_networks.hpp"
#include "support/transformers.hpp"

// Bounds by two trajectories from traces of real runs, held against certified references.

using namespace checks;

namespace {

constexpr std::int64_t samples = 5;

Inputs random_inputs(const Graph& graph, std::int64_t rows, Generator& generator) {
  Inputs inputs;
  for (const ValueId id : graph.inputs) {
    Shape shape = {rows};
    for (std::size_t axis = 1; axis < graph.value(id).declared.size(); ++axis)
      shape.push_back(graph.value(id).declared[axis].extent);
    Tensor<float> x(shape);
    for (float& value : x.values) value = static_cast<float>(uniform(generator, -1.0, 1.0));
    inputs.tensors.emplace_back(graph.value(id).name, StoredTensor::from(x));
  }
  return inputs;
}

Trace run_of(const Graph& graph, const Inputs& inputs, const std::string& arithmetic = "fp32") {
  return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order("blocked:8"))).run(graph, inputs);
}

const std::vector<BoundKind> end_to_end = {BoundKind::shadow, BoundKind::adjoint_any_order,
                                           BoundKind::adjoint_order_aware};

Bounds end_to_end_bounds(const Graph& graph, const Trace& trace, std::vector<Target> targets = {}) {
  BoundOptions options;
  options.targets = std::move(targets);
  options.requests.assign(end_to_end.begin(), end_to_end.end());
  options.requests.push_back(Diagnostic::attribution);
  options.most_output_elements = 64;
  return bound(graph, trace, options);
}

std::vector<double> values_of(const LayerBounds& layer, BoundKind kind) {
  const BoundResult* result = find_bound(layer.accumulated, kind);
  REQUIRE(result != nullptr);
  return result->values.values;
}

/// How the error of the last layer compares with each of the bounds, over all.
Tally held_by(const Graph& graph, const Inputs& inputs, const Trace& trace, const Bounds& bounds) {
  const std::vector<double> computed = trace.layers.back().output.to_double().values;
  const Tensor<Ball> exact = certified_reference(graph, inputs).layers.back();
  Tally tally;
  for (const BoundKind kind : end_to_end) {
    const std::vector<double> bound = values_of(bounds.layers.back(), kind);
    REQUIRE(bound.size() == computed.size());
    for (std::size_t i = 0; i < computed.size(); ++i)
      tally.add(0.0, Real(error_of(computed[i], exact.values[i]).lower()), bound[i]);
  }
  return tally;
}

Graph open_network(const std::vector<std::string>& blocks, Generator& generator) {
  NetworkBuilder builder(generator, true);
  for (const std::string& block : blocks) builder.add(block);
  return builder.finish();
}

const std::vector<std::string>& blocks_of_samples() {
  static const std::vector<std::string> blocks = [] {
    std::vector<std::string> all = NetworkBuilder::blocks();
    std::erase(all, "attention");
    std::erase(all, "reshape");
    return all;
  }();
  return blocks;
}

/// All samples at once against each alone.
void check_row_by_row(const Graph& graph, const Inputs& inputs) {
  const Trace whole = run_of(graph, inputs);
  const Bounds all = end_to_end_bounds(graph, whole);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const Bounds one = end_to_end_bounds(graph, slice(graph, batch_layout(graph), whole, sample, 1));
    for (const BoundKind kind : end_to_end) {
      const std::vector<double> together = values_of(all.layers.back(), kind);
      const std::vector<double> alone = values_of(one.layers.back(), kind);
      REQUIRE(together.size() == alone.size() * samples);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        const double of_row = together[static_cast<std::size_t>(sample) * alone.size() + i];
        INFO(name_of(kind), " of sample ", sample, ", element ", i);
        CHECK((of_row == alone[i] || std::abs(of_row - alone[i]) <= 1e-12 * alone[i] + 1e-300));
      }
    }
  }
  const Tally tally = held_by(graph, inputs, whole, all);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
}

/// A network of one composite whose first operand holds samples and whose others are constants.
Graph network_of(const driftbound::tests::OpCase& c) {
  Graph graph;
  std::vector<DeclaredDimension> declared = {{-1, "N"}};
  for (std::size_t axis = 1; axis < c.operands[0].shape.size(); ++axis)
    declared.push_back({c.operands[0].shape[axis], ""});
  std::vector<ValueId> inputs = {graph.add_input("x", ElementType::f32, declared)};
  for (std::size_t slot = 1; slot < c.operands.size(); ++slot)
    inputs.push_back(
        graph.add_constant("c" + std::to_string(slot), StoredTensor::from(convert<float>(c.operands[slot]))));
  graph.outputs = {graph.add_node("y", c.op, inputs)};
  return graph;
}

Shape one_sample(const Inputs& inputs) {
  Shape shape = inputs.tensors[0].second.shape();
  shape.front() = 1;
  return shape;
}

bool is_batched(const Graph& graph) {
  try {
    return batch_layout(graph).batched;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

TEST_CASE("samples together have the bounds that each of them has alone") {
  Generator generator(71);
  for (const std::string& block : blocks_of_samples()) {
    CAPTURE(block);
    const Graph graph = open_network({"gemm", block, "gemm"}, generator);
    check_row_by_row(graph, random_inputs(graph, samples, generator));
  }
}

TEST_CASE("samples of composites together have the bounds that each of them has alone") {
  Generator generator(72);
  int checked = 0;
  for (const driftbound::tests::OpCase& c : driftbound::tests::every_composite(generator)) {
    const Graph graph = network_of(c);
    if (c.operands[0].shape.size() < 2 || !is_batched(graph)) continue;
    CAPTURE(name_of(c.op));
    const Inputs inputs = random_inputs(graph, samples, generator);
    const Program program(graph, {inputs.tensors[0].second.shape()}, samples);
    CHECK(program.keeps_rows_apart());
    CHECK(Program(graph, {one_sample(inputs)}, 1).with_rows(2).has_value());
    ++checked;
    check_row_by_row(graph, inputs);
  }
  CHECK(checked > 20);
}

TEST_CASE("a layer that is the same for all samples has attributions followed sample by sample, and the same bounds") {
  Generator generator(76);
  for (int repetition = 0; repetition < 5 * test_multiplier(); ++repetition) {
    const Graph graph = open_network({"gemm", "mul-computed", "tanh", "gemm"}, generator);
    const Inputs inputs = random_inputs(graph, samples, generator);
    const Trace trace = run_of(graph, inputs);
    const Bounds one_by_one = end_to_end_bounds(graph, trace, {{{0, 1}, std::nullopt}}),
                 together = end_to_end_bounds(graph, trace);
    CHECK(one_by_one.targets.at(0).attribution.value().inputs.size() == samples);
    for (const BoundKind kind : end_to_end) {
      const std::vector<double> a = values_of(one_by_one.layers.back(), kind),
                                b = values_of(together.layers.back(), kind);
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
    }
    const Tally tally = held_by(graph, inputs, trace, one_by_one);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
  }
}

TEST_CASE("weights computed from constants, and rounded ones, are charged where they are used (T-60, cut edges)") {
  Theorems forgetful;
  forgetful.remainder_with_cut_edges = [](double remainder, double) { return Magnitude(remainder); };
  Generator generator(73);
  std::int64_t violations_of_forgetful = 0;
  for (int repetition = 0; repetition < 20 * test_multiplier(); ++repetition) {
    const Graph graph = open_network({repetition % 2 == 0 ? "mul-computed" : "matmul-computed"}, generator);
    const Inputs inputs = random_inputs(graph, samples, generator);
    const Trace trace = run_of(graph, inputs);
    const Tally tally = held_by(graph, inputs, trace, end_to_end_bounds(graph, trace));
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    const ScopedTheorems in_force(forgetful);
    violations_of_forgetful += held_by(graph, inputs, trace, end_to_end_bounds(graph, trace)).violations;
  }
  CHECK(violations_of_forgetful > 0);
}

TEST_CASE("a difference of two elements has a bound of its own, no larger than theirs together") {
  Generator generator(74);
  double smallest_ratio = 1.0;
  for (int repetition = 0; repetition < 10 * test_multiplier(); ++repetition) {
    const auto& blocks = blocks_of_samples();
    Graph graph = open_network({"gemm", blocks[generator() % blocks.size()], "gemm"}, generator);
    graph.outputs.push_back(graph.add_node("second", op::Tanh{}, {graph.outputs[0]}));
    const Inputs inputs = random_inputs(graph, samples, generator);
    const Trace trace = run_of(graph, inputs);
    for (const Target& target : {Target{{0, 0}, OutputElement{0, 3}}, Target{{0, 1}, OutputElement{1, 1}}}) {
      const Bounds bounds =
          end_to_end_bounds(graph, trace, {target, {target.positive, std::nullopt}, {*target.negative, std::nullopt}});
      const std::vector<Tensor<Ball>> exact = certified_reference(graph, inputs).layers;
      const auto error_at = [&](const OutputElement& e, std::int64_t sample) {
        const std::size_t node = *graph.producer(graph.outputs[e.output]);
        const auto i = static_cast<std::size_t>(sample * 4 + e.element);
        return exact_ball(trace.layers[node].output.to_double().values[i]) - exact[node].values[i];
      };
      for (std::size_t b = 0; b < end_to_end.size(); ++b) {
        for (std::int64_t sample = 0; sample < samples; ++sample) {
          const auto at = static_cast<std::size_t>(sample);
          const double bound = bounds.targets[0].bounds[b].values.values[at];
          const double both =
              bounds.targets[1].bounds[b].values.values[at] + bounds.targets[2].bounds[b].values.values[at];
          const Ball error = error_at(target.positive, sample) - error_at(*target.negative, sample);
          CHECK(error_of(0.0, error).lower() <= bound);
          CHECK(bound <= both * (1.0 + 1e-9));
          smallest_ratio = std::min(smallest_ratio, bound / both);
        }
      }
    }
  }
  CHECK(smallest_ratio < 0.9);
}

namespace {

/// What the parts leave over of the first element's errors, at most, over what they may: rounding in extended precision,
/// or in double by rows.
double largest_rest(const Graph& graph, const Inputs& inputs, const std::string& arithmetic = "fp32") {
  const Trace trace = run_of(graph, inputs, arithmetic);
  const Bounds bounds = end_to_end_bounds(graph, trace, {{{0, 0}, std::nullopt}});
  const bool by_rows = std::none_of(bounds.not_by_rows.begin(), bounds.not_by_rows.end(), [](const NotByRows& one) {
    const bool is_whole = one.obstacle.find("samples whose numbers") != 0;
    return is_whole && one.question == Question::any_run;
  });
  const double precision = by_rows ? 1e-7 : 1e-11;
  const Attribution& parts = bounds.targets[0].attribution.value();
  const std::vector<double> computed = trace.layers.back().output.to_double().values;
  const Tensor<Ball> exact = certified_reference(graph, inputs).layers.back();
  double largest = 0.0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    const std::size_t i = sample * computed.size() / samples;
    double sum = parts.inputs[sample], size = std::abs(sum);
    for (const std::vector<double>& layer : parts.layers) {
      sum += layer[sample];
      size += std::abs(layer[sample]);
    }
    const double error = (computed[i] - exact.values[i].hi) - exact.values[i].lo;
    largest = std::max(largest, std::abs(error - sum) / (precision * size + 1e-18 * (1.0 + std::abs(computed[i]))));
  }
  return largest;
}

/// tanh(x W * softmax(c)): what is learned may pass through a function of its own.
Graph mixture(Generator& generator) {
  const auto constant = [&](const Shape& shape) {
    Tensor<float> values(shape);
    for (float& value : values.values) value = static_cast<float>(uniform(generator, -1.0, 1.0));
    return StoredTensor::from(values);
  };
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
  const ValueId product = graph.add_node("xW", op::MatMul{}, {x, graph.add_constant("W", constant({4, 4}))});
  const ValueId shares = graph.add_node("shares", op::Softmax{}, {graph.add_constant("c", constant({1, 4}))});
  const ValueId mixed = graph.add_node("mixed", op::Mul{}, {product, shares});
  graph.outputs = {graph.add_node("y", op::Tanh{}, {mixed})};
  return graph;
}

}  // namespace

TEST_CASE("the parts of an error add up to it through products, quotients, softmax and extrema (T-73)") {
  Generator generator(75);
  double largest = 0.0;
  for (const std::string& block : blocks_of_samples()) {
    for (const std::string last : {"mul", "div", "softmax", "reduce-max", "max"}) {
      const Graph graph = open_network({"gemm", block, last}, generator);
      const double rest = largest_rest(graph, random_inputs(graph, samples, generator));
      INFO(block, " ", last);
      CHECK_EXACT("T-73", rest <= 1.0);
      largest = std::max(largest, rest);
    }
  }
  for (const char* arithmetic : {"fp32", "tf32"}) {
    const Graph graph = mixture(generator);
    const double rest = largest_rest(graph, random_inputs(graph, samples, generator), arithmetic);
    INFO("a function of a constant, ", arithmetic);
    CHECK(rest <= 1.0);
    largest = std::max(largest, rest);
  }
  MESSAGE("what the parts leave over: " << largest << " of what they may");
}

namespace {

/// h = relu(W x + b), h += relu(W h + b), sum of h; some neurons of both layers are far below 0, or left out.
Graph residual_network(std::int64_t neurons, std::int64_t idle_ones, Generator& generator) {
  const std::int64_t width = neurons + idle_ones;
  const auto weights = [&](std::int64_t inputs, std::int64_t outputs, std::int64_t read) {
    Tensor<float> w({inputs, outputs});
    for (std::int64_t i = 0; i < read; ++i) {
      for (std::int64_t j = 0; j < std::min(neurons, outputs); ++j)
        w.values[static_cast<std::size_t>(i * outputs + j)] = static_cast<float>(uniform(generator, -1.0, 1.0));
    }
    return StoredTensor::from(w);
  };
  Tensor<float> bias({width});
  for (std::size_t j = 0; j < bias.size(); ++j) bias.values[j] = j < static_cast<std::size_t>(neurons) ? 0.5f : -100.0f;
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId b = graph.add_constant("b", StoredTensor::from(bias));
  const auto layer = [&](const std::string& name, ValueId from, std::int64_t inputs, std::int64_t read) {
    const ValueId w = graph.add_constant("w" + name, weights(inputs, width, read));
    return graph.add_node("relu" + name, op::Relu{}, {graph.add_node(name, op::Gemm{}, {from, w, b})});
  };
  const ValueId first = layer("first", x, 2, 2);
  const ValueId second = layer("second", first, width, neurons);
  const ValueId sum = graph.add_node("sum", op::Add{}, {first, second});
  const ValueId head = graph.add_constant("head", weights(width, 1, neurons));
  graph.outputs = {graph.add_node("y", op::MatMul{}, {sum, head})};
  return graph;
}

}  // namespace

TEST_CASE("neurons that are 0 in every run are no terms of later sums, behind an Add either (T-22, T-68)") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Generator generator(seed), same_again(seed);
    const Graph with = residual_network(6, 40, generator), without = residual_network(6, 0, same_again);
    const Inputs inputs = random_inputs(with, samples, generator);
    for (const BoundKind kind : {BoundKind::adjoint_any_order, BoundKind::adjoint_order_aware}) {
      const std::vector<double> among_idle_ones =
          values_of(end_to_end_bounds(with, run_of(with, inputs)).layers.back(), kind);
      const std::vector<double> alone =
          values_of(end_to_end_bounds(without, run_of(without, inputs)).layers.back(), kind);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        INFO(name_of(kind), " of sample ", i);
        CHECK(among_idle_ones[i] <= 1.001 * alone[i]);
      }
    }
  }
}

namespace {

struct Compared {
  Trace trace;
  Reference exact;
  Bounds alone, with_network;
};

/// Bounds of a run of a transformer of five blocks, without and with enclosures of the exact network.
Compared transformer_run(const std::string& arithmetic) {
  Generator generator(788);
  TransformerBuilder builder({5, 6, 16, 2, false}, generator);
  const Graph graph = builder.build();
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(builder.inputs()));
  BoundOptions options;
  options.requests = {BoundKind::shadow, BoundKind::replay};
  options.targets = {{{0, 3}, std::nullopt}, {{0, 3}, OutputElement{0, 5}}};
  Compared result;
  result.trace = run_of(graph, inputs, arithmetic);
  result.exact = certified_reference(graph, result.trace.inputs, {}, &result.trace);
  const Bounder bounder(graph, options);
  result.alone = bounder(result.trace);
  result.with_network = bounder(result.trace, {nullptr, &result.exact.layers});
  return result;
}

}  // namespace

TEST_CASE("enclosures of the exact network bound this run to within 2^-29 of its error, where radii cannot (T-70)") {
  for (const std::string arithmetic : {"fp32", "fp64"}) {
    CAPTURE(arithmetic);
    const Compared run = transformer_run(arithmetic);
    const std::size_t last = run.trace.layers.size() - 1;
    for (std::size_t node = 0; node <= last; ++node) {
      const std::vector<double> computed = run.trace.layers[node].output.to_double().values;
      const std::vector<double> bound = values_of(run.with_network.layers[node], BoundKind::shadow);
      for (std::size_t i = 0; i < computed.size(); ++i) {
        const Interval error = error_of(computed[i], run.exact.layers[node].values[i]);
        CHECK(error.upper() <= bound[i]);
        CHECK(bound[i] <= (1.0 + 0x1p-29) * error.upper() + 0x1p-1000);
      }
    }
    const std::vector<double> bound = values_of(run.with_network.layers[last], BoundKind::shadow);
    for (const BoundResult& target : run.with_network.targets[0].bounds)
      if (target.kind == BoundKind::shadow) CHECK(target.values.values[0] <= bound[3]);
    for (const BoundResult& target : run.with_network.targets[1].bounds)
      if (target.kind == BoundKind::shadow) CHECK(target.values.values[0] <= (1.0 + 0x1p-40) * (bound[3] + bound[5]));
    const std::vector<double> alone = values_of(run.alone.layers[last], BoundKind::shadow);
    CHECK(*std::max_element(alone.begin(), alone.end()) > 1000.0 * *std::max_element(bound.begin(), bound.end()));
    CHECK(run.with_network.layers[last].accumulated.front().guarantee == Guarantee::proven);
  }
}

TEST_CASE("enclosures of another network's layers are refused") {
  const Compared run = transformer_run("fp32");
  Generator generator(788);
  TransformerBuilder builder({5, 6, 16, 2, false}, generator);
  const Graph graph = builder.build();
  std::vector<Tensor<Ball>> fewer = run.exact.layers;
  fewer.pop_back();
  const Bounder bounder(graph);
  CHECK_THROWS_AS(bounder(run.trace, {nullptr, &fewer}), ShapeMismatch);
}

namespace {

/// What weighs values by a softmax of scores, some of which are masked by a large number.
enum class Mask { added, chosen, of_softmax };
Graph masked_network(double masked, Mask how) {
  Generator generator(790);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {6, ""}});
  const auto constant = [&](const std::string& name, const Shape& shape, const auto& value_at) {
    Tensor<double> values(shape);
    for (std::size_t i = 0; i < values.size(); ++i) values.values[i] = value_at(i);
    return graph.add_constant(name, StoredTensor::from(values));
  };
  const auto random = [&](std::size_t) {
    return static_cast<double>(static_cast<float>(uniform(generator, -1.0, 1.0)));
  };
  const auto is_masked = [](std::size_t i) { return i % 3 == 1; };
  ValueId scores = graph.add_node("scores", op::MatMul{}, {x, constant("w", {6, 8}, random)});
  const ValueId weights = constant("v", {8, 2}, random);
  Op softmax = op::Softmax{-1, false};
  if (how == Mask::of_softmax) {
    std::vector<bool> kept(8);
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = !is_masked(i);
    softmax = op::MaskedSoftmax{-1, {8}, kept};
  } else if (how == Mask::chosen) {
    const ValueId keep = constant("keep", {8}, [&](std::size_t i) { return is_masked(i) ? 0.0 : 1.0; });
    scores = graph.add_node("chosen", op::Choice{},
                            {keep, scores, constant("low", {1}, [&](std::size_t) { return masked; })});
  } else {
    const ValueId mask = constant("mask", {8}, [&](std::size_t i) { return is_masked(i) ? masked : 0.0; });
    scores = graph.add_node("sum", op::Add{}, {scores, mask});
  }
  graph.outputs = {graph.add_node("y", op::MatMul{}, {graph.add_node("p", softmax, {scores}), weights})};
  return graph;
}

double bound_of_mask(BoundKind kind, const ArithmeticModel& arithmetic, double masked, Mask how) {
  const Graph graph = masked_network(masked, how);
  Generator generator(791);
  const Inputs inputs = random_inputs(graph, 2, generator);
  const Trace trace = cpu_evaluator(arithmetic).run(graph, inputs);
  const Bounds bounds = Bounder(graph)(trace);
  const std::vector<double> bound = values_of(bounds.layers.back(), kind);
  return *std::max_element(bound.begin(), bound.end());
}

}  // namespace

TEST_CASE("masks of every kind and size give the same bounds, up to a factor of 2 (T-45, T-131)") {
  for (const FormatId stored : {FormatId::fp32, FormatId::fp64, FormatId::fp16}) {
    CAPTURE(format(stored).name);
    ArithmeticModel arithmetic =
        cpu_arithmetic(stored == FormatId::fp64 ? "fp64" : "fp32", parse_summation_order("blocked:8"));
    arithmetic.output = stored;
    const double largest = format(stored).largest;
    for (const BoundKind kind : {BoundKind::forward, BoundKind::adjoint_any_order}) {
      CAPTURE(name_of(kind));
      const double usual = bound_of_mask(kind, arithmetic, -1e4, Mask::added);
      CHECK(std::isfinite(usual));
      for (const Mask how : {Mask::added, Mask::chosen, Mask::of_softmax}) {
        const double bound = bound_of_mask(kind, arithmetic, -largest, how);
        CHECK(bound <= 2.0 * usual);
        CHECK(bound >= 0.5 * usual);
      }
    }
  }
}

TEST_CASE("an element at a jump leaves the targets open that it has a path to, and no others (T-60)") {
  const auto bounds_of = [](const Op& last) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
    const ValueId step = graph.add_constant("step", StoredTensor::from(Tensor<float>({1}, {0.05F})));
    const ValueId level = graph.add_node("floor", op::Floor{}, {graph.add_node("div", op::Div{}, {x, step})});
    const ValueId y = graph.add_node("scaled", op::Mul{}, {level, step});
    std::vector<ValueId> operands = {y};
    if (std::holds_alternative<op::MatMul>(last))
      operands.push_back(graph.add_constant("w", StoredTensor::from(Tensor<float>({4, 2}))));
    graph.outputs = {y, graph.add_node("last", last, operands)};
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 4}, {0.15F, 0.17F, 0.31F, -0.02F})));
    const Bounds all = end_to_end_bounds(graph, run_of(graph, inputs));
    REQUIRE(!all.infinite.empty());
    CHECK(all.infinite.front().reason.find("at a jump of Floor: it lies within") != std::string::npos);
    std::vector<std::vector<double>> bounds;
    for (const LayerBounds& layer : all.layers)
      if (const BoundResult* bound = find_bound(layer.accumulated, BoundKind::adjoint_any_order))
        bounds.push_back(bound->values.values);
    return bounds;
  };
  const auto is_open = [](const std::vector<double>& bound) {
    std::vector<bool> open;
    for (const double x : bound) open.push_back(std::isinf(x));
    return open;
  };
  const auto apart = bounds_of(op::Slice{{2}, {4}, {1}, {1}}), mixed = bounds_of(op::MatMul{});
  REQUIRE(apart.size() == 2);
  REQUIRE(mixed.size() == 2);
  CHECK(is_open(apart[0]) == std::vector<bool>{true, false, false, false});
  CHECK(is_open(apart[1]) == std::vector<bool>{false, false});
  CHECK(apart[0][1] < 1e-7);
  CHECK(is_open(mixed[1]) == std::vector<bool>{true, true});
}

TEST_CASE("a path goes through data movement, through products by 0 and from row to row of an operand (T-60)") {
  const auto is_open_after = [](const Op& last, const Shape& weights) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {2, ""}});
    const Tensor<float> w({2, 4}, {1.0F, 0.3F, 0.7F, 0.9F, 1.0F, 0.1F, 0.2F, 0.4F});
    const ValueId sums = graph.add_node("sums", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(w))});
    std::vector<ValueId> operands = {graph.add_node("floor", op::Floor{}, {sums})};  // of 3, which is at a jump, at 0
    if (!weights.empty()) operands.push_back(graph.add_constant("v", StoredTensor::from(Tensor<float>(weights))));
    graph.outputs = {graph.add_node("last", last, operands)};
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 2}, {1.5F, 1.5F})));
    std::vector<bool> open;  // of the distance of the shadow from the exact network, which has no roundings of its own
    for (const double x : values_of(end_to_end_bounds(graph, run_of(graph, inputs)).layers.back(), BoundKind::shadow))
      open.push_back(std::isinf(x));
    return open;
  };
  using Open = std::vector<bool>;
  CHECK(is_open_after(op::Slice{{2}, {4}, {1}, {1}}, {}) == Open{false, false});
  CHECK(is_open_after(op::Slice{{3}, {-5}, {1}, {-1}}, {}) == Open{false, false, false, true});
  CHECK(is_open_after(op::Neg{}, {}) == Open{true, false, false, false});
  CHECK(is_open_after(op::Mul{}, {1, 4}) == Open{true, false, false, false});
  CHECK(is_open_after(op::MatMul{}, {4, 2}) == Open{true, true});
  CHECK(is_open_after(op::ReduceSum{{1}, true}, {}) == Open{true});
}

TEST_CASE("a run in double whose output is not followed is compared with the exact network alone (T-70)") {
  const Graph graph = masked_network(-1e4, Mask::added);
  Generator generator(792);
  const Trace trace = run_of(graph, random_inputs(graph, 2, generator), "fp64");
  const Reference exact = certified_reference(graph, trace.inputs, {}, &trace);
  BoundOptions options;
  options.requests = {BoundKind::shadow};
  options.most_output_elements = 1;
  const Bounder bounder(graph, options);
  const Bounds bounds = bounder(trace, {nullptr, &exact.layers});
  const std::vector<double> bound = values_of(bounds.layers.back(), BoundKind::shadow);
  const std::vector<double> computed = trace.layers.back().output.to_double().values;
  for (std::size_t i = 0; i < bound.size(); ++i)
    CHECK(bound[i] == error_of(computed[i], exact.layers.back().values[i]).upper());
}

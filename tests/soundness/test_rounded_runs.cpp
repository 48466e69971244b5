#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/reference/reference.hpp"
#include "soundness/bundled.hpp"
#include "support/rounded_checks.hpp"

// The rounded shadow (T-76) of bundled and of random residual networks, held against runs in many orders.

namespace driftbound {
namespace {

const std::vector<std::string> orders = {"sequential", "pairwise", "blocked:8+fma", "split-k:2", "split-k:4+fma"};

std::filesystem::path model(const std::string& name) {
  return std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx");
}

Inputs inputs_for(const Graph& graph, std::int64_t samples) {
  InputGenerator generator;
  generator.samples = samples;
  return generate_inputs(graph, generator);
}

Trace run(const Graph& graph, const Inputs& inputs, const std::string& arithmetic, const std::string& order) {
  return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order(order))).run(graph, inputs);
}

/// Runs of this library in declared orders and of a naive program in random ones, against one of them's bounds.
void hold_runs(const Graph& graph, const std::string& arithmetic, Tally& tally) {
  const Inputs inputs = inputs_for(graph, 24);
  const std::size_t node = *graph.producer(graph.outputs.front());
  const Tensor<Ball> exact = certified_reference(graph, inputs).layers[node];
  BoundOptions options;
  options.requests = {BoundKind::rounded_shadow};
  const Bounds bounds = bound(graph, run(graph, inputs, arithmetic, "pairwise"), options);
  const BoundResult* of_output = checks::find_bound(bounds.layers[node].accumulated, BoundKind::rounded_shadow);
  REQUIRE(of_output != nullptr);
  const auto hold = [&](const std::vector<double>& computed) {
    for (std::size_t i = 0; i < computed.size(); ++i)
      tally.add(0.0, Real(error_of(computed[i], exact.values[i]).lower()), of_output->values.values[i]);
  };
  for (const std::string& order : orders)
    hold(run(graph, inputs, arithmetic, order).layers[node].output.to_double().values);
  checks::Generator generator(24);
  const checks::NarrowRun kind{cpu_arithmetic(arithmetic, {}).input, FormatId::fp32, false};
  for (int i = 0; i < 3; ++i) {
    const auto values = checks::NarrowRunner(kind, generator)(graph, inputs.tensors.front().second.to_double());
    hold(checks::convert<double>(values[graph.outputs.front()]).values);
  }
}

/// The largest bound of outputs[1] - outputs[0] over its largest error.
struct SupRatio {
  double largest_bound = 0.0, largest_error = 0.0;
  double value() const { return largest_bound / largest_error; }
};

SupRatio sup_ratio(const Graph& graph, const std::string& arithmetic, std::int64_t samples) {
  const Inputs inputs = inputs_for(graph, samples);
  const std::size_t node = *graph.producer(graph.outputs.front());
  const auto differences = [&](const Trace& trace) {
    const std::vector<double> y = trace.layers[node].output.to_double().values;
    std::vector<double> result;
    for (std::size_t i = 0; i + 1 < y.size(); i += 2) result.push_back(y[i + 1] - y[i]);
    return result;
  };
  const std::vector<double> exact = differences(run(graph, inputs, "fp64", "sequential+fma"));
  SupRatio ratio;
  Trace first;
  for (const std::string& order : orders) {
    Trace trace = run(graph, inputs, arithmetic, order);
    const std::vector<double> computed = differences(trace);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ratio.largest_error = std::max(ratio.largest_error, std::abs(computed[i] - exact[i]));
    first = std::move(trace);
  }
  BoundOptions options;
  options.requests = {BoundKind::rounded_shadow};
  options.most_output_elements = 0;
  options.targets = {{{0, 1}, OutputElement{0, 0}}};
  const Bounds bounds = bound(graph, first, options);
  for (const double bound : bounds.targets.at(0).bounds.at(0).values.values)
    ratio.largest_bound = std::max(ratio.largest_bound, bound);
  return ratio;
}

/// h <- h + f(W h + b), `blocks` times, between a wide first layer and two outputs.
Graph residual_network(const Op& function, int blocks, std::int64_t width, std::uint64_t seed) {
  checks::Generator generator(seed);
  Graph graph;
  int constants = 0, nodes = 0;
  const auto constant = [&](const Shape& shape, double scale) {
    Tensor<float> values(shape);
    for (float& value : values.values) value = static_cast<float>(checks::uniform(generator, -scale, scale));
    return graph.add_constant("c" + std::to_string(++constants), StoredTensor::from(values));
  };
  const auto node = [&](const Op& op, const std::vector<ValueId>& operands) {
    return graph.add_node("n" + std::to_string(++nodes), op, operands);
  };
  const double scale = 1.2 / std::sqrt(static_cast<double>(width));
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {1, ""}});
  ValueId h = node(function, {node(op::Gemm{}, {x, constant({1, width}, 45.0), constant({width}, 45.0)})});
  for (int block = 0; block < blocks; ++block) {
    const ValueId z = node(op::Gemm{}, {h, constant({width, width}, scale), constant({width}, 0.1)});
    h = node(op::Add{}, {h, node(function, {z})});
  }
  graph.outputs = {node(op::Gemm{}, {h, constant({width, 2}, scale), constant({2}, 1.0)})};
  return graph;
}

void record(const std::string& name, const std::string& arithmetic, const SupRatio& ratio) {
  MESSAGE(fmt::format("{} {}: rounded shadow {:.2f} times the largest error", name, arithmetic, ratio.value()));
}

}  // namespace

TEST_CASE("runs in narrow formats, declared orders and random ones stay within the rounded shadow's bounds (T-76)") {
  for (const auto& file : soundness::models_in(model("x").parent_path())) {
    if (std::filesystem::file_size(file) > 80'000) continue;
    const Graph graph = load_model(file);
    for (const char* arithmetic : {"tf32", "bf16", "fp16"}) {
      Tally tally;
      hold_runs(graph, arithmetic, tally);
      INFO(file.filename().string(), " ", arithmetic, " ", tally.first_violation);
      CHECK(tally.violations == 0);
      CHECK(tally.utilisation > 0.9);
    }
  }
}

TEST_CASE("the rounded shadow is at most 5 times the largest error on bundled residual networks (T-76)") {
  for (const auto& [name, samples] : std::vector<std::pair<std::string, std::int64_t>>{
           {"oscillator_d2_w16", 1000}, {"oscillator_d8_w16", 1000}, {"oscillator_d8_w64", 500}}) {
    const Graph graph = load_model(model(name));
    for (const char* arithmetic : {"tf32", "bf16", "fp16"}) {
      const SupRatio ratio = sup_ratio(graph, arithmetic, samples * test_multiplier());
      record(name, arithmetic, ratio);
      CHECK(ratio.value() >= 1.0);
      CHECK(ratio.value() <= 5.0);
    }
  }
}

TEST_CASE("the rounded shadow is at most 12 times the largest error on small residual networks of tanh and Gelu") {
  const std::vector<std::pair<std::string, Op>> functions = {{"tanh", op::Tanh{}}, {"gelu", op::Gelu{}}};
  for (const auto& [name, function] : functions) {
    const Graph graph = residual_network(function, 4, 32, 77);
    for (const char* arithmetic : {"tf32", "bf16"}) {
      const SupRatio ratio = sup_ratio(graph, arithmetic, 200 * test_multiplier());
      record(name, arithmetic, ratio);
      CHECK(ratio.value() >= 1.0);
      CHECK(ratio.value() <= 12.0);
    }
  }
}

}  // namespace driftbound

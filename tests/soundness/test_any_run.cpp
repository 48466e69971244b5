#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/reference/reference.hpp"
#include "soundness/bundled.hpp"
#include "support/tally.hpp"

namespace driftbound {
namespace {

constexpr std::int64_t few_samples = 24;

const BoundResult& bound_of(const std::vector<BoundResult>& bounds, BoundKind kind) {
  return *std::find_if(bounds.begin(), bounds.end(), [&](const BoundResult& bound) { return bound.kind == kind; });
}

/// How the outputs of runs in many orders compare with what the bounds of one of them say of all.
struct AnyRun {
  double largest_error = 0.0, largest_bound = 0.0;
  std::int64_t checked = 0, violations = 0;

  double sup_ratio() const { return largest_bound / largest_error; }
};

/// Errors, what the parts that are said to add up to them leave over, and that as a share of the error at the point.
struct AttributionCheck {
  double largest_error = 0.0, largest_rest = 0.0;
  std::vector<double> shares;
};

class Runs {
public:
  Runs(const std::filesystem::path& file, const std::string& arithmetic, std::int64_t samples = few_samples)
      : graph_(load_model(file)),
        arithmetic_(arithmetic),
        samples_(static_cast<std::size_t>(samples)),
        inputs_(generate_inputs(graph_, generator(samples))) {
    node_ = *graph_.producer(graph_.outputs.front());
    exact_ = certified_reference(graph_, inputs_).layers[node_];
  }

  Trace run(const std::string& order, std::int64_t batch = 0) const {
    RunOptions options;
    options.batch = batch;
    return cpu_evaluator(cpu_arithmetic(arithmetic_, parse_summation_order(order))).run(graph_, inputs_, options);
  }

  std::vector<BoundResult> bounds_of(const Trace& trace) const {
    return bound(graph_, trace).layers[node_].accumulated;
  }

  /// Of the first element of the output.
  AttributionCheck attribution_of(const Trace& trace) const {
    BoundOptions options;
    options.targets = {{{0, 0}, std::nullopt}};
    options.requests = {Diagnostic::attribution};
    const Attribution parts = *bound(graph_, trace, options).targets.at(0).attribution;
    const std::vector<double> computed = trace.layers[node_].output.to_double().values;
    AttributionCheck check;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      const std::size_t i = sample * computed.size() / samples_;
      double sum = parts.inputs[sample];
      for (const std::vector<double>& layer : parts.layers) sum += layer[sample];
      const Ball& exact = exact_.values[i];
      const double error = (computed[i] - exact.hi) - exact.lo;
      check.largest_error = std::max(check.largest_error, std::abs(error));
      check.largest_rest = std::max(check.largest_rest, std::abs(error - sum));
      if (error != 0.0) check.shares.push_back(std::abs(error - sum) / std::abs(error));
    }
    return check;
  }

  void hold(const Trace& trace, const BoundResult& bound, AnyRun& tally) const {
    const std::vector<double> computed = trace.layers[node_].output.to_double().values;
    for (std::size_t i = 0; i < computed.size(); ++i) {
      const Interval error = error_of(computed[i], exact_.values[i]);
      ++tally.checked;
      if (!(error.lower() <= bound.values.values[i])) ++tally.violations;
      tally.largest_error = std::max(tally.largest_error, error.upper());
      tally.largest_bound = std::max(tally.largest_bound, bound.values.values[i]);
    }
  }

private:
  static InputGenerator generator(std::int64_t samples) {
    InputGenerator generator;
    generator.samples = samples;
    return generator;
  }

  Graph graph_;
  std::string arithmetic_;
  std::size_t samples_;
  Inputs inputs_;
  std::size_t node_ = 0;
  Tensor<Ball> exact_;
};

const std::vector<std::string> orders = {"sequential",    "sequential+fma", "pairwise",     "blocked:8",
                                         "blocked:8+fma", "split-k:2",      "split-k:4+fma"};

std::filesystem::path models() {
  return std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models";
}

}  // namespace

TEST_CASE("runs in other orders and batches stay within what one run's bounds say of every run (T-71)") {
  for (const auto& file : soundness::models_in(models())) {
    for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
      const Runs runs(file, arithmetic);
      const Trace first = runs.run("pairwise");
      const std::vector<BoundResult> bounds = runs.bounds_of(first);
      AnyRun any_order, in_order;
      for (const std::string& order : orders)
        runs.hold(runs.run(order), bound_of(bounds, BoundKind::adjoint_any_order), any_order);
      runs.hold(runs.run("pairwise", 5), bound_of(bounds, BoundKind::adjoint_order_aware), in_order);
      INFO(file.filename().string(), " ", arithmetic);
      CHECK(any_order.violations == 0);
      CHECK(in_order.violations == 0);
      MESSAGE(fmt::format("{} {}: any order {:.0f} times the largest error, in order {:.0f}", file.filename().string(),
                          arithmetic, any_order.sup_ratio(), in_order.sup_ratio()));
    }
  }
}

TEST_CASE("a bound of every run counts the error of the shadow too, where a kink is as near (T-61)") {
  constexpr double ulp = 0x1p-52;
  // the exact sum lies between 1 and the kink, the run beyond it and the shadow, which adds up otherwise, at 1
  const std::vector<double> x = {0x1p-30, 0x1.2a5ae2486f35fp+0, 0x1p-26}, w = {-0x1p-30, 0x1.b750c8670644bp-1, 0x1p-27};
  Graph graph;
  const ValueId input = graph.add_input("x", ElementType::f64, {{-1, "N"}, {3, ""}});
  const auto constant = [&](const char* name, const Tensor<double>& values) {
    return graph.add_constant(name, StoredTensor::from(values));
  };
  const ValueId sum = graph.add_node("sum", op::MatMul{}, {input, constant("w", Tensor<double>({3, 1}, w))});
  const ValueId less = graph.add_node("less", op::Sub{}, {sum, constant("one", Tensor<double>({1}, {1.0}))});
  const ValueId bent = graph.add_node("bent", op::Sub{}, {less, constant("bend", Tensor<double>({1}, {1.6 * ulp}))});
  graph.outputs = {graph.add_node("relu", op::Relu{}, {bent})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<double>({1, 3}, x)));
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp64", parse_summation_order("sequential"))).run(graph, inputs);
  const double computed = trace.layers.back().output.to_double().values[0];
  REQUIRE(computed > 0.0);  // exact: 0
  BoundOptions options;
  options.requests = {BoundKind::adjoint_any_order};
  const LayerBounds bounds = bound(graph, trace, options).layers.back();
  CHECK(computed <= bound_of(bounds.accumulated, BoundKind::adjoint_any_order).values.values[0]);
}

TEST_CASE("the parts that layers have in an error add up to it, however small it is (T-73)") {
  for (const auto& file : soundness::models_in(models())) {
    const std::uintmax_t bytes = std::filesystem::file_size(file);
    const std::int64_t samples = bytes < 20'000 ? 1000 : (bytes < 200'000 ? 40 : 8) * test_multiplier();
    for (const char* arithmetic : {"fp32", "tf32", "bf16"}) {
      const Runs runs(file, arithmetic, samples);
      AttributionCheck check = runs.attribution_of(runs.run("sequential+fma"));
      INFO(file.filename().string(), " ", arithmetic);
      REQUIRE(!check.shares.empty());
      std::sort(check.shares.begin(), check.shares.end());
      CHECK(check.largest_rest <= 1e-8 * check.largest_error);
      CHECK(check.shares.back() <= 1e-6);
      MESSAGE(fmt::format(
          "{} {}: {:.1e} of the largest error is left over, of an error {:.1e} at most, {:.1e} at the median",
          file.filename().string(), arithmetic, check.largest_rest / check.largest_error, check.shares.back(),
          check.shares[check.shares.size() / 2]));
    }
  }
}

}  // namespace driftbound

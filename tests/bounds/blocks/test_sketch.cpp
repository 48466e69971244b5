#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "faults/theorems.hpp"
#include "support/approach.hpp"
#include "support/sketch_checks.hpp"

using namespace checks;

namespace {

double largest(const std::vector<double>& values) {
  return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
}

const BoundResult& shadow_of_layer(const Bounds& bounds, std::size_t layer) {
  const BoundResult* shadow = find_bound(bounds.layers[layer].accumulated, BoundKind::shadow);
  REQUIRE(shadow != nullptr);
  return *shadow;
}

double largest_magnitude(const std::vector<double>& values) {
  double result = 0.0;
  for (const double x : values) result = std::max(result, std::abs(x));
  return result;
}

}  // namespace

TEST_CASE("coin flips have variance 1, and sums of their squares fall below the quantile no more often than stated") {
  double mean = 0.0, variance = 0.0, closest = 0.0;
  for (const auto& [x, p] : of_coin_flips()) {
    mean += p * x;
    variance += p * x * x;
  }
  CHECK(std::abs(mean) < 1e-12);
  CHECK(std::abs(variance - 1.0) < 1e-12);
  CHECK(check_quantile(&closest) == 0);
  CHECK_APPROACH("T-78", closest, 0.584);
}

TEST_CASE("quantiles grow with directions and with what may fail, and are near those of chi-squared") {
  const auto quantile = bounds::sketch_quantile;
  CHECK(quantile(1, 1e-9) == 0.0);
  CHECK(quantile(96, 1e-15) > 20.0);
  CHECK(quantile(96, 1e-15) < 24.3);  // the quantile of chi-squared itself
  CHECK(quantile(96, 1e-12) > quantile(96, 1e-15));
  CHECK(quantile(128, 1e-15) > quantile(96, 1e-15));
}

TEST_CASE("shares, radii and covers of a sketch (T-78)") {
  CHECK(check_share() == 0);
  CHECK(check_radius() == 0);
  CHECK(check_cover() == 0);
  CHECK(bounds::sketch_share(Magnitude(), 0.0) == Magnitude());
}

TEST_CASE("every value of a transformer moves within its radius by random directions (T-78)") {
  Generator generator(784);
  Tally all, outputs;
  int drawn = 0;
  for (int repetition = 0; repetition < test_multiplier(); ++repetition) {
    for (const bool is_causal : {false, true}) {
      Sketched network = sketched_transformer({2, 4, 8, 2, is_causal}, generator());
      for (const double radius : {0.0, 1e-12, 1e-10, 1e-8, 1e-7}) {
        const auto deviation = network.draw(radius);
        if (!deviation) continue;
        ++drawn;
        for (int corner = 0; corner < 3; ++corner) {
          const std::vector<double> signs = random_corner(network.inputs(), generator);
          all += network.check_at(*deviation, radius, signs);
          outputs += network.check_at(*deviation, radius, signs, true);
        }
      }
    }
  }
  INFO(all.first_violation);
  CHECK(all.violations == 0);
  CHECK(drawn >= 8);
  CHECK_APPROACH("T-78", outputs.utilisation, 0.249);
}

namespace {

std::vector<double> asked_failures;
std::vector<std::uint64_t> flipped;

}  // namespace

TEST_CASE("every element has its share of what may fail at every attempt, and every attempt its own coins (T-78)") {
  Theorems theorems;
  theorems.sketch_quantile = [](std::int64_t directions, double failure) {
    asked_failures.push_back(failure);
    return proven::sketch_quantile(directions, failure);
  };
  theorems.coin_flips = [](std::uint64_t bits) {
    flipped.push_back(bits);
    return proven::coin_flips(bits);
  };
  theorems.sketch_covers = [](double, double) { return false; };
  const ScopedTheorems in_force(theorems);
  Sketched network = sketched_transformer({2, 4, 8, 2, false}, 786);
  bounds::SketchOptions options;
  options.attempts = 3;
  CHECK_FALSE(network.draw(1e-12, options));
  double statements = options.attempts;
  std::size_t elements = 0;
  for (ValueId id = 0; id < network.program().size(); ++id)
    elements += network.program().varies(id) ? network.shadow().values[id].size() : 0;
  statements *= static_cast<double>(elements);
  CHECK(elements > 100);
  CHECK(asked_failures.size() == 3);
  for (const double failure : asked_failures) {
    CHECK(statements * failure <= options.failure_probability);
    CHECK(statements * failure >= 0.99 * options.failure_probability);
  }
  std::sort(flipped.begin(), flipped.end());
  CHECK(flipped.size() > 3 * elements);
  CHECK(std::adjacent_find(flipped.begin(), flipped.end()) == flipped.end());
}

TEST_CASE("every block moves its values within their radii by random directions (T-78)") {
  Generator generator(785);
  for (const std::string& block : NetworkBuilder::blocks()) {
    CAPTURE(block);
    Tally tally;
    for (const double radius : {1e-9, 1e-3}) {
      NetworkBuilder builder(generator);
      for (const std::string& name : {std::string("gemm"), block, std::string("gemm")}) builder.add(name);
      Sketched network(builder.finish(), network_inputs(1.0, true, generator));
      const auto deviation = network.draw(radius);
      if (!deviation) continue;
      for (int corner = 0; corner < 4; ++corner)
        tally += network.check_at(*deviation, radius, random_corner(network.inputs(), generator));
    }
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.checked > 0);
  }
}

TEST_CASE("amplitudes that remainders outgrow give no radii") {
  Sketched network = sketched_transformer({2, 4, 8, 2, false}, 786);
  CHECK(!network.draw(0.5));
}

TEST_CASE("radii by random directions are the same for any number of threads, and others for another seed") {
  Sketched one = sketched_transformer({2, 4, 8, 2, false}, 787, 1);
  Sketched two = sketched_transformer({2, 4, 8, 2, false}, 787, 2);
  bounds::SketchOptions other;
  other.seed = 1;
  const ValueId output = one.output();
  const std::vector<double> radii = one.draw(1e-8)->radii[output].element;
  CHECK(radii == two.draw(1e-8)->radii[output].element);
  CHECK(radii != one.draw(1e-8, other)->radii[output].element);
}

TEST_CASE("a deep transformer in double is known to 10^-9 of its outputs, from node to node it is not (T-78)") {
  const int scale = test_multiplier();
  const TransformerSize size =
      scale < 10 ? TransformerSize{8, 8, 32, 4, false} : TransformerSize{12, 32, 128, 4, false};
  Sketched network = sketched_transformer(size, 1, 2);
  const auto deviation = network.draw(0.0);
  REQUIRE(deviation.has_value());
  const ValueId output = network.output();
  const double radius = largest(deviation->radii[output].element);
  const double scale_of_output = largest_magnitude(network.shadow().values[output].values);
  const double before = largest(network.from_node_to_node(0.0).radii[output].element);
  const double adjoint = network.certificate(*deviation, 0);
  MESSAGE("largest output ", scale_of_output, ", radius ", radius, ", from node to node ", before, ", adjoint ",
          adjoint);
  CHECK(radius <= 1e-9 * scale_of_output);
  CHECK(!(before <= 1e-3 * scale_of_output));
  CHECK(adjoint <= deviation->radii[output].element[0]);
  CHECK(deviation->radii[output].element[0] <= 20.0 * adjoint);
}

TEST_CASE("shadow is probabilistic where it needs random directions, and says with what it fails") {
  Generator generator(788);
  TransformerBuilder builder({5, 6, 16, 2, false}, generator);
  const Graph graph = builder.build();
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(builder.inputs()));
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8"))).run(graph, inputs);
  const std::size_t last = graph.nodes.size() - 1;
  BoundOptions options;
  options.requests = {BoundKind::shadow};
  options.targets = {{{0, 3}, std::nullopt}};
  const Bounds bounds = bound(graph, trace, options);
  const BoundResult& shadow = shadow_of_layer(bounds, last);
  CHECK(shadow.guarantee == Guarantee::probabilistic);
  CHECK(shadow.theorem == "T-78");
  CHECK(shadow.failure_probability == 1e-9);
  CHECK(shadow_of_layer(bounds, 0).guarantee == Guarantee::proven);
  CHECK(!shadow_of_layer(bounds, 0).failure_probability.has_value());
  const BoundResult& target = bounds.targets[0].bounds.front();
  CHECK(target.guarantee == Guarantee::probabilistic);
  CHECK(target.values.values[0] <= shadow.values.values[3]);

  const Tensor<Ball> exact = certified_reference(graph, trace.inputs, {}, &trace).layers[last];
  const Tensor<double> computed = trace.layers[last].output.to_double();
  double worst = 0.0;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Interval error = error_of(computed.values[i], exact.values[i]);
    CHECK(error.upper() <= shadow.values.values[i]);
    worst = std::max(worst, (shadow.values.values[i] - error.lower()) / largest(shadow.values.values));
  }
  MESSAGE("bound - error over the largest bound: ", worst);
  CHECK(worst < 1e-3);

  options.failure_probability = 0.0;
  const Bounds proven = bound(graph, trace, options);
  CHECK(shadow_of_layer(proven, last).guarantee == Guarantee::proven);
  CHECK(proven.targets[0].bounds.front().guarantee == Guarantee::proven);
  CHECK(largest(shadow_of_layer(proven, last).values.values) > 10.0 * largest(shadow.values.values));
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/reference/reference.hpp"
#include "support/bound_checks.hpp"

// Composites that programs compute by other steps: a run by any of the bodies keeps the bound of a foreign run, whose
// reference is that of the first body. Steps of another function would miss it by far.

using namespace checks;

namespace {

struct OtherSteps {
  Op op;
  std::vector<Tensor<double>> operands;
};

double as_float(double x) {
  return static_cast<double>(static_cast<float>(x));
}

Tensor<double> drawn(const Shape& shape, double low, double high, Generator& generator) {
  Tensor<double> tensor(shape);
  for (double& x : tensor.values) x = as_float(uniform(generator, low, high));
  return tensor;
}

/// Some x are close to their channel's mean, where the folded form cancels.
OtherSteps batch_normalisation(Generator& generator) {
  const Tensor<double> mean = drawn({3}, -30.0, 30.0, generator);
  Tensor<double> x = drawn({4, 3, 5}, -40.0, 40.0, generator);
  for (std::size_t i = 0; i < x.size(); i += 2) {
    x.values[i] = as_float(mean.values[i / 5 % 3] * (1.0 + uniform(generator, -1e-5, 1e-5)));
  }
  const Tensor<double> scale = drawn({3}, -2.0, 2.0, generator), bias = drawn({3}, -1e-3, 1e-3, generator);
  return {op::BatchNormalization{1e-3}, {x, scale, bias, mean, drawn({3}, 0.1, 9.0, generator)}};
}

std::vector<OtherSteps> every_one(Generator& generator) {
  const auto of_one = [&](const Op& op) { return OtherSteps{op, {drawn({100}, -5.0, 5.0, generator)}}; };
  return {of_one(op::HardSwish{}), of_one(op::Softsign{}), of_one(op::Gelu{false}), batch_normalisation(generator)};
}

std::vector<Shape> shapes_of(const std::vector<Tensor<double>>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor<double>& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

Tensor<double> result_of(const Graph& body, const std::vector<Tensor<double>>& operands, const ArithmeticModel& model) {
  Inputs inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.tensors.emplace_back(body.value(body.inputs[i]).name, StoredTensor::from(operands[i]));
  Tensor<double> result = cpu_evaluator(model).run(body, inputs).layers.back().output.to_double();
  result.shape = infer_shapes(body, shapes_of(operands))[body.outputs.front()];
  return result;
}

/// What is left of the bounds of a run of somebody else.
struct Judged {
  std::int64_t violations = 0;
  double utilisation = 0.0;
  std::vector<double> bounds;
};

Judged judge(const OtherSteps& one, const Tensor<double>& computed, ArithmeticModel arithmetic,
             const Provenance& provenance) {
  if (provenance.program == foreign_provenance.program) arithmetic.order = SummationOrder{};
  OneNode run = one_node(one.op, one.operands, computed, arithmetic);
  run.trace.provenance = provenance;
  const Tensor<Ball> exact = local_reference(run.graph, run.trace).layers.back();
  Judged judged;
  judged.bounds = find_bound(bound(run.graph, run.trace).layers.back().local, BoundKind::componentwise)->values.values;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const double error = error_of(computed.values[i], exact.values[i]).lower();
    judged.violations += error <= judged.bounds[i] ? 0 : 1;
    judged.utilisation = std::max(judged.utilisation, error / judged.bounds[i]);
  }
  return judged;
}

/// x a + b in one rounding, with the numbers a and b of a channel.
Tensor<double> fused(const OtherSteps& norm) {
  const auto number = [&](std::size_t operand, std::size_t channel) {
    return static_cast<float>(norm.operands[operand].values[channel]);
  };
  Tensor<double> y = norm.operands[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i / 5 % 3;
    const float a = number(1, c) / std::sqrt(number(4, c) + 1e-3F);
    y.values[i] = static_cast<double>(std::fma(number(0, i), a, std::fma(-number(3, c), a, number(2, c))));
  }
  return y;
}

}  // namespace

TEST_CASE("runs by any known steps of a composite keep the bounds of foreign runs") {
  Generator generator(93);
  for (const char* name : {"fp32", "bf16"}) {
    const ArithmeticModel arithmetic = cpu_arithmetic(name, {SummationOrder::Kind::sequential, 0, false});
    for (int draw = 0; draw < 4 * test_multiplier(); ++draw) {
      for (const OtherSteps& one : every_one(generator)) {
        CAPTURE(name_of(one.op));
        const std::vector<Graph> bodies = composite_bodies(one.op, shapes_of(one.operands));
        REQUIRE(bodies.size() >= 2);
        for (const Graph& body : bodies) {
          const Judged found = judge(one, result_of(body, one.operands, arithmetic), arithmetic, foreign_provenance);
          CHECK(found.violations == 0);
          CHECK(found.utilisation > 0.05);
        }
      }
    }
  }
}

TEST_CASE(
    "a batch normalisation folded into fused multiply-adds keeps the bound of a foreign run, and breaks our own") {
  Generator generator(94);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  std::int64_t broken = 0;
  for (int draw = 0; draw < 10 * test_multiplier(); ++draw) {
    const OtherSteps norm = batch_normalisation(generator);
    const Judged foreign = judge(norm, fused(norm), arithmetic, foreign_provenance);
    const Judged own = judge(norm, fused(norm), arithmetic, own_provenance);
    CHECK(foreign.violations == 0);
    CHECK(foreign.utilisation > 0.1);
    for (std::size_t i = 0; i < own.bounds.size(); ++i) CHECK(own.bounds[i] <= foreign.bounds[i]);
    broken += own.violations;
  }
  CHECK(broken > 0);
}

TEST_CASE("an Elu by exp(x) - 1 keeps the bounds of a foreign run, alone and inside a composite") {
  Generator generator(95);
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  const auto less_one = [](float x) { return std::exp(x) - 1.0F; };
  std::int64_t broken = 0;
  for (int draw = 0; draw < 200 * test_multiplier(); ++draw) {
    const double x = as_float(-std::ldexp(uniform(generator, 0.5, 1.0), -static_cast<int>(generator() % 20)));
    const float alpha = 0.7F, gamma = 1.3F;
    const float elu = alpha * less_one(static_cast<float>(x));
    const OtherSteps alone{op::Elu{static_cast<double>(alpha)}, {{{1}, {x}}}};
    const OtherSteps inside{op::Selu{static_cast<double>(alpha), static_cast<double>(gamma)}, {{{1}, {x}}}};
    const Tensor<double> y{{1}, {static_cast<double>(elu)}}, scaled{{1}, {static_cast<double>(gamma * elu)}};
    CHECK(judge(alone, y, arithmetic, foreign_provenance).violations == 0);
    CHECK(judge(inside, scaled, arithmetic, foreign_provenance).violations == 0);
    broken += judge(alone, y, arithmetic, own_provenance).violations;
  }
  CHECK(broken > 0);
}

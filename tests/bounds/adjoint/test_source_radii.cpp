#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "bounds/adjoint/radii.hpp"
#include "bounds/adjoint/source_radii.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "support/approach.hpp"
#include "support/box_checks.hpp"

// Radii by sources (T-117): affine networks against their exact Jacobians, all others in test_box.cpp.

using namespace checks;

namespace {

/// Inputs within `half_width`, and how far the exact network moves with them.
class Moved {
public:
  Moved(const Graph& graph, const Tensor<double>& middle, double half_width, bool by_sources,
        std::size_t most_numbers = std::size_t{1} << 22)
      : arithmetic_(double_arithmetic()),
        setting_(setting_of(arithmetic_)),
        program_(graph, {middle.shape}, std::nullopt),
        shadow_(bounds::shadow_of(program_, {middle}, setting_)) {
    bounds::SourceRadii sources(program_, shadow_, setting_, most_numbers);
    const std::vector<std::vector<double>> widths = {std::vector<double>(middle.size(), half_width)};
    const bounds::Deviation ranges =
        bounds::deviation_of(bounds::Trajectory::exact, program_, shadow_, widths, setting_, operands_, nullptr,
                             nullptr, nullptr, by_sources ? &sources : nullptr);
    radii_ = ranges.radii[program_.flat().graph.outputs[0]].element;
  }

  const std::vector<double>& radii() const { return radii_; }

private:
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::Shadow shadow_;
  bounds::OperandCache operands_;
  std::vector<double> radii_;
};

constexpr std::int64_t width = 24;

Tensor<float> random_matrix(Generator& generator) {
  Tensor<float> matrix({width, width});
  for (float& x : matrix.values) x = static_cast<float>(uniform(generator, -1.0, 1.0));
  return matrix;
}

/// x + (x A) B - (x A), three values that are read more than once.
struct Affine {
  explicit Affine(Generator& generator) : a(random_matrix(generator)), b(random_matrix(generator)) {
    const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {width, ""}});
    const ValueId first = graph.add_node("first", op::MatMul{}, {x, graph.add_constant("a", StoredTensor::from(a))});
    const ValueId second =
        graph.add_node("second", op::MatMul{}, {first, graph.add_constant("b", StoredTensor::from(b))});
    const ValueId sum = graph.add_node("sum", op::Add{}, {x, second});
    graph.outputs = {graph.add_node("difference", op::Sub{}, {sum, first})};
  }

  /// The sum of magnitudes in a column of 1 + A B - A.
  Real moved_by_inputs(std::size_t j) const {
    const auto n = static_cast<std::size_t>(width);
    Real sum(0.0);
    for (std::size_t i = 0; i < n; ++i) {
      Real slope(i == j ? 1.0 : 0.0);
      for (std::size_t k = 0; k < n; ++k)
        slope = slope + Real(static_cast<double>(a.values[i * n + k])) * Real(static_cast<double>(b.values[k * n + j]));
      sum = sum + abs(slope - Real(static_cast<double>(a.values[i * n + j])));
    }
    return sum;
  }

  Tensor<float> a, b;
  Graph graph;
};

}  // namespace

TEST_CASE("affine networks move by no more than their sources say, and by nearly as much (T-117)") {
  Generator generator(117);
  Tally tally;
  double by_elements = 0.0;
  for (int repetition = 0; repetition < 5 * test_multiplier(); ++repetition) {
    const Affine affine(generator);
    Tensor<double> middle({1, width});
    for (double& x : middle.values) x = uniform(generator, -1.0, 1.0);
    const double half_width = std::ldexp(1.0, -static_cast<int>(generator() % 40));
    const Moved sources(affine.graph, middle, half_width, true), elements(affine.graph, middle, half_width, false);
    for (std::size_t j = 0; j < static_cast<std::size_t>(width); ++j) {
      tally.add(0.0, affine.moved_by_inputs(j) * Real(half_width), sources.radii()[j]);
      by_elements = std::max(by_elements, elements.radii()[j] / sources.radii()[j]);
    }
  }
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-117", tally.utilisation, 0.9999999);
  CHECK(by_elements > 4.0);
}

TEST_CASE("what is taken away again moves nothing, if sources are followed") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {3, ""}});
  const ValueId unit = graph.add_constant(
      "unit", StoredTensor::from(Tensor<double>({3, 3}, {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0})));
  graph.outputs = {graph.add_node("y", op::Sub{}, {x, graph.add_node("z", op::MatMul{}, {x, unit})})};
  const Tensor<double> middle({1, 3}, {1.0, 2.0, 3.0});
  const Moved sources(graph, middle, 0.5, true), elements(graph, middle, 0.5, false);
  for (const double radius : sources.radii()) CHECK(radius <= 0x1p-48);
  for (const double radius : elements.radii()) CHECK(radius >= 1.0);
}

TEST_CASE("sources that become too many to follow are one for each element") {
  Generator generator(118);
  const Affine affine(generator);
  Tensor<double> middle({1, width});
  const Moved all(affine.graph, middle, 1.0, true), none(affine.graph, middle, 1.0, false),
      few(affine.graph, middle, 1.0, true, width * width - 1);
  for (std::size_t j = 0; j < static_cast<std::size_t>(width); ++j) {
    CHECK(few.radii()[j] >= all.radii()[j]);
    CHECK(few.radii()[j] <= none.radii()[j]);
  }
  CHECK(few.radii() != all.radii());
  CHECK(Moved(affine.graph, middle, 1.0, true, 1).radii() == none.radii());
}

TEST_CASE("sources that underflow before they are scaled are not lost (T-117)") {
  Graph graph;
  const auto times = [&](const char* name, float x) {
    return graph.add_constant(name, StoredTensor::from(Tensor<float>({1, 1}, {x})));
  };
  ValueId value = graph.add_input("x", ElementType::f64, {{1, ""}, {1, ""}});
  value = graph.add_node("small", op::Gemm{0x1p127, 1.0, false, false}, {value, times("w", 0x1p-146f)});
  for (int i = 0; i < 8; ++i) {
    const std::string name = "large" + std::to_string(i);
    value = graph.add_node(name, op::MatMul{}, {value, times((name + "/w").c_str(), 0x1p120f)});
  }
  graph.outputs = {value};
  CHECK(Moved(graph, Tensor<double>({1, 1}, {0.0}), 0x1p-930, true).radii()[0] >= 2048.0);
}

TEST_CASE("what is not known of a value stays unknown, although its sources are") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Neg{}, {x})};
  const ArithmeticModel arithmetic = double_arithmetic();
  const bounds::Setting setting = setting_of(arithmetic);
  const Program program(graph, {{1, 2}}, std::nullopt);
  const bounds::Shadow shadow =
      bounds::shadow_of(program, {Tensor<double>({1, 2}, std::vector<double>{1.0, 2.0})}, setting);
  bounds::SourceRadii sources(program, shadow, setting);
  const std::vector<double> amplitude = {0.5, 0.5}, known = {std::numeric_limits<double>::infinity(), 0.5};
  sources.start(x, amplitude);
  sources.settle(x, known);
  const std::vector<double> radii = sources.step(0, {{}}, {}, {});
  CHECK(radii[0] == std::numeric_limits<double>::infinity());
  CHECK(radii[1] < 0.51);
}

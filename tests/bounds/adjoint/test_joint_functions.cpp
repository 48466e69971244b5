#include <doctest/doctest.h>

#include <algorithm>

#include "support/approach.hpp"
#include "support/joint_function_checks.hpp"

using namespace checks;

TEST_CASE("what several nodes make of one value moves within one radius, exact and in runs (T-125)") {
  for (const auto& [name, tallies] : check_joint_functions(4 * test_multiplier())) {
    CAPTURE(name);
    INFO(tallies.all.first_violation);
    CHECK(tallies.all.violations == 0);
    CHECK(tallies.all.checked > 1000);
    CHECK_APPROACH("T-125", tallies.nearest, 0.99999);
  }
}

TEST_CASE("what the slopes of ways lose when they are rounded counts (T-125)") {
  const Tally tally = check_rounded_slopes();
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.checked > 0);
  CHECK_APPROACH("T-125", tally.utilisation, 0.0899);
}

TEST_CASE("ways begin where they part: what comes in before counts once (T-125)") {
  CompositeCase subject;
  Graph& graph = subject.graph;
  ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {4, ""}});
  for (const char* name : {"a", "b", "c"}) x = graph.add_node(name, op::Sin{}, {x});
  graph.outputs = {graph.add_node("n", op::Gelu{}, {x})};
  subject.x = Tensor<double>({1, 4}, {-1.5, -1.25, -1.375, -1.0});
  HeldNorms held(subject, cpu_arithmetic("fp32", parse_summation_order("blocked:4")));
  const bounds::Deviation deviation = held.within(bounds::Trajectory::any_order, 0.0);
  CHECK(held.output_norm(deviation) <= 0.6 * deviation.radii[x].norm.at(0));
}

namespace {

bounds::ValueRadii radii_of_output(const Graph& graph, const Tensor<double>& x) {
  const ArithmeticModel arithmetic = double_arithmetic();
  const bounds::Setting setting = setting_of(arithmetic);
  const Program program(graph, {x.shape}, x.shape[0]);
  const bounds::Shadow shadow = bounds::shadow_of(program, {x}, setting);
  bounds::OperandCache operands;
  const std::vector<std::vector<double>> off = {std::vector<double>(x.size(), 0.1)};
  return bounds::deviation_of(bounds::Trajectory::any_order, program, shadow, off, setting, operands)
      .radii[program.flat().graph.outputs[0]];
}

}  // namespace

TEST_CASE("samples together have the radii that each of them has alone (T-125)") {
  Generator generator(127);
  for (const CompositeCase& subject : joint_cases(generator)) {
    CAPTURE(subject.name);
    Tensor<double> three({3, 3, 4});
    for (double& value : three.values) value = uniform(generator, -2.0, 2.0);
    const bounds::ValueRadii together = radii_of_output(subject.graph, three);
    for (std::size_t row = 0; row < 3; ++row) {
      const auto first = [&](const std::vector<double>& values) {
        return values.begin() + static_cast<std::ptrdiff_t>(12 * row);
      };
      const Tensor<double> one({1, 3, 4}, std::vector<double>(first(three.values), first(three.values) + 12));
      const bounds::ValueRadii alone = radii_of_output(subject.graph, one);
      CHECK(std::equal(alone.element.begin(), alone.element.end(), first(together.element)));
      CHECK(alone.norm[0] == together.norm[row]);
    }
  }
}

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "support/composite_norm_checks.hpp"

/// Functions of one value that several nodes make (T-125), against the same in 700 bits at inputs that are off, and
/// against runs in float32.
namespace checks {

inline ValueId constant_in(Graph& graph, double value) {
  return graph.add_constant("c" + std::to_string(graph.values.size()),
                            StoredTensor::from(Tensor<double>({1}, {value})));
}

/// Each of them behind x [1, 3, 4], as primitives.
inline std::vector<CompositeCase> joint_cases(Generator& generator) {
  std::vector<CompositeCase> cases;
  const auto add = [&](const std::string& name, const auto& write) {
    CompositeCase subject;
    subject.name = name;
    const ValueId x = subject.graph.add_input("x", ElementType::f64, {{-1, "N"}, {3, ""}, {4, ""}});
    subject.graph.outputs = {write(subject.graph, x)};
    subject.x = Tensor<double>({1, 3, 4});
    for (double& value : subject.x.values)
      value = static_cast<double>(static_cast<float>(uniform(generator, -2.0, 2.0)));
    cases.push_back(std::move(subject));
  };
  add("gelu", [](Graph& g, ValueId x) { return g.add_node("n", op::Gelu{}, {x}); });
  add("swish", [](Graph& g, ValueId x) {
    return g.add_node("n", op::Mul{}, {g.add_node("s", op::Sigmoid{}, {x}), x});
  });
  add("x - tanh x", [](Graph& g, ValueId x) {
    return g.add_node("n", op::Sub{}, {x, g.add_node("t", op::Tanh{}, {x})});
  });
  add("3x - 2x", [](Graph& g, ValueId x) {
    const ValueId three = g.add_node("3x", op::Mul{}, {x, constant_in(g, 3.0)});
    return g.add_node("n", op::Sub{}, {three, g.add_node("2x", op::Mul{}, {constant_in(g, 2.0), x})});
  });
  add("x + (-x) over a divisor that moves", [](Graph& g, ValueId x) {
    const ValueId divisor = g.add_node("d", op::Add{}, {constant_in(g, 3.0), g.add_node("s", op::Sin{}, {x})});
    const ValueId shifted = g.add_node("y", op::Add{}, {x, constant_in(g, 2.5)});
    const ValueId more = g.add_node("sum", op::Add{}, {g.add_node("minus", op::Neg{}, {shifted}), divisor});
    return g.add_node("n", op::Div{}, {more, divisor});
  });
  add("ways that meet twice", [](Graph& g, ValueId x) {
    const ValueId e = g.add_node("e", op::Exp{}, {g.add_node("minus", op::Neg{}, {x})});
    const ValueId first = g.add_node("first", op::Mul{}, {x, e});
    return g.add_node("n", op::Sub{}, {g.add_node("t", op::Softplus{}, {first}), first});
  });
  add("the larger of x and sin x, less x", [](Graph& g, ValueId x) {
    return g.add_node("n", op::Sub{}, {g.add_node("m", op::Max{}, {x, g.add_node("s", op::Sin{}, {x})}), x});
  });
  return cases;
}

struct JointTallies {
  Tally all;
  double nearest = 0.0;  ///< of radii of last values, where inputs are off by little
};

inline void check_joint_case(const CompositeCase& subject, Generator& generator, JointTallies& tallies) {
  HeldNorms in_double(subject, double_arithmetic());
  for (const double radius : {1e-7, 1e-3, 0.1, 1.0}) {
    const bounds::Deviation deviation = in_double.within(bounds::Trajectory::any_order, radius);
    for (int corner = 0; corner < 8; ++corner) {
      Tally output;
      const std::vector<double> signs = random_corner(subject.x.size(), generator);
      in_double.check_exact(deviation, radius, signs, tallies.all, output);
      if (radius == 1e-7)
        tallies.nearest = std::max(tallies.nearest, in_double.output_utilisation(deviation, radius, signs));
    }
  }
  HeldNorms in_single(subject, cpu_arithmetic("fp32", parse_summation_order("blocked:4")));
  Tally output;
  for (const bounds::Trajectory trajectory : {bounds::Trajectory::any_order, bounds::Trajectory::declared_order})
    in_single.check_run(in_single.within(trajectory, 0.0), tallies.all, output);
}

inline std::map<std::string, JointTallies> check_joint_functions(int repetitions) {
  Generator generator(125);
  std::map<std::string, JointTallies> tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const CompositeCase& subject : joint_cases(generator))
      check_joint_case(subject, generator, tallies[subject.name]);
  return tallies;
}

inline std::int64_t violations_of_joint_functions() {
  std::int64_t violations = 0;
  for (const auto& [name, tallies] : check_joint_functions(1)) violations += tallies.all.violations;
  return violations;
}

/// a b x - c x with c = a b as it is rounded, at 0: all that it moves by is what its slope lost.
inline Tally check_rounded_slopes() {
  Generator generator(126);
  Tally tally, output;
  for (int repetition = 0; repetition < 50; ++repetition) {
    const double a = uniform(generator, 1.0, 2.0), b = uniform(generator, 1.0, 2.0);
    CompositeCase subject;
    Graph& graph = subject.graph;
    const ValueId x = graph.add_input("x", ElementType::f64, {{1, ""}, {2, ""}});
    const ValueId ax = graph.add_node("ax", op::Mul{}, {x, constant_in(graph, a)});
    const ValueId abx = graph.add_node("abx", op::Mul{}, {ax, constant_in(graph, b)});
    const ValueId cx = graph.add_node("cx", op::Mul{}, {x, constant_in(graph, a * b)});
    graph.outputs = {graph.add_node("n", op::Sub{}, {abx, cx})};
    subject.x = Tensor<double>({1, 2});
    HeldNorms held(subject, double_arithmetic());
    held.check_exact(held.within(bounds::Trajectory::exact, 1.0), 1.0, {1.0, -1.0}, tally, output);
  }
  return output;
}

}  // namespace checks

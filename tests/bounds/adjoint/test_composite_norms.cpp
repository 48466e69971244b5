#include <doctest/doctest.h>

#include <cmath>

#include "support/approach.hpp"
#include "support/composite_norm_checks.hpp"

using namespace checks;

TEST_CASE("maps of several nodes move within the norms that they hand on as one, exact and in runs (T-67)") {
  // How near norms of outputs come, with the inputs at random corners of their boxes.
  const std::map<std::string, double> nearest = {{"layer norm", 0.854},
                                                 {"rms norm", 0.981},
                                                 {"rms norm of one row without epsilon", 0.999},
                                                 {"attention", 0.449},
                                                 {"causal attention", 0.528},
                                                 {"softmax times values", 0.853},
                                                 {"quotient", 0.988},
                                                 {"gelu", 0.931}};
  const auto tallies = check_composite_norms(3 * test_multiplier(), 67);
  CHECK(tallies.size() == nearest.size());
  for (const auto& [name, tally] : tallies) {
    CAPTURE(name);
    INFO(tally.all.first_violation);
    CHECK(tally.all.violations == 0);
    CHECK(tally.all.checked > 0);
    CHECK_APPROACH("T-67", tally.output.utilisation, nearest.at(name));
  }
}

TEST_CASE("normalisations and attention stay within a bounded range, wherever their inputs are (T-67)") {
  Generator generator(68);
  for (const CompositeCase& subject : composite_cases(generator)) {
    const bool is_norm = subject.name == "layer norm" || subject.name == "rms norm";
    if (!is_norm && subject.name != "attention") continue;
    CAPTURE(subject.name);
    HeldNorms held(subject, double_arithmetic());
    const double norm = held.output_norm(held.within(bounds::Trajectory::exact, 1e6));
    if (is_norm) CHECK(norm <= 2.0 * std::sqrt(12.0) * (1.0 + 1e-9));
    CHECK(std::isfinite(norm));
  }
}

TEST_CASE("a mean of squares by powers is one of products (T-67)") {
  const auto output_norm = [](const Op& square, std::size_t factors) {
    CompositeCase subject;
    const ValueId x = subject.graph.add_input("x", ElementType::f64, {{1, ""}, {4, ""}});
    const ValueId squares = subject.graph.add_node("squares", square, std::vector<ValueId>(factors, x));
    const ValueId mean = subject.graph.add_node("mean", op::ReduceMean{{1}, true}, {squares});
    const ValueId root = subject.graph.add_node("root", op::Sqrt{}, {mean});
    subject.graph.outputs = {subject.graph.add_node("unit", op::Div{}, {x, root})};
    subject.x = Tensor<double>({1, 4}, {0.5, -1.0, 0.25, 2.0});
    HeldNorms held(subject, double_arithmetic());
    return held.output_norm(held.within(bounds::Trajectory::exact, 1e-3));
  };
  const double product = output_norm(op::Mul{}, 2), power = output_norm(op::Pow{2.0}, 1);
  CHECK(power <= product * (1.0 + 1e-9));
  CHECK(product <= power * (1.0 + 1e-9));
}

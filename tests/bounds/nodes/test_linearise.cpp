#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/nodes/linear.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/every_op.hpp"
#include "support/approach.hpp"
#include "support/linear_checks.hpp"
#include "support/special_numbers.hpp"

using namespace checks;
using bounds::Linear;
using bounds::LinearExtremum;
using bounds::LinearPair;
using bounds::Point;

namespace {

Real prelu_of(const Real& x, const Real& slope) {
  return x < Real() ? slope * x : x;
}

}  // namespace

TEST_CASE(
    "no move leaves the remainder of a function of one element or outruns its Lipschitz number, and some reach them") {
  for (const LinearCase& c : linear_cases()) {
    CAPTURE(c.name);
    const LinearTallies tallies = check_linear_rule(c.subject, 120 * test_multiplier(), 71);
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    if (c.loosest == 0.0) continue;
    if (c.name != "power 0") CHECK_APPROACH("T-65", tallies.lipschitz.utilisation, 1.0);
    if (c.name != "power 0" && c.name != "power 1") CHECK(tallies.remainder.utilisation >= 0.995);
    if (c.name != "power 0") CHECK(tallies.lipschitz.utilisation >= 0.995);
  }
}

TEST_CASE("remainders are no larger than what is attained, but for a few hundredths") {
  for (const LinearCase& c : linear_cases()) {
    if (c.loosest == 0.0) continue;
    CAPTURE(c.name);
    CHECK(looseness_of(c.subject, 0x1p-20, 0x1p-10, 60 * test_multiplier(), 72) <= 1.1);
    CHECK(looseness_of(c.subject, 0x1p-10, 0x1p-4, 60 * test_multiplier(), 73) <= c.loosest);
  }
}

TEST_CASE("at numbers of any size, at infinities and where nothing is stored, slopes are finite and bounds hold") {
  const std::array<double, 11> numbers = {0.0,    1e-320, -1e-320, 1e-200,   -1e-200,     1.0,
                                          -700.0, 1e200,  -1e200,  infinity, std::nan("")};
  for (const LinearCase& c : linear_cases()) {
    CAPTURE(c.name);
    for (const double x : numbers) {
      CAPTURE(x);
      for (const double e : {0.0, 1e-310, 1.0, 1e300, infinity}) {
        CAPTURE(e);
        for (const double y : {0.0, 1.0, -1e300, infinity, std::nan("")}) {
          const Linear linear = c.subject.rule(Point{x, Magnitude(e), y, Magnitude::infinite(), c.subject.alpha});
          CHECK(std::isfinite(linear.slope));
          const bool is_constant = c.name == "power 0" || c.name == "power 1";
          if (!std::isfinite(x)) CHECK_FALSE(linear.remainder.is_finite());
          if (!std::isfinite(e) && !is_constant) CHECK_FALSE(linear.remainder.is_finite());
        }
      }
    }
  }
}

TEST_CASE("bounds hold for very small and very large numbers") {
  for (LinearCase c : linear_cases()) {
    const bool overflows = c.name == "exp" || c.name == "sinh" || c.name == "cosh" || c.name == "tan";
    if (overflows) continue;
    CAPTURE(c.name);
    for (const double scale : {0x1p-60, 0x1p60, 0x1p300}) {
      CAPTURE(scale);
      LinearSubject s = c.subject;
      s.low = s.low < 0.0 ? -scale : 0.0;
      s.high = s.high > 0.0 ? scale : 0.0;
      s.kinks.clear();
      Generator generator(75);
      LinearTallies tallies;
      for (int i = 0; i < 6; ++i) {
        const double x = uniform(generator, s.low, s.high);
        const double room = std::min(x - s.low, s.high - x), e = room * std::ldexp(1.0, -8 * i);
        const Real value = s.f(Real(x));
        const Linear linear = s.rule(stored_point(s, x, e, value, false));
        for (const double t : {-e, -0.5 * e, 0.5 * e, e}) {
          const Real change = s.f(Real(x) + Real(t)) - value;
          tallies.remainder.add(0.0, change - Real(linear.slope) * Real(t), linear.remainder.value());
          if (t != 0.0) tallies.lipschitz.add(0.0, change / Real(t), linear.lipschitz.value());
        }
      }
      INFO(tallies.first_violation());
      CHECK(tallies.violations() == 0);
    }
  }
}

TEST_CASE("a radius of 0 leaves no remainder, and one that may leave the domain has none") {
  for (const LinearCase& c : linear_cases()) {
    CAPTURE(c.name);
    const double x = 0.3 * c.subject.low + 0.7 * c.subject.high;
    const Point p = stored_point(c.subject, x, 0.0, c.subject.f(Real(x)), true);
    CHECK(c.subject.rule(p).remainder == Magnitude());
  }
  const auto remainder = [](bounds::UnaryExpansion rule, double x, double e, double y, double alpha) {
    return rule(Point{x, Magnitude(e), y, Magnitude(), alpha}).remainder;
  };
  CHECK_FALSE(remainder(bounds::linear_log, 1.0, 1.0, 0.0, 0.0).is_finite());
  CHECK_FALSE(remainder(bounds::linear_sqrt, 1.0, 1.5, 1.0, 0.0).is_finite());
  CHECK(remainder(bounds::linear_sqrt, 1.0, 1.0, 1.0, 0.0).is_finite());
  CHECK(remainder(bounds::linear_sqrt, 0.0, 0.0, 0.0, 0.0) == Magnitude());
  CHECK_FALSE(remainder(bounds::linear_reciprocal, -1.0, 1.0, -1.0, 0.0).is_finite());
  CHECK_FALSE(remainder(bounds::linear_tan, 1.5, 0.08, 14.1014199, 0.0).is_finite());
  CHECK_FALSE(remainder(bounds::linear_power, 1.0, 1.5, 1.0, 2.5).is_finite());
  CHECK_FALSE(remainder(bounds::linear_power, -1.0, 1.0, 1.0, -2.0).is_finite());
  CHECK(remainder(bounds::linear_power, 1.0, 1.0, 1.0, 0.5).is_finite());
  CHECK(remainder(bounds::linear_power, -1.0, 2.0, -1.0, 3.0).is_finite());
  CHECK_FALSE(remainder(bounds::linear_floor, 2.0, 1e-300, 2.0, 0.0).is_finite());
  CHECK_FALSE(bounds::linear_quotient(1.0, Magnitude(), 0.5, Magnitude(0.5)).remainder.is_finite());
  CHECK_FALSE(bounds::linear_quotient(1.0, Magnitude(), 0.0, Magnitude()).remainder.is_finite());
}

TEST_CASE("slopes do not depend on the radii, not even where the function may be undefined") {
  for (const LinearCase& c : linear_cases()) {
    CAPTURE(c.name);
    const double x = 0.3 * c.subject.low + 0.7 * c.subject.high;
    const Point p = stored_point(c.subject, x, 0.0, c.subject.f(Real(x)), false);
    for (const double e : {1e-9, 0.1, 3.0, 100.0, infinity}) {
      CHECK(c.subject.rule(Point{p.x, Magnitude(e), p.y, p.y_error, p.alpha}).slope == c.subject.rule(p).slope);
    }
  }
  for (const auto rule : {bounds::linear_product, bounds::linear_quotient, bounds::linear_max, bounds::linear_prelu}) {
    const LinearPair narrow = rule(-0.5, Magnitude(0.1), 0.75, Magnitude(0.1));
    const LinearPair wide = rule(-0.5, Magnitude(2.0), 0.75, Magnitude(2.0));
    CHECK(narrow.slope_a == wide.slope_a);
    CHECK(narrow.slope_b == wide.slope_b);
  }
}

TEST_CASE("exp_remainder_up lies above e^x - 1 - x, and near it") {
  Generator generator(76);
  for (int i = 0; i < 3000 * test_multiplier(); ++i) {
    const double x = std::ldexp(uniform(generator, 0.5, 1.0), 9 - static_cast<int>(generator() % 60));
    CAPTURE(x);
    const Real exact = Real(x).apply(mpfr_expm1) - Real(x);
    REQUIRE(exact <= Real(bounds::exp_remainder_up(x)));
    REQUIRE(Real(bounds::exp_remainder_up(x)) <= exact * Real(1.0 + 0x1p-10));
  }
  CHECK(bounds::exp_remainder_up(0.0) == 0.0);
  CHECK(bounds::exp_remainder_up(infinity) == infinity);
  CHECK_FALSE(Magnitude(bounds::exp_remainder_up(std::nan(""))).is_finite());
}

TEST_CASE("no move leaves the remainder of a product, quotient, extremum or PRelu, and some reach it") {
  const int n = 400 * test_multiplier();
  for (const Tally& tally : {check_linear_pair(
                                 bounds::linear_product, [](const Real&a, const Real&b) { return a * b; }, n, 77),
                             check_linear_pair(
                                 bounds::linear_quotient, [](const Real&a, const Real&b) { return a / b; }, n, 78),
                             check_linear_pair(bounds::linear_max, larger_of, n, 79),
                             check_linear_pair(bounds::linear_min, smaller_of, n, 80),
                             check_linear_pair(bounds::linear_prelu, prelu_of, n, 81)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK_APPROACH("T-66", tally.utilisation, 1.0);
    CHECK(tally.utilisation >= 0.995);
  }
}

TEST_CASE("remainders of two operands where they are known in closed form") {
  CHECK(bounds::linear_product(3.0, Magnitude(0.25), -2.0, Magnitude(0.5)).remainder == Magnitude(0.125));
  CHECK(bounds::linear_max(3.0, Magnitude(0.25), 1.0, Magnitude(1.0)).remainder == Magnitude());
  CHECK(bounds::linear_max(3.0, Magnitude(0.25), 1.0, Magnitude(2.0)).remainder == Magnitude(0.25));
  CHECK(bounds::linear_max(1.0, Magnitude(0.25), 3.0, Magnitude(2.0)).slope_b == 1.0);
  CHECK(bounds::linear_min(1.0, Magnitude(0.25), 3.0, Magnitude(2.0)).slope_a == 1.0);
  CHECK(bounds::linear_prelu(1.0, Magnitude(0.5), 0.25, Magnitude(1.0)).remainder == Magnitude());
  CHECK(bounds::linear_prelu(-1.0, Magnitude(0.5), 0.25, Magnitude(1.0)).remainder == Magnitude(0.5));
  for (const double bad : {infinity, -infinity, std::nan("")}) {
    for (const auto rule : {bounds::linear_product, bounds::linear_quotient, bounds::linear_max, bounds::linear_min,
                            bounds::linear_prelu}) {
      for (const LinearPair& pair : {rule(bad, Magnitude(), 1.0, Magnitude()), rule(1.0, Magnitude(), bad, Magnitude()),
                                     rule(1.0, Magnitude(0.1), 1.0, Magnitude::infinite())}) {
        CHECK(std::isfinite(pair.slope_a));
        CHECK(std::isfinite(pair.slope_b));
        CHECK_FALSE(pair.remainder.is_finite());
      }
    }
  }
}

TEST_CASE("no corner of a box leaves the remainder of the extremum of a group, and some reach it") {
  const int n = 400 * test_multiplier();
  for (const Tally& tally : {check_linear_group(bounds::linear_reduce_max, larger_of, n, 82),
                             check_linear_group(bounds::linear_reduce_min, smaller_of, n, 83)}) {
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.utilisation >= 0.995);
  }
  const std::vector<double> x = {1.0, 3.0, 2.0}, e = {0.5, 0.25, 1.0};
  const LinearExtremum maximum = bounds::linear_reduce_max(x, e), minimum = bounds::linear_reduce_min(x, e);
  CHECK(maximum.chosen == 1);
  CHECK(maximum.remainder == Magnitude(0.25));
  CHECK(minimum.chosen == 0);
  CHECK(minimum.remainder == Magnitude(0.5));
  const std::vector<double> bad = {1.0, std::nan("")}, at_rest = {0.0, 0.0};
  CHECK_FALSE(bounds::linear_reduce_max(bad, at_rest).remainder.is_finite());
}

TEST_CASE("no corner of a box of logits leaves the remainder of a softmax, and some reach it") {
  const Tally tally = check_linear_softmax(250 * test_multiplier(), 84);
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK(tally.utilisation >= 0.995);
  const std::vector<double> p = {1.0, 0.0}, exact = {0.0, 0.0}, wide = {1.0, infinity};
  std::vector<double> remainder(2);
  bounds::linear_softmax(p, exact, wide, remainder);
  CHECK(remainder[0] == infinity);
  CHECK(remainder[1] == infinity);
}

TEST_CASE("the remainder of a softmax is of second order, and small where one logit dominates") {
  const std::vector<double> p = {0.5, 0.25, 0.25}, exact(3), e(3, 0x1p-10);
  std::vector<double> remainder(3);
  bounds::linear_softmax(p, exact, e, remainder);
  CHECK(remainder[0] <= 1.001 * 0x1p-22);
  const std::vector<double> peaked = {1.0 - 0x1p-19, 0x1p-20, 0x1p-20};
  bounds::linear_softmax(peaked, exact, e, remainder);
  CHECK(remainder[0] <= 0x1p-37);
}

namespace {

/// One node with centres, moves that doubles hold exactly, and radii that contain them.
struct MovedNode {
  Graph graph;
  std::vector<Tensor<double>> centre, move;
  std::vector<std::vector<double>> radii;
};

MovedNode moved_node(const tests::OpCase& one, Generator& generator) {
  MovedNode node;
  std::vector<ValueId> ids;
  const double scale = std::ldexp(1.0, -static_cast<int>(generator() % 20));
  for (const Tensor<double>& operand : one.operands) {
    ids.push_back(add_fixed_input(node.graph, "x" + std::to_string(ids.size()), ElementType::f64, operand.shape));
    node.centre.push_back(operand);
    node.move.emplace_back(operand.shape);
    node.radii.emplace_back();
    for (double& x : node.centre.back().values) x = static_cast<double>(static_cast<float>(x));
    for (double& t : node.move.back().values) {
      t = std::ldexp(std::round(uniform(generator, -256.0, 256.0)), -10) * scale;
      node.radii.back().push_back(std::abs(t) * (generator() % 2 == 0 ? 1.0 : 1.5));
    }
  }
  node.graph.outputs = {node.graph.add_node("y", one.op, ids)};
  return node;
}

Tensor<Interval> evaluated(const MovedNode& node, const std::vector<Tensor<double>>& operands) {
  Inputs inputs;
  for (std::size_t slot = 0; slot < operands.size(); ++slot) {
    inputs.tensors.emplace_back("x" + std::to_string(slot), StoredTensor::from(operands[slot]));
  }
  std::vector<Shape> shapes;
  for (const Tensor<double>& operand : operands) shapes.push_back(operand.shape);
  Tensor<Interval> result = evaluate_as<Interval>(node.graph, inputs).back();
  result.shape = infer_shapes(node.graph, shapes)[node.graph.outputs[0]];
  return result;
}

std::vector<Tensor<double>> sums(const std::vector<Tensor<double>>& a, const std::vector<Tensor<double>>& b) {
  std::vector<Tensor<double>> result = a;
  for (std::size_t slot = 0; slot < a.size(); ++slot) {
    for (std::size_t i = 0; i < a[slot].size(); ++i) result[slot].values[i] += b[slot].values[i];
  }
  return result;
}

std::vector<Tensor<double>> zeros_like(std::vector<Tensor<double>> operands) {
  for (Tensor<double>& operand : operands) operand.values.assign(operand.size(), 0.0);
  return operands;
}

using Intervals = std::vector<Interval>;

Intervals difference(Intervals a, const Intervals& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// The op on the moves: a product with one operand moved at a time.
Intervals own_jacobian(const MovedNode& node) {
  const bool is_product = std::holds_alternative<op::Gemm>(node.graph.nodes[0].op) ||
                          std::holds_alternative<op::MatMul>(node.graph.nodes[0].op);
  if (!is_product) {
    return difference(evaluated(node, node.move).values, evaluated(node, zeros_like(node.move)).values);
  }
  std::vector<Tensor<double>> first = node.move, second = zeros_like(node.move);
  first[1] = node.centre[1];
  second[0] = node.centre[0];
  second[1] = node.move[1];
  Intervals result = evaluated(node, first).values;
  const Intervals more = evaluated(node, second).values;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += more[i];
  return result;
}

Intervals softmax_jacobian(const op::Softmax& softmax, const Tensor<double>& p, const std::vector<double>& move) {
  const ReductionPlan plan = plan_reduction(softmax, p.shape);
  Intervals result(p.size());
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      Interval mean;
      const auto at = [&](std::int64_t j) { return plan.index(o, j, i); };
      for (std::int64_t j = 0; j < plan.length; ++j) mean += Interval(p.values[at(j)]) * Interval(move[at(j)]);
      for (std::int64_t j = 0; j < plan.length; ++j) {
        result[at(j)] = Interval(p.values[at(j)]) * (Interval(move[at(j)]) - mean);
      }
    }
  }
  return result;
}

/// What the Jacobian makes of the moves.
Intervals linear_part(const MovedNode& node, const bounds::Linearised& linearised, const Tensor<double>& output) {
  const Op& op = node.graph.nodes[0].op;
  if (const auto* softmax = std::get_if<op::Softmax>(&op)) {
    return softmax_jacobian(*softmax, output, node.move[0].values);
  }
  if (linearised.slopes[0].empty()) return own_jacobian(node);
  Intervals result(output.size());
  if (std::holds_alternative<op::ReduceMax>(op) || std::holds_alternative<op::ReduceMin>(op)) {
    const GroupPlan plan = plan_groups(op, node.move[0].shape);
    for (std::size_t g = 0; g < result.size(); ++g) {
      for (const std::size_t element : plan.elements) {
        const std::size_t at = plan.groups[g] + element;
        result[g] += Interval(linearised.slopes[0][at]) * Interval(node.move[0].values[at]);
      }
    }
    return result;
  }
  for (std::size_t slot = 0; slot < node.move.size(); ++slot) {
    const BroadcastIndex index(node.move[slot].shape, output.shape);
    REQUIRE(linearised.slopes[slot].size() == output.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] += Interval(linearised.slopes[slot][i]) * Interval(node.move[slot].values[index(i)]);
    }
  }
  return result;
}

struct Centre {
  Tensor<double> output;
  std::vector<double> error;
};

Centre centre_of(const Tensor<Interval>& exact) {
  Centre centre{Tensor<double>(exact.shape), {}};
  for (std::size_t i = 0; i < exact.size(); ++i) {
    centre.output.values[i] = exact.values[i].midpoint();
    centre.error.push_back(exact.values[i].width().value());
  }
  return centre;
}

bounds::Linearised linearised_at(const MovedNode& node, const Centre& centre, bool with_radii = true, int threads = 1) {
  bounds::NodeView view{&node.graph.nodes[0], {}, &centre.output};
  std::vector<bounds::Radii> radii;
  for (std::size_t slot = 0; slot < node.centre.size(); ++slot) {
    view.inputs.push_back(&node.centre[slot]);
    radii.push_back(with_radii ? bounds::Radii(node.radii[slot]) : bounds::Radii());
  }
  bounds::Setting setting;
  setting.threads = threads;
  return bounds::linearise(view, radii, centre.error, setting);
}

/// How often a node certainly leaves its remainder.
int violations_of_node(const MovedNode& node) {
  const Tensor<Interval> exact = evaluated(node, node.centre);
  const Centre centre = centre_of(exact);
  const bounds::Linearised linearised = linearised_at(node, centre);
  REQUIRE(linearised.slopes.size() == node.centre.size());
  const Tensor<Interval> moved = evaluated(node, sums(node.centre, node.move));
  const Intervals linear = linear_part(node, linearised, centre.output);
  int violations = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const Interval left = moved.values[i] - exact.values[i] - linear[i];
    const double remainder = linearised.remainder.empty() ? 0.0 : linearised.remainder[i];
    violations += left.mignitude() <= remainder ? 0 : 1;
  }
  return violations;
}

}  // namespace

TEST_CASE("no primitive op leaves its expansion, whatever is broadcast, transposed or reduced") {
  std::mt19937_64 random(85);
  for (int draw = 0; draw < 20 * test_multiplier(); ++draw) {
    for (const tests::OpCase& one : tests::every_primitive(random)) {
      CAPTURE(name_of(one.op));
      CHECK(violations_of_node(moved_node(one, random)) == 0);
    }
  }
}

TEST_CASE("products of matrices whose operands move all one way leave what they may (T-66)") {
  Generator generator(661);
  for (const tests::OpCase& one :
       {tests::OpCase{op::MatMul{}, {Tensor<double>({2, 3}), Tensor<double>({3, 2})}},
        tests::OpCase{op::Gemm{0.5, 1.0, false, true},
                      {Tensor<double>({2, 3}), Tensor<double>({2, 3}), Tensor<double>({2})}}}) {
    CAPTURE(name_of(one.op));
    MovedNode node = moved_node(one, generator);
    for (std::size_t slot = 0; slot < node.move.size(); ++slot) {
      for (double& x : node.centre[slot].values) x = std::round(uniform(generator, -4.0, 4.0));
      node.move[slot].values.assign(node.move[slot].size(), 0x1p-4);
      node.radii[slot].assign(node.move[slot].size(), 0x1p-4);
    }
    const Centre centre = centre_of(evaluated(node, node.centre));
    const bounds::Linearised linearised = linearised_at(node, centre);
    const Tensor<Interval> moved = evaluated(node, sums(node.centre, node.move));
    const Intervals linear = linear_part(node, linearised, centre.output);
    double closest = 0.0;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const Interval left = moved.values[i] - Interval(centre.output.values[i]) - linear[i];
      closest = std::max(closest, left.mignitude() / linearised.remainder[i]);
    }
    CHECK_APPROACH("T-66", closest, 1.0);
  }
}

TEST_CASE("ops that are linear leave no remainder, and operands that do not move leave none") {
  std::mt19937_64 random(86);
  for (const tests::OpCase& one : tests::every_primitive(random)) {
    CAPTURE(name_of(one.op));
    const MovedNode node = moved_node(one, random);
    const Centre centre = centre_of(evaluated(node, node.centre));
    const bool is_linear = std::visit(
        []<class T>(const T&) { return Selection<T> || OneOf<T, op::Add, op::Sub, op::Neg, op::Cast, op::ReduceSum>; },
        one.op);
    const bounds::Linearised linearised = linearised_at(node, centre);
    if (is_linear) CHECK(linearised.remainder.empty());
    if (is_linear) CHECK(linearised.slopes[0].empty());
    const bool is_of_one_element = std::visit([]<class T>(const T&) { return ElementwiseUnary<T>; }, one.op);
    if (!is_of_one_element) CHECK_FALSE(linearised.lipschitz.is_finite());
    CHECK(linearised_at(node, centre, false).remainder.empty());
  }
}

TEST_CASE("the Lipschitz number of a node is the largest of its elements") {
  const tests::OpCase one{op::Exp{}, {{{3}, {0.0, 2.0, 1.0}}}};
  Generator generator(87);
  const MovedNode node = moved_node(one, generator);
  const Centre centre = centre_of(evaluated(node, node.centre));
  const double steepest = linearised_at(node, centre, false).lipschitz.value();
  CHECK(steepest >= std::exp(2.0));
  CHECK(steepest <= std::exp(2.0) * (1.0 + 0x1p-40));
  CHECK(linearised_at(node, centre).lipschitz.value() > steepest);
}

TEST_CASE("threads do not change an expansion") {
  std::mt19937_64 random(89);
  const Tensor<double> wide = tests::random_tensor<double>({40, 150}, random, 3.0),
                       row({150}, std::vector<double>(150, 0.5));
  for (const tests::OpCase& one : {tests::OpCase{op::Tanh{}, {wide}}, tests::OpCase{op::Mul{}, {wide, row}},
                                   tests::OpCase{op::Softmax{0, false}, {wide}}}) {
    CAPTURE(name_of(one.op));
    const MovedNode node = moved_node(one, random);
    const Centre centre = centre_of(evaluated(node, node.centre));
    const bounds::Linearised alone = linearised_at(node, centre), together = linearised_at(node, centre, true, 3);
    CHECK(alone.slopes == together.slopes);
    CHECK(alone.remainder == together.remainder);
    CHECK(alone.lipschitz == together.lipschitz);
  }
}

TEST_CASE("a composite has no expansion of its own") {
  const tests::OpCase one{op::Gelu{false}, {{{2}, {0.5, 1.0}}}};
  Generator generator(88);
  const MovedNode node = moved_node(one, generator);
  const Centre centre = centre_of(evaluated(node, node.centre));
  CHECK_THROWS_AS(linearised_at(node, centre), InvalidArgument);
}

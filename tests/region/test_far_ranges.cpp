#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/region/octree.hpp"
#include "driftbound/region/range.hpp"
#include "implicit/implicit_networks.hpp"
#include "support/gelu.hpp"
#include "support/real.hpp"

using namespace driftbound;

namespace {

/// y = f(a x), of one coordinate.
template <class Op>
Graph function_of_one(Op op, float a = 1.0F) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {1, ""}});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({1, 1}, {a})));
  graph.outputs = {graph.add_node("y", op, {graph.add_node("z", op::MatMul{}, {x, w})})};
  return graph;
}

/// A function that is near a number, or near its argument, far from 0: by MPFR.
struct LimitCase {
  std::string name;
  Graph graph;
  std::function<Real(const Real&)> of;
  double steepest;
};

std::vector<LimitCase> limit_cases() {
  const Real one(1.0), zero(0.0);
  const auto elu = [=](double alpha) {
    return [=](const Real& x) { return x < zero ? Real(alpha) * x.apply(mpfr_expm1) : x; };
  };
  const auto sigmoid = [=](const Real& x) { return one / (one + (-x).apply(mpfr_exp)); };
  const auto softplus = [=](const Real& x) {
    return (x < zero ? zero : x) + (-abs(x)).apply(mpfr_exp).apply(mpfr_log1p);
  };
  return {{"softplus", function_of_one(op::Softplus{}), softplus, 1.0},
          {"elu", function_of_one(op::Elu{1.0}), elu(1.0), 1.0},
          {"elu, a kink", function_of_one(op::Elu{0.25}), elu(0.25), 1.0},
          {"elu, a steep kink", function_of_one(op::Elu{4.0}), elu(4.0), 4.0},
          {"tanh", function_of_one(op::Tanh{}), [](const Real& x) { return x.apply(mpfr_tanh); }, 1.0},
          {"sigmoid", function_of_one(op::Sigmoid{}), sigmoid, 0.25},
          {"erf", function_of_one(op::Erf{}), [](const Real& x) { return x.apply(mpfr_erf); }, 1.13},
          {"gelu", function_of_one(op::Gelu{}), [](const Real& x) { return checks::gelu(x, false); }, 1.13},
          {"gelu in its tanh form", function_of_one(op::Gelu{true}),
           [](const Real& x) { return checks::gelu(x, true); }, 1.13}};
}

}  // namespace

TEST_CASE("far from 0 a function is known as well as near it, up to the largest float32 numbers") {
  for (const LimitCase& the_case : limit_cases()) {
    CAPTURE(the_case.name);
    const RegionEvaluator regions(the_case.graph);
    for (const double at : {345.0, 350.0, 355.0, 690.0, 700.0, 710.0, 1e4, 1e38})
      for (const double share : {0.0, 1e-6, 0.01, 1.0, 2.1})
        for (const double side : {-1.0, 1.0}) {
          CAPTURE(at);
          CAPTURE(share);
          CAPTURE(side);
          // From `at` on away from 0; with the largest share over 0, and beyond on the other side.
          const double near = share > 1.5 ? -side * at : side * at, far = side * at * (1.0 + share);
          const double lower = static_cast<float>(std::min(near, far)), upper = static_cast<float>(std::max(near, far));
          const Range range = regions.range(Box{{lower}, {upper}});
          REQUIRE(range.value.is_finite());
          double least = std::numeric_limits<double>::infinity(), most = -least;
          for (const double part : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
            const double x = lower + part * (upper - lower);
            const Real value = the_case.of(Real(x));
            CHECK(Real(range.value.lower()) <= value);
            CHECK(value <= Real(range.value.upper()));
            least = std::min(least, value.to_double());
            most = std::max(most, value.to_double());
          }
          const double size = 1.0 + std::max(-lower, upper);
          CHECK(range.value.width().value() <= 2.5 * (most - least) + 0x1p-36 * size);
          const Interval& slope = range.gradient.at(0);
          REQUIRE(slope.is_finite());
          // No bend is far from 0: the slope is a number.
          CHECK(slope.width().value() <= (share > 1.5 ? 3.0 * the_case.steepest : 0x1p-36));
          const double chord = upper > lower ? (most - least) / (upper - lower) : slope.lower();
          CHECK(chord >= slope.lower() - 1e-9);
          CHECK(chord <= slope.upper() + 1e-9);
        }
  }
  const Range range = RegionEvaluator(function_of_one(op::Exp{})).range(Box{{-1e6}, {1.0}});
  CHECK(range.value.lower() <= 0.0);
  CHECK(range.value.upper() >= 2.718);
  CHECK(range.value.upper() < 2.72);
}

TEST_CASE("a function of what is 0 everywhere has a value") {
  for (const Graph& graph : {function_of_one(op::Softplus{}, 0.0F), function_of_one(op::Sin{}, 0.0F),
                             function_of_one(op::Elu{1.0}, 0.0F), function_of_one(op::Gelu{true}, 0.0F)})
    CHECK(RegionEvaluator(graph).range(Box{{-1.0}, {1.0}}).value.width().value() < 1e-12);
}

TEST_CASE("Gelu in its tanh form bends where its linearisation is split") {
  constexpr double split = 0x1.6b23142700629p+0;
  for (const double side : {-1.0, 1.0}) {
    const double inner = side * split * (1.0 - 0x1p-52), outer = side * split * (1.0 + 0x1p-52);
    CHECK(Real(0.0) < checks::exact_gelu(Real(inner), true).curvature);
    CHECK(checks::exact_gelu(Real(outer), true).curvature < Real(0.0));
  }
}

TEST_CASE("an SDF by softplus is positive far from its surface, where float32 may overflow too") {
  OctreeOptions options;
  options.depth = 4;
  for (const double at : {20.0, 1e4, 1e30, 1e38}) {
    CAPTURE(at);
    options.domain = Box{{at, at, at}, {1.001 * at, 1.001 * at, 1.001 * at}};
    CHECK(Octree::build(implicit_networks::bundled("torus_sdf_softplus"), options).counts().certain_share == 1.0);
  }
  options.domain = Box{{-1e4, -1e4, -1e4}, {1e4, 1e4, 1e4}};
  CHECK(Octree::build(implicit_networks::bundled("torus_sdf_softplus"), options).counts().certain_share > 0.8);
}

TEST_CASE("what overflows and what oscillates beyond reach keeps the sign that it has") {
  const auto range_of = [](const Graph& graph, double lower, double upper, double iso = 0.0) {
    RegionOptions options;
    options.iso = iso;
    const Range range = RegionEvaluator(graph, options).range(Box{{lower}, {upper}});
    for (const double share : {0.0, 0.3, 1.0}) {
      const Real value = Real(lower + share * (upper - lower));
      const Real y =
          (std::holds_alternative<op::Exp>(graph.nodes.back().op) ? value.apply(mpfr_exp) : value.apply(mpfr_sin)) -
          Real(iso);
      CHECK(Real(range.value.lower()) <= y);
      CHECK(y <= Real(range.value.upper()));
    }
    return range;
  };
  const Graph exponential = function_of_one(op::Exp{}), wave = function_of_one(op::Sin{});
  for (const auto& [lower, upper] :
       {std::pair{0.0, 690.0}, std::pair{0.0, 1e3}, std::pair{710.0, 720.0}, std::pair{1e37, 2e38}}) {
    CAPTURE(upper);
    const Range range = range_of(exponential, lower, upper, 0.5);
    CHECK(range.sign == RegionSign::all_positive);
    CHECK(range.value.lower() >= 0.5);
    CHECK(range.rounding == std::numeric_limits<double>::infinity());
  }
  CHECK(range_of(exponential, -1e3, 1e3).value.lower() == 0.0);
  CHECK(range_of(exponential, 0.0, 1e3, 1e30).sign == RegionSign::unknown);
  for (const double at : {1e7, 1e30, 3e38}) {
    CAPTURE(at);
    const double lower = static_cast<float>(at);
    const Range range = range_of(wave, lower, 1.0001 * lower, 1.5);
    CHECK(range.sign == RegionSign::all_negative);
    CHECK(range.value.lower() >= -2.5000001);
    CHECK(range.value.upper() <= -0.4999999);
    CHECK(range.gradient.at(0).lower() >= -1.0000001);
    CHECK(range.gradient.at(0).upper() <= 1.0000001);
  }
}

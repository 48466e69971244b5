#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/given_values.hpp"
#include "implicit_networks.hpp"
#include "support/approach.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;

namespace {

const SummationOrder blocked{SummationOrder::Kind::blocked, 8, true};

/// The target as an evaluator gives it, subtracted in double.
std::vector<double> values_of(const Graph& graph, const Target& target, const ArithmeticModel& arithmetic,
                              const std::vector<double>& points, std::size_t dimension) {
  const auto rows = static_cast<std::int64_t>(points.size() / dimension);
  const Inputs inputs{{{graph.value(graph.inputs[0]).name,
                        StoredTensor::from(Tensor<double>({rows, static_cast<std::int64_t>(dimension)}, points))}}};
  const Tensor<double> outputs = cpu_evaluator(arithmetic).run(graph, inputs).layers.back().output.to_double();
  const std::size_t width = outputs.size() / static_cast<std::size_t>(rows);
  std::vector<double> values;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const double* const of_row = outputs.values.data() + row * width;
    values.push_back(of_row[target.positive.element] - (target.negative ? of_row[target.negative->element] : 0.0));
  }
  return values;
}

struct Outcome {
  std::size_t decided = 0, cells = 0;
};

Outcome check(const std::string& name, const std::string& arithmetic_name, double iso,
              const GivenValueOptions& options) {
  const ArithmeticModel arithmetic = cpu_arithmetic(arithmetic_name, blocked);
  SignOptions sign_options;
  sign_options.iso = iso;
  const SignField field(bundled(name), scalar_of(name), sign_options);
  const std::vector<double> points = sign_points::uniform(3000, field.dimension(), 9);
  const std::vector<double> values = values_of(field.graph(), field.target(), arithmetic, points, field.dimension());
  const GivenValues given(field, arithmetic, options);
  std::vector<PointSign> signs(values.size());
  const std::vector<std::int64_t> open =
      given.signs(points.data(), static_cast<std::ptrdiff_t>(field.dimension()), 1, values, signs);
  const std::vector<PointSign> certain = sign_points::signs_of(field, points);
  std::size_t next = 0, wrong = 0, outside = 0;
  for (std::size_t row = 0; row < signs.size(); ++row) {
    const bool is_open = next < open.size() && open[next] == static_cast<std::int64_t>(row);
    if (is_open) ++next;
    CHECK(is_open == (signs[row].sign == Sign::undecided));
    if (!is_open && signs[row].sign != certain[row].sign) ++wrong;
    if (!(std::fabs(signs[row].value - certain[row].value) <= signs[row].bound + certain[row].bound)) ++outside;
  }
  CHECK(next == open.size());
  CHECK_EXACT("T-112", wrong == 0);
  CHECK(outside == 0);
  return {signs.size() - open.size(), given.cells()};
}

}  // namespace

TEST_CASE("signs of values in float32 and TF32 are those of the exact network, or open") {
  GivenValueOptions options;
  options.points_of_a_cell = 300;
  for (const std::string name : {"sphere_cut_sdf_relu", "siren", "mlp_2_10_10_2"}) {
    CAPTURE(name);
    CHECK(check(name, "fp32", 0.0, options).decided > 2800);
    CHECK(check(name, "fp32", 0.125, options).decided > 2800);
  }
  CHECK(check("siren", "tf32", 0.0, options).decided > 0);
  check("oscillator_d2_w16", "fp32", 0.0, options);
}

TEST_CASE("cells decide what the whole domain leaves") {
  GivenValueOptions whole, cells;
  whole.most_halvings = 0;
  cells.points_of_a_cell = 5;
  const Outcome by_one = check("sphere_cut_sdf_relu", "fp32", 0.0, whole);
  const Outcome by_many = check("sphere_cut_sdf_relu", "fp32", 0.0, cells);
  CHECK(by_one.cells == 1);
  CHECK(by_many.cells > 1);
  CHECK(by_many.decided > by_one.decided);
}

TEST_CASE("the roundings of a difference and of the iso value are part of the bound") {
  // Relu(x): no run of it rounds a double.
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Relu{}, {x})};
  const ArithmeticModel arithmetic = cpu_arithmetic("fp64", blocked);
  const auto sign_of_one = [&](const Target& target, double iso, const std::vector<double>& point, double value) {
    SignOptions options;
    options.iso = iso;
    std::vector<PointSign> signs(1);
    GivenValues(SignField(graph, target, options), arithmetic).signs(point.data(), 2, 1, {&value, 1}, signs);
    return signs.front();
  };
  // 1 - 2^-54 and 1 - 2^-60 are 1 in double.
  const PointSign with_iso = sign_of_one({{0, 0}, {}}, 0x1p-54, {1.0, 0.0}, 1.0);
  CHECK(with_iso.value == 1.0);
  CHECK_EXACT("T-112", with_iso.bound >= 0x1p-54);
  const PointSign of_two = sign_of_one({{0, 0}, OutputElement{0, 1}}, 0.0, {1.0, 0x1p-60}, 1.0 - 0x1p-60);
  CHECK(of_two.value == 1.0);
  CHECK_EXACT("T-112", of_two.bound >= 0x1p-60);
  CHECK(of_two.bound <= 0x1p-52);
  CHECK(with_iso.bound <= 0x1p-52);
  CHECK(sign_of_one({{0, 0}, {}}, 0.0, {1.0, 0.0}, 1.0).bound < 1e-300);
}

TEST_CASE("values that are not finite and points outside are left open, and what a sign stands on is said") {
  const SignField field(octahedron());
  ArithmeticModel foreign = cpu_arithmetic("fp32", blocked);
  foreign.name = "somebody's";
  const GivenValues given(field, foreign);
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> points = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.5, 0.5, 0.5, 0.0, 0.25, 0.0};
  const std::vector<double> values = {std::nan(""), inf, 0.5, 1.5, -0.75};
  std::vector<PointSign> signs(5);
  CHECK(given.signs(points.data(), 3, 1, values, signs) == std::vector<std::int64_t>{0, 1, 3});
  CHECK(signs[2].sign == Sign::positive);
  CHECK(signs[2].stage == SignStage::given);
  CHECK(signs[4].sign == Sign::negative);
  CHECK(given.guarantee() == Guarantee::conditional);
  CHECK(given.condition().find("somebody's") != std::string::npos);
  const std::vector<float> floats(points.begin(), points.end());
  std::vector<PointSign> again(5);
  CHECK(given.signs(floats.data(), 3, 1, values, again) == std::vector<std::int64_t>{0, 1, 3});

  std::vector<PointSign> room(2);
  CHECK_THROWS_AS(given.signs(points.data(), 3, 1, values, room), InvalidArgument);
  CHECK_THROWS_AS(GivenValues(field, foreign, {61, 10}), InvalidArgument);
  CHECK_THROWS_AS(GivenValues(field, foreign, {3, 0}), InvalidArgument);
}

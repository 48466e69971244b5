#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "allocations.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/reference/reference.hpp"
#include "implicit/sign_of.hpp"
#include "implicit_networks.hpp"
#include "support/approach.hpp"
#include "support/sign_points.hpp"

using namespace driftbound;
using namespace implicit_networks;

namespace {

using sign_points::bisected;
using sign_points::signs_of;

template <class Real>
void check_point(const SignField& field, std::span<const double> point, const PointSign& found) {
  const Real exact = exact_scalar<Real>(field.graph(), field.target(), field.options().iso, point);
  REQUIRE(found.sign != Sign::undecided);
  CHECK(static_cast<int>(found.sign) == oracle::sign(exact));
  const Real error = oracle::magnitude(exact - Real(found.value));
  CHECK(error <= Real(found.bound));
}

void check_points(const SignField& field, const std::vector<double>& points) {
  const std::vector<PointSign> signs = signs_of(field, points);
  const bool is_exact = is_piecewise_linear(field.graph());
  for (std::size_t row = 0; row < signs.size(); ++row) {
    const auto point = std::span(points).subspan(row * field.dimension(), field.dimension());
    is_exact ? check_point<oracle::Dyadic>(field, point, signs[row])
             : check_point<oracle::Real400>(field, point, signs[row]);
  }
}

/// tanh(x) - tanh(x), by two outputs that are the same: a zero that no precision proves.
Graph unprovable_zero() {
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {1, ""}});
  const auto w = graph.add_constant("w", StoredTensor::from(Tensor<float>({1, 2}, {1.0F, 1.0F})));
  const auto y = graph.add_node("tanh", op::Tanh{}, {x});
  graph.outputs = {graph.add_node("twice", op::Gemm{}, {y, w})};
  return graph;
}

const Target difference{{0, 0}, OutputElement{0, 1}};

}  // namespace

TEST_CASE("signs, values and bounds hold against exact arithmetic, also where points are bisected onto the surface") {
  for (const std::string name :
       {"sphere_cut_sdf_relu", "torus_sdf_softplus", "siren", "mlp_2_10_10_2", "oscillator_d2_w16"}) {
    CAPTURE(name);
    const SignField field(bundled(name), scalar_of(name));
    check_points(field, sign_points::uniform(12, field.dimension(), 1));
    check_points(field, bisected(field, 12, 2));
  }
}

TEST_CASE("an exact zero of a network of rectifiers is proven") {
  const SignField field(octahedron());
  const PointSign zero = field.at(std::vector<double>{0.5, -0.25, 0.25});
  CHECK_EXACT("T-110", zero.sign == Sign::zero);
  CHECK(zero.value == 0.0);
  CHECK(zero.bound == 0.0);
  const double eps = 0x1p-54;
  CHECK(field.at(std::vector<double>{0.5, -0.25, 0.25 + eps}).sign == Sign::positive);
  CHECK(field.at(std::vector<double>{0.5, -0.25, 0.25 - eps}).sign == Sign::negative);
  CHECK(field.at(std::vector<double>{1.0, 0x1p-200, 0.0}).sign == Sign::positive);
  SignOptions options;
  options.iso = -0x1p-60;
  CHECK(SignField(octahedron(), options).at(std::vector<double>{0.5, -0.25, 0.25}).sign == Sign::positive);
}

TEST_CASE("the level set through a point, but for the last bits of the level, is on the right side of it") {
  const Graph graph = bundled("sphere_cut_sdf_relu");
  const std::vector<double> point = {0.5, 0.25, -0.75};
  const auto exact = exact_scalar<oracle::Dyadic>(graph, {}, 0.0, point);
  SignOptions options;
  options.iso = SignField(graph).at(point).value;
  const auto left = exact - oracle::Dyadic(options.iso);
  CHECK(static_cast<int>(SignField(graph, options).at(point).sign) == oracle::sign(left));
}

TEST_CASE("a double is not rounded to the input's type") {
  // 1/3 in float32 is larger than in float64.
  const SignField field(octahedron());
  const double third = 1.0 / 3.0;
  const auto rounded = static_cast<double>(static_cast<float>(third));
  CHECK(field.at(std::vector<double>{third, third, third}).sign == Sign::negative);
  CHECK(field.at(std::vector<double>{rounded, rounded, rounded}).sign == Sign::positive);
}

TEST_CASE("what no precision decides is reported, refused or treated as asked, and never certified") {
  SignOptions options;
  options.max_bits = 256;
  const std::vector<double> point = {0.5};
  {
    const SignField field(unprovable_zero(), difference, options);
    const PointSign sign = field.at(point);
    CHECK(sign.sign == Sign::undecided);
    CHECK(sign.stage == SignStage::none);
    CHECK(sign.bits == 256);
    CHECK(sign.bound < 1e-60);
    CHECK(field.statistics().undecided == 1);
  }
  options.at_limit = AtLimit::fail;
  CHECK_THROWS_WITH_AS(SignField(unprovable_zero(), difference, options).at(point),
                       doctest::Contains("point 0, (0.5), is not decided with 256 bits"), UndecidedSign);
  options.at_limit = AtLimit::treat_as_negative;
  CHECK(SignField(unprovable_zero(), difference, options).at(point).sign == Sign::negative);
  options.at_limit = AtLimit::treat_as_positive;
  const PointSign treated = SignField(unprovable_zero(), difference, options).at(point);
  CHECK(treated.sign == Sign::positive);
  CHECK(treated.stage == SignStage::treated);
}

TEST_CASE("several threads ask one field, which no one has prepared, at a time") {
  const Graph graph = bundled("mlp_2_10_10_2");
  const Target target = scalar_of("mlp_2_10_10_2");
  constexpr std::size_t threads = 4, singles = 300;
  const std::vector<double> points = sign_points::uniform(5000, 2, 21);
  const std::vector<PointSign> expected = signs_of(SignField(graph, target), points);

  const SignField field(graph, target);
  std::vector<std::size_t> others(threads);
  const auto ask = [&](const SignField& own, std::size_t& different) {
    for (std::size_t row = 0; row < singles; ++row)
      if (own.at(std::span(points).subspan(2 * row, 2)).sign != expected[row].sign) ++different;
    const std::vector<PointSign> signs = signs_of(own, points);
    for (std::size_t row = 0; row < signs.size(); ++row)
      if (signs[row].sign != expected[row].sign) ++different;
    if (own.statistics().points < static_cast<std::int64_t>(singles + signs.size())) ++different;
  };
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) running.emplace_back([&, own = field, t] { ask(own, others[t]); });
  for (std::thread& thread : running) thread.join();

  CHECK(others == std::vector<std::size_t>(threads, 0));
  const SignStatistics all = field.statistics();
  CHECK(all.points == static_cast<std::int64_t>(threads * (singles + expected.size())));
  CHECK(all.negative + all.zero + all.positive + all.undecided == all.points);
}

TEST_CASE("points come in any stride, as float or double, by one thread or several") {
  const SignField field(bundled("mlp_2_10_10_2"), scalar_of("mlp_2_10_10_2"));
  const std::size_t rows = 9000;
  std::vector<double> points = sign_points::uniform(rows, 2, 5);
  for (double& x : points) x = static_cast<double>(static_cast<float>(x));
  const std::vector<PointSign> expected = signs_of(field, points);

  const auto agree = [&](const std::vector<PointSign>& signs) {
    for (std::size_t row = 0; row < rows; ++row)
      if (signs[row].sign != expected[row].sign) return false;
    return true;
  };
  std::vector<PointSign> signs(rows);
  std::vector<double> columns(points.size());
  std::vector<float> floats(points.begin(), points.end());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t c = 0; c < 2; ++c) columns[c * rows + row] = points[2 * row + c];
  field.signs(columns.data(), static_cast<std::int64_t>(rows), 1, static_cast<std::ptrdiff_t>(rows), signs);
  CHECK(agree(signs));
  field.signs(floats.data(), static_cast<std::int64_t>(rows), 2, 1, signs);
  CHECK(agree(signs));
  SignOptions options;
  options.threads = 3;
  const SignField threaded(field.graph(), field.target(), options);
  CHECK(agree(signs_of(threaded, points)));
  for (std::size_t row = 0; row < 50; ++row)
    CHECK(field.at(std::span(points).subspan(2 * row, 2)).sign == expected[row].sign);

  const SignStatistics counts = threaded.statistics();
  CHECK(counts.points == static_cast<std::int64_t>(rows));
  CHECK(counts.negative + counts.zero + counts.positive + counts.undecided == counts.points);
  std::int64_t decided = 0;
  for (const SignStatistics::Stage& stage : counts.stages) decided += stage.decided;
  CHECK(decided + counts.undecided == counts.points);
}

TEST_CASE("networks of one sample at a time, and ops without a bound of float64, are decided too") {
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f32, {{3, ""}});
  const auto y = graph.add_node("cubes", op::Pow{3.0}, {x});
  graph.outputs = {graph.add_node("sum", op::ReduceSum{{}, false}, {y})};
  const SignField field(graph);
  CHECK(field.dimension() == 3);
  CHECK(field.at(std::vector<double>{0.5, 0.5, -0.5}).sign == Sign::positive);
  CHECK(field.at(std::vector<double>{0.5, -0.5, -0.5}).sign == Sign::negative);
  CHECK(field.at(std::vector<double>{0.75, -0.75, -0x1p-300}).sign == Sign::negative);
}

TEST_CASE("bad points, networks, targets and options are refused") {
  const SignField field(octahedron());
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {inf, -inf, nan, 1e39})
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<double> point(3, 0.5);
      point[place] = bad;
      CHECK_THROWS_AS(field.at(point), InvalidArgument);
      std::vector<double> many(3 * 5000, 0.25);
      many[3 * 4500 + place] = bad;
      CHECK_THROWS_AS(signs_of(field, many), InvalidArgument);
    }
  CHECK(field.at(std::vector<double>{3e38, 0.0, -1.0}).sign == Sign::positive);
  CHECK(SignField(octahedron(ElementType::f64)).at(std::vector<double>{1e300, 0.0, 0.0}).sign == Sign::positive);
  CHECK_THROWS_AS(field.at(std::vector<double>{0.5, 0.5}), InvalidArgument);
  std::vector<PointSign> room(2);
  const std::vector<double> three(9, 0.5);
  CHECK_THROWS_AS(field.signs(three.data(), 3, 3, 1, room), InvalidArgument);

  CHECK_THROWS_AS(SignField(bundled("mlp_2_10_10_2")), InvalidArgument);
  CHECK_THROWS_AS(SignField(octahedron(), Target{{1, 0}, {}}), InvalidArgument);
  CHECK_THROWS_AS(SignField(octahedron(), Target{{0, 1}, {}}), InvalidArgument);
  CHECK_THROWS_AS(SignField(octahedron(), Target{{0, 0}, OutputElement{0, -1}}), InvalidArgument);
  Graph two = octahedron();
  two.add_input("y", ElementType::f32, {{-1, "batch"}, {3, ""}});
  CHECK_THROWS_AS(SignField{two}, InvalidArgument);
  Graph none = octahedron();
  none.outputs.clear();
  CHECK_THROWS_AS(SignField{none}, InvalidArgument);

  const auto refuses = [](auto change) {
    SignOptions options;
    change(options);
    CHECK_THROWS_AS(SignField(octahedron(), options), InvalidArgument);
  };
  refuses([](SignOptions& options) { options.max_bits = 64; });
  refuses([](SignOptions& options) { options.threads = 0; });
  refuses([&](SignOptions& options) { options.iso = nan; });
  refuses([](SignOptions& options) { options.domain = Box{{0.0}, {1.0}}; });
  refuses([](SignOptions& options) { options.domain = Box{{0.0, 0.0, 2.0}, {1.0, 1.0, 1.0}}; });
  refuses([&](SignOptions& options) { options.domain = Box{{0.0, 0.0, 0.0}, {1.0, inf, 1.0}}; });
}

TEST_CASE("nothing is certified where rounding is not to nearest") {
  const SignField field(octahedron());
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(field.at(std::vector<double>{0.5, 0.5, 0.5}), UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
  CHECK(field.at(std::vector<double>{0.5, 0.5, 0.5}).sign == Sign::positive);
}

TEST_CASE("no field and no reference is made where rounding is not to nearest: both keep numbers that they compute") {
  const Graph graph = octahedron();
  std::fesetround(FE_UPWARD);
  CHECK_THROWS_AS(SignField{graph}, UnsoundEnvironment);
  CHECK_THROWS_AS(ReferenceMaker{graph}, UnsoundEnvironment);
  std::fesetround(FE_TONEAREST);
}

TEST_CASE("constants that are not finite decide nothing (T-111)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "N"}, {1, ""}});
  const ValueId c =
      graph.add_constant("c", StoredTensor::from(Tensor<double>({1}, {std::numeric_limits<double>::infinity()})));
  graph.outputs = {graph.add_node("y", op::Mul{}, {x, graph.add_node("a", op::Atan{}, {c})})};
  const SignField field(graph);
  field.prepare();
  const std::vector<double> points(10, 0.5);
  std::vector<PointSign> signs(points.size());
  field.signs(points.data(), 10, 1, 1, signs);
  for (const PointSign& sign : signs) CHECK(sign.sign != Sign::negative);
}

TEST_CASE("a sign is read off a finite value that is beyond its bound, and off nothing else") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto sign = [](double value, double bound) {
    return implicit::sign_of(value, bound, SignStage::float64_domain, 53);
  };
  CHECK_EXACT("T-110", sign(2.0, 1.0).sign == Sign::positive);
  CHECK_EXACT("T-110", sign(-2.0, 1.0).sign == Sign::negative);
  for (const auto& [value, bound] :
       {std::pair(1.0, 1.0), {-1.0, 1.0}, {1.0, nan}, {1.0, inf}, {nan, 1.0}, {inf, 1.0}, {-inf, 0.0}})
    CHECK_EXACT("T-110", sign(value, bound).sign == Sign::undecided);
  for (const double value : {nan, inf, -inf}) CHECK(sign(value, 1.0).bound == inf);
}

TEST_CASE("many points share one bound for the domain; those outside are decided all the same") {
  SignOptions options;
  options.domain = Box{{-0.5, -0.5, -0.5}, {0.5, 0.5, 0.5}};
  const SignField field(bundled("torus_sdf_softplus"), options);
  const std::vector<double> points = sign_points::uniform(8192, 3, 3);
  const std::vector<PointSign> signs = signs_of(field, points);
  double bound = 0.0;
  std::size_t within = 0;
  for (std::size_t row = 0; row < signs.size(); ++row) {
    const bool inside = std::all_of(points.begin() + static_cast<std::ptrdiff_t>(3 * row),
                                    points.begin() + static_cast<std::ptrdiff_t>(3 * row + 3),
                                    [](double x) { return std::fabs(x) <= 0.5; });
    CHECK((signs[row].stage == SignStage::float64_domain) == inside);
    if (!inside) continue;
    ++within;
    bound = signs[row].bound;
  }
  CHECK(within > 800);
  CHECK(bound < 1e-9);
  for (std::size_t row = 0; row < 40; ++row)
    check_point<oracle::Real400>(field, std::span(points).subspan(3 * row, 3), signs[row]);
}

TEST_CASE("points that the domain's bound decides take no memory") {
  const SignField field(bundled("sphere_cut_sdf_relu"));
  const std::vector<double> points = sign_points::uniform(20000, 3, 3);
  std::vector<PointSign> signs(20000);
  field.signs(points.data(), 20000, 3, 1, signs);
  CHECK(field.statistics().stages[static_cast<std::size_t>(SignStage::float64_domain)].decided == 20000);
  const std::size_t before = allocations();
  field.signs(points.data(), 20000, 3, 1, signs);
  CHECK(allocations() == before);
}

TEST_CASE(
    "a prepared field and its copies decide single points and small batches by the domain's bound, without memory") {
  for (const std::string name : {"sphere_cut_sdf_relu", "siren", "torus_sdf_softplus", "mlp_2_10_10_2"}) {
    CAPTURE(name);
    const SignField field(bundled(name), scalar_of(name));
    const SignField copy = field;
    field.prepare();
    const std::size_t dimension = field.dimension();
    const std::vector<double> points = sign_points::uniform(100, dimension, 3);
    std::vector<PointSign> signs(100), alone(100);
    const auto stride = static_cast<std::ptrdiff_t>(dimension);
    const auto decide = [&] {
      for (std::size_t row = 0; row < 100; ++row) alone[row] = copy.at({points.data() + row * dimension, dimension});
      copy.signs(points.data(), 60, stride, 1, std::span(signs).first(60));
      copy.signs(points.data() + 60 * dimension, 40, stride, 1, std::span(signs).subspan(60));
    };
    decide();
    const std::size_t before = allocations();
    decide();
    const SignField again = copy;
    CHECK(allocations() == before);
    for (std::size_t row = 0; row < 100; ++row) {
      CHECK(alone[row].stage == SignStage::float64_domain);
      CHECK(alone[row].sign == signs[row].sign);
      CHECK(alone[row].value == signs[row].value);
      CHECK(alone[row].bound == signs[row].bound);
    }
    const SignStatistics counts = field.statistics();
    CHECK(counts.points == 400);
    CHECK(counts.positive + counts.negative == 400);
    CHECK(counts.stages[static_cast<std::size_t>(SignStage::float64_domain)].decided == 400);
    for (std::size_t row = 0; row < 10; ++row)
      check_point<oracle::Real400>(field, std::span(points).subspan(row * dimension, dimension), alone[row]);
  }
}

TEST_CASE("the domain's bound is found once enough points were asked for, one by one or a few at a time") {
  const SignField field(octahedron());
  const std::vector<double> point = {0.5, 0.5, 0.5};
  CHECK(field.at(point).stage == SignStage::float64_point);
  int calls = 1;
  while (field.at(point).stage != SignStage::float64_domain && calls < 1000) ++calls;
  CHECK(calls > 50);
  CHECK(calls < 200);
  // A point outside, and one too near 0 for the bound, are decided by later stages.
  CHECK(field.at(std::vector<double>{3.0, 0.5, 0.5}).stage == SignStage::float64_point);
  CHECK(field.at(std::vector<double>{0.5, 0.5, 0x1p-60}).sign == Sign::positive);
  CHECK(field.at(std::vector<double>{0.5, 0.5, 0x1p-60}).stage != SignStage::float64_domain);
}

TEST_CASE("a zero that roundings hide is never given the sign of its midpoint") {
  // softplus(x) - softplus(-x) - x
  Graph graph;
  const auto x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {1, ""}});
  const auto w = graph.add_constant("w", StoredTensor::from(Tensor<float>({1, 2}, {1.0F, -1.0F})));
  const auto v = graph.add_constant("v", StoredTensor::from(Tensor<float>({2, 1}, {1.0F, -1.0F})));
  const auto both = graph.add_node("both", op::MatMul{}, {x, w});
  const auto soft = graph.add_node("soft", op::Softplus{}, {both});
  const auto odd = graph.add_node("odd", op::MatMul{}, {soft, v});
  graph.outputs = {graph.add_node("nothing", op::Sub{}, {odd, x})};
  SignOptions options;
  options.max_bits = 256;
  const SignField field(graph, options);
  int nonzero_midpoints = 0;
  for (const double point : sign_points::uniform(60, 1, 8)) {
    const PointSign sign = field.at(std::vector<double>{point});
    CHECK(sign.sign == Sign::undecided);
    if (sign.value != 0.0) ++nonzero_midpoints;
  }
  CHECK(nonzero_midpoints > 5);
}

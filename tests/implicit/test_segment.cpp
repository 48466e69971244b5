#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "driftbound/implicit/segment.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "faults/theorems.hpp"
#include "implicit/isolation.hpp"
#include "implicit/line_graph.hpp"
#include "implicit/narrowing.hpp"
#include "implicit_networks.hpp"
#include "support/approach.hpp"
#include "support/real.hpp"
#include "support/small_networks.hpp"

using namespace driftbound;
using namespace implicit_networks;

namespace {

/// Networks of one number x.
class OfOne {
public:
  explicit OfOne(bool batched = true) {
    x_ = graph_.add_input("x", ElementType::f64, {{batched ? -1 : 1, ""}, {1, ""}});
  }
  ValueId x() const { return x_; }
  ValueId constant(double value) { return row({value}); }
  ValueId row(const std::vector<double>& values) {
    const Tensor<double> tensor({1, static_cast<std::int64_t>(values.size())}, values);
    return graph_.add_constant("c" + std::to_string(++count_), StoredTensor::from(tensor));
  }
  ValueId column(const std::vector<double>& values) {
    const Tensor<double> tensor({static_cast<std::int64_t>(values.size()), 1}, values);
    return graph_.add_constant("c" + std::to_string(++count_), StoredTensor::from(tensor));
  }
  ValueId node(Op op, std::vector<ValueId> inputs) {
    return graph_.add_node("n" + std::to_string(++count_), std::move(op), std::move(inputs));
  }
  Graph with_output(ValueId id) && {
    graph_.outputs = {id};
    return std::move(graph_);
  }

private:
  Graph graph_;
  ValueId x_ = 0;
  int count_ = 0;
};

SegmentZeros zeros_between(const Graph& graph, double a, double b, const SegmentOptions& options = {}) {
  return zeros_on_segment(graph, {}, std::vector{a}, std::vector{b}, options);
}

/// first + sum of the changes of slope times max(x - kink, 0).
Graph piecewise_linear(double first, const std::vector<double>& kinks, const std::vector<double>& changes) {
  OfOne net;
  std::vector<double> shifts;
  for (const double kink : kinks) shifts.push_back(-kink);
  const ValueId wide = net.node(op::Gemm{}, {net.x(), net.row(std::vector(kinks.size(), 1.0)), net.row(shifts)});
  const ValueId active = net.node(op::Relu{}, {wide});
  const ValueId result = net.node(op::Gemm{}, {active, net.column(changes), net.constant(first)});
  return std::move(net).with_output(result);
}

/// x - shift
ValueId shifted(OfOne& net, double shift) {
  return net.node(op::Sub{}, {net.x(), net.constant(shift)});
}

bool holds(const Interval& t, const Real& zero) {
  return Real(t.lower()) <= zero && zero <= Real(t.upper());
}

/// Doubles from one end to the other.
int ulps(const Interval& t) {
  int count = 0;
  for (double x = t.lower(); x < t.upper() && count < 1000; x = next_up(x)) ++count;
  return count;
}

struct Known {
  std::int64_t numerator, denominator;
  Crossing crossing;
};

/// Values at 0, 1/8 … 1 joined by lines, and the zeros that they have; no two zeros in a row.
struct Zigzag {
  Graph graph;
  std::vector<Known> zeros;
};
Zigzag zigzag(std::mt19937_64& generator) {
  std::vector<std::int64_t> values(9);
  for (std::size_t i = 0; i < values.size(); ++i) {
    do values[i] = static_cast<std::int64_t>(generator() % 13) - 6;
    while (i > 0 && values[i] == 0 && values[i - 1] == 0);
  }
  std::vector<double> kinks, changes;
  std::vector<Known> zeros;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const auto slope = static_cast<double>(8 * (values[i + 1] - values[i]));
    const double before = i == 0 ? 0.0 : static_cast<double>(8 * (values[i] - values[i - 1]));
    kinks.push_back(static_cast<double>(i) / 8.0);
    changes.push_back(slope - before);
  }
  const auto sign = [](std::int64_t v) { return v > 0 ? 1 : v < 0 ? -1 : 0; };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (values[i] == 0) {
      const int left = i > 0 ? sign(values[i - 1]) : -sign(values[1]);
      const int right = i + 1 < values.size() ? sign(values[i + 1]) : -left;
      zeros.push_back({at, 8,
                       left == right  ? Crossing::touching
                       : left < right ? Crossing::rising
                                      : Crossing::falling});
    } else if (i + 1 < values.size() && sign(values[i]) * sign(values[i + 1]) < 0) {
      const std::int64_t width = std::abs(values[i]) + std::abs(values[i + 1]);
      zeros.push_back(
          {at * width + std::abs(values[i]), 8 * width, values[i] < 0 ? Crossing::rising : Crossing::falling});
    }
  }
  return {piecewise_linear(static_cast<double>(values[0]), kinks, changes), std::move(zeros)};
}

}  // namespace

TEST_CASE("all zeros of piecewise linear functions, at kinks or not, crossed or touched, are found and no others") {
  std::mt19937_64 generator(1);
  int complete = 0;
  for (int repetition = 0; repetition < 100; ++repetition) {
    const Zigzag known = zigzag(generator);
    const SegmentZeros found = zeros_between(known.graph, 0.0, 1.0);
    complete += found.is_complete() ? 1 : 0;
    CHECK(found.stretches.empty());
    CHECK(found.pieces < 600);
    for (const UnresolvedPiece& piece : found.unresolved) CHECK(piece.t.width().value() < 1e-12);
    std::size_t next = 0;
    for (const Known& known_zero : known.zeros) {
      const Real zero =
          Real(static_cast<double>(known_zero.numerator)) / Real(static_cast<double>(known_zero.denominator));
      const bool is_open = std::any_of(found.unresolved.begin(), found.unresolved.end(),
                                       [&](const UnresolvedPiece& piece) { return holds(piece.t, zero); });
      const bool is_found = next < found.zeros.size() && holds(found.zeros[next].t, zero);
      CHECK_EXACT("T-122", (is_found || is_open));
      if (!is_found) continue;
      CHECK(ulps(found.zeros[next].t) <= 2);
      CHECK((found.zeros[next].crossing == known_zero.crossing ||
             (is_open && found.zeros[next].crossing == Crossing::unknown)));
      ++next;
    }
    CHECK(next == found.zeros.size());
  }
  CHECK(complete >= 60);
}

TEST_CASE("zeros of a sine are the multiples of pi") {
  OfOne net;
  const ValueId sine = net.node(op::Sin{}, {net.node(op::Mul{}, {net.x(), net.constant(3.0)})});
  const SegmentZeros found = zeros_between(std::move(net).with_output(sine), -10.0, 10.0);
  CHECK(found.is_complete());
  REQUIRE(found.zeros.size() == 19);
  const Real pi = Real(-1.0).apply(mpfr_acos);
  for (int k = -9; k <= 9; ++k) {
    const SegmentZero& zero = found.zeros[static_cast<std::size_t>(k + 9)];
    CHECK(holds(zero.t, (Real(static_cast<double>(k)) * pi / Real(3.0) + Real(10.0)) / Real(20.0)));
    CHECK(zero.crossing == (k % 2 == 0 ? Crossing::rising : Crossing::falling));
    CHECK(ulps(zero.t) <= 3);
  }
}

TEST_CASE("a point of the segment is the exact one, also where it is no double") {
  OfOne net;
  const ValueId y = shifted(net, 0.3);
  const Graph graph = std::move(net).with_output(y);
  for (const auto& [a, b] :
       std::vector<std::pair<double, double>>{{0.1, 0.7}, {-0.7, 0.3000001}, {-1e17, 0.4}, {0.1, 1e9}}) {
    const SegmentZeros found = zeros_between(graph, a, b);
    REQUIRE(found.zeros.size() == 1);
    const Real zero = (Real(0.3) - Real(a)) / (Real(b) - Real(a));
    CHECK_EXACT("T-120", holds(found.zeros[0].t, zero));
    CHECK(ulps(found.zeros[0].t) <= 3);
    CHECK(found.zeros[0].crossing == Crossing::rising);
  }
}

TEST_CASE("zeros of a polynomial: simple ones are certified, a double one is not, and says so") {
  OfOne net;
  const double third = 1.0 / 3.0;
  ValueId product = net.node(op::Mul{}, {shifted(net, third), shifted(net, third)});
  for (const double root : {-0.5, 0.75, 0.7500001}) product = net.node(op::Mul{}, {product, shifted(net, root)});
  const SegmentZeros found = zeros_between(std::move(net).with_output(product), -1.0, 1.0);
  REQUIRE(found.zeros.size() == 3);
  CHECK(holds(found.zeros[0].t, Real(0.25)));
  CHECK(holds(found.zeros[1].t, (Real(0.75) + Real(1.0)) / Real(2.0)));
  CHECK(holds(found.zeros[2].t, (Real(0.7500001) + Real(1.0)) / Real(2.0)));
  REQUIRE(found.unresolved.size() == 1);
  const UnresolvedPiece& piece = found.unresolved[0];
  CHECK(holds(piece.t, (Real(third) + Real(1.0)) / Real(2.0)));
  CHECK(piece.t.width().value() < 1e-6);
  CHECK(piece.at_lower == piece.at_upper);
  CHECK_FALSE(piece.exists);
  CHECK_FALSE(piece.at_most_one);
}

TEST_CASE("a kink that touches 0 where no double t lies stays open, and is narrow") {
  OfOne net;
  const ValueId y = net.node(op::Abs{}, {shifted(net, 0.1)});
  const SegmentZeros found = zeros_between(std::move(net).with_output(y), 0.0, 1.5);
  CHECK(found.zeros.empty());
  REQUIRE(found.unresolved.size() == 1);
  CHECK(holds(found.unresolved[0].t, Real(0.1) / Real(1.5)));
  CHECK(found.unresolved[0].t.width().value() < 1e-12);
  CHECK_FALSE(found.unresolved[0].exists);
}

TEST_CASE("stretches where the function is exactly 0 are stretches") {
  const SegmentZeros found = zeros_between(piecewise_linear(0.0, {0.25, 0.5}, {1.0, -2.0}), 0.0, 1.0);
  REQUIRE(found.stretches.size() == 1);
  CHECK(found.stretches[0].lower() == 0.0);
  CHECK(found.stretches[0].upper() <= 0.25);
  CHECK(found.stretches[0].upper() > 0.25 - 1e-12);
  for (const UnresolvedPiece& piece : found.unresolved) CHECK(piece.t.width().value() < 1e-12);
  REQUIRE(found.zeros.size() == 1);
  CHECK(holds(found.zeros[0].t, Real(0.75)));

  const SegmentZeros at_third = zeros_between(piecewise_linear(0.0, {1.0 / 3.0}, {1.0}), 0.0, 0.75);
  REQUIRE(at_third.stretches.size() == 1);
  CHECK(at_third.stretches[0].lower() == 0.0);
  REQUIRE(at_third.unresolved.size() == 1);
  CHECK(at_third.unresolved[0].t.width().value() < 1e-12);
  CHECK(at_third.stretches[0].upper() == at_third.unresolved[0].t.lower());

  OfOne net;
  const ValueId nothing = net.node(op::Mul{}, {net.x(), net.constant(0.0)});
  const SegmentZeros everywhere = zeros_between(std::move(net).with_output(nothing), 0.0, 1.0);
  REQUIRE(everywhere.stretches.size() == 1);
  CHECK(everywhere.stretches[0] == Interval(0.0, 1.0));
}

TEST_CASE("0 by cancellation stays open, and the search ends where it is told") {
  OfOne net;
  const ValueId a = net.node(op::Tanh{}, {net.node(op::Mul{}, {net.x(), net.constant(0.3)})});
  const ValueId b = net.node(op::Tanh{}, {net.node(op::Mul{}, {net.x(), net.constant(0.3)})});
  const ValueId y = net.node(op::Sub{}, {a, b});
  const SegmentZeros found = zeros_between(std::move(net).with_output(y), -1.0, 2.0, {.most_pieces = 3000});
  CHECK(found.zeros.empty());
  REQUIRE(found.unresolved.size() == 1);
  CHECK(found.unresolved[0].t == Interval(0.0, 1.0));
  CHECK_FALSE(found.unresolved[0].exists);
  CHECK(found.pieces <= 3000);
}

TEST_CASE("a jump through 0 is no zero and does not pass for none") {
  OfOne net;
  const ValueId y = net.node(op::Add{}, {net.node(op::Sign{}, {shifted(net, 0.1)}), net.constant(0.5)});
  const SegmentZeros found = zeros_between(std::move(net).with_output(y), -1.0, 2.0);
  CHECK(found.zeros.empty());
  REQUIRE(found.unresolved.size() == 1);
  CHECK(found.unresolved[0].at_lower == Sign::negative);
  CHECK(found.unresolved[0].at_upper == Sign::positive);
  CHECK_FALSE(found.unresolved[0].exists);
  CHECK(found.unresolved[0].t.width().value() < 1e-12);
}

TEST_CASE("a triple zero exists, and whether it is the only one is open") {
  OfOne net;
  const ValueId square = net.node(op::Mul{}, {shifted(net, 0.1), shifted(net, 0.1)});
  const ValueId cube = net.node(op::Mul{}, {square, shifted(net, 0.1)});
  const SegmentZeros found = zeros_between(std::move(net).with_output(cube), -1.0, 2.0);
  CHECK(found.zeros.empty());
  REQUIRE(found.unresolved.size() == 1);
  CHECK(found.unresolved[0].exists);
  CHECK_FALSE(found.unresolved[0].at_most_one);
}

TEST_CASE("zeros at the ends of the segment") {
  OfOne net;
  const ValueId y = shifted(net, 0.5);
  const Graph graph = std::move(net).with_output(y);
  const SegmentZeros first = zeros_between(graph, 0.5, 1.7), last = zeros_between(graph, -0.7, 0.5);
  REQUIRE(first.zeros.size() == 1);
  CHECK(first.zeros[0].t == Interval(0.0));
  CHECK(first.zeros[0].crossing == Crossing::rising);
  REQUIRE(last.zeros.size() == 1);
  CHECK(last.zeros[0].t == Interval(1.0));
  CHECK(last.zeros[0].crossing == Crossing::rising);
  CHECK_THROWS_AS(zeros_between(graph, 1.7, 0.5), InvalidArgument);
}

TEST_CASE("an end whose sign no precision proves leaves a monotone function open there, and nowhere else") {
  OfOne net;
  const ValueId at_half = net.node(op::Tanh{}, {net.constant(0.5)});
  const ValueId y = net.node(op::Sub{}, {net.node(op::Tanh{}, {net.x()}), at_half});
  const Graph graph = std::move(net).with_output(y);
  for (const auto& [a, b] : std::vector<std::pair<double, double>>{{0.5, 1.5}, {-0.5, 0.5}}) {
    const SegmentZeros found = zeros_between(graph, a, b, {.max_bits = 256});
    CHECK(found.zeros.empty());
    REQUIRE(found.unresolved.size() == 1);
    CHECK(found.unresolved[0].t.contains(a == 0.5 ? 0.0 : 1.0));
    CHECK(found.unresolved[0].at_most_one);
    CHECK_FALSE(found.unresolved[0].exists);
    CHECK((a == 0.5 ? found.unresolved[0].at_lower : found.unresolved[0].at_upper) == Sign::undecided);
  }
  const SegmentZeros inside = zeros_between(graph, -0.5, 1.5, {.max_bits = 256});
  CHECK(inside.is_complete());
  REQUIRE(inside.zeros.size() == 1);
  CHECK(inside.zeros[0].t.contains(0.5));
}

TEST_CASE("on the bundled networks every change of sign of a fine grid belongs to a zero, and none is open" *
          doctest::test_suite("campaign")) {
  for (const std::string& name : bundled_names()) {
    CAPTURE(name);
    const SignField field(bundled(name), scalar_of(name));
    const bool is_oscillator = name.rfind("oscillator", 0) == 0;
    std::vector<double> a(field.dimension(), -0.9), b(field.dimension(), 0.85);
    if (is_oscillator) a = {-0.2, 0.3F, -0.2F}, b = {0.2, 0.3F, -0.2F};
    const SegmentZeros found = zeros_on_segment(field, a, b);
    CHECK(found.is_complete());
    if (is_oscillator) CHECK(found.zeros.size() >= 14);
    for (const SegmentZero& zero : found.zeros) CHECK(ulps(zero.t) <= 4);
    CHECK(found.pieces < 900);

    constexpr std::int64_t samples = 2000;
    std::vector<double> t, signs, points;
    std::vector<PointSign> decided(samples + 1);
    for (std::int64_t i = 0; i <= samples; ++i) {
      t.push_back(static_cast<double>(i) / static_cast<double>(samples));
      for (std::size_t c = 0; c < a.size(); ++c) points.push_back(a[c] + t.back() * (b[c] - a[c]));
    }
    field.signs(points.data(), samples + 1, static_cast<std::ptrdiff_t>(a.size()), 1, decided);
    for (const PointSign& sign : decided) signs.push_back(static_cast<double>(static_cast<int>(sign.sign)));
    const SampledZeros compared = compare_with_sampled(found, t, signs);
    CHECK(compared.spurious == 0);
    CHECK(compared.matched == compared.computed);
    CHECK(compared.missed % 2 == 0);
  }
}

TEST_CASE("random networks of every op: certified signs change where zeros are, once each, and nowhere else") {
  checks::Generator generator(5);
  std::int64_t zeros = 0, complete = 0;
  const int repetitions = 60 * test_multiplier();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    checks::NetworkBuilder builder(generator, true);
    std::string blocks;
    for (int i = 0; i < 6; ++i) {
      const std::vector<std::string>& all = checks::NetworkBuilder::blocks();
      const std::string& block = i % 2 == 0 ? "gemm" : all[generator() % all.size()];
      if (block == "attention" || block == "reshape") continue;
      builder.add(block);
      blocks += block + " ";
    }
    CAPTURE(blocks);
    const Target target{{0, 0}, OutputElement{0, 1}};
    SignOptions options;
    options.max_bits = 512;
    const SignField field(builder.finish(), target, options);
    std::vector<double> a(4), b(4), t, points;
    for (double& x : a) x = checks::uniform(generator, -4.0, 4.0);
    for (double& x : b) x = checks::uniform(generator, -4.0, 4.0);
    const SegmentZeros found = zeros_on_segment(field, a, b, {.most_pieces = 5000});
    zeros += static_cast<std::int64_t>(found.zeros.size());
    complete += found.is_complete() ? 1 : 0;
    constexpr std::int64_t samples = 400;
    for (std::int64_t i = 0; i <= samples; ++i) {
      t.push_back(static_cast<double>(i) / static_cast<double>(samples));
      for (std::size_t c = 0; c < a.size(); ++c) points.push_back(a[c] + t.back() * (b[c] - a[c]));
    }
    std::vector<PointSign> decided(samples + 1);
    field.signs(points.data(), samples + 1, 4, 1, decided);
    std::vector<double> signs;
    for (const PointSign& sign : decided) signs.push_back(static_cast<double>(static_cast<int>(sign.sign)));
    const SampledZeros compared = compare_with_sampled(found, t, signs);
    CHECK(compared.spurious == 0);
    if (found.is_complete()) CHECK(compared.missed % 2 == 0);
  }
  CHECK(zeros > repetitions / 4);
  CHECK(complete > repetitions * 9 / 10);
}

TEST_CASE("threads, pieces of any number, shapes, several inputs and iso values") {
  const Graph graph = bundled("oscillator_d2_w16");
  const std::vector<double> a = {-0.2, 0.3F, -0.2F}, b = {0.2, 0.3F, -0.2F};
  const Target target = scalar_of("oscillator_d2_w16");
  const SegmentZeros one = zeros_on_segment(graph, target, a, b),
                     two = zeros_on_segment(graph, target, a, b, {.threads = 3});
  REQUIRE(one.zeros.size() == two.zeros.size());
  for (std::size_t i = 0; i < one.zeros.size(); ++i) CHECK(one.zeros[i].t == two.zeros[i].t);
  CHECK(one.pieces == two.pieces);

  std::vector<std::int64_t> seen;
  const auto until = [&](std::size_t calls) {
    seen.clear();
    return SegmentOptions{.progress = [&seen, calls](std::int64_t pieces) {
      seen.push_back(pieces);
      return seen.size() < calls;
    }};
  };
  const SegmentZeros watched = zeros_on_segment(graph, target, a, b, until(100000));
  CHECK(watched.zeros.size() == one.zeros.size());
  CHECK(watched.pieces == one.pieces);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  REQUIRE(seen.size() > 3);
  CHECK(seen.back() <= one.pieces);
  CHECK_THROWS_AS(zeros_on_segment(graph, target, a, b, until(3)), Interrupted);
  CHECK(seen.size() == 3);

  const SegmentZeros few = zeros_on_segment(graph, target, a, b, {.most_pieces = 40});
  CHECK(few.pieces <= 80);
  CHECK_FALSE(few.unresolved.empty());
  for (const SegmentZero& zero : one.zeros) {
    bool is_there = false;
    for (const SegmentZero& other : few.zeros) is_there = is_there || other.t.lower() <= zero.t.upper();
    for (const UnresolvedPiece& piece : few.unresolved) is_there = is_there || piece.t.contains(zero.t.lower());
    CHECK(is_there);
  }

  Graph sum;
  const ValueId x = sum.add_input("x", ElementType::f32, {{2, ""}, {3, ""}});
  const ValueId y = sum.add_input("y", ElementType::f32, {{3, ""}});
  const ValueId both = sum.add_node("both", op::Add{}, {x, y});
  sum.outputs = {sum.add_node("sum", op::ReduceSum{{}, false}, {both})};
  const std::vector<double> from = {0, 1, 2, 3, 4, 5, 6, 7, 8}, to = {0, 1, 2, 3, 4, 5, 6, 7, -8};
  const SegmentZeros summed = zeros_on_segment(sum, {}, from, to, {.iso = 41.0});  // 15 + 2 (13 + 8 - 16 t) = 41
  REQUIRE(summed.zeros.size() == 1);
  CHECK(summed.zeros[0].t == Interval(0.5));
}

TEST_CASE("the zero of a function lies where Newton's step says, and a broken step is noticed") {
  const auto misses = []() {
    int count = 0;
    for (const double c : {0.1, 0.2, 0.37, 0.41}) {
      OfOne net;
      const ValueId curved = net.node(op::Sinh{}, {shifted(net, c)});
      const Graph graph = std::move(net).with_output(curved);
      const Graph line = implicit::line_graph(graph, {}, 0.0, std::vector{0.0}, std::vector{1.5});
      const implicit::PieceEvaluator evaluator(line);
      const implicit::PointValues points(line, 256, 1);
      const implicit::Run run{{0.0, 1.0}, implicit::Course::rising, Interval(1.0, 10.0)};
      const Interval t = implicit::narrow(evaluator, points, {&run, 1}, 1).zeros[0];
      count += holds(t, Real(c) / Real(1.5)) ? 0 : 1;
    }
    return count;
  };
  CHECK(misses() == 0);
  checks::Theorems broken;
  broken.newton = [](double m, const Interval& value, const Interval& slope) {
    return Interval(m) - Interval(value.midpoint() / slope.midpoint());
  };
  const checks::ScopedTheorems in_force(broken);
  CHECK(misses() > 0);
}

TEST_CASE("segments that are none, and targets and options that cannot be, are refused") {
  const Graph graph = octahedron();
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> a = {0.0, 0.0, 0.0}, b = {1.0, 0.0, 0.0};
  const auto refuses = [&](const std::vector<double>& from, const std::vector<double>& to, const Target& target = {},
                           const SegmentOptions& options = {}) {
    CHECK_THROWS_AS(zeros_on_segment(graph, target, from, to, options), InvalidArgument);
  };
  refuses({0.0, 0.0}, b);
  refuses(a, {1.0, 0.0, 0.0, 0.0});
  refuses(a, a);
  refuses({nan, 0.0, 0.0}, b);
  refuses(a, {infinity, 0.0, 0.0});
  refuses(a, b, {{1, 0}, {}});
  refuses(a, b, {{0, 1}, {}});
  refuses(a, b, {{0, 0}, OutputElement{0, -1}});
  refuses(a, b, {}, {.iso = nan});
  refuses(a, b, {}, {.narrowest = 0.0});
  refuses(a, b, {}, {.narrowest = nan});
  refuses(a, b, {}, {.most_pieces = 0});
  refuses(a, b, {}, {.max_bits = 64});
  refuses(a, b, {}, {.threads = 0});
  CHECK(zeros_on_segment(graph, {}, a, {{2.0, 0.0, 0.0}}).zeros.size() == 1);
}

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bounds/adjoint/source_radii.hpp"
#include "bounds/boxes/box_walk.hpp"
#include "driftbound/bounds/box.hpp"
#include "support/linear_checks.hpp"
#include "support/trajectory_checks.hpp"

/// Bounds over boxes (T-77): networks held against themselves at points that are off, anywhere in a box.
namespace checks {

/// The op that a case of linear_cases() expands.
inline Op op_of_case(const std::string& name, const LinearSubject& subject) {
  static const std::map<std::string, Op> ops = {{"relu", op::Relu{}},
                                                {"tanh", op::Tanh{}},
                                                {"sigmoid", op::Sigmoid{}},
                                                {"softplus", op::Softplus{}},
                                                {"sin", op::Sin{}},
                                                {"cos", op::Cos{}},
                                                {"exp", op::Exp{}},
                                                {"erf", op::Erf{}},
                                                {"sqrt", op::Sqrt{}},
                                                {"abs", op::Abs{}},
                                                {"log", op::Log{}},
                                                {"tan", op::Tan{}},
                                                {"atan", op::Atan{}},
                                                {"sinh", op::Sinh{}},
                                                {"cosh", op::Cosh{}},
                                                {"floor", op::Floor{}},
                                                {"ceil", op::Ceil{}},
                                                {"round", op::Round{}},
                                                {"sign", op::Sign{}},
                                                {"clip", op::Clip{-0.5, 1.0}},
                                                {"clip from below", op::Clip{0.5}},
                                                {"clip to a point", op::Clip{1.0, -0.5}}};
  if (const auto found = ops.find(name); found != ops.end()) return found->second;
  if (name.starts_with("leaky")) return op::LeakyRelu{subject.alpha};
  if (name.starts_with("elu")) return op::Elu{subject.alpha};
  if (name.starts_with("reciprocal")) return op::Reciprocal{};
  if (name.starts_with("thresholded")) return op::ThresholdedRelu{subject.alpha};
  return op::Pow{subject.alpha};
}

/// S (s - t)
struct Reached {
  Real low, high;
};

inline Reached reached(const Interval& slopes, const Real& apart) {
  const Real at_lower = Real(slopes.lower()) * apart, at_upper = Real(slopes.upper()) * apart;
  return {smaller_of(at_lower, at_upper), larger_of(at_lower, at_upper)};
}

/// f(s) - f(t) against what slopes reach, at both ends.
inline void add_difference(const Real& difference, const Real& low, const Real& high, Tally& tally) {
  const Real half = (high - low) / Real(2.0), middle = (high + low) / Real(2.0);
  // Nothing but the enclosure of slopes may be off: 400 bits below it counts as equal.
  tally.add(0.0, difference - middle, (half + abs(middle) * Real(0x1p-200)).to_double() * (1.0 + 0x1p-50) + 0x1p-1070);
}

inline void add_difference(const Real& difference, const Real& apart, const Interval& slopes, Tally& tally) {
  if (!slopes.is_finite()) return;
  const auto [low, high] = reached(slopes, apart);
  add_difference(difference, low, high, tally);
}

inline Tally check_slope_range(const Op& op, const LinearSubject& subject, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double x = draw_centre(subject, generator), reach = draw_reach(subject, x, generator);
    const double low = x - reach, high = x + reach;
    if (!(subject.low < low && high < subject.high)) continue;
    const Interval slopes = bounds::slope_range(op, Interval(low, high));
    for (const auto& [s, t] :
         std::vector<std::pair<double, double>>{{low, high},
                                                {x, high},
                                                {low, x},
                                                {high - reach / 1024.0, high},
                                                {low, low + reach / 1024.0},
                                                {uniform(generator, low, high), uniform(generator, low, high)}}) {
      if (!(low <= s && s <= high && low <= t && t <= high)) continue;
      add_difference(subject.f(Real(s)) - subject.f(Real(t)), Real(s) - Real(t), slopes, tally);
    }
  }
  return tally;
}

/// An op of two operands, and what it is.
struct BinaryCase {
  std::string name;
  Op op;
  Real (*f)(const Real& a, const Real& b);
  bool attains_ends = true;  ///< slopes are ranges, and differences reach their ends
};

inline Real one_if(bool holds) {
  return Real(holds ? 1.0 : 0.0);
}

inline std::vector<BinaryCase> binary_cases() {
  return {{"add", op::Add{}, [](const Real& a, const Real& b) { return a + b; }, false},
          {"sub", op::Sub{}, [](const Real& a, const Real& b) { return a - b; }, false},
          {"mul", op::Mul{}, [](const Real& a, const Real& b) { return a * b; }},
          {"div", op::Div{}, [](const Real& a, const Real& b) { return a / b; }},
          {"max", op::Max{}, [](const Real& a, const Real& b) { return a < b ? b : a; }},
          {"min", op::Min{}, [](const Real& a, const Real& b) { return b < a ? b : a; }},
          {"prelu", op::PRelu{}, [](const Real& a, const Real& b) { return a < Real(0.0) ? a * b : a; }},
          {"greater", op::Greater{}, [](const Real& a, const Real& b) { return one_if(b < a); }, false},
          {"not less", op::GreaterOrEqual{}, [](const Real& a, const Real& b) { return one_if(b <= a); }, false},
          {"equal", op::Equal{}, [](const Real& a, const Real& b) { return one_if(a <= b && b <= a); }, false}};
}

/// Ranges apart, touching and overlapping, in both orders; differences between corners, and along one operand.
inline Tally check_slope_ranges(const BinaryCase& subject, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double x = uniform(generator, -2.0, 2.0), width = uniform(generator, 0.0, 1.0);
    const std::vector<double> gaps = {-0.5 * width, 0.0, 0.25, 3.0, -width, -width - 2.0};
    const double y = x + width + gaps[generator() % gaps.size()], other_width = uniform(generator, 0.0, 1.0);
    if (std::holds_alternative<op::Div>(subject.op) && y <= 0.1 && y + other_width >= -0.1) continue;
    const std::array<double, 2> a = {x, x + width}, b = {y, y + other_width};
    const auto [of_a, of_b] = bounds::slope_ranges(subject.op, Interval(a[0], a[1]), Interval(b[0], b[1]));
    if (!of_a.is_finite() || !of_b.is_finite()) continue;
    for (std::size_t corners = 0; corners < 16; ++corners) {
      const Real s_a(a[corners & 1U]), t_a(a[corners >> 1U & 1U]), s_b(b[corners >> 2U & 1U]), t_b(b[corners >> 3U]);
      const Reached by_a = reached(of_a, s_a - t_a), by_b = reached(of_b, s_b - t_b);
      add_difference(subject.f(s_a, s_b) - subject.f(t_a, t_b), by_a.low + by_b.low, by_a.high + by_b.high, tally);
    }
  }
  return tally;
}

/// A network over a box around a point, its inputs off by `error` at every point of the box.
class BoxHeld {
public:
  BoxHeld(const Graph& graph, const Tensor<double>& middle, double half_width, double error)
      : graph_(graph),
        arithmetic_(double_arithmetic()),
        setting_(setting_of(arithmetic_)),
        program_(graph, {middle.shape}, std::nullopt),
        shadow_(bounds::shadow_of(program_, {middle}, setting_)),
        middle_(middle),
        half_width_(half_width),
        error_(error) {
    const std::vector<std::vector<double>> widths = {std::vector<double>(middle.size(), half_width)};
    const std::vector<std::vector<double>> errors = {std::vector<double>(middle.size(), error)};
    bounds::SourceRadii of_ranges(program_, shadow_, setting_), of_run(program_, shadow_, setting_);
    ranges_ = bounds::deviation_of(bounds::Trajectory::exact, program_, shadow_, widths, setting_, operands_, nullptr,
                                   nullptr, nullptr, &of_ranges);
    run_ = bounds::deviation_over_box(bounds::Trajectory::any_order, program_, shadow_, ranges_, errors, setting_,
                                      operands_, false, &of_run);
    const ValueId output = program_.flat().graph.outputs[0];
    for (std::size_t i = 0; i < shadow_.values[output].size(); ++i) {
      const bounds::Direction c =
          bounds::direction_of(program_, shadow_, {{output, static_cast<std::int64_t>(i), 1.0}});
      certificates_.push_back(bounds::sweep(program_, shadow_, {&run_, 1}, c, setting_).front().total.front());
    }
  }

  const std::vector<double>& certificates() const { return certificates_; }

  /// At a point of the box, with errors, both given by signs in [-1, 1].
  void check_at(const std::vector<double>& where, const std::vector<double>& signs, HeldTallies& tallies) const {
    Tensor<Real> point = convert<Real>(middle_), moved = point;
    for (std::size_t i = 0; i < point.size(); ++i) {
      point.values[i] += Real(where[i] * half_width_);
      moved.values[i] = point.values[i] + Real(signs[i] * error_);
    }
    const std::vector<Tensor<Real>> exact = exact_values(graph_, point), off = exact_values(graph_, moved);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const ValueId flat = program_.flat().of_value[id];
      const std::vector<double>&radii = run_.radii[flat].element, &ranges = ranges_.radii[flat].element;
      const std::vector<double>& centre = shadow_.values[flat].values;
      for (std::size_t i = 0; i < exact[id].size(); ++i) {
        tallies.radii.add(0.0, off[id].values[i] - exact[id].values[i], radii.empty() ? 0.0 : radii[i]);
        tallies.radii.add(centre[i], exact[id].values[i], ranges.empty() ? 0.0 : ranges[i]);
      }
    }
    const ValueId output = graph_.outputs[0];
    for (std::size_t i = 0; i < exact[output].size(); ++i)
      tallies.certificates.add(0.0, off[output].values[i] - exact[output].values[i], certificates_[i]);
  }

  void check_at_random(int points, Generator& generator, HeldTallies& tallies) const {
    for (int k = 0; k < points; ++k) {
      std::vector<double> where, signs;
      for (std::size_t i = 0; i < middle_.size(); ++i) {
        where.push_back(k % 2 == 0 ? uniform(generator, -1.0, 1.0) : generator() % 2 == 0 ? 1.0 : -1.0);
        signs.push_back(generator() % 2 == 0 ? 1.0 : -1.0);
      }
      check_at(where, signs, tallies);
    }
  }

private:
  const Graph& graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::Shadow shadow_;
  Tensor<double> middle_;
  double half_width_, error_;
  bounds::OperandCache operands_;
  bounds::Deviation ranges_, run_;
  std::vector<double> certificates_;
};

inline HeldTallies check_box(const std::vector<std::string>& blocks, int repetitions, std::uint64_t seed = 91) {
  Generator generator(seed);
  HeldTallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    NetworkBuilder builder(generator);
    for (const std::string& block : blocks) builder.add(block);
    const Graph graph = builder.finish();
    for (const double half_width : {0.0, 1e-3, 0.1, 0.5}) {
      for (const double error : {1e-6, 0.05}) {
        const BoxHeld held(graph, network_inputs(1.0, true, generator), half_width, error);
        held.check_at_random(6, generator, tallies);
      }
    }
  }
  return tallies;
}

inline Tensor<double> random_point(const Box& box, Generator& generator, const Shape& shape) {
  Tensor<double> x(shape);
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = uniform(generator, box.lower[i], box.upper[i]);
  return x;
}

inline Box box_around(const Tensor<double>& x, double half_width) {
  Box box;
  for (const double value : x.values) {
    box.lower.push_back(value - half_width);
    box.upper.push_back(value + half_width);
  }
  return box;
}

/// Exact values of a function over a box in which it takes all of its values, against the range of the box.
inline Tally check_whole_range(const std::string& function, double half_width) {
  Generator generator(95);
  Tally tally;
  for (int repetition = 0; repetition < 4; ++repetition) {
    NetworkBuilder builder(generator);
    for (const std::string& block : {std::string("gemm"), function}) builder.add(block);
    const Graph graph = builder.finish();
    const Tensor<double> middle = network_inputs(1.0, true, generator);
    const Box box = box_around(middle, half_width);
    BoundOptions options;
    const BoxBound bound =
        forward_error_bound(graph, cpu_arithmetic("fp32", parse_summation_order("pairwise")), box, {}, options);
    const Real centre(bound.range.midpoint()), reach = Real(bound.range.upper()) - centre;
    for (int k = 0; k < 60 * test_multiplier(); ++k) {
      const Tensor<double> x = random_point(box, generator, middle.shape);
      const Real truth = exact_values(graph, convert<Real>(x))[graph.outputs[0]].values[0];
      tally.add(0.0, truth - centre, (reach * Real(1.0 + 0x1p-40)).to_double());
    }
  }
  return tally;
}

}  // namespace checks

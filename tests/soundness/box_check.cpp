#include "soundness/box_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::soundness {
namespace {

/// One sample a point, and the box that they lie in.
struct PointsInBox {
  std::vector<Inputs> points;
  std::vector<std::vector<double>> coordinates;
  Box box;
};

void join(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

/// Numbers of the input's type within half a side of the middle, some of them at the corners.
std::vector<double> near(const std::vector<double>& middle, double width, bool is_relative, Random& random) {
  std::vector<double> point = middle;
  const bool at_corner = random.chance(0.3);
  for (double& x : point) {
    const double half = width * (is_relative ? std::abs(x) : 1.0);
    x += half * (at_corner ? random.sign() : random.uniform(-1.0, 1.0));
  }
  return point;
}

std::optional<PointsInBox> points_in_box(const Case& the_case, std::size_t count, Random& random) {
  const Graph& graph = the_case.graph;
  const Inputs first = slice(graph, batch_layout(graph), the_case.inputs, 0, 1);
  const double width =
      random.pick(std::vector<double>{0.0, 0x1p-50, 1e-7, 1e-4, 1e-2, 0.3, 1.0, 10.0, 1e4, 1e15, 1e37});
  const bool is_relative = random.chance(0.5);
  PointsInBox result;
  for (std::size_t i = 0; i < count; ++i) {
    Inputs point;
    std::vector<double> coordinates;
    for (const ValueId id : graph.inputs) {
      const StoredTensor& middle = first.at(graph.value(id).name);
      if (!is_float(middle.type())) return std::nullopt;
      const std::vector<double> moved = near(middle.to_double().values, width, is_relative, random);
      if (!all_finite(moved)) return std::nullopt;
      const StoredTensor stored = store(middle.type(), middle.shape(), moved);
      join(coordinates, stored.to_double().values);
      point.tensors.emplace_back(graph.value(id).name, stored);
    }
    if (!all_finite(coordinates)) return std::nullopt;
    if (i == 0) result.box = {coordinates, coordinates};
    for (std::size_t c = 0; c < coordinates.size(); ++c) {
      result.box.lower[c] = std::min(result.box.lower[c], coordinates[c]);
      result.box.upper[c] = std::max(result.box.upper[c], coordinates[c]);
    }
    result.points.push_back(std::move(point));
    result.coordinates.push_back(std::move(coordinates));
  }
  return result;
}

/// The first output of the case's graph at one point.
class FirstOutput {
public:
  explicit FirstOutput(const Case& the_case)
      : case_(the_case), node_(the_case.graph.producer(the_case.graph.outputs.front()).value()) {}

  std::vector<double> computed(const Inputs& point) const {
    Case at_point = case_;
    at_point.inputs = point;
    at_point.samples = 1;
    return evaluate(at_point).layers[node_].output.to_double().values;
  }
  std::vector<Ball> exact(const Inputs& point) const {
    return certified_reference(case_.graph, point).layers[node_].values;
  }

private:
  const Case& case_;
  std::size_t node_;
};

Ball of_target(const std::vector<Ball>& elements, const Target& target) {
  const Ball& positive = elements[static_cast<std::size_t>(target.positive.element)];
  return target.negative ? positive - elements[static_cast<std::size_t>(target.negative->element)] : positive;
}

std::string text_of(const Ball& ball) {
  return fmt::format("{:a} + {:a} within {:a}", ball.hi, ball.lo, ball.radius.value());
}

/// An exception is a failure, what is not supported a case that says nothing.
void guarded(const Case& the_case, std::uint64_t seed, Tally& tally, const std::function<void()>& check) {
  ++tally.cases;
  const std::size_t failed = tally.failures.size();
  try {
    check();
  } catch (const Unsupported&) {
    return;
  } catch (const std::exception& error) {
    tally.failures.push_back(fmt::format("exception: {}", error.what()));
  }
  for (std::size_t i = failed; i < tally.failures.size(); ++i)
    tally.failures[i] += fmt::format(", points by seed {:#x}\n{}", seed, describe(the_case));
}

/// One target of one box, held at every point.
class BoxJudge {
public:
  BoxJudge(const Target& target, const BoxBound& bound, Tally& tally)
      : target_(target),
        bound_(bound),
        tally_(tally),
        error_(tally.bounds["box error"]),
        range_(tally.bounds["box range"]) {
    error_.gives_verdict = range_.gives_verdict = true;
  }

  void hold(const std::vector<double>& computed, const std::vector<Ball>& exact) {
    std::vector<Ball> off;
    bool is_finite = true;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const bool is_number = std::isfinite(computed[i]);
      off.push_back(is_number ? exact_ball(computed[i]) - exact[i] : exact_ball(0.0));
      const auto is = [&](const OutputElement& element) { return static_cast<std::size_t>(element.element) == i; };
      const bool is_used = is(target_.positive) || (target_.negative && is(*target_.negative));
      is_finite = is_finite && (is_number || !is_used);
    }
    hold_error(of_target(off, target_), is_finite);
    hold_range(of_target(exact, target_));
  }

private:
  void hold_error(const Ball& off, bool is_finite) {
    const double bound = bound_.error.value();
    if (is_finite) {
      ++tally_.outputs;
      if (judge(0.0, off, bound, true, error_)) complain(fmt::format("error {}, bound {:a}", text_of(off), bound));
      return;
    }
    ++tally_.not_finite;
    ++error_.checked;  // a finite bound says that no run overflows
    ++(std::isfinite(bound) ? error_.violations : error_.without_bound);
    if (std::isfinite(bound)) complain(fmt::format("a run is not finite, bound {:a}", bound));
  }

  void hold_range(const Ball& exact) {
    const Interval& range = bound_.range;
    ++range_.checked;
    if (!range.is_finite() || !exact.is_finite()) {
      ++range_.without_bound;
      return;
    }
    const Interval enclosure = exact.enclosure();
    if (enclosure.upper() < range.lower() || range.upper() < enclosure.lower()) {
      ++range_.violations;
      complain(fmt::format("exact {} outside of [{:a}, {:a}]", text_of(exact), range.lower(), range.upper()));
    }
  }

  void complain(const std::string& what) {
    tally_.failures.push_back(fmt::format("element {} of a box: {}", target_.positive.element, what));
  }

  const Target& target_;
  const BoxBound& bound_;
  Tally& tally_;
  BoundTally &error_, &range_;
};

void check_box_unguarded(const Case& the_case, Random& random, Tally& tally) {
  const auto points = points_in_box(the_case, 5, random);
  if (!points) return;
  const FirstOutput output(the_case);
  const std::vector<Ball> first = output.exact(points->points.front());
  if (first.empty()) return;
  const auto last = static_cast<std::int64_t>(first.size()) - 1;
  std::vector<Target> targets = {{{0, 0}, std::nullopt}};
  if (last > 0) targets.push_back({{0, last}, OutputElement{0, 0}});
  for (const Target& target : targets) {
    const BoxBound bound = forward_error_bound(the_case.graph, the_case.arithmetic, points->box, target);
    BoxJudge judge(target, bound, tally);
    for (const Inputs& point : points->points) judge.hold(output.computed(point), output.exact(point));
  }
}

/// Certainly above 0, or below; 0 where it is open.
int certain_sign(const Ball& ball) {
  const Interval enclosure = ball.enclosure();
  return enclosure.lower() > 0.0 ? 1 : enclosure.upper() < 0.0 ? -1 : 0;
}

std::vector<PointSign> signs_at(const SignField& field, const PointsInBox& points) {
  std::vector<double> rows;
  for (const std::vector<double>& point : points.coordinates) join(rows, point);
  std::vector<PointSign> signs(points.coordinates.size());
  field.signs(rows.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(field.dimension()), 1,
              signs);
  return signs;
}

/// Signs of one field, held against exact numbers.
class SignJudge {
public:
  explicit SignJudge(Tally& tally)
      : tally_(tally), of_signs_(tally.bounds["sign"]), of_values_(tally.bounds["sign value"]) {
    of_signs_.gives_verdict = of_values_.gives_verdict = true;
  }

  void hold(std::size_t point, const PointSign& sign, const Ball& exact) {
    ++tally_.outputs;
    ++of_signs_.checked;
    if (sign.sign == Sign::undecided) ++of_signs_.without_bound;
    const int truth = certain_sign(exact);
    const bool is_wrong = sign.sign != Sign::undecided && truth != 0 && static_cast<int>(sign.sign) != truth;
    if (is_wrong) ++of_signs_.violations;
    const bool is_outside =
        std::isfinite(sign.value) && exact.is_finite() && judge(sign.value, exact, sign.bound, false, of_values_);
    if (is_wrong || is_outside)
      tally_.failures.push_back(fmt::format("point {}: {} by {}, value {:a} within {:a}, exact {}", point,
                                            name_of(sign.sign), name_of(sign.stage), sign.value, sign.bound,
                                            text_of(exact)));
  }

private:
  Tally& tally_;
  BoundTally &of_signs_, &of_values_;
};

/// Whether the network's input, narrower than what is stored perhaps, has such numbers.
bool are_in_range(const Graph& graph, const Box& box) {
  const double largest = format(*float_format(graph.value(graph.inputs.front()).type)).largest;
  const auto is_within = [&](double x) { return std::abs(x) <= largest; };
  return std::all_of(box.lower.begin(), box.lower.end(), is_within) &&
         std::all_of(box.upper.begin(), box.upper.end(), is_within);
}

void check_signs_unguarded(const Case& the_case, Random& random, Tally& tally) {
  if (the_case.graph.inputs.size() != 1) return;
  constexpr std::size_t for_float32 = 400;  // what batches in float32 begin with
  const auto points = points_in_box(the_case, random.chance(0.1) ? for_float32 : 12, random);
  if (!points || !are_in_range(the_case.graph, points->box)) return;
  const FirstOutput output(the_case);
  const std::vector<Ball> first = output.exact(points->points.front());
  if (first.empty() || !first.front().is_finite()) return;

  SignOptions options;
  options.iso = first.front().hi;
  options.domain = points->box;
  options.max_bits = 512;
  const SignField field(the_case.graph, Target{}, options);
  if (random.chance(0.7)) field.prepare();
  const std::vector<PointSign> signs = signs_at(field, *points);
  SignJudge judge(tally);
  for (std::size_t i = 0; i < signs.size(); ++i)
    judge.hold(i, signs[i], output.exact(points->points[i]).front() - exact_ball(options.iso));
}

}  // namespace

void check_box(const Case& the_case, std::uint64_t seed, Tally& tally) {
  guarded(the_case, seed, tally, [&] {
    Random random(seed);
    check_box_unguarded(the_case, random, tally);
  });
}

void check_signs(const Case& the_case, std::uint64_t seed, Tally& tally) {
  guarded(the_case, seed, tally, [&] {
    Random random(seed);
    check_signs_unguarded(the_case, random, tally);
  });
}

}  // namespace driftbound::soundness

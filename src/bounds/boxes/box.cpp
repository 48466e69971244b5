#include "driftbound/bounds/box.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "bounds/adjoint/source_radii.hpp"
#include "bounds/adjoint/sweep.hpp"
#include "bounds/boxes/box_walk.hpp"
#include "bounds/boxes/pair_box.hpp"
#include "bounds/nodes/own_run.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/roundings.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace bounds {
namespace {

using InputErrors = std::vector<std::vector<double>>;

/// Returns the shape of one sample of an input. A first axis without a fixed extent counts samples.
Shape sample_shape(const Value& input) {
  const auto fail = [&] {
    throw ShapeMismatch("bounds over a box: the model leaves the shape of input '" + input.name +
                        "' open; export it with a fixed one");
  };
  if (!input.has_declared_shape) fail();
  Shape shape;
  for (const DeclaredDimension& dimension : input.declared) {
    const bool is_open = dimension.extent < 0;
    if (is_open && !shape.empty()) fail();
    shape.push_back(is_open ? 1 : dimension.extent);
  }
  return shape;
}

/// Per input, for every element: the middle of the box, its half width rounded up, and a bound of the error that a run
/// makes when it reads a point of the box.
class BoxInputs {
public:
  BoxInputs(const Graph& graph, const Box& box, const Setting& setting) : box_(box), setting_(setting) {
    std::size_t first = 0;
    for (const ValueId id : graph.inputs) first = add(graph.value(id), first);
    if (first != box.lower.size() || first != box.upper.size())
      throw InvalidArgument("bounds over a box: a sample has " + std::to_string(first) + " elements, the box " +
                            std::to_string(box.lower.size()) + " lower and " + std::to_string(box.upper.size()) +
                            " upper bounds");
  }

  std::vector<Tensor<double>> middles;
  InputErrors half_widths, lost;

private:
  std::size_t add(const Value& input, std::size_t first) {
    Tensor<double> middle(sample_shape(input));
    std::vector<double> half_width, loss;
    for (std::size_t i = first; i < first + middle.size() && i < std::min(box_.lower.size(), box_.upper.size()); ++i) {
      const double low = box_.lower[i], high = box_.upper[i];
      if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
        throw InvalidArgument("bounds over a box: element " + std::to_string(i - first) + " of input '" + input.name +
                              "' needs finite bounds, the lower one first");
      double& x = middle.values[i - first];
      x = low / 2.0 + high / 2.0;
      half_width.push_back(std::max({sub_up(high, x), sub_up(x, low), 0.0}));
      loss.push_back(lost_at(low, high, input.type).value());
    }
    middles.push_back(std::move(middle));
    half_widths.push_back(std::move(half_width));
    lost.push_back(std::move(loss));
    return first + middles.back().size();
  }

  /// Bounds the error of rounding any number in [low, high] to the type of the input, to nearest, and then to the
  /// accumulator.
  Magnitude lost_at(double low, double high, ElementType type) const {
    const Machine& machine = setting_.machine;
    if (low == high) {
      const double stored = round_to(low, format_of(type), Rounding::nearest_even);
      return Magnitude(theorems::operand_error(low, round_to(stored, *machine.accumulator, machine.rounding))) +
             flushed();
    }
    Machine reader = machine;
    reader.rounding = Rounding::nearest_even;
    reader.flushes = false;
    const Magnitude largest = std::max(Magnitude(low), Magnitude(high));
    const Magnitude stored =
        type == ElementType::f64 ? Magnitude() : theorems::unrecorded_cast(largest, format_of(type), reader);
    const bool is_held = machine.accumulator->precision >= format_of(type).precision &&
                         machine.accumulator->min_exponent <= format_of(type).min_exponent;
    const Magnitude held =
        is_held ? flushed() : theorems::unrecorded_cast(largest + stored, *machine.accumulator, machine);
    return stored + held;
  }

  Magnitude flushed() const {
    return setting_.machine.flushes ? Magnitude(setting_.machine.accumulator->smallest_normal) : Magnitude();
  }

  const Box& box_;
  const Setting& setting_;
};

void require_element(const Graph& graph, const Program& program, const OutputElement& element) {
  if (element.output >= graph.outputs.size())
    throw InvalidArgument("bounds over a box: there is no output " + std::to_string(element.output));
  const ValueId id = program.flat().graph.outputs[element.output];
  const std::int64_t elements = element_count(program.shape(id));
  if (element.element < 0 || element.element >= elements)
    throw InvalidArgument("bounds over a box: output '" + graph.value(graph.outputs[element.output]).name + "' has " +
                          std::to_string(elements) + " elements");
}

std::vector<Seed> seeds_of(const Graph& graph, const Program& program, const Target& target) {
  const auto seed = [&](const OutputElement& element, double factor) {
    require_element(graph, program, element);
    return Seed{program.flat().graph.outputs[element.output], element.element, factor};
  };
  std::vector<Seed> seeds = {seed(target.positive, 1.0)};
  if (target.negative) seeds.push_back(seed(*target.negative, -1.0));
  return seeds;
}

std::size_t index_of(const Seed& seed) {
  return static_cast<std::size_t>(seed.element);
}

/// Returns the intersection of two intervals that contain a common number.
Interval both(const Interval& a, const Interval& b) {
  return Interval(std::max(a.lower(), b.lower()), std::min(a.upper(), b.upper()));
}

/// Bounds the deviation of the target by the sum of the radii at its output elements.
Magnitude reach_by_radii(const Deviation& deviation, const std::vector<Seed>& seeds) {
  Magnitude reach;
  for (const Seed& seed : seeds) reach += radius_at(deviation.radii[seed.value].element, index_of(seed));
  return reach;
}

/// Encloses an output element by its radius around the shadow and, if a bounded function computes it, by the range of
/// that function.
Interval values_of(const Program& program, const Shadow& shadow, const Deviation& ranges, const Seed& seed) {
  const double centre = shadow.value(seed.value).values[index_of(seed)];
  const double radius = radius_at(ranges.radii[seed.value].element, index_of(seed)).value();
  const Interval values = Interval(centre) + Interval(-radius, radius);
  const Graph& graph = program.flat().graph;
  const auto node = graph.producer(seed.value);
  const auto ends = node ? ends_of(graph.nodes[*node].op) : std::nullopt;
  return ends ? both(values, Interval(ends->first, ends->second)) : values;
}

/// Encloses the target over the box: the intersection of the range from the adjoint and the range from the radii at the
/// outputs; the whole line if both are infinite.
Interval range_of(const Program& program, const Shadow& shadow, const Deviation& ranges, const std::vector<Seed>& seeds,
                  const Certificate& by_adjoint) {
  const double reach = by_adjoint.total.front();
  const bool is_reached = std::isfinite(reach), is_known = reach_by_radii(ranges, seeds).is_finite();
  if (!is_reached && !is_known) return BoxBound{}.range;
  Interval centre(0.0), by_radii(0.0);
  for (const Seed& seed : seeds) {
    const double value = shadow.value(seed.value).values[index_of(seed)];
    if (!std::isfinite(value)) return BoxBound{}.range;
    centre += Interval(seed.factor) * Interval(value);
    if (is_known) by_radii += Interval(seed.factor) * values_of(program, shadow, ranges, seed);
  }
  if (!is_reached) return by_radii;
  centre += Interval(-reach, reach);
  return is_known ? both(centre, by_radii) : centre;
}

BoxBound bound_over_box(const Graph& graph, const Box& box, const Target& target, const Setting& setting,
                        bool in_double_double) {
  const BoxInputs inputs(graph, box, setting);
  std::vector<Shape> shapes;
  for (const Tensor<double>& middle : inputs.middles) shapes.push_back(middle.shape);
  const Program program(graph, shapes, batch_layout(graph).batched ? std::optional<std::int64_t>(1) : std::nullopt);
  const std::vector<Seed> seeds = seeds_of(graph, program, target);
  const Shadow shadow = shadow_of(program, inputs.middles, setting);
  OperandCache operands;
  SourceRadii sources_of_ranges(program, shadow, setting), sources_of_run(program, shadow, setting);
  const Deviation ranges = deviation_of(Trajectory::exact, program, shadow, inputs.half_widths, setting, operands,
                                        nullptr, nullptr, nullptr, &sources_of_ranges);
  const bool order_is_known =
      setting.machine.order.kind != SummationOrder::Kind::unknown && !setting.machine.tensor_core;
  const Deviation run =
      deviation_over_box(order_is_known ? Trajectory::declared_order : Trajectory::any_order, program, shadow, ranges,
                         inputs.lost, setting, operands, in_double_double, &sources_of_run);

  const Direction direction = direction_of(program, shadow, seeds);
  const Certificate reached = sweep(program, shadow, {&ranges, 1}, direction, setting).front();
  const Certificate error = sweep(program, shadow, {&run, 1}, direction, setting).front();
  BoxBound result;
  result.error = std::min(Magnitude(error.total.front()), reach_by_radii(run, seeds));
  result.range = range_of(program, shadow, ranges, seeds, reached);
  if (error.total.front() > 0.0 && result.error.is_finite())
    result.remainder_share = std::isfinite(error.total.front()) ? error.remainder.front() / error.total.front() : 1.0;
  std::set<std::string> conditions = run.conditions;
  conditions.merge(any_run_conditions(graph));
  if (!setting.is_own_run) conditions.insert(arithmetic_condition(*setting.arithmetic));
  if (setting.machine.tensor_core) conditions.insert(matrix_unit_condition(*setting.machine.tensor_core));
  if (!conditions.empty()) result.guarantee = Guarantee::conditional;
  result.condition = joined(conditions);
  return result;
}

Setting setting_of(const Graph& graph, const ArithmeticModel& arithmetic, const BoundOptions& options) {
  Setting setting;
  setting.arithmetic = &arithmetic;
  setting.machine = machine_of(arithmetic, &graph);
  setting.threads = options.threads;
  return setting;
}

}  // namespace

Magnitude pair_error_bound(const Graph& graph, const Box& box) {
  require_sound_environment();
  const ArithmeticModel doubles = cpu_arithmetic("fp64", {});
  return bound_over_box(graph, box, {}, setting_of(graph, doubles, {}), true).error;
}

}  // namespace bounds

BoxBound forward_error_bound(const Graph& graph, const ArithmeticModel& arithmetic, const Box& box,
                             const Target& target, const BoundOptions& options) {
  require_sound_environment();
  bounds::Setting setting = bounds::setting_of(graph, arithmetic, options);
  setting.is_own_run = bounds::is_own_arithmetic(arithmetic);
  setting.machine.stores_inside = !setting.is_own_run;
  return bounds::bound_over_box(graph, box, target, setting, false);
}

}  // namespace driftbound

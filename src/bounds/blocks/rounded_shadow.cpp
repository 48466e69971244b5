#include "bounds/blocks/rounded_shadow.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "bounds/adjoint/norms.hpp"
#include "bounds/adjoint/recursion.hpp"
#include "bounds/blocks/reading.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/bounds/rounded_shadow.hpp"

namespace driftbound::bounds {
namespace {

/// T-76, refinement: a radius is recomputed if the rounding boundary is at least this share of the radius away …
constexpr double least_part = 0.7;
/// … for at most this number of operands per row and node.
constexpr std::size_t most_settled = 16;

bool is_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0.0; });
}

/// The setting of a node from that of its result. `keeps_result`: the node does not round its result to the output
/// format. `reading`: how its products read their operands; operands that are read as given are summed by operations of the accumulator, without a
/// matrix unit.
Setting setting_for(Setting setting, bool keeps_result, ProductReading reading) {
  Machine& machine = setting.machine;
  if (keeps_result) machine.output = machine.accumulator;
  if (!reading.may_flush) machine.products_may_flush = false;
  if (reading.operands != Reading::as_given) return setting;
  machine.input = machine.accumulator;
  machine.tensor_core.reset();
  return setting;
}

/// Which roundings to a narrow format the centre executes: all, or only those of values that do not depend on the
/// inputs. The others are local errors of a run.
enum class Made { all, of_constants };

bool is_made(Made made, const Program& program, const Node& node) {
  return made == Made::all || !program.varies(node.output);
}

/// Computes the centres of the rounded shadow in graph order, together with the radii.
class RoundedCentres : public CentreMaker {
public:
  RoundedCentres(Made made, const NarrowedProgram& program, const Setting& setting, Shadow& shadow)
      : made_(made),
        program_(program),
        setting_(setting),
        shadow_(shadow),
        radii_by_adjoints_(program, shadow, setting),
        of_results_(program, setting),
        ambiguous_(program.flat().of_node.empty() ? 0 : program.flat().of_node.back() + 1, 0) {
    for (std::size_t index = 0; index < program.nodes().size(); ++index) {
      const bool keeps = program.steps().keeps[index];
      const ProductReading reading = program.steps().readings[index];
      settings_.try_emplace(key_of(index), setting_for(of_results_[index], keeps, reading));
    }
  }

  bool make(std::size_t index, Deviation& known) override {
    const Node& node = program_.nodes()[index];
    if (program_.steps().rounding[index]) {
      is_made(made_, program_, node) ? round(index, known) : pass_on(index, known);
      return true;
    }
    Centre centre = centre_of_node(shadow_.view_of(node), program_.shape(node.output), setting_);
    shadow_.values[node.output] = std::move(centre.value);
    if (!is_zero(centre.error)) shadow_.error[node.output] = std::move(centre.error);
    return false;
  }

  const Setting& rounding_setting(std::size_t index) const override { return settings_.at(key_of(index)); }

  bool operands_are_read(std::size_t index) const override {
    return is_rounded(program_.steps().readings[index].operands);
  }

  bool takes_chords() const override { return made_ == Made::all; }

  std::vector<std::int64_t> ambiguous() && { return std::move(ambiguous_); }

private:
  /// What a node's setting depends on: NarrowSteps::keeps and readings, and the format of the result.
  using Key = std::tuple<bool, ProductReading, const Format*>;
  Key key_of(std::size_t index) const {
    return {program_.steps().keeps[index], program_.steps().readings[index], of_results_[index].machine.output};
  }

  /// The operands with an undecided rounding whose boundary a smaller radius may exclude, those farthest from their
  /// boundary first.
  std::vector<RowElement> worth_settling(ValueId operand, const std::vector<double>& radii,
                                         const NarrowRounding& rounding) const {
    const Tensor<double>& x = shadow_.values[operand];
    const std::size_t rows = static_cast<std::size_t>(program_.rows(operand)), size = x.size() / rows;
    std::vector<RowElement> chosen;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<std::pair<double, std::size_t>> undecided;
      for (std::size_t i = 0; i < size; ++i) {
        const double value = x.values[row * size + i], radius = radii[row * size + i];
        const Hull hull = theorems::hull_rounded(value, radius, rounding);
        if (hull.lower == hull.upper || !std::isfinite(hull.lower) || !std::isfinite(hull.upper)) continue;
        const double part = std::abs(value - (0.5 * hull.lower + 0.5 * hull.upper)) / radius;
        if (part >= least_part) undecided.emplace_back(part, i);
      }
      std::sort(undecided.begin(), undecided.end(), std::greater<>());
      for (std::size_t k = 0; k < std::min(undecided.size(), most_settled); ++k)
        chosen.push_back({static_cast<std::int64_t>(row), undecided[k].second});
    }
    return chosen;
  }

  /// Refines radii of operands (T-72), so that fewer roundings are undecided.
  void settle(ValueId operand, const NarrowRounding& rounding, Deviation& known) {
    ValueRadii& radii = known.radii[operand];
    if (!program_.varies(operand) || radii.element.empty()) return;
    const std::vector<RowElement> chosen = worth_settling(operand, radii.element, rounding);
    if (chosen.empty()) return;
    const std::vector<double> refined = radii_by_adjoints_(known, operand, chosen);
    const std::int64_t rows = program_.rows(operand);
    const std::size_t size = radii.element.size() / static_cast<std::size_t>(rows);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      double& element = radii.element[static_cast<std::size_t>(chosen[k].row) * size + chosen[k].element];
      element = theorems::refined_radius(element, refined[k]);
    }
    const std::vector<double> norms = row_norms(radii.element, rows);
    for (std::size_t row = 0; row < norms.size(); ++row)
      radii.norm[row] = theorems::norm_of_row(norms[row], radii.norm[row]);
  }

  void round(std::size_t index, Deviation& known) {
    settle(program_.nodes()[index].inputs[0], *program_.steps().rounding[index], known);
    const Node& node = program_.nodes()[index];
    const NarrowRounding& rounding = *program_.steps().rounding[index];
    const ValueId operand = node.inputs[0];
    const Tensor<double>& x = shadow_.values[operand];
    const std::vector<double>& radii = known.radii[operand].element;
    Tensor<double> centre(x.shape);
    std::vector<double> radius(x.size()), slope(x.size()), remainder(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = radii.empty() ? 0.0 : radii[i];
      const Hull hull = theorems::hull_rounded(x.values[i], off, rounding);
      const double largest = (Magnitude(x.values[i]) + Magnitude(off)).value();
      const RoundedElement y =
          theorems::rounded_element(x.values[i], off, hull, theorems::largest_rounding(largest, rounding));
      centre.values[i] = y.centre;
      radius[i] = y.radius;
      slope[i] = y.slope;
      remainder[i] = y.remainder;
      if (y.is_ambiguous && program_.varies(operand)) ++ambiguous_[program_.flat().of_node[index]];
    }
    shadow_.values[node.output] = std::move(centre);
    if (!is_zero(radius)) {
      std::vector<double> norm = norms_of(operand, known.radii[operand], radius, slope, remainder);
      known.radii[node.output] = {std::move(radius), std::move(norm)};
      known.remainder[node.output] = std::move(remainder);
    }
    known.slopes[index] = {std::move(slope)};
  }

  /// Keeps the centre unrounded; the rounding is a local error of the run.
  void pass_on(std::size_t index, Deviation& known) {
    const Node& node = program_.nodes()[index];
    const NarrowRounding& rounding = *program_.steps().rounding[index];
    const ValueId operand = node.inputs[0];
    const Tensor<double>& x = shadow_.values[operand];
    const std::vector<double>& radii = known.radii[operand].element;
    std::vector<double> radius(x.size()), added(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Magnitude off(radii.empty() ? 0.0 : radii[i]);
      const Magnitude error = theorems::largest_rounding((Magnitude(x.values[i]) + off).value(), rounding);
      added[i] = error.value();
      radius[i] = (off + error).value();
    }
    shadow_.values[node.output] = x;
    known.slopes[index] = {std::vector<double>(x.size(), 1.0)};
    std::vector<double> norm = norms_of(operand, known.radii[operand], radius, known.slopes[index][0], added);
    known.radii[node.output] = {std::move(radius), std::move(norm)};
    known.added[node.output] = std::move(added);
  }

  std::vector<double> norms_of(ValueId operand, const ValueRadii& propagated, const std::vector<double>& radius,
                               const std::vector<double>& slope, const std::vector<double>& remainder) const {
    const std::int64_t rows = program_.rows(operand);
    std::vector<double> norms = row_norms(radius, rows);
    const std::vector<double> roundings = row_norms(remainder, rows);
    const bool passes_on = !is_zero(slope);
    for (std::size_t row = 0; row < norms.size(); ++row) {
      const Magnitude passed = passes_on && !propagated.norm.empty() ? Magnitude(propagated.norm[row]) : Magnitude();
      norms[row] = theorems::rounded_norm(Magnitude(norms[row]), passed, Magnitude(roundings[row])).value();
    }
    return norms;
  }

  const Made made_;
  const NarrowedProgram& program_;
  const Setting& setting_;
  std::map<Key, Setting> settings_;
  Shadow& shadow_;
  AdjointRadii radii_by_adjoints_;
  NodeSettings of_results_;
  std::vector<std::int64_t> ambiguous_;
};

/// |c|.E for the target c with these seeds.
Magnitude radius_of(const RoundedShadow& rounded, const std::vector<Seed>& seeds, std::size_t row) {
  Magnitude sum;
  for (const Seed& seed : seeds) {
    const auto rows = static_cast<std::size_t>(rounded.program.rows(seed.value));
    const std::size_t size = rounded.shadow.values[seed.value].size() / rows;
    const std::size_t i = (rows == 1 ? 0 : row * size) + static_cast<std::size_t>(seed.element);
    sum += Magnitude(seed.factor) * radius_at(rounded.deviation.radii[seed.value].element, i);
  }
  return sum;
}

/// Adds the conditions: the bounds do not hold for a run that reads operands differently or omits a
/// rounding that the shadow executes.
void note_conditions(Made made, const Machine& machine, RoundedShadow& rounded) {
  std::set<std::string>& conditions = rounded.deviation.conditions;
  if (leaves_readings_open(machine)) {
    const std::string reading = reading_condition(rounded.program, machine);
    if (!reading.empty()) conditions.insert(reading);
  }
  for (std::size_t index = 0; index < rounded.program.nodes().size(); ++index) {
    const NarrowSteps& steps = rounded.program.steps();
    if (!steps.may_be_left_out[index] || !is_made(made, rounded.program, rounded.program.nodes()[index])) continue;
    conditions.insert("results are rounded to " + std::string(steps.rounding[index]->format->name) +
                      " wherever the model stores or casts them, nothing is fused past that (A-09)");
  }
}

RoundedShadow follow(Made made, const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                     const std::vector<std::vector<double>>& input_error, const Setting& setting,
                     OperandCache& operands) {
  RoundedShadow result{narrowed, {}, {}, {}};
  const Graph& graph = result.program.flat().graph;
  Shadow& shadow = result.shadow;
  shadow.values.resize(result.program.size());
  shadow.error.resize(result.program.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) shadow.values[graph.inputs[i]] = inputs[i];
  for (ValueId id = 0; id < result.program.size(); ++id) {
    if (graph.is_constant(id)) shadow.values[id] = graph.value(id).constant.to_double();
  }
  RoundedCentres centres(made, result.program, setting, shadow);
  result.deviation =
      deviation_of(Trajectory::any_order, result.program, shadow, input_error, setting, operands, nullptr, &centres);
  result.ambiguous = std::move(centres).ambiguous();
  note_conditions(made, setting.machine, result);
  return result;
}

}  // namespace

RoundedShadow rounded_shadow_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                OperandCache& operands) {
  return follow(Made::all, narrowed, inputs, input_error, setting, operands);
}

RoundedShadow rounded_constants_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                   const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                   OperandCache& operands) {
  return follow(Made::of_constants, narrowed, inputs, input_error, setting, operands);
}

Certificate distance_of_runs(const RoundedShadow& rounded, const std::vector<Seed>& seeds, const Setting& setting) {
  const Direction direction = direction_of(rounded.program, rounded.shadow, seeds);
  Certificate certificate =
      std::move(sweep(rounded.program, rounded.shadow, {&rounded.deviation, 1}, direction, setting).front());
  for (std::size_t row = 0; row < certificate.total.size(); ++row) {
    double& total = certificate.total[row];
    total = theorems::refined_radius(total, radius_of(rounded, seeds, row).value());
    certificate.remainder[row] = std::min(certificate.remainder[row], total);
  }
  return certificate;
}

}  // namespace driftbound::bounds

namespace driftbound {

std::string_view name_of(SignVerdict verdict) {
  switch (verdict) {
    case SignVerdict::right:
      return "right";
    case SignVerdict::wrong:
      return "wrong";
    case SignVerdict::open:
      break;
  }
  return "open";
}

SignVerdict sign_of_runs(const Interval& runs, const Interval& exact) {
  const auto is_positive = [](const Interval& x) { return x.lower() > 0.0; };
  const auto is_negative = [](const Interval& x) { return x.upper() < 0.0; };
  if ((is_positive(runs) && is_positive(exact)) || (is_negative(runs) && is_negative(exact))) return SignVerdict::right;
  if ((is_positive(runs) && is_negative(exact)) || (is_negative(runs) && is_positive(exact))) return SignVerdict::wrong;
  return SignVerdict::open;
}

}  // namespace driftbound

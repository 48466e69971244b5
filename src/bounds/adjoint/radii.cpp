#include "bounds/adjoint/radii.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/adjoint/joint_functions.hpp"
#include "bounds/adjoint/norms.hpp"
#include "bounds/adjoint/recursion.hpp"
#include "bounds/adjoint/source_radii.hpp"
#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"
#include "model/variant.hpp"

namespace driftbound::bounds {
namespace {

/// result += more, rounded up; empty vectors are 0.
void add_to(std::vector<double>& result, Radii more) {
  if (more.empty()) return;
  if (result.empty()) result.assign(more.size(), 0.0);
  add_magnitudes(result, more);
}

bool is_zero(Radii values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0.0; });
}

/// Returns upper bounds of sum |J_e| E_e, with the slopes that the adjoint uses for J_e.
std::vector<double> moved_by_slopes(const NodeView& view, const std::vector<std::vector<double>>& slopes,
                                    std::span<const Radii> radii, const Setting& setting) {
  const Op& op = view.node->op;
  const bool is_elementwise = std::visit(
      [](const auto& which) {
        using Which = std::decay_t<decltype(which)>;
        return ElementwiseUnary<Which> || ElementwiseBinary<Which>;
      },
      op);
  const bool has_slopes = std::any_of(slopes.begin(), slopes.end(), [](const auto& s) { return !s.empty(); });
  if (!is_elementwise || !has_slopes) {
    std::vector<double> moved = propagate(view, radii, {}, setting);
    // |J| E of a softmax is at most p_i (E_i + p.E); propagate(), which uses T-45, may return less than |J| E.
    if (std::holds_alternative<op::Softmax>(op) && !radii[0].empty()) {
      const double largest = *std::max_element(radii[0].begin(), radii[0].end());
      for (std::size_t i = 0; i < moved.size(); ++i)
        moved[i] = theorems::moved_by_softmax_slopes(view.y(i), largest).value();
    }
    return moved;
  }
  std::vector<double> moved(view.output->size(), 0.0);
  for (std::size_t slot = 0; slot < radii.size(); ++slot) {
    if (radii[slot].empty() || slopes[slot].empty()) continue;
    const BroadcastIndex index(view.input(slot).shape, view.output->shape);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = (Magnitude(moved[i]) + theorems::moved_by_slope(slopes[slot][i], radii[slot][index(i)])).value();
    }
  }
  return moved;
}

/// Computes a Deviation node by node: the recursion of T-62.
class RadiiWalk {
public:
  RadiiWalk(Trajectory trajectory, const Program& program, const Shadow& shadow, const Setting& setting,
            OperandCache& operands, const Refinement* refinement, CentreMaker* centres,
            const std::vector<std::vector<double>>* known, SourceRadii* sources)
      : trajectory_(trajectory),
        program_(program),
        shadow_(shadow),
        setting_(setting),
        operands_(operands),
        refinement_(refinement),
        centres_(centres),
        known_(known),
        sources_(sources),
        takes_chords_(refinement != nullptr || sources != nullptr || (centres != nullptr && centres->takes_chords())),
        radii_by_adjoints_(program, shadow, setting),
        settings_(program, setting,
                  trajectory == Trajectory::declared_order ? NodeSettings::Sums::in_order
                                                           : NodeSettings::Sums::in_any_order) {
    result_.radii.resize(program.size());
    result_.added.resize(program.size());
    result_.remainder.resize(program.size());
    result_.slopes.resize(program.nodes().size());
    if (flushed() == Magnitude()) joint_.emplace(program);
  }

  void start(ValueId id, std::vector<double> error) {
    if (is_zero(error)) return;
    result_.added[id] = error;
    if (sources_ != nullptr) sources_->start(id, error);
    set_radii(id, std::move(error), std::nullopt);
  }

  /// Sets the radii of a constant: the error of rounding it to the accumulator (T-13).
  void start_constant(ValueId id) {
    if (!rounds()) return;
    Operand used = round_operand(shadow_.value(id), *setting_.machine.accumulator, setting_.machine);
    if (!used.is_exact()) start(id, std::move(used.error));
  }

  void visit(std::size_t index) {
    if (centres_ != nullptr && centres_->make(index, result_)) return;
    const Node& node = program_.nodes()[index];
    const NodeView view = shadow_.view_of(node);
    refine_operand(view);
    const std::vector<std::vector<double>> read = operands_as_read(node);
    const std::vector<Radii> radii(read.begin(), read.end());
    const std::vector<double>& own = shadow_.error[node.output];
    const bool by_norms = trajectory_ == Trajectory::exact_by_norms;
    const bool in_order = trajectory_ == Trajectory::declared_order;
    const bool is_joint = joint_ && joint_->meet_in(index);
    const PlainNode plain{view, radii, result_.radii[node.inputs[0]].norm, own, rounds(), by_norms, in_order};
    if (!is_joint && visit_plain(index, plain)) return;
    Linearised linear = linearise(view, radii, own, setting_);
    if (std::holds_alternative<op::Relu>(node.op) && !linear.remainder.empty())
      take_chords(view, radii[0], linear.slopes[0], linear.remainder);

    std::vector<double> moved = propagate(view, radii, own, setting_);
    result_.remainder[node.output] = remainder_of(view, linear, radii);
    result_.slopes[index] = std::move(linear.slopes);
    std::optional<JointMove> joint;
    if (is_joint) joint = joint_->moved(index, result_);
    for (std::size_t i = 0; joint && i < moved.size(); ++i) moved[i] = std::min(moved[i], joint->element[i]);
    add_to(moved, own);  // now bounds |f(operands of the trajectory) - shadow|, without the run's own rounding
    limit_by_ends(view, radii, moved);
    std::vector<double> added = own;
    std::vector<double> rounding;
    if (rounds()) {
      const bool any_order = trajectory_ == Trajectory::any_order;
      const Setting& setting = centres_ != nullptr ? centres_->rounding_setting(index) : settings_[index];
      const bool is_read = centres_ != nullptr && centres_->operands_are_read(index);
      rounding = body_rounding({view, radii, moved, any_order, std::nullopt, is_read}, setting, result_.conditions);
      add_to(added, rounding);
      add_to(added, moved_by_flushing(view, result_.slopes[index]));
    }
    add_to(moved, rounding);
    const auto norms = norms_of(view, linear.lipschitz, added, joint ? std::optional(joint->norm) : std::nullopt);
    limit_by_sources(index, result_.slopes[index], added, moved);
    result_.added[node.output] = std::move(added);
    set_radii(node.output, std::move(moved), norms);
  }

  Deviation result() && { return std::move(result_); }

private:
  /// Visits a node with the row kernels. Returns false if they do not cover the node, its operands or the arithmetic.
  bool visit_plain(std::size_t index, const PlainNode& node) {
    const Setting& setting = settings_[index];
    const Op& op = node.view.node->op;
    const bool multiplies = multiplies_matrices(op);
    const bool can_follow = !node.in_order || !multiplies || setting.machine.order.gives_partial_sums();
    const bool covers_trajectory = !rounds() || (is_plain(setting_.machine) && is_plain(setting.machine) && can_follow);
    if (!covers_trajectory || !program_.varies(node.view.node->output)) return false;
    if (std::holds_alternative<op::Relu>(op)) return visit_relu(index, node);
    if (multiplies && !program_.varies(node.view.node->inputs[1]))
      return visit_linear(index, node, plain_product(node, setting, operands_));
    const bool adds = std::holds_alternative<op::Add>(op) || std::holds_alternative<op::Sub>(op);
    if (!adds || !program_.varies(node.view.node->inputs[0]) || !program_.varies(node.view.node->inputs[1]))
      return false;
    return visit_linear(index, node, plain_sum(node, setting_));
  }

  /// Visits an affine node, which is its own Jacobian, with the radii that a row kernel returned.
  bool visit_linear(std::size_t index, const PlainNode& node, std::optional<PlainRadii> radii) {
    if (!radii) return false;
    const ValueId output = node.view.node->output;
    if (!node.rounds) radii->added.assign(node.own.begin(), node.own.end());
    const auto norms = norms_of(node.view, Magnitude::infinite(), radii->added);
    if (node.by_norms && !norms) return false;
    result_.slopes[index].resize(node.view.inputs.size());
    limit_by_sources(index, result_.slopes[index], radii->added, radii->moved);
    result_.added[output] = std::move(radii->added);
    set_radii(output, std::move(radii->moved), norms);
    return true;
  }

  bool visit_relu(std::size_t index, const PlainNode& node) {
    if (!node.own.empty()) return false;
    std::optional<PlainRelu> relu = plain_relu(node);
    if (!relu) return false;
    const ValueId output = node.view.node->output;
    result_.slopes[index] = {std::move(relu->slopes)};
    if (relu->moved.empty()) return true;
    if (!relu->remainder.empty()) take_chords(node.view, node.radii[0], result_.slopes[index][0], relu->remainder);
    result_.remainder[output] = std::move(relu->remainder);
    limit_by_sources(index, result_.slopes[index], {}, relu->moved);
    set_radii(output, std::move(relu->moved), norms_of(node.view, Magnitude(1.0), {}));
    return true;
  }

  /// Replaces the slopes of undecided Relus by chords, which halves their remainders (T-65). The deviation then needs
  /// an adjoint sweep of its own; so this is done only with a refinement, with sources, or if the centres ask for it.
  void take_chords(const NodeView& view, Radii radii, std::vector<double>& slopes,
                   std::vector<double>& remainder) const {
    if (!takes_chords_ || radii.empty()) return;
    row_kernels().relu_chords(view.input(0).values.data(), radii.data(), slopes.data(), remainder.data(),
                              remainder.size());
  }

  /// If the node is a function of one element, recomputes the radii of the operands with the largest weighted
  /// remainders by adjoints of their own (T-72).
  void refine_operand(const NodeView& view) {
    const Node& node = *view.node;
    if (refinement_ == nullptr || refinement_->weight[node.output].empty() || !may_be_refined(program_, node)) return;
    const ValueId operand = node.inputs[0];
    ValueRadii& known = result_.radii[operand];
    if (known.element.empty()) return;
    const std::vector<Radii> radii = {known.element};
    const std::vector<double> remainder = linearise(view, radii, shadow_.error[node.output], setting_).remainder;
    if (remainder.empty()) return;
    const std::int64_t rows = program_.rows(operand);
    const std::vector<RowElement> chosen =
        worth_refining(refinement_->weight[node.output], remainder, rows, *refinement_);
    if (chosen.empty()) return;
    const std::vector<double> refined = radii_by_adjoints_(result_, operand, chosen);
    const std::size_t size = known.element.size() / static_cast<std::size_t>(rows);
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      double& element = known.element[static_cast<std::size_t>(chosen[k].row) * size + chosen[k].element];
      element = theorems::refined_radius(element, refined[k]);
    }
    const std::vector<double> norms = norms_of_rows(known.element, rows);
    for (std::size_t row = 0; row < norms.size(); ++row)
      known.norm[row] = theorems::norm_of_row(norms[row], known.norm[row]);
  }

  /// Limits `moved` by the radii of T-117. The node's remainder must have been stored in result_.
  void limit_by_sources(std::size_t index, const std::vector<std::vector<double>>& slopes, Radii added,
                        std::vector<double>& moved) {
    if (sources_ == nullptr) return;
    const std::vector<double> radii =
        sources_->step(index, slopes, added, result_.remainder[program_.nodes()[index].output]);
    for (std::size_t i = 0; i < radii.size() && i < moved.size(); ++i) moved[i] = std::min(moved[i], radii[i]);
  }

  bool rounds() const { return trajectory_ == Trajectory::any_order || trajectory_ == Trajectory::declared_order; }

  /// Returns omega, a bound of the error of reading a subnormal operand as 0; 0 if the trajectory does not flush.
  Magnitude flushed() const {
    return rounds() && setting_.machine.flushes ? Magnitude(setting_.machine.accumulator->smallest_normal)
                                                : Magnitude();
  }

  std::vector<std::vector<double>> operands_as_read(const Node& node) const {
    std::vector<std::vector<double>> read;
    for (const ValueId id : node.inputs) {
      read.push_back(result_.radii[id].element);
      if (flushed() == Magnitude()) continue;
      read.back().resize(shadow_.value(id).size(), 0.0);
      for (double& radius : read.back()) radius = theorems::radius_as_read(radius, flushed()).value();
    }
    return read;
  }

  std::vector<double> moved_by_flushing(const NodeView& view, const std::vector<std::vector<double>>& slopes) const {
    if (flushed() == Magnitude()) return {};
    std::vector<std::vector<double>> omegas;
    for (const Tensor<double>* input : view.inputs) omegas.emplace_back(input->size(), flushed().value());
    return moved_by_slopes(view, slopes, std::vector<Radii>(omegas.begin(), omegas.end()), setting_);
  }

  /// Returns the node's remainder, including the effect of the errors of operands that do not depend on the inputs. The
  /// adjoint does not propagate to these operands (T-60, cut edges).
  std::vector<double> remainder_of(const NodeView& view, const Linearised& linear, std::span<const Radii> radii) const {
    std::vector<double> remainder = linear.remainder;
    std::vector<Radii> fixed(radii.begin(), radii.end());
    bool any = false;
    for (std::size_t slot = 0; slot < fixed.size(); ++slot) {
      if (program_.varies(view.node->inputs[slot])) fixed[slot] = {};
      any = any || !fixed[slot].empty();
    }
    if (!any) return remainder;
    const std::vector<double> moved = moved_by_slopes(view, linear.slopes, fixed, setting_);
    if (remainder.empty()) remainder.assign(moved.size(), 0.0);
    for (std::size_t i = 0; i < moved.size(); ++i)
      remainder[i] = theorems::remainder_with_cut_edges(remainder[i], moved[i]).value();
    return remainder;
  }

  std::optional<std::vector<double>> norms_of(const NodeView& view, Magnitude lipschitz,
                                              const std::vector<double>& added,
                                              const std::optional<std::vector<double>>& joint = std::nullopt) {
    const ValueId output = view.node->output;
    if (!program_.varies(output) || flushed() != Magnitude()) return std::nullopt;
    const bool knows_local_errors = centres_ == nullptr;
    NormRequest request{program_, view, {}, lipschitz};
    if (knows_local_errors) request.shadow = &shadow_, request.known = &result_;
    for (const ValueId id : view.node->inputs) request.operands.push_back(&result_.radii[id]);
    auto norms = smaller_norms(moved_norms(request, setting_, operands_), joint);
    if (norms && !added.empty()) add_to(*norms, norms_of_rows(added, program_.rows(output)));
    return norms;
  }

  /// Stores the radii of a value: for every element the smallest of the given radius, the known one and the row's norm.
  /// A radius is infinite if the run's value may exceed the largest finite number, since an infinity inside a network
  /// need not be visible in its outputs. The roundings of the node, which may end there, are known not to overflow.
  void set_radii(ValueId id, std::vector<double> element, std::optional<std::vector<double>> norms) {
    if (known_ != nullptr && !(*known_)[id].empty()) {
      for (std::size_t i = 0; i < element.size(); ++i) element[i] = std::min(element[i], (*known_)[id][i]);
    }
    const std::int64_t rows = program_.rows(id);
    const double half_largest = rounds() ? settings_.half_beyond_largest(id) : infinity;
    const std::size_t size = element.size() / static_cast<std::size_t>(rows);
    const double* centre = shadow_.value(id).values.data();
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      row_kernels().limit(centre + row * size, norms ? (*norms)[row] : infinity, half_largest,
                          element.data() + row * size, size);
    }
    if (sources_ != nullptr && program_.varies(id)) sources_->settle(id, element);
    if (is_zero(element)) return;
    std::vector<double> norm = norms_of_rows(element, rows);
    for (std::size_t row = 0; norms && row < norm.size(); ++row)
      norm[row] = theorems::norm_of_row(norm[row], (*norms)[row]);
    result_.radii[id] = {std::move(element), std::move(norm)};
  }

  std::vector<double> norms_of_rows(Radii values, std::int64_t rows) const { return row_norms(values, rows); }

  const Trajectory trajectory_;
  const Program& program_;
  const Shadow& shadow_;
  const Setting& setting_;
  OperandCache& operands_;
  const Refinement* refinement_;
  CentreMaker* centres_;
  const std::vector<std::vector<double>>* known_;
  SourceRadii* sources_;
  const bool takes_chords_;
  AdjointRadii radii_by_adjoints_;
  const NodeSettings settings_;
  std::optional<JointFunctions> joint_;
  Deviation result_;
};

}  // namespace

std::optional<std::pair<double, double>> ends_of(const Op& op) {
  using Ends = std::optional<std::pair<double, double>>;
  return std::visit(
      Overloaded{[](const ElementwiseUnary auto& f) -> Ends { return OpTraits<std::decay_t<decltype(f)>>::range(f); },
                 [](const op::Softmax&) -> Ends {
                   return {{0.0, 1.0}};
                 },
                 [](const auto&) -> Ends { return std::nullopt; }},
      op);
}

bool are_numbers(const Tensor<double>& centre, Radii radii) {
  const auto is_finite = [](double x) { return std::isfinite(x); };
  return std::all_of(centre.values.begin(), centre.values.end(), is_finite) &&
         std::all_of(radii.begin(), radii.end(), is_finite);
}

void limit_by_ends(const NodeView& view, std::span<const Radii> radii, std::vector<double>& moved) {
  const auto ends = ends_of(view.node->op);
  if (!ends || !are_numbers(view.input(0), radii[0])) return;
  for (std::size_t i = 0; i < moved.size(); ++i)
    moved[i] = std::min(moved[i], theorems::reach_within(view.y(i), ends->first, ends->second));
}

Deviation deviation_of(Trajectory trajectory, const Program& program, const Shadow& shadow,
                       const std::vector<std::vector<double>>& input_error, const Setting& setting,
                       OperandCache& operands, const Refinement* refinement, CentreMaker* centres,
                       const std::vector<std::vector<double>>* known, SourceRadii* sources) {
  RadiiWalk walk(trajectory, program, shadow, setting, operands, refinement, centres, known, sources);
  const Graph& graph = program.flat().graph;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) walk.start(graph.inputs[i], input_error[i]);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) walk.start_constant(id);
  }
  for (std::size_t node = 0; node < program.nodes().size(); ++node) walk.visit(node);
  return std::move(walk).result();
}

}  // namespace driftbound::bounds

#include "bounds/boxes/box_walk.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/adjoint/norms.hpp"
#include "bounds/adjoint/radii.hpp"
#include "bounds/adjoint/source_radii.hpp"
#include "bounds/arithmetic/numbers.hpp"
#include "bounds/boxes/box_node.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/node_settings.hpp"
#include "bounds/nodes/pair_rounding.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/boxes.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds {
namespace {

/// Returns a + b, rounded up; empty vectors are 0.
std::vector<double> sum_of(Radii a, Radii b) {
  std::vector<double> sum(a.begin(), a.end());
  if (sum.empty()) sum.assign(b.begin(), b.end());
  if (a.empty() || b.empty()) return sum;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (Magnitude(sum[i]) + Magnitude(b[i])).value();
  return sum;
}

bool all_zero(Radii values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x == 0.0; });
}

/// Computes a Deviation over a box node by node: the recursion of T-77.
class BoxWalk {
public:
  BoxWalk(Trajectory trajectory, const Program& program, const Shadow& shadow, const Deviation& ranges,
          const Setting& setting, OperandCache& operands, bool in_double_double, SourceRadii* sources)
      : trajectory_(trajectory),
        program_(program),
        shadow_(shadow),
        ranges_(ranges),
        setting_(setting),
        settings_(program, setting),
        operands_(operands),
        in_double_double_(in_double_double),
        sources_(sources) {
    result_.radii.resize(program.size());
    result_.added.resize(program.size());
    result_.remainder.resize(program.size());
    result_.slopes.resize(program.nodes().size());
  }

  void start(ValueId id, std::vector<double> error) {
    if (all_zero(error)) return;
    result_.added[id] = error;
    if (sources_ != nullptr) sources_->start(id, error);
    set_radii(id, std::move(error), std::nullopt);
  }

  void start_constant(ValueId id) {
    Operand used = round_operand(shadow_.value(id), *setting_.machine.accumulator, setting_.machine);
    if (!used.is_exact()) start(id, std::move(used.error));
  }

  void visit(std::size_t index) {
    const Node& node = program_.nodes()[index];
    const NodeView view = shadow_.view_of(node);
    const std::vector<std::vector<double>> read = errors_as_read(node);
    std::vector<BoxOperand> operands;
    std::vector<std::vector<double>> reaches;
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const ValueId id = node.inputs[slot];
      operands.push_back({range(id), read[slot], program_.varies(id)});
      reaches.push_back(sum_of(range(id), read[slot]));
    }
    const std::vector<double> y_range = output_range(view, reaches);
    BoxNode over = over_box(view, operands, y_range, setting_);
    over.moved.resize(view.output->size(), 0.0);
    limit_by_ends(view, reaches, over.moved);
    lose_what_is_no_number(node.output, over.moved);

    std::vector<double> added = rounding_of(index, view, reaches, sum_of(range(node.output), over.moved));
    std::vector<double> moved = sum_of(over.moved, added);
    if (flushed() != Magnitude()) added = sum_of(added, moved_by_flushing(view, operands));
    const auto norms = norms_of(view, over.lipschitz, added);
    if (sources_ != nullptr) {
      const std::vector<double> radii = sources_->step(index, over.slopes, added, over.remainder);
      for (std::size_t i = 0; i < radii.size() && i < moved.size(); ++i) moved[i] = std::min(moved[i], radii[i]);
    }
    result_.added[node.output] = std::move(added);
    result_.remainder[node.output] = std::move(over.remainder);
    set_radii(node.output, std::move(moved), norms);
    result_.slopes[index] = std::move(over.slopes);
  }

  Deviation result() && { return std::move(result_); }

private:
  Radii range(ValueId id) const { return ranges_.radii[id].element; }

  /// Limits the errors at the result of a bounded function with finite operands by the width of the function's range.
  void limit_by_ends(const NodeView& view, const std::vector<std::vector<double>>& reaches,
                     std::vector<double>& moved) const {
    const auto ends = ends_of(view.node->op);
    if (!ends || !are_numbers(view.input(0), reaches[0])) return;
    const double apart = theorems::reach_within(ends->first, ends->first, ends->second);
    for (double& radius : moved) radius = std::min(radius, apart);
  }

  /// Sets the error to infinity where the shadow's value or its error bound is not finite.
  void lose_what_is_no_number(ValueId id, std::vector<double>& moved) const {
    const std::vector<double>& values = shadow_.value(id).values;
    const Radii error = shadow_.error[id];
    for (std::size_t i = 0; i < moved.size(); ++i)
      if (!std::isfinite(values[i]) || !radius_at(error, i).is_finite()) moved[i] = infinity;
  }

  /// Bounds the distance of the node's function from the centre for all operands within reach. Returns nothing except
  /// for Softmax, the only op for which over_box() uses it.
  std::vector<double> output_range(const NodeView& view, const std::vector<std::vector<double>>& reaches) const {
    if (!std::holds_alternative<op::Softmax>(view.node->op)) return {};
    const std::vector<Radii> radii(reaches.begin(), reaches.end());
    const std::vector<double>& own = shadow_.error[view.node->output];
    return sum_of(propagate(view, radii, own, setting_), own);
  }

  std::vector<double> rounding_of(std::size_t index, const NodeView& view,
                                  const std::vector<std::vector<double>>& reaches, const std::vector<double>& moved) {
    const std::vector<Radii> radii(reaches.begin(), reaches.end());
    const UnrecordedNode node{view, radii, moved, trajectory_ == Trajectory::any_order};
    if (in_double_double_) return pair_rounding(node, setting_);
    return body_rounding(node, settings_[index], result_.conditions);
  }

  Magnitude flushed() const {
    return setting_.machine.flushes ? Magnitude(setting_.machine.accumulator->smallest_normal) : Magnitude();
  }

  std::vector<std::vector<double>> errors_as_read(const Node& node) const {
    std::vector<std::vector<double>> read;
    for (const ValueId id : node.inputs) {
      read.push_back(result_.radii[id].element);
      if (flushed() == Magnitude()) continue;
      read.back().resize(shadow_.value(id).size(), 0.0);
      for (double& radius : read.back()) radius = theorems::radius_as_read(radius, flushed()).value();
    }
    return read;
  }

  /// Bounds the change of the node's function when every operand has an additional error of omega, the largest error of
  /// reading a subnormal operand as 0.
  std::vector<double> moved_by_flushing(const NodeView& view, std::vector<BoxOperand> operands) const {
    std::vector<std::vector<double>> omegas;
    for (const Tensor<double>* input : view.inputs) omegas.emplace_back(input->size(), flushed().value());
    std::vector<std::vector<double>> ranges;
    for (const BoxOperand& operand : operands) ranges.push_back(sum_of(operand.range, operand.error));
    for (std::size_t slot = 0; slot < operands.size(); ++slot) operands[slot] = {ranges[slot], omegas[slot], true};
    return over_box(view, operands, output_range(view, ranges), setting_).moved;
  }

  /// Computes the 2-norm bounds of T-62 for nodes where these do not depend on the centre.
  std::optional<std::vector<double>> norms_of(const NodeView& view, Magnitude lipschitz,
                                              const std::vector<double>& added) {
    const Node& node = *view.node;
    if (!program_.varies(node.output) || flushed() != Magnitude() || looks_at_centre(node)) return std::nullopt;
    NormRequest request{program_, view, {}, lipschitz};
    for (const ValueId id : node.inputs) request.operands.push_back(&result_.radii[id]);
    auto norms = moved_norms(request, setting_, operands_);
    if (!norms) return std::nullopt;
    const std::vector<double> own = norms_of_rows(added, program_.rows(node.output));
    for (std::size_t row = 0; row < norms->size(); ++row)
      (*norms)[row] = (Magnitude((*norms)[row]) + Magnitude(own[row])).value();
    return norms;
  }

  bool is_exact_constant(ValueId id) const { return !program_.varies(id) && result_.radii[id].element.empty(); }

  bool looks_at_centre(const Node& node) const {
    return std::visit(Overloaded{[&](const OneOf<op::Gemm, op::MatMul, op::Mul> auto&) {
                                   return !is_exact_constant(node.inputs[0]) && !is_exact_constant(node.inputs[1]);
                                 },
                                 [&](const op::Div&) { return !is_exact_constant(node.inputs[1]); },
                                 [](const auto&) { return false; }},
                      node.op);
  }

  void set_radii(ValueId id, std::vector<double> element, const std::optional<std::vector<double>>& norms) {
    const std::int64_t rows = program_.rows(id);
    if (norms) {
      const std::size_t size = element.size() / static_cast<std::size_t>(rows);
      for (std::size_t row = 0; row < norms->size(); ++row)
        row_kernels().limit(shadow_.value(id).values.data() + row * size, (*norms)[row], infinity,
                            element.data() + row * size, size);
    }
    lose_what_may_overflow(id, element);
    if (sources_ != nullptr && program_.varies(id)) sources_->settle(id, element);
    if (all_zero(element)) return;
    std::vector<double> norm = norms_of_rows(element, rows);
    for (std::size_t row = 0; norms && row < norm.size(); ++row)
      norm[row] = theorems::norm_of_row(norm[row], (*norms)[row]);
    result_.radii[id] = {std::move(element), std::move(norm)};
  }

  void lose_what_may_overflow(ValueId id, std::vector<double>& error) const {
    const double half_largest = 0.5 * settings_.largest(id);
    for (std::size_t i = 0; i < error.size(); ++i) {
      double reach = theorems::box_reach(radius_at(range(id), i), Magnitude(error[i])).value();
      row_kernels().limit(&shadow_.value(id).values[i], infinity, half_largest, &reach, 1);
      if (!std::isfinite(reach)) error[i] = infinity;
    }
  }

  std::vector<double> norms_of_rows(Radii values, std::int64_t rows) const { return row_norms(values, rows); }

  const Trajectory trajectory_;
  const Program& program_;
  const Shadow& shadow_;
  const Deviation& ranges_;
  const Setting& setting_;
  const NodeSettings settings_;
  OperandCache& operands_;
  const bool in_double_double_;
  SourceRadii* sources_;
  Deviation result_;
};

}  // namespace

Deviation deviation_over_box(Trajectory trajectory, const Program& program, const Shadow& shadow,
                             const Deviation& ranges, const std::vector<std::vector<double>>& input_error,
                             const Setting& setting, OperandCache& operands, bool in_double_double,
                             SourceRadii* sources) {
  BoxWalk walk(trajectory, program, shadow, ranges, setting, operands, in_double_double, sources);
  const Graph& graph = program.flat().graph;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) walk.start(graph.inputs[i], input_error[i]);
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) walk.start_constant(id);
  }
  for (std::size_t node = 0; node < program.nodes().size(); ++node) walk.visit(node);
  return std::move(walk).result();
}

}  // namespace driftbound::bounds

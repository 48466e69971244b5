#include "bounds/rows/refined_radii.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds {
namespace {

/// Largest number of radii that one sweep processes, except that all radii of one row stay together.
constexpr std::size_t most_together = 320;

/// T-72, early termination: a sweep stops if it could reduce a target by no more than this share of the contribution of
/// local errors, all radii of a sample together. The share is larger for smooth functions.
constexpr double left_at_kinks = 0x1p-9, left_by_smooth_ones = 0x1p-4;

/// Remainders of at most this share of the bound so far are not bounded by norms (T-96).
constexpr double not_worth_it = 0x1p-7;

/// Errors and radii of runs of one kind: in any order, or in the declared order.
struct OfKind {
  const std::vector<double>&added, &remainder;
  const std::vector<double>* radius = nullptr;  ///< of the operand of a function of one element …
  double norm_of_operand = 0.0, norm = 0.0;     ///< … and bounds of the 2-norm of its row and of the result's
};

Charge charge_of(const RunState& state, const ChargedRow& row, const OfKind& kind, Magnitude before) {
  const std::size_t size = state.sizes[row.id], first = row.row * size;
  const Magnitude local = charged(row.d, kind.added, row.row, size);
  const bool has_remainder = row.errors.has_remainder.empty() || row.errors.has_remainder[row.row] != 0;
  Magnitude remainder = has_remainder ? charged(row.d, kind.remainder, row.row, size) : Magnitude();
  const bool is_small = remainder.value() <= not_worth_it * before.value();
  if (row.errors.remainder_is_quadratic && kind.radius != nullptr && !is_small)
    remainder = std::min(remainder, theorems::remainder_by_norm({row.d, size}, kind.remainder.data() + first,
                                                                kind.radius->data() + first, kind.norm_of_operand));
  const Magnitude defect = Magnitude(row.defect) * sqrt_up(Magnitude(static_cast<double>(size))) * Magnitude(kind.norm);
  return {theorems::charge(local, remainder, defect), local, remainder, defect};
}

}  // namespace

Magnitude charged(const double* d, const std::vector<double>& x, std::size_t row, std::size_t size) {
  if (x.empty()) return Magnitude();
  const double sum = row_kernels().weighted_sum(d, x.data() + row * size, size);
  return Magnitude(theorems::outward(sum, static_cast<std::int64_t>(size) + 1, static_cast<std::int64_t>(size)));
}

const RunRows* operand_of_function(const RunState& state, std::size_t node) {
  const Node& of = state.program.fused().nodes[node];
  return may_be_refined(state.program, of) ? &state.rows[of.inputs[0]] : nullptr;
}

Charge charge_of(const RunState& state, const ChargedRow& row, Magnitude before) {
  OfKind kind{row.errors.added, row.errors.remainder};
  kind.norm = state.rows[row.id].norm[row.row];
  if (row.operand != nullptr) {
    kind.radius = &row.operand->radius;
    kind.norm_of_operand = row.operand->norm[row.row];
  }
  return charge_of(state, row, kind, before);
}

Charge charge_in_order(const RunState& state, const ChargedRow& row, Magnitude before) {
  OfKind kind{row.errors.added_in_order, row.errors.remainder_in_order};
  kind.norm = state.rows[row.id].in_order.norm[row.row];
  if (row.operand != nullptr) {
    kind.radius = &row.operand->in_order.radius;
    kind.norm_of_operand = row.operand->in_order.norm[row.row];
  }
  return charge_of(state, row, kind, before);
}

void add_share(std::size_t size, RunAdjoint& share, RunAdjoint& sum) {
  if (share.defect.size() > sum.defect.size()) std::swap(share, sum);
  const std::size_t rows = share.defect.size();
  fastest_element_kernels().add(sum.d.data(), share.d.data(), sum.d.data(), rows * size);
  for (std::size_t row = 0; row < rows; ++row) {
    const double largest = row_kernels().largest(sum.d.data() + row * size, size);
    const Magnitude rounding(theorems::defect(largest, 1, 0));
    sum.defect[row] = (Magnitude(sum.defect[row]) + Magnitude(share.defect[row]) + rounding).value();
  }
}

RefinedRadii::RefinedRadii(const RunState& state, Memory& memory, std::span<const std::vector<RowElement>> chosen,
                           std::span<const std::vector<double>> weight, Stops stops)
    : state_(state), memory_(memory), single_(memory.single) {
  std::vector<std::vector<Radius>> of_rows;
  for (std::size_t node = chosen.size(); node-- > 0;) {
    const Node& of = state.program.fused().nodes[node];
    for (const RowElement& one : chosen[node]) {
      const auto row = static_cast<std::size_t>(one.row);
      const std::size_t at = row * state.sizes[of.output] + one.element;
      of_rows.resize(std::max(of_rows.size(), row + 1));
      Radius& radius = of_rows[row].emplace_back();
      radius.node = node;
      radius.row = row;
      radius.element = one.element;
      radius.first = state.rows[of.inputs[0]].radius[at];
      radius.weight = weight[of.output][at];
      radius.cost = radius.weight * state.errors[node].remainder[at];
    }
  }
  for (const std::vector<Radius>& of_row : of_rows) radii_.insert(radii_.end(), of_row.begin(), of_row.end());
  of_node_.resize(chosen.size());
  for (std::size_t i = 0; i < radii_.size(); ++i) of_node_[radii_[i].node].push_back(i);
  end_.resize(radii_.size());
  for (std::size_t i = radii_.size(); i-- > 0;)
    end_[i] = i + 1 < radii_.size() && radii_[i + 1].row == radii_[i].row ? end_[i + 1] : i + 1;
  std::size_t terms = 0;
  for (std::size_t i = 0, first = 0; i < radii_.size(); ++i) {
    if (radii_[i].row != radii_[first].row) first = i;
    const bool is_smooth = !is_piecewise_linear(state.program.fused().nodes[radii_[i].node].op);
    const double left = stops == Stops::never ? -1.0 : is_smooth ? left_by_smooth_ones : left_at_kinks;
    radii_[i].indifferent = left / static_cast<double>(end_[i] - first);
    radii_[i].terms = terms;
    radii_[i].next = i + 1;
    terms += end_[i] - i - 1;
  }
  terms_.assign(terms, 0.0);
  remainders_.assign(radii_.size(), 0.0);
  in_order_.assign(radii_.size(), 0.0);
  memory_.adjoints.resize(state.program.size());
  take_remainders();
  std::size_t last_node = 0;
  for (const Radius& radius : radii_) last_node = std::max(last_node, radius.node);
  single_.take(state, last_node);
  for (std::size_t first = 0, last = 0; first < radii_.size(); first = last) {
    last = end_[first];
    while (last < radii_.size() && end_[last] - first <= most_together) last = end_[last];
    follow(first, last);
  }
}

void RefinedRadii::take_remainders() {
  for (const Radius& radius : radii_) {
    RunErrors& errors = state_.errors[radius.node];
    const std::size_t at = radius.row * state_.sizes[state_.program.fused().nodes[radius.node].output] + radius.element;
    errors.remainder[at] = 0.0;
    if (state_.request.in_order) errors.remainder_in_order[at] = 0.0;
  }
}

void RefinedRadii::follow(std::size_t first, std::size_t last) {
  order_.resize(last - first);
  for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = first + i;
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return radii_[a].node > radii_[b].node; });
  rows_.clear();
  for (const std::size_t i : order_) rows_.push_back(radii_[i].row);
  for (SingleAdjoint& adjoint : memory_.adjoints) {
    adjoint.defect.clear();
    adjoint.norm.clear();
  }
  begun_ = 0;
  for (std::size_t node = radii_[order_.front()].node + 1; node-- > 0;) {
    const ValueId output = state_.program.fused().nodes[node].output;
    const RunRows* operand = operand_of_function(state_, node);
    if (operand == nullptr && !memory_.adjoints[output].defect.empty()) stop_early();
    if (!memory_.adjoints[output].defect.empty()) {
      charge(output);
      keep_terms(node);
      pull_back(node);
      release(output);
    }
    if (begins_behind_product(node + 1))
      begin_behind_product(node + 1);
    else if (!begins_behind_product(node))
      begin(node);
  }
  for (const ValueId id : state_.program.flat().graph.inputs) {
    if (memory_.adjoints[id].defect.empty()) continue;
    charge(id);
    release(id);
  }
}

/// sum |d_i| x_i
Magnitude RefinedRadii::charged(const float* d, const std::vector<float>& x, std::size_t row, std::size_t size) const {
  constexpr std::size_t most_terms = std::size_t{1} << 21;
  if (size >= most_terms) return Magnitude::infinite();
  const double sum = row_kernels().single_weighted_sum(d, x.data() + row * size, size);
  const double underflow = 0x1p-149 * static_cast<double>(size);
  return Magnitude((sum * (1.0 + theorems::coarse_error(size)) + underflow) * (1.0 + 0x1p-50));
}

void RefinedRadii::charge(ValueId id) {
  const SingleAdjoint& adjoint = memory_.adjoints[id];
  const RunRows& values = state_.rows[id];
  const std::size_t size = state_.sizes[id];
  const Magnitude root = sqrt_up(Magnitude(static_cast<double>(size)));
  for (std::size_t i = 0; i < adjoint.defect.size(); ++i) {
    Radius& radius = radii_[order_[i]];
    const Magnitude defect = Magnitude(adjoint.defect[i]) * root;
    const auto charge = [&](bool in_order, double norm) {
      const Magnitude local = charged(adjoint.d.data() + i * size, single_.charges(id, in_order), rows_[i], size);
      return theorems::charge(local, Magnitude(), defect * Magnitude(norm));
    };
    radius.total += charge(false, values.norm[rows_[i]]);
    if (state_.request.in_order) radius.total_in_order += charge(true, values.in_order.norm[rows_[i]]);
  }
}

/// Stores d at this node's selected elements.
void RefinedRadii::keep_terms(std::size_t node) {
  const ValueId id = state_.program.fused().nodes[node].output;
  const SingleAdjoint& adjoint = memory_.adjoints[id];
  for (std::size_t i = 0; i < adjoint.defect.size(); ++i) {
    const std::size_t own = order_[i];
    std::size_t& next = radii_[own].next;
    while (next < end_[own] && radii_[next].node > node) ++next;
    for (; next < end_[own] && radii_[next].node == node; ++next)
      terms_[radii_[own].terms + (next - own - 1)] =
          static_cast<double>(adjoint.d[i * state_.sizes[id] + radii_[next].element]);
  }
}

void RefinedRadii::pull_back(std::size_t node) {
  const Node& of = state_.program.fused().nodes[node];
  const SingleAdjoint& result = memory_.adjoints[of.output];
  const std::size_t count = result.defect.size();
  for (std::size_t slot = 0; slot < of.inputs.size(); ++slot) {
    const ValueId id = of.inputs[slot];
    if (!state_.program.varies(id)) continue;
    SingleAdjoint& operand = memory_.adjoints[id];
    const bool is_first = operand.defect.empty();
    if (is_first && !memory_.free.empty()) {
      operand.d = std::move(memory_.free.back());
      memory_.free.pop_back();
    }
    operand.norm.clear();
    SingleAdjoint& share = is_first ? operand : memory_.share;
    share.d.resize(count * state_.sizes[id]);
    share.defect.assign(count, 0.0);
    state_.steps[node]->pull_back(slot, state_.errors[node], single_.slopes(node), std::span(rows_).first(count),
                                  result, share);
    if (!is_first) add_share(id, share, operand);
  }
}

/// As add_share() above, in single precision.
void RefinedRadii::add_share(ValueId id, SingleAdjoint& share, SingleAdjoint& sum) const {
  if (share.defect.size() > sum.defect.size()) std::swap(share, sum);
  const std::size_t size = state_.sizes[id];
  for (std::size_t row = 0; row < share.defect.size(); ++row) {
    const double largest = row_kernels().single_sum(share.d.data() + row * size, sum.d.data() + row * size, size);
    const Magnitude rounding(theorems::single_rounding(largest));
    sum.defect[row] = (Magnitude(sum.defect[row]) + Magnitude(share.defect[row]) + rounding).value();
  }
}

/// Whether the operand of a function of one element is the result of a product with a constant matrix, computed by the
/// node just before.
bool RefinedRadii::begins_behind_product(std::size_t function) const {
  if (function == 0 || function >= state_.program.fused().nodes.size()) return false;
  const Node &of = state_.program.fused().nodes[function], &before = state_.program.fused().nodes[function - 1];
  return operand_of_function(state_, function) != nullptr && of.inputs[0] == before.output &&
         state_.steps[function - 1]->is_product();
}

/// Starts the adjoints of a function's selected operands: unit vectors.
void RefinedRadii::begin(std::size_t function) {
  const std::size_t first = begun_;
  while (begun_ < order_.size() && radii_[order_[begun_]].node == function) ++begun_;
  if (begun_ == first) return;
  const ValueId id = state_.program.fused().nodes[function].inputs[0];
  float* d = add_rows(id, first);
  std::fill_n(d + first * state_.sizes[id], (begun_ - first) * state_.sizes[id], 0.0F);
  for (std::size_t i = first; i < begun_; ++i) d[i * state_.sizes[id] + radii_[order_[i]].element] = 1.0F;
}

/// Starts the same adjoints one step earlier, at the operand of the product: columns of the matrix, without rounding.
void RefinedRadii::begin_behind_product(std::size_t function) {
  const std::size_t first = begun_, product = function - 1;
  while (begun_ < order_.size() && radii_[order_[begun_]].node == function) ++begun_;
  if (begun_ == first) return;
  const Node& of = state_.program.fused().nodes[product];
  const RunErrors& errors = state_.errors[product];
  float* d = add_rows(of.inputs[0], first);
  for (std::size_t i = first; i < begun_; ++i) {
    Radius& radius = radii_[order_[i]];
    const std::size_t at = radius.row * state_.sizes[of.output] + radius.element;
    radius.total += Magnitude(errors.added[at]);
    if (state_.request.in_order) radius.total_in_order += Magnitude(errors.added_in_order[at]);
    state_.steps[product]->row_of_matrix(radius.element, d + i * state_.sizes[of.inputs[0]]);
  }
}

/// Extends the adjoint of a value to begun_ rows. New rows before `from` are set to 0; the caller writes those from
/// `from` on.
float* RefinedRadii::add_rows(ValueId id, std::size_t from) {
  SingleAdjoint& adjoint = memory_.adjoints[id];
  const std::size_t size = state_.sizes[id], known = std::min(adjoint.defect.size(), from);
  if (known == 0 && !memory_.free.empty()) {
    adjoint.d = std::move(memory_.free.back());
    memory_.free.pop_back();
  }
  adjoint.d.resize(begun_ * size);
  std::fill_n(adjoint.d.data() + known * size, (from - known) * size, 0.0F);
  adjoint.defect.resize(begun_, 0.0);
  adjoint.norm.clear();
  return adjoint.d.data();
}

/// Stops the sweeps that could reduce a target only negligibly. They are charged with the known radii of the values
/// that they have reached.
void RefinedRadii::stop_early() {
  const std::vector<double> reach = ahead();
  std::vector<char> stays(begun_, 1);
  for (std::size_t i = 0; i < begun_; ++i) {
    const Radius& radius = radii_[order_[i]];
    const double known = radius.total.value();
    stays[i] = cost_with(radius, known + reach[i]) - cost_with(radius, known) <= radius.indifferent ? 0 : 1;
  }
  if (std::find(stays.begin(), stays.end(), char{0}) != stays.end()) keep(stays);
}

/// Estimate, per radius, of the charge if its sweep stopped now: sum of min(||d||_2 N, |d|.E) over the values reached.
std::vector<double> RefinedRadii::ahead() {
  std::vector<double> reach(begun_, 0.0);
  for (ValueId id = 0; id < memory_.adjoints.size(); ++id) {
    SingleAdjoint& adjoint = memory_.adjoints[id];
    if (adjoint.defect.empty()) continue;
    find_norms(id);
    const std::size_t size = state_.sizes[id];
    const std::vector<float>& radii = single_.radii(state_, id, false);
    for (std::size_t i = 0; i < adjoint.defect.size(); ++i) {
      const double by_norm = adjoint.norm[i] * state_.rows[id].norm[rows_[i]];
      const double by_elements =
          row_kernels().single_weighted_sum(adjoint.d.data() + i * size, radii.data() + rows_[i] * size, size);
      reach[i] += std::min(by_norm, by_elements);
    }
  }
  return reach;
}

void RefinedRadii::find_norms(ValueId id) {
  SingleAdjoint& adjoint = memory_.adjoints[id];
  const std::size_t size = state_.sizes[id];
  for (std::size_t i = adjoint.norm.size(); i < adjoint.defect.size(); ++i)
    adjoint.norm.push_back(norm_in_single({adjoint.d.data() + i * size, size}).value());
}

/// Estimate of weight times kappa with the radius `by_adjoint`. Beyond a kink kappa grows linearly with the radius; of
/// other functions, like its square.
double RefinedRadii::cost_with(const Radius& radius, double by_adjoint) const {
  if (!(by_adjoint < radius.first)) return radius.cost;
  const RunErrors& errors = state_.errors[radius.node];
  if (errors.remainder_is_quadratic) {
    const std::size_t at = radius.row * state_.sizes[state_.program.fused().nodes[radius.node].output] + radius.element;
    return std::min(radius.cost, radius.weight * state_.steps[radius.node]->approx_remainder(errors, at, by_adjoint));
  }
  if (is_piecewise_linear(state_.program.fused().nodes[radius.node].op))
    return std::max(0.0, radius.cost - radius.weight * (radius.first - by_adjoint));
  const double ratio = by_adjoint / radius.first;
  return radius.cost * ratio * ratio;
}

void RefinedRadii::keep(const std::vector<char>& stays) {
  for (ValueId id = 0; id < memory_.adjoints.size(); ++id) {
    SingleAdjoint& adjoint = memory_.adjoints[id];
    const std::size_t size = state_.sizes[id];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < adjoint.defect.size(); ++i) {
      if (stays[i] == 0) {
        add_ahead(id, i);
        continue;
      }
      if (kept != i) std::copy_n(adjoint.d.data() + i * size, size, adjoint.d.data() + kept * size);
      adjoint.norm[kept] = adjoint.norm[i];
      adjoint.defect[kept++] = adjoint.defect[i];
    }
    adjoint.norm.resize(kept);
    adjoint.defect.resize(kept);
    adjoint.d.resize(kept * size);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (i < stays.size() && stays[i] == 0) continue;
    order_[kept] = order_[i];
    rows_[kept++] = rows_[i];
  }
  begun_ -= order_.size() - kept;
  order_.resize(kept);
  rows_.resize(kept);
}

void RefinedRadii::add_ahead(ValueId id, std::size_t i) {
  const SingleAdjoint& adjoint = memory_.adjoints[id];
  const RunRows& values = state_.rows[id];
  const std::size_t size = state_.sizes[id], row = rows_[i];
  const float* d = adjoint.d.data() + i * size;
  const Magnitude norm(adjoint.norm[i]);
  const Magnitude defect = Magnitude(adjoint.defect[i]) * sqrt_up(Magnitude(static_cast<double>(size)));
  const auto within = [&](bool in_order, double distance) {
    return theorems::ahead(norm * Magnitude(distance), charged(d, single_.radii(state_, id, in_order), row, size),
                           defect * Magnitude(distance));
  };
  Radius& radius = radii_[order_[i]];
  radius.total += within(false, values.norm[row]);
  if (state_.request.in_order) radius.total_in_order += within(true, values.in_order.norm[row]);
}

void RefinedRadii::release(ValueId id) {
  memory_.adjoints[id].defect.clear();
  memory_.adjoints[id].norm.clear();
  memory_.free.push_back(std::move(memory_.adjoints[id].d));
  memory_.adjoints[id].d.clear();
}

Magnitude RefinedRadii::of_chosen(const Radius& radius, const std::vector<double>& remainders, std::size_t next,
                                  std::size_t count) const {
  const double sum = row_kernels().weighted_sum(terms_.data() + radius.terms, remainders.data() + next, count);
  return Magnitude(theorems::outward(sum, static_cast<std::int64_t>(count) + 1, static_cast<std::int64_t>(count)));
}

/// Stores the final remainders of a function's selected elements.
void RefinedRadii::take_what_is_left(std::size_t node) {
  const RunErrors& errors = state_.errors[node];
  for (const std::size_t i : of_node_[node]) {
    const std::size_t width = state_.sizes[state_.program.fused().nodes[node].output];
    const std::size_t at = radii_[i].row * width + radii_[i].element;
    remainders_[i] = errors.remainder[at];
    if (state_.request.in_order) in_order_[i] = errors.remainder_in_order[at];
  }
}

void RefinedRadii::find(std::size_t node) {
  const Node& of = state_.program.fused().nodes[node];
  RunRows& rows = state_.rows[of.inputs[0]];
  const std::size_t size = state_.sizes[of.inputs[0]];
  take_what_is_left(last_found_);
  last_found_ = node;
  for (const std::size_t i : of_node_[node]) {
    const Radius& radius = radii_[i];
    const std::size_t at = radius.row * size + radius.element, count = end_[i] - i - 1;
    const Magnitude total = radius.total + of_chosen(radius, remainders_, i + 1, count);
    rows.radius[at] = theorems::refined_radius(rows.radius[at], total.value());
    if (!state_.request.in_order) continue;
    const Magnitude in_order = radius.total_in_order + of_chosen(radius, in_order_, i + 1, count);
    rows.in_order.radius[at] = theorems::refined_radius(rows.in_order.radius[at], in_order.value());
  }
}

}  // namespace driftbound::bounds

#include "bounds/rows/radii_by_chance.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "bounds/theorems/rows.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t sign_vectors = 8;
constexpr double radius_in_deviations = 7.2;

double squares_of(const double* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

/// Whether the 2-norm of the part that is not modelled as random is at most a tenth of that of the standard deviations,
/// and the latter is finite.
bool chance_rules(const double* residuals, const double* deviations, std::size_t n) {
  constexpr double little = 0.1;
  const double by_chance = squares_of(deviations, n);
  return squares_of(residuals, n) <= little * little * by_chance && std::isfinite(by_chance);
}

/// Whether a node has remainders that fall with the radii of its operands.
bool has_remainder_of_radii(const RunState& state, std::size_t node) {
  const RunStep* const step = state.steps[node].get();
  if (step == nullptr || state.errors[node].remainder.empty()) return false;
  return step->has_remainder_of_radii() || may_be_refined(state.program, state.program.fused().nodes[node]);
}

/// One past the last of these nodes.
std::size_t end_of_kinks(const RunState& state) {
  std::size_t end = state.program.fused().nodes.size();
  while (end > 0 && !has_remainder_of_radii(state, end - 1)) --end;
  return end;
}

/// Replaces each radius by `factor` times the root mean square of the element's perturbations, where that is smaller.
void limit(const float* moved, double factor, double* radii, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    double squares = 0.0;
    for (std::size_t draw = 0; draw < sign_vectors; ++draw) {
      const double x = moved[draw * n + i];
      squares += x * x;
    }
    const double by_chance = factor * std::sqrt(squares / static_cast<double>(sign_vectors));
    radii[i] = by_chance < radii[i] ? by_chance : radii[i];
  }
}

/// Writes factor x_i in single precision, products below 2^-100 other than 0 as 2^-100. Returns false if a product is
/// above 2^100, which leaves a margin for the propagation; such elements become 0.
bool scaled(const double* x, double factor, float* result, std::size_t n) {
  constexpr double least = 0x1p-100, most = 0x1p100;
  bool all_fit = true;
  for (std::size_t i = 0; i < n; ++i) {
    const double product = x[i] == 0.0 ? 0.0 : std::max(factor * x[i], least);
    const bool fits = product <= most;
    result[i] = fits ? static_cast<float>(product) : 0.0F;
    all_fit &= fits;
  }
  return all_fit;
}

}  // namespace

RadiiByChance::RadiiByChance(const RunState& state, Memory& memory, std::span<const std::size_t> rows)
    : state_(state),
      memory_(memory),
      rows_(rows),
      in_order_(rows.size()),
      rules_(rows.size(), 1),
      scales_(rows.size(), 0.0) {
  std::iota(in_order_.begin(), in_order_.end(), std::size_t{0});
  memory.moved.resize(state.program.size());
  memory.remainder.resize(state.program.fused().nodes.size());
  for (std::vector<double>& remainder : memory.remainder) remainder.clear();
  find_scales();
  for (const ValueId id : state.program.flat().graph.inputs) start(id);
  for (std::size_t node = 0; node < end_of_kinks(state); ++node)
    if (state.steps[node] != nullptr) step(node);
  for (ValueId id = 0; id < state.program.size(); ++id) give(id);
}

const double* RadiiByChance::remainder(std::size_t node, std::size_t i) const {
  const std::vector<double>& remainder = memory_.remainder[node];
  return remainder.empty() ? nullptr : remainder.data() + i * (remainder.size() / rows_.size());
}

/// Chooses the scale of every row such that its largest local error is in [2^60, 2^61). Single precision then also
/// holds much smaller errors of the row.
void RadiiByChance::find_scales() {
  std::vector<double> largest(rows_.size(), 0.0);
  for (std::size_t node = 0; node < state_.program.fused().nodes.size(); ++node) {
    const std::vector<double>& added = state_.errors[node].added;
    const std::size_t size = state_.sizes[state_.program.fused().nodes[node].output];
    if (state_.steps[node] == nullptr || added.empty()) continue;
    for (std::size_t i = 0; i < rows_.size(); ++i)
      largest[i] = std::max(largest[i], row_kernels().largest(added.data() + rows_[i] * size, size));
  }
  for (std::size_t i = 0; i < rows_.size(); ++i)
    scales_[i] = largest[i] > 0.0 && std::isfinite(largest[i])
                     ? std::ldexp(1.0, std::min(60 - std::ilogb(largest[i]), 1000))
                     : 1.0;
}

/// Starts with the radii of an input, with random signs.
void RadiiByChance::start(ValueId id) {
  std::vector<float>& moved = memory_.moved[id];
  moved.assign(rows_.size() * sign_vectors * state_.sizes[id], 0.0F);
  draw(id, state_.rows[id].radius, 1.0, rows_);
}

void RadiiByChance::step(std::size_t node) {
  const Node& of = state_.program.fused().nodes[node];
  const RunErrors& errors = state_.errors[node];
  std::vector<const float*> operands;
  for (const ValueId id : of.inputs) operands.push_back(state_.program.varies(id) ? memory_.moved[id].data() : nullptr);
  std::vector<float>& moved = memory_.moved[of.output];
  if (moved.empty() && !memory_.free.empty()) {
    moved.swap(memory_.free.back());
    memory_.free.pop_back();
  }
  moved.resize(rows_.size() * sign_vectors * state_.sizes[of.output]);
  state_.steps[node]->push(operands, errors, rows_, sign_vectors, moved);
  add_roundings(node);
  if (has_remainder_of_radii(state_, node)) update_remainder(node);
  for (const ValueId id : state_.program.fused().last_reads[node]) give(id);
}

void RadiiByChance::add_roundings(std::size_t node) {
  const ValueId id = state_.program.fused().nodes[node].output;
  const RunErrors& errors = state_.errors[node];
  if (errors.estimates.empty()) return draw(id, errors.added, 1.0 / std::numbers::sqrt3, rows_);
  draw(id, errors.estimates, 1.0, rows_);
  const std::size_t size = state_.sizes[id];
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::size_t first = rows_[i] * size;
    if (!chance_rules(errors.residuals.data() + first, errors.estimates.data() + first, size)) rules_[i] = 0;
  }
}

/// Evaluates a node again with the random radii of its operands, keeps its remainders, and adds them to the
/// perturbations with random signs.
void RadiiByChance::update_remainder(std::size_t node) {
  const Node& of = state_.program.fused().nodes[node];
  memory_.operands.resize(std::max(memory_.operands.size(), of.inputs.size()));
  std::vector<const RunRows*> operands;
  for (std::size_t slot = 0; slot < of.inputs.size(); ++slot) {
    const bool varies = state_.program.varies(of.inputs[slot]);
    operands.push_back(varies ? &memory_.operands[slot] : nullptr);
    if (varies) limit_radii(of.inputs[slot], memory_.operands[slot]);
  }
  memory_.result.resize(rows_.size(), state_.sizes[of.output], false);
  std::vector<char> undecided(rows_.size(), 0);
  state_.steps[node]->forward(operands, {}, memory_.result, memory_.errors, undecided, memory_.scratch);
  memory_.remainder[node] = memory_.errors.remainder;
  draw(of.output, memory_.remainder[node], 1.0 / radius_in_deviations, in_order_);
}

/// Writes the selected rows of a value with random radii, where these are smaller.
void RadiiByChance::limit_radii(ValueId id, RunRows& operand) const {
  const RunRows& all = state_.rows[id];
  const std::size_t size = state_.sizes[id];
  operand.resize(rows_.size(), size, false);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const std::size_t first = rows_[i] * size;
    double* radius = operand.radius.data() + i * size;
    std::copy_n(all.centre.data() + first, size, operand.centre.data() + i * size);
    std::copy_n(all.radius.data() + first, size, radius);
    limit(memory_.moved[id].data() + i * sign_vectors * size, radius_in_deviations / scales_[i], radius, size);
    operand.norm[i] = all.norm[rows_[i]];
  }
}

/// Adds +-factor * deviations to the perturbations of a value. `rows`: the row of `deviations` for each selected row.
void RadiiByChance::draw(ValueId id, const std::vector<double>& deviations, double factor,
                         std::span<const std::size_t> rows) {
  if (deviations.empty()) return;
  const std::size_t size = state_.sizes[id];
  draw_signs(sign_vectors * size);
  memory_.amplitudes.resize(size);
  float* amplitudes = memory_.amplitudes.data();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double* of_row = deviations.data() + rows[i] * size;
    if (!scaled(of_row, factor * scales_[i], amplitudes, size)) rules_[i] = 0;
    float* moved = memory_.moved[id].data() + i * sign_vectors * size;
    const float* signs = memory_.signs.data();
    for (std::size_t draw = 0; draw < sign_vectors; ++draw, moved += size, signs += size)
      for (std::size_t k = 0; k < size; ++k) moved[k] += signs[k] * amplitudes[k];
  }
}

/// Draws random signs; all rows use the same ones.
void RadiiByChance::draw_signs(std::size_t count) {
  constexpr std::size_t at_once = 64;
  memory_.signs.resize((count + at_once - 1) / at_once * at_once);
  for (std::size_t first = 0; first < count; first += at_once) {
    const std::uint64_t bits = random_();
    for (std::size_t i = 0; i < at_once; ++i) memory_.signs[first + i] = (bits >> i & 1) != 0 ? 1.0F : -1.0F;
  }
}

void RadiiByChance::give(ValueId id) {
  if (memory_.moved[id].empty()) return;
  memory_.free.push_back(std::move(memory_.moved[id]));
  memory_.moved[id].clear();
}

}  // namespace driftbound::bounds

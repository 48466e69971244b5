#include "bounds/rows/single_rows.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "bounds/theorems/rows.hpp"

namespace driftbound::bounds {
namespace {

/// A slope s is omitted if |s| E is less than this share of the mean local error sigma of its row (T-72).
constexpr double flat_below = 0x1p-4;

const std::vector<double>& radii_of(const RunRows& rows, bool in_order) {
  return in_order ? rows.in_order.radius : rows.radius;
}

const double* row_of(const std::vector<double>& values, std::size_t first) {
  return values.empty() ? nullptr : values.data() + first;
}

}  // namespace

void SingleRows::take(const RunState& state, std::size_t last) {
  slopes_.resize(state.program.fused().nodes.size());
  for (ByValue* values : {&charges_[0], &charges_[1], &radii_[0], &radii_[1]}) {
    values->resize(state.program.size());
    for (std::vector<float>& of_value : *values) of_value.clear();
  }
  for (std::size_t node = 0; node <= last; ++node) {
    if (state.steps[node] == nullptr) continue;
    take_slopes(state, node);
    take_charges(state, node, false);
    if (state.request.in_order) take_charges(state, node, true);
  }
  for (const ValueId id : state.program.flat().graph.inputs) {
    charges_[0][id] = radii(state, id, false);
    if (state.request.in_order) charges_[1][id] = radii(state, id, true);
  }
}

void SingleRows::take_slopes(const RunState& state, std::size_t node) {
  const RunErrors& errors = state.errors[node];
  for (std::vector<float>& of_operand : slopes_[node]) of_operand.clear();
  std::vector<float>& slopes = slopes_[node][0];
  take_pair_slopes(state, node);
  if (errors.slopes.empty()) return;
  const RunRows& operand = *operand_of_function(state, node);
  slopes.resize(operand.radius.size());  // errors.slopes may have secants after the slopes
  const std::size_t size = operand.size();
  for (std::size_t first = 0; first < slopes.size(); first += size) {
    double below = -1.0;
    if (errors.remainder_is_quadratic) {
      const double* added = errors.added.data() + first;
      below = flat_below * std::accumulate(added, added + size, 0.0) / static_cast<double>(size);
    }
    row_kernels().leave_flat(errors.slopes.data() + first, operand.radius.data() + first, below, slopes.data() + first,
                             size);
  }
}

/// Takes the slopes of a function of two elements, rounded to single precision. charge_lost_slopes() bounds the
/// effect of this rounding.
void SingleRows::take_pair_slopes(const RunState& state, std::size_t node) {
  constexpr double least = 0x1p-126, most = 0x1p126;
  const RunErrors& errors = state.errors[node];
  for (std::size_t slot = 0; slot < 2; ++slot) {
    if (errors.pair_slopes[slot].empty()) continue;
    const std::size_t count = errors.remainder.size();  // secants come after slopes there
    std::vector<float>& slopes = slopes_[node][slot];
    slopes.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double slope = errors.pair_slopes[slot][i];
      slopes[i] = std::abs(slope) >= least && std::abs(slope) <= most ? static_cast<float>(slope) : 0.0F;
    }
  }
}

/// Adds |s - t| E to the charges, where t is the rounded slope that replaces the slope s of a function of two elements.
void SingleRows::charge_lost_slopes(const RunState& state, std::size_t node, bool in_order) {
  const Node& of = state.program.fused().nodes[node];
  std::vector<float>& charges = charges_[in_order ? 1 : 0][of.output];
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const std::vector<float>& slopes = slopes_[node][slot];
    if (state.errors[node].pair_slopes[slot].empty()) continue;
    const std::vector<double>& radius = radii_of(state.rows[of.inputs[slot]], in_order);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const double lost = std::abs(state.errors[node].pair_slopes[slot][i] - static_cast<double>(slopes[i]));
      const Magnitude charge = Magnitude(static_cast<double>(charges[i])) + Magnitude(lost) * Magnitude(radius[i]);
      charges[i] = std::nextafter(static_cast<float>(charge.value()), std::numeric_limits<float>::infinity());
    }
  }
}

void SingleRows::take_charges(const RunState& state, std::size_t node, bool in_order) {
  const RunErrors& errors = state.errors[node];
  const ValueId output = state.program.fused().nodes[node].output;
  const std::vector<float>& slopes = slopes_[node][0];
  const bool is_of_one = !errors.slopes.empty();
  const std::size_t size = state.sizes[output], count = state.rows[output].rows() * size;
  std::vector<float>& charges = charges_[in_order ? 1 : 0][output];
  charges.resize(count);
  for (std::size_t first = 0; first < count; first += size) {
    RowCharges row;
    row.added = row_of(in_order ? errors.added_in_order : errors.added, first);
    row.remainder = row_of(in_order ? errors.remainder_in_order : errors.remainder, first);
    if (is_of_one) {
      row.slopes = errors.slopes.data() + first;
      row.left = slopes.data() + first;
      row.e = radii_of(*operand_of_function(state, node), in_order).data() + first;
    }
    row_kernels().single_charges(row, charges.data() + first, size);
  }
  charge_lost_slopes(state, node, in_order);
}

const std::vector<float>& SingleRows::radii(const RunState& state, ValueId id, bool in_order) {
  std::vector<float>& result = radii_[in_order ? 1 : 0][id];
  const std::vector<double>& radii = radii_of(state.rows[id], in_order);
  if (!result.empty() || radii.empty()) return result;
  const std::size_t size = state.sizes[id];
  result.resize(radii.size());
  for (std::size_t first = 0; first < radii.size(); first += size) {
    RowCharges row;
    row.added = radii.data() + first;
    row_kernels().single_charges(row, result.data() + first, size);
  }
  return result;
}

}  // namespace driftbound::bounds

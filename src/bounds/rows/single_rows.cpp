#include "bounds/rows/single_rows.hpp"

#include <cmath>
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
  std::vector<float>& slopes = slopes_[node];
  slopes.clear();
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

void SingleRows::take_charges(const RunState& state, std::size_t node, bool in_order) {
  const RunErrors& errors = state.errors[node];
  const ValueId output = state.program.fused().nodes[node].output;
  const std::vector<float>& slopes = slopes_[node];
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

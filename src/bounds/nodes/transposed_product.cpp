#include "bounds/nodes/transposed_product.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/matrices/spectral_norm.hpp"
#include "bounds/nodes/shares.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/rows.hpp"

namespace driftbound::bounds {
namespace {

std::vector<std::int64_t> row_major_batches(const ProductPlan& forward) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t batch = 0; batch < forward.batches; ++batch) offsets.push_back(batch * forward.m * forward.n);
  return offsets;
}

/// Returns the 2-norms ‖M_k‖₂ of the columns of one matrix.
std::vector<double> norms_of_columns(const ProductPlan& plan, const double* matrix) {
  return column_norms({matrix, plan.k, plan.n, plan.b_row, plan.b_col});
}

/// Returns the 2-norms ‖D_l‖₂ of the rows of one batch.
std::vector<double> norms_of_rows(const ProductPlan& plan, std::int64_t batch, std::span<const double> d) {
  return column_norms({d.data() + plan.a_batch[at(batch)], plan.k, plan.m, plan.a_col, plan.a_row});
}

/// Returns the number of batches whose shares are added to the same matrix of the operand.
std::int64_t batches_a_target(const ProductShare& share) {
  const std::set<std::int64_t> targets(share.target_batch.begin(), share.target_batch.end());
  return targets.empty() ? 0 : share.plan.batches / static_cast<std::int64_t>(targets.size());
}

/// Returns upper bounds of N w ‖D_l‖₂ ‖M_k‖₂ + 2N 2^-1074, where N is the number of products that are added to one
/// element of the share, over all batches.
std::vector<double> product_defects(const ProductShare& share, std::span<const double> d, const PackedFactor& factor) {
  const ProductPlan& plan = share.plan;
  const std::int64_t terms = plan.k * batches_a_target(share);
  const double underflow = theorems::defect(0.0, terms, 2 * terms);
  std::vector<double> defects(at(plan.batches * plan.m * plan.n));
  std::size_t next = 0;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const std::vector<double>& columns = factor.column_norms.at(plan.b_batch[at(batch)]);
    for (const double row : norms_of_rows(plan, batch, d)) {
      const double scale = theorems::defect(row, terms, 0);
      row_kernels().outer(scale, row == 0.0 ? 0.0 : underflow, columns.data(), defects.data() + next, columns.size());
      next += columns.size();
    }
  }
  return defects;
}

bool lies_row_major(const ProductShare& share, std::size_t size) {
  const ProductPlan& plan = share.plan;
  if (size != at(plan.batches * plan.m * plan.n) || share.target_column != 1 || share.target_row != plan.n)
    return false;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    if (share.target_batch[at(batch)] != batch * plan.m * plan.n) return false;
  }
  return true;
}

/// Adds the elements [b, l, k] to their elements of the operand's share.
std::vector<double> added_to_targets(const ProductShare& share, std::vector<double> elements, std::size_t size) {
  if (lies_row_major(share, size)) return elements;
  const ProductPlan& plan = share.plan;
  std::vector<double> result(size);
  auto next = elements.begin();
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t l = 0; l < plan.m; ++l) {
      double* target = result.data() + share.target_batch[at(batch)] + l * share.target_row;
      for (std::int64_t k = 0; k < plan.n; ++k) target[k * share.target_column] += *next++;
    }
  }
  return result;
}

void multiply_by(double alpha, Transposed& share) {
  constexpr double outward = 1.0 + 0x1p-50;
  const bool is_exact = std::abs(alpha) == 1.0;
  for (std::size_t i = 0; i < share.values.size(); ++i) {
    share.values[i] *= alpha;
    if (is_exact || share.defect[i] == 0.0) continue;
    share.defect[i] = std::abs(alpha) * share.defect[i] * outward + theorems::defect(std::abs(share.values[i]), 1, 1);
  }
}

}  // namespace

ProductShare share_of_left(const ProductPlan& forward) {
  ProductShare share;
  share.plan.batches = forward.batches;
  share.plan.m = forward.m;
  share.plan.n = forward.k;
  share.plan.k = forward.n;
  share.plan.a_batch = row_major_batches(forward);
  share.plan.a_row = forward.n;
  share.plan.a_col = 1;
  share.plan.b_batch = forward.b_batch;
  share.plan.b_row = forward.b_col;
  share.plan.b_col = forward.b_row;
  share.target_batch = forward.a_batch;
  share.target_row = forward.a_row;
  share.target_column = forward.a_col;
  return share;
}

ProductShare share_of_right(const ProductPlan& forward) {
  ProductShare share;
  share.plan.batches = forward.batches;
  share.plan.m = forward.n;
  share.plan.n = forward.k;
  share.plan.k = forward.m;
  share.plan.a_batch = row_major_batches(forward);
  share.plan.a_row = 1;
  share.plan.a_col = forward.n;
  share.plan.b_batch = forward.a_batch;
  share.plan.b_row = forward.a_row;
  share.plan.b_col = forward.a_col;
  share.target_batch = forward.b_batch;
  share.target_row = forward.b_col;
  share.target_column = forward.b_row;
  return share;
}

PackedFactor packed_factor(const ProductShare& share, const Tensor<double>& other) {
  PackedFactor factor;
  pack_missing(share.plan, other, factor.matrices);
  for (const auto& [offset, matrix] : factor.matrices) {
    factor.column_norms[offset] = norms_of_columns(share.plan, other.values.data() + offset);
  }
  return factor;
}

Transposed transposed_product(const ProductShare& share, std::span<const double> d, const PackedFactor& factor,
                              double alpha, std::size_t size, const Setting& setting) {
  Transposed result;
  result.values =
      added_to_targets(share, multiply<double>(share.plan, d, factor.matrices, fused_chain, setting.threads), size);
  result.defect = added_to_targets(share, product_defects(share, d, factor), size);
  multiply_by(alpha, result);
  judge_finiteness(result);
  return result;
}

}  // namespace driftbound::bounds

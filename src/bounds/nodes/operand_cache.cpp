#include "bounds/nodes/operand_cache.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <variant>

#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/plain_sums.hpp"
#include "bounds/theorems/defects.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

/// Returns the largest of norm(matrix) over the matrices of all batches; `first` is the matrix at offset 0.
template <class Norm>
Magnitude largest_norm(const MatrixView& first, const std::vector<std::int64_t>& offsets, const Norm& norm) {
  Magnitude largest;
  for (const std::int64_t offset : std::set<std::int64_t>(offsets.begin(), offsets.end()))
    largest = std::max(largest,
                       norm({first.data + offset, first.rows, first.columns, first.row_stride, first.column_stride}));
  return largest;
}

/// Whether all batches use the same matrix, which is the whole tensor b or its transpose.
bool is_whole(const ProductPlan& plan, const Tensor<double>& b) {
  const bool as_it_is = plan.b_row == plan.n && plan.b_col == 1,
             is_transposed = plan.b_row == 1 && plan.b_col == plan.k;
  return (as_it_is || is_transposed) && static_cast<std::size_t>(plan.k * plan.n) == b.size() &&
         std::all_of(plan.b_batch.begin(), plan.b_batch.end(), [](std::int64_t offset) { return offset == 0; });
}

}  // namespace

bool multiplies_by_constant(const Program& program, const Node& node) {
  const bool is_product = multiplies_matrices(node.op);
  return is_product && !program.varies(node.inputs[1]);
}

std::vector<bool> constant_matrices(const Program& program) {
  const Graph& graph = program.flat().graph;
  std::vector<bool> are_matrices(program.size(), false);
  for (const Node& node : graph.nodes)
    if (multiplies_by_constant(program, node) && graph.is_constant(node.inputs[1])) are_matrices[node.inputs[1]] = true;
  return are_matrices;
}

std::vector<const Tensor<double>*> constants_of(const Program& program, OperandCache& operands,
                                                std::deque<Tensor<double>>& others) {
  const Graph& graph = program.flat().graph;
  const std::vector<bool> are_matrices = constant_matrices(program);
  std::vector<const Tensor<double>*> constants(program.size(), nullptr);
  for (ValueId id = 0; id < program.size(); ++id) {
    if (!graph.is_constant(id)) continue;
    const StoredTensor& constant = graph.value(id).constant;
    constants[id] = are_matrices[id] ? &operands.constant(constant) : &others.emplace_back(constant.to_double());
  }
  return constants;
}

std::vector<const Tensor<double>*> exact_constants_of(const Program& program, const Setting& setting,
                                                      OperandCache& operands, std::deque<Tensor<double>>& others) {
  std::vector<const Tensor<double>*> constants = constants_of(program, operands, others);
  for (const Node& node : program.fused().nodes) {
    if (program.varies(node.output)) continue;
    NodeView view{&node, {}, nullptr};
    for (const ValueId id : node.inputs) view.inputs.push_back(constants[id]);
    if (std::find(view.inputs.begin(), view.inputs.end(), nullptr) != view.inputs.end()) continue;
    Centre centre = centre_of_node(view, program.shape(node.output), setting);
    const bool is_exact = std::all_of(centre.error.begin(), centre.error.end(), [](double e) { return e == 0.0; });
    if (is_exact) constants[node.output] = &others.emplace_back(std::move(centre.value));
  }
  return constants;
}

const Tensor<double>& OperandCache::constant(const StoredTensor& stored) {
  const std::lock_guard lock(mutex_);
  const std::tuple key{stored.bytes().data(), stored.type(), stored.shape()};
  if (const auto known = constants_.find(key); known != constants_.end()) return known->second.values;
  const KnownConstant& added = constants_.emplace(key, KnownConstant{stored, stored.to_double()}).first->second;
  addresses_.insert(added.values.values.data());
  return added.values;
}

Magnitude OperandCache::norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads) {
  return largest_norm({a.values.data(), plan.m, plan.k, plan.a_row, plan.a_col}, plan.a_batch,
                      [&](const MatrixView& matrix) { return known_norm(matrix, threads); });
}

Magnitude OperandCache::norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads) {
  bool is_constant = false;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = right(plan, b).norm) return *known;
    is_constant = addresses_.contains(b.values.data());
  }
  const auto norm_of = [&](const MatrixView& matrix) {
    return is_constant ? spectral_norm(matrix, threads) : known_norm(matrix, threads);
  };
  Magnitude norm;
  if (is_constant && is_whole(plan, b)) {
    const bool as_it_is = plan.b_col == 1;
    norm = norm_of_whole(b, as_it_is ? plan.k : plan.n, as_it_is ? plan.n : plan.k, threads);
  } else {
    norm = largest_norm({b.values.data(), plan.k, plan.n, plan.b_row, plan.b_col}, plan.b_batch, norm_of);
  }
  const std::lock_guard lock(mutex_);
  right(plan, b).norm = norm;
  return norm;
}

Magnitude OperandCache::norm_of_constant(const StoredTensor& stored, int threads) {
  const Tensor<double>& b = constant(stored);
  return norm_of_whole(b, b.shape.at(0), b.shape.at(1), threads);
}

Magnitude OperandCache::norm_of_whole(const Tensor<double>& constant, std::int64_t rows, std::int64_t columns,
                                      int threads) {
  const double* const data = constant.values.data();
  {
    const std::lock_guard lock(mutex_);
    const auto known = whole_norms_.find(data);
    if (known != whole_norms_.end()) return known->second;
  }
  const Magnitude norm = spectral_norm({data, rows, columns, columns, 1}, threads);
  const std::lock_guard lock(mutex_);
  return whole_norms_[data] = norm;
}

Magnitude OperandCache::known_norm(const MatrixView& matrix, int threads) {
  std::vector<double> elements;
  elements.reserve(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j)
      elements.push_back(matrix.data[i * matrix.row_stride + j * matrix.column_stride]);
  }
  const std::lock_guard lock(mutex_);
  for (const Known& known : known_)
    if (known.rows == matrix.rows && known.columns == matrix.columns && known.elements == elements) return known.norm;
  const Magnitude norm = spectral_norm({elements.data(), matrix.rows, matrix.columns, matrix.columns, 1}, threads);
  known_.push_back({std::move(elements), matrix.rows, matrix.columns, norm});
  return norm;
}

/// Returns the entry of a right operand, and creates it if there is none. The caller must hold the mutex.
OperandCache::Right& OperandCache::right(const ProductPlan& plan, const Tensor<double>& b) {
  const bool is_constant = addresses_.contains(b.values.data());
  const auto is_alike = [&](const Right& known) {
    return known.elements.size() == b.size() && known.k == plan.k && known.n == plan.n && known.row == plan.b_row &&
           known.column == plan.b_col && known.offsets == plan.b_batch;
  };
  const auto is_same = [&](const Right& known) {
    return is_alike(known) && std::memcmp(known.elements.data(), b.values.data(), b.size() * sizeof(double)) == 0;
  };
  auto found = rights_.end();
  if (is_constant)
    found = std::find_if(rights_.begin(), rights_.end(),
                         [&](const Right& known) { return known.constant == b.values.data() && is_alike(known); });
  if (found == rights_.end()) found = std::find_if(rights_.begin(), rights_.end(), is_same);
  if (found != rights_.end()) {
    if (is_constant) found->constant = b.values.data();
    return *found;
  }
  Right& added = rights_.emplace_back();
  if (is_constant) {
    added.constant = b.values.data();
    added.elements = b.values;
  } else {
    added.own = b.values;
    added.elements = added.own;
  }
  added.k = plan.k;
  added.n = plan.n;
  added.row = plan.b_row;
  added.column = plan.b_col;
  added.offsets = plan.b_batch;
  return added;
}

const CoarseWeights* OperandCache::coarse_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.has_coarse) {
    std::vector<double> row_major;
    row_major.reserve(static_cast<std::size_t>(plan.k * plan.n));
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t j = 0; j < plan.n; ++j) row_major.push_back(b.values[plan.b_index(0, k, j)]);
    }
    known.coarse = coarse_weights(row_major, static_cast<std::size_t>(plan.k), static_cast<std::size_t>(plan.n));
    known.has_coarse = true;
  }
  return known.coarse ? &*known.coarse : nullptr;
}

const RightColumns& OperandCache::columns_of_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (known.columns) return *known.columns;
  RightColumns& columns = known.columns.emplace();
  const std::vector<double> all = magnitudes(b.values);
  for (const std::int64_t offset : plan.b_batch)
    if (!columns.contains(offset)) columns.emplace(offset, right_columns(plan, offset, all));
  return columns;
}

bool OperandCache::are_floats(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.are_floats) known.are_floats = bounds::are_floats(b.values);
  return *known.are_floats;
}

std::span<const double> OperandCache::elements_of_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  return right(plan, b).elements;
}

const PackedFactor& OperandCache::forward_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.forward) known.forward = packed_factor({plan, {}, 0, 0}, b);
  return *known.forward;
}

const SingleColumns& OperandCache::single_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.single) known.single = single_columns(plan, b.values);
  return *known.single;
}

const PackedFactor& OperandCache::transposed_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.transposed) known.transposed = packed_factor(share_of_left(plan), b);
  return *known.transposed;
}

const PackedMatrices<float>& OperandCache::transposed_in_single(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (known.transposed_in_single.empty())
    pack_missing<float>(share_of_left(plan).plan, std::vector<float>(b.values.begin(), b.values.end()),
                        known.transposed_in_single);
  return known.transposed_in_single;
}

}  // namespace driftbound::bounds

#include "bounds/adjoint/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "bounds/adjoint/run_walk.hpp"
#include "bounds/matrix.hpp"
#include "bounds/plain_sums.hpp"
#include "bounds/rules.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_kept = 8;  // of shapes of inputs

}  // namespace

const Tensor<double>& Weights::constant(const StoredTensor& stored) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = constants_.try_emplace({stored.bytes().data(), stored.type(), stored.shape()});
  KnownConstant& constant = known->second;
  if (is_new) {
    constant = {stored, stored.to_double()};
    addresses_.insert(constant.values.values.data());
  }
  return constant.values;
}

Magnitude Weights::norm_of_left(const ProductPlan& plan, const Tensor<double>& a, int threads) {
  return largest_norm({a.values.data(), plan.m, plan.k, plan.a_row, plan.a_col}, plan.a_batch, threads);
}

Magnitude Weights::norm_of_right(const ProductPlan& plan, const Tensor<double>& b, int threads) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = right(plan, b).norm) return *known;
  }
  const Magnitude norm = largest_norm({b.values.data(), plan.k, plan.n, plan.b_row, plan.b_col}, plan.b_batch, threads);
  const std::lock_guard lock(mutex_);
  right(plan, b).norm = norm;
  return norm;
}

Magnitude Weights::largest_norm(const MatrixView& first, const std::vector<std::int64_t>& offsets, int threads) {
  Magnitude largest;
  for (const std::int64_t offset : std::set<std::int64_t>(offsets.begin(), offsets.end())) {
    std::vector<double> elements;
    elements.reserve(static_cast<std::size_t>(first.rows * first.columns));
    for (std::int64_t i = 0; i < first.rows; ++i) {
      for (std::int64_t j = 0; j < first.columns; ++j)
        elements.push_back(first.data[offset + i * first.row_stride + j * first.column_stride]);
    }
    largest = std::max(largest, norm(std::move(elements), first.rows, first.columns, threads));
  }
  return largest;
}

Magnitude Weights::norm(std::vector<double> elements, std::int64_t rows, std::int64_t columns, int threads) {
  const std::lock_guard lock(mutex_);
  for (const Known& matrix : known_) {
    if (matrix.rows == rows && matrix.columns == columns && matrix.elements == elements) return matrix.norm;
  }
  const Magnitude norm = spectral_norm({elements.data(), rows, columns, columns, 1}, threads);
  known_.push_back({std::move(elements), rows, columns, norm});
  return norm;
}

/// To be called under the mutex.
Weights::Right& Weights::right(const ProductPlan& plan, const Tensor<double>& b) {
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
  added.elements = b.values;
  added.constant = is_constant ? b.values.data() : nullptr;
  added.k = plan.k;
  added.n = plan.n;
  added.row = plan.b_row;
  added.column = plan.b_col;
  added.offsets = plan.b_batch;
  return added;
}

const CoarseWeights* Weights::coarse_right(const ProductPlan& plan, const Tensor<double>& b, const Rules& rules) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.has_coarse) {
    std::vector<double> row_major;
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t j = 0; j < plan.n; ++j) row_major.push_back(b.values[plan.b_index(0, k, j)]);
    }
    known.coarse = coarse_weights(row_major, static_cast<std::size_t>(plan.k), static_cast<std::size_t>(plan.n),
                                  rules.coarse_error);
    known.has_coarse = true;
  }
  return known.coarse ? &*known.coarse : nullptr;
}

const Weights::Sizes& Weights::sizes_of_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (known.sizes) return *known.sizes;
  Sizes& sizes = known.sizes.emplace();
  const std::vector<double> all = magnitudes(b.values);
  pack_missing<double>(plan, all, sizes.magnitudes);
  for (const std::int64_t offset : plan.b_batch)
    if (!sizes.columns.contains(offset)) sizes.columns.emplace(offset, right_columns(plan, offset, all));
  return sizes;
}

bool Weights::are_floats(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.are_floats) known.are_floats = bounds::are_floats(b.values);
  return *known.are_floats;
}

std::span<const double> Weights::elements_of_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  return right(plan, b).elements;
}

const PackedFactor& Weights::forward_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.forward) known.forward = packed_factor({plan, {}, 0, 0}, b);
  return *known.forward;
}

const SingleColumns& Weights::single_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.single) known.single = single_columns(plan, b.values);
  return *known.single;
}

const PackedFactor& Weights::transposed_right(const ProductPlan& plan, const Tensor<double>& b) {
  const std::lock_guard lock(mutex_);
  Right& known = right(plan, b);
  if (!known.transposed) known.transposed = packed_factor(share_of_left(plan), b);
  return *known.transposed;
}

std::shared_ptr<const Network> Weights::network(const Graph& graph, const std::vector<Shape>& input_shapes,
                                                std::optional<std::int64_t> rows) {
  const std::lock_guard lock(networks_mutex_);
  for (const KnownNetwork& known : networks_)
    if (known.input_shapes == input_shapes && known.rows == rows) return known.network;
  if (networks_.size() == most_kept) networks_.erase(networks_.begin());
  networks_.push_back({input_shapes, rows, std::make_shared<const Network>(graph, input_shapes, rows)});
  return networks_.back().network;
}

std::shared_ptr<const Network> Weights::with_rows(const Network& network, std::int64_t rows) {
  const std::lock_guard lock(networks_mutex_);
  for (const KnownRows& known : with_rows_)
    if (known.network == network.identity() && known.rows == rows) return known.with_rows;
  std::optional<Network> other = network.with_rows(rows);
  if (with_rows_.size() == most_kept) with_rows_.erase(with_rows_.begin());
  with_rows_.push_back(
      {network.identity(), rows, other ? std::make_shared<const Network>(std::move(*other)) : nullptr});
  return with_rows_.back().with_rows;
}

template <class Walk>
std::shared_ptr<const Walk> Weights::walk_of(const Network& network, const std::string& run, const Setting& setting,
                                             std::vector<KnownWalk<Walk>>& known) {
  const std::lock_guard lock(networks_mutex_);
  for (const KnownWalk<Walk>& one : known)
    if (one.network == network.identity() && one.run == run) return one.walk;
  if (known.size() == most_kept) known.erase(known.begin());
  known.push_back({network.identity(), run, Walk::of(network, setting, *this)});
  return known.back().walk;
}

std::shared_ptr<const RowWalk> Weights::row_walk(const Network& network, const Setting& setting) {
  return walk_of(network, "", setting, row_walks_);
}

std::shared_ptr<const RunWalk> Weights::run_walk(const Network& network, const Setting& setting) {
  const std::string run = to_json(*setting.arithmetic) + (setting.is_own_run ? " ours" : "");
  return walk_of(network, run, setting, run_walks_);
}

}  // namespace driftbound::bounds

#include "bounds/nodes/plain_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/sums.hpp"
#include "linalg/ordered_product.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t rows_at_once = 32;
constexpr std::size_t work_worth_a_thread = 1 << 16;

const double* data_of(Radii values, std::size_t first = 0) {
  return values.empty() ? nullptr : values.data() + first;
}

bool are_finite(std::span<const double> values, const RowKernels& rows) {
  return std::isfinite(rows.largest(values.data(), values.size()));
}

/// Rows of an operand, scaled and rounded to single precision, their products with the matrix, and the inverses of the
/// scales.
struct CoarseRows {
  std::vector<float> elements, sums;
  std::vector<double> scales;

  CoarseRows(std::size_t k, std::size_t n) : elements(rows_at_once * k), sums(rows_at_once * n), scales(rows_at_once) {}
};

/// Computes the radii of a product of rows with one constant matrix, in blocks of rows.
class ProductRows {
public:
  /// `packed`: the matrix in double, for runs in the declared order; else null.
  ProductRows(const PlainNode& node, const Product& product, const CoarseWeights& coarse,
              const PackedMatrices<double>* packed, const Setting& setting)
      : node_(node),
        coarse_(coarse),
        packed_(packed),
        b_offset_(product.plan.b_batch[0]),
        setting_(setting),
        rows_(row_kernels()),
        format_(row_format(setting, product.plan.k + 1)),
        x_(node.view.input(0).values),
        n_(coarse.n),
        k_(coarse.k),
        any_moves_(!node.radii[0].empty()) {
    if (product.has_addend && product.beta != 0.0) addend_ = magnitudes(node.view.input(2).values);
    const std::size_t size = node.view.output->size();
    result_.moved.resize(size);
    if (node.rounds) result_.added.resize(size);
  }

  std::optional<PlainRadii> operator()(int threads) {
    const std::size_t count = rows();
    std::atomic<bool> is_covered = true;
    const std::size_t blocks = (count + rows_at_once - 1) / rows_at_once;
    const bool is_worth_threads = count * n_ * k_ >= work_worth_a_thread;
    parallel_for(static_cast<std::int64_t>(blocks), is_worth_threads ? threads : 1,
                 [&](std::int64_t first, std::int64_t last) {
                   Scratch scratch(k_, n_);
                   for (auto block = static_cast<std::size_t>(first); block < static_cast<std::size_t>(last); ++block) {
                     const std::size_t from = block * rows_at_once;
                     if (!follow(from, std::min(rows_at_once, count - from), scratch)) is_covered = false;
                   }
                 });
    if (!is_covered) return std::nullopt;
    return std::move(result_);
  }

private:
  struct Scratch {
    CoarseRows moved, total, squares, signed_squares;
    std::vector<double> larger, small;
    std::vector<RowOperands> counts;
    std::vector<double> all_larger, by_operands, slack;  ///< of all rows of a block, for the declared order
    Scratch(std::size_t k, std::size_t n)
        : moved(k, n), total(k, n), squares(k, n), signed_squares(k, n), larger(k), small(k), counts(rows_at_once) {}
  };

  bool follow(std::size_t first, std::size_t count, Scratch& scratch) {
    for (std::size_t row = 0; row < count; ++row) {
      if (!read_row(first + row, row, scratch)) return false;
    }
    if (any_moves_) multiply(scratch.moved, count, coarse_.magnitudes);
    if (node_.rounds) multiply(scratch.total, count, coarse_.magnitudes);
    if (node_.rounds) multiply(scratch.squares, count, coarse_.squares);
    if (node_.rounds) multiply(scratch.signed_squares, count, coarse_.signed_squares);
    for (std::size_t row = 0; row < count; ++row) bound_row(first + row, row, scratch);
    if (node_.in_order) follow_order(first, count, scratch);
    return true;
  }

  void multiply(CoarseRows& rows, std::size_t count, const CoarseMatrix& matrix) const {
    multiply_coarse(rows.elements, count, coarse_, matrix, rows.sums);
  }

  /// Reads row `row` into place `place` of the block: scales, and rounds to single precision, E, |x| + E (or |x| if the
  /// norm replaces E), its squares, and x |x|. False if the row cannot be scaled.
  bool read_row(std::size_t row, std::size_t place, Scratch& scratch) const {
    const double* x = x_.data() + row * k_;
    const double* e = data_of(node_.radii[0], row * k_);
    if (any_moves_) {
      const std::optional<double> scale = coarse_scale(rows_.largest(e, k_));
      if (!scale) return false;
      rows_.coarse(e, *scale, scratch.moved.elements.data() + place * k_, k_);
      scratch.moved.scales[place] = 1.0 / *scale;
    }
    double& radius = scratch.counts[place].radius;
    radius = any_moves_ ? infinity : 0.0;
    if (any_moves_ && !node_.norms.empty()) radius = node_.norms[row * node_.norms.size() / rows()];
    if (!node_.rounds) return true;
    rows_.larger_operand(x, e, scratch.larger.data(), k_);
    if (node_.in_order)
      scratch.all_larger.insert(scratch.all_larger.end(), scratch.larger.begin(), scratch.larger.end());
    scratch.counts[place] = row_operands(scratch.larger, e, radius, format_, scratch.small);
    const double* sizes = scratch.counts[place].moves_by_norm ? x : scratch.larger.data();
    const std::optional<double> scale = coarse_scale(rows_.largest(sizes, k_));
    if (!scale) return false;
    rows_.coarse(sizes, *scale, scratch.total.elements.data() + place * k_, k_);
    rows_.coarse_squares(sizes, *scale, scratch.squares.elements.data() + place * k_, k_);
    rows_.coarse_signed_squares(x, *scale, scratch.signed_squares.elements.data() + place * k_, k_);
    scratch.total.scales[place] = 1.0 / *scale;
    scratch.squares.scales[place] = scratch.total.scales[place] * scratch.total.scales[place];
    scratch.signed_squares.scales[place] = scratch.squares.scales[place];
    return true;
  }

  std::size_t rows() const { return x_.size() / k_; }

  CoarseSums sums_of(const CoarseRows& rows, std::size_t place, const CoarseMatrix& matrix) const {
    return {rows.sums.data() + place * n_, rows.scales[place], matrix.column_scales.data()};
  }

  SumRow sums_of_row(std::size_t row, std::size_t place, const Scratch& scratch) const {
    const std::size_t first = row * n_;
    SumRow sums;
    sums.y = node_.view.output->values.data() + first;
    sums.own = data_of(node_.own, first);
    sums.addend = data_of(addend_);
    sums.columns = coarse_.nonzero.data();
    sums.is_moved = any_moves_;
    sums.moved = sums_of(scratch.moved, place, coarse_.magnitudes);
    const RowOperands& counts = scratch.counts[place];
    sums.norms = coarse_.norms.data();
    sums.largest = coarse_.largest.data();
    sums.radius = sums.reach = counts.radius;
    sums.moves_by_norm = counts.moves_by_norm;
    if (!node_.rounds) return sums;
    sums.nonzero = counts.nonzero;
    sums.sets_apart = counts.small_norm.has_value();
    sums.not_small = counts.not_small;
    sums.small_norm = counts.small_norm.value_or(0.0);
    sums.total = sums_of(scratch.total, place, coarse_.magnitudes);
    sums.squares = sums_of(scratch.squares, place, coarse_.squares);
    sums.knows_signed_squares = std::isfinite(sums.radius);
    sums.signed_squares = sums_of(scratch.signed_squares, place, coarse_.signed_squares);
    sums.signed_squares_error = theorems::coarse_error(k_);
    return sums;
  }

  void bound_row(std::size_t row, std::size_t place, const Scratch& scratch) {
    const std::size_t first = row * n_;
    const SumRow sums = sums_of_row(row, place, scratch);
    if (!node_.rounds) return rows_.move(sums, result_.moved.data() + first, n_);
    rows_.any_order(sums, format_, {result_.moved.data() + first, result_.added.data() + first}, n_);
  }

  /// Applies T-69 to rows whose any-order bounds are already computed.
  void follow_order(std::size_t first, std::size_t count, Scratch& scratch) {
    const auto k = static_cast<std::int64_t>(k_), n = static_cast<std::int64_t>(n_);
    const ProductPlan plan{1, static_cast<std::int64_t>(count), n, k, {0}, {b_offset_}, k, 1, n, 1};
    const SumKernels& kernels = sum_kernels();
    scratch.by_operands.assign(count * n_, 0.0);
    scratch.slack.resize(count * n_);
    std::vector<OrderedSums> ordered;
    for (std::size_t row = 0; row < count; ++row) {
      OrderedSums sums{sums_of_row(first + row, row, scratch), scratch.by_operands.data() + row * n_,
                       theorems::running_slack(k, 0.0, 0.0, 1.0)};
      SumRow operands_alone = sums.sums;
      operands_alone.own = nullptr;
      rows_.move(operands_alone, scratch.by_operands.data() + row * n_, n_);
      kernels.slack(sums, result_.added.data() + (first + row) * n_, scratch.slack.data() + row * n_, n_);
      ordered.push_back(sums);
    }
    const RunningTerms terms{x_.subspan(first * k_, count * k_), {}, scratch.all_larger, scratch.slack, packed_};
    const std::vector<double> places = theorems::running_ufps(plan, terms, setting_.machine.order, addend_.empty(), 1);
    std::vector<double> products;
    if (!setting_.machine.order.fma) products = theorems::product_ufps(plan, terms, 1);
    for (std::size_t row = 0; row < count; ++row) {
      const std::size_t at = (first + row) * n_;
      if (!products.empty()) ordered[row].products = products.data() + row * n_;
      kernels.in_order(ordered[row], format_, places.data() + row * n_,
                       {result_.moved.data() + at, result_.added.data() + at}, n_);
    }
    scratch.all_larger.clear();
  }

  const PlainNode& node_;
  const CoarseWeights& coarse_;
  const PackedMatrices<double>* packed_;
  const std::int64_t b_offset_;
  const Setting& setting_;
  const RowKernels& rows_;
  const RowFormat format_;
  std::span<const double> x_;
  const std::size_t n_, k_;
  const bool any_moves_;
  std::vector<double> addend_;  ///< magnitudes of the addend, one row; empty: none
  PlainRadii result_;
};

}  // namespace

bool is_rows_times_matrix(const ProductPlan& plan) {
  if (plan.a_col != 1 || plan.a_row != plan.k || plan.k == 0) return false;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const auto at = static_cast<std::size_t>(batch);
    if (plan.a_batch[at] != batch * plan.m * plan.k || plan.b_batch[at] != plan.b_batch[0]) return false;
  }
  return plan.batches > 0;
}

bool adds_one_row(const Tensor<double>& addend, std::size_t n) {
  return addend.size() == n && !addend.shape.empty() && addend.shape.back() == static_cast<std::int64_t>(n);
}

RowOperands row_operands(const std::vector<double>& larger, const double* radii, double radius, const RowFormat& format,
                         std::vector<double>& small) {
  constexpr double norm_not_elements = 0.5;  // largest ratio to the norm of the radii at which `radius` replaces them
  constexpr double worth_setting_apart = 1.0 / 16.0;  // small operands are treated apart above this fraction of a row
  const std::size_t k = larger.size();
  RowOperands known;
  known.radius = radius;
  known.moves_by_norm =
      radii != nullptr && radius <= norm_not_elements * theorems::norm_of_vector(std::span(radii, k)).value();
  known.nonzero = row_kernels().count_nonzero(larger.data(), k);
  small.resize(k);
  row_kernels().up_to(larger.data(), small_share(format.u) * row_kernels().largest(larger.data(), k), small.data(), k);
  const double set_apart = row_kernels().count_nonzero(small.data(), k);
  known.not_small = known.nonzero - set_apart;
  if (set_apart > worth_setting_apart * static_cast<double>(k))
    known.small_norm = theorems::norm_of_vector(small).value();
  return known;
}

RowFormat row_format(const Setting& setting, std::int64_t most_leaves) {
  const Machine& machine = setting.machine;
  RowFormat format;
  format.u = machine.u;
  format.eta = Magnitude(machine.eta).value();
  format.underflow = theorems::underflow_term(1, most_leaves, machine).value();
  format.largest = machine.accumulator->largest;
  return format;
}

bool is_plain(const Machine& machine) {
  const Machine inside = product_machine(machine);
  return inside.to_nearest() && !inside.flushes && !machine.flushes && !inside.tensor_core && !inside.reduced &&
         inside.input == inside.accumulator && !machine.stores_narrower();
}

std::optional<Centre> plain_centre(const NodeView& view, const Shape& shape, const Setting& setting,
                                   OperandCache& operands) {
  const std::optional<Product> product = product_of(view);
  if (!product || !is_rows_times_matrix(product->plan) || product->alpha != 1.0) return std::nullopt;
  const bool adds = product->has_addend && product->beta != 0.0;
  const auto n = static_cast<std::size_t>(product->plan.n), k = static_cast<std::size_t>(product->plan.k);
  if (adds && (product->beta != 1.0 || !adds_one_row(view.input(2), n))) return std::nullopt;
  const RowKernels& rows = row_kernels();
  const std::vector<double>& x = view.input(0).values;
  const PackedFactor& factor = operands.forward_right(product->plan, view.input(1));
  const std::vector<double>& columns = factor.column_norms.at(product->plan.b_batch[0]);
  const SummationOrder order{SummationOrder::Kind::sequential, 0, true};
  Centre centre;
  centre.value = Tensor<double>(shape, multiply<double>(product->plan, x, factor.matrices, order, setting.threads));
  centre.error.resize(centre.value.size());
  if (!are_finite(centre.value.values, rows) || !are_finite(x, rows) || !are_finite(columns, rows)) return std::nullopt;
  const double underflow = theorems::defect(0.0, product->plan.k, 2 * product->plan.k);
  for (std::size_t row = 0; row < x.size() / k; ++row) {
    const double norm = theorems::norm_of_vector(std::span(x).subspan(row * k, k)).value();
    double* errors = centre.error.data() + row * n;
    rows.outer(theorems::defect(norm, product->plan.k, 0), norm == 0.0 ? 0.0 : underflow, columns.data(), errors, n);
    rows.add_constants(centre.value.values.data() + row * n, errors, adds ? view.input(2).values.data() : nullptr, n);
  }
  if (!are_finite(centre.value.values, rows)) return std::nullopt;
  return centre;
}

std::optional<PlainRadii> plain_product(const PlainNode& node, const Setting& setting, OperandCache& operands) {
  const Product product = product_of(node.view).value();
  const std::size_t count = node.view.inputs.size();
  const bool adds = product.has_addend && product.beta != 0.0;
  const bool is_covered = is_rows_times_matrix(product.plan) && std::abs(product.alpha) == 1.0 &&
                          (!adds || std::abs(product.beta) == 1.0) && node.radii[1].empty() &&
                          (count < 3 || node.radii[2].empty());
  if (!is_covered) return std::nullopt;
  if (node.by_norms) return PlainRadii{std::vector<double>(node.view.output->size(), infinity), {}};
  const RowKernels& rows = row_kernels();
  const bool addend_fits = !adds || (adds_one_row(node.view.input(2), static_cast<std::size_t>(product.plan.n)) &&
                                     are_finite(node.view.input(2).values, rows));
  const CoarseWeights* coarse = addend_fits ? operands.coarse_right(product.plan, node.view.input(1)) : nullptr;
  if (coarse == nullptr) return std::nullopt;
  const PackedMatrices<double>* packed =
      node.in_order ? &operands.forward_right(product.plan, node.view.input(1)).matrices : nullptr;
  return ProductRows(node, product, *coarse, packed, setting)(setting.threads);
}

std::optional<PlainRadii> plain_sum(const PlainNode& node, const Setting& setting) {
  const RowKernels& rows = row_kernels();
  const NodeView& view = node.view;
  const std::size_t size = view.output->size();
  if (node.by_norms) return PlainRadii{std::vector<double>(size, infinity), {}};
  PlainRadii result;
  result.moved.assign(size, 0.0);
  for (std::size_t slot = 0; slot < 2; ++slot) {
    if (view.input(slot).shape != view.output->shape) return std::nullopt;
    if (node.radii[slot].empty()) continue;
    if (!are_finite(node.radii[slot], rows)) return std::nullopt;
    rows.add(result.moved.data(), node.radii[slot].data(), size);
  }
  const RowFormat format = row_format(setting, 2);
  if (node.rounds) result.added.resize(size);
  rows.sum(view.output->values.data(), data_of(node.own), node.rounds ? &format : nullptr,
           {result.moved.data(), result.added.data()}, size);
  return result;
}

std::optional<PlainRelu> plain_relu(const PlainNode& node) {
  const RowKernels& rows = row_kernels();
  const std::vector<double>& x = node.view.input(0).values;
  const Radii e = node.radii[0];
  if (!are_finite(x, rows) || !are_finite(e, rows)) return std::nullopt;
  PlainRelu result;
  result.slopes.resize(x.size());
  result.moved.resize(e.size());
  result.remainder.resize(e.size());
  const ReluFlags flags =
      rows.relu(x.data(), data_of(e), result.slopes.data(), result.remainder.data(), result.moved.data(), x.size());
  if (!flags.active) return std::nullopt;
  if (!flags.bends) result.remainder.clear();
  return result;
}

}  // namespace driftbound::bounds

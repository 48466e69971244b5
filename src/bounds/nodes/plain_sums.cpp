#include "bounds/nodes/plain_sums.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/rows.hpp"
#include "linalg/ordered_product.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

/// Whether the row kernels cover a product: float32 arithmetic to nearest, recorded float32 operands, alpha and beta
/// ±1, rows times one matrix, and at most one row as an addend.
bool is_covered(const Product& product, const NodeView& view, const Setting& setting) {
  if (setting.operands == nullptr || !is_plain(setting.machine) || setting.machine.accumulator->id != FormatId::fp32)
    return false;
  const bool adds = product.has_addend && product.beta != 0.0;
  return !product.operands_are_bounds && std::abs(product.alpha) == 1.0 && (!adds || std::abs(product.beta) == 1.0) &&
         is_rows_times_matrix(product.plan) && are_floats(view.input(0).values) &&
         setting.operands->are_floats(product.plan, view.input(1)) &&
         (!adds ||
          (adds_one_row(view.input(2), static_cast<std::size_t>(product.plan.n)) && are_floats(view.input(2).values)));
}

/// Computes the local bounds of a product by row kernels, in blocks of rows.
class PlainSums {
public:
  PlainSums(const Product& product, const NodeView& view, const CoarseWeights& coarse, const RightColumns& columns,
            const Setting& setting)
      : plan_(product.plan),
        view_(view),
        coarse_(coarse),
        columns_(columns),
        setting_(setting),
        format_(row_format(setting, plan_.k + 1)),
        x_(view.input(0).values),
        n_(coarse.n),
        k_(coarse.k),
        size_(view.output->size()),
        wants_running_(setting.wants_running && setting.machine.order.gives_partial_sums()) {
    if (product.has_addend && product.beta != 0.0) addend_ = magnitudes(view.input(2).values);
  }

  std::optional<ProductBounds> bounds() {
    const bool order_is_known = setting_.machine.order.kind != SummationOrder::Kind::unknown;
    if (order_is_known) weighted_ = weighted_by_paths(plan_, magnitudes(x_), addend_.empty(), setting_);
    ProductBounds result = sized(order_is_known);
    if (!follow_rows(result)) return std::nullopt;
    if (wants_running_) add_running(result);
    if (setting_.tail_factor > 0.0) drop_patterns(result);
    return result;
  }

private:
  static constexpr std::size_t rows_at_once = 32;

  /// Returns bounds with allocated vectors, and allocates the work vectors.
  ProductBounds sized(bool order_is_known) {
    ProductBounds result;
    for (std::vector<double>* values : {&result.any_order, &result.partial_sums, &result.kappa}) values->resize(size_);
    if (order_is_known) result.order_aware.resize(size_);
    total_.resize(size_);
    if (order_is_known) paths_.resize(size_);
    if (wants_running_) slack_.resize(size_);
    if (setting_.tail_factor > 0.0) result.probabilistic.resize(size_);
    return result;
  }

  /// The left factors of the sums for one block of rows, scaled and rounded to single precision.
  struct CoarseRows {
    std::vector<float> total, squares, signed_squares, paths;

    explicit CoarseRows(std::size_t k)
        : total(rows_at_once * k),
          squares(rows_at_once * k),
          signed_squares(rows_at_once * k),
          paths(rows_at_once * k) {}
  };

  /// Computes all bounds except `running`. False if a row cannot be scaled to single precision.
  bool follow_rows(ProductBounds& result) {
    const std::size_t count = x_.size() / k_;
    CoarseRows some(k_);
    CoarseProducts& sums = result.sums.emplace();
    sums.weights = &coarse_;
    sums.scales.resize(count);
    for (std::vector<float>* const values : {&sums.total, &sums.squares, &sums.signed_squares})
      values->resize(count * n_);
    for (std::size_t first = 0; first < count; first += rows_at_once) {
      const std::size_t rows = std::min(rows_at_once, count - first);
      for (std::size_t r = 0; r < rows; ++r) {
        const double* x = x_.data() + (first + r) * k_;
        const std::optional<double> scale = coarse_scale(row_kernels().largest(x, k_));
        if (!scale) return false;
        row_kernels().coarse(x, *scale, some.total.data() + r * k_, k_);
        row_kernels().coarse_squares(x, *scale, some.squares.data() + r * k_, k_);
        row_kernels().coarse_signed_squares(x, *scale, some.signed_squares.data() + r * k_, k_);
        sums.scales[first + r] = 1.0 / *scale;
      }
      if (!paths_.empty() && !weigh_rows(first, rows, some.paths)) return false;
      const auto of_rows = [&](std::vector<float>& values) { return std::span(values).subspan(first * n_, rows * n_); };
      multiply_coarse(some.total, rows, coarse_, coarse_.magnitudes, of_rows(sums.total));
      multiply_coarse(some.squares, rows, coarse_, coarse_.squares, of_rows(sums.squares));
      multiply_coarse(some.signed_squares, rows, coarse_, coarse_.signed_squares, of_rows(sums.signed_squares));
      take_sums(of_rows(sums.total), {sums.scales.data() + first, rows}, {x_.data() + first * k_, rows * k_}, first,
                total_);
      for (std::size_t r = first; r < first + rows; ++r) bound_row(r, sums, result);
    }
    return true;
  }

  /// Computes the sums of T-11 for a block of rows. False if a row cannot be scaled to single precision.
  bool weigh_rows(std::size_t first, std::size_t rows, std::vector<float>& coarse) {
    std::vector<float> sums(rows * n_);
    std::vector<double> scales(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      const double* weighted = weighted_.data() + (first + r) * k_;
      const std::optional<double> scale = coarse_scale(row_kernels().largest(weighted, k_));
      if (!scale) return false;
      row_kernels().coarse(weighted, *scale, coarse.data() + r * k_, k_);
      scales[r] = 1.0 / *scale;
    }
    multiply_coarse(coarse, rows, coarse_, coarse_.magnitudes, sums);
    take_sums(sums, scales, {weighted_.data() + first * k_, rows * k_}, first, paths_);
    return true;
  }

  /// Converts sums in single precision to double by T-81. A sum that is so small that elements raised to the least
  /// magnitude may dominate it is computed again in double.
  /// Shapes:    `of_rows`: [rows, n]; `scales`: [rows]; `rows`: [rows, k]; `sums`: [all rows, n]; row `first` is the
  ///            first one that is set
  void take_sums(std::span<const float> of_rows, std::span<const double> scales, std::span<const double> rows,
                 std::size_t first, std::vector<double>& sums) const {
    const double* column_scales = coarse_.magnitudes.column_scales.data();
    const float may_show = static_cast<float>(k_) * 0x1p-50F;
    for (std::size_t r = 0; r < rows.size() / k_; ++r) {
      const float* from = of_rows.data() + r * n_;
      double* to = sums.data() + (first + r) * n_;
      for (std::size_t j = 0; j < n_; ++j) to[j] = static_cast<double>(from[j]) * (scales[r] * column_scales[j]);
      for (std::size_t j = 0; j < n_; ++j)
        if (from[j] != 0.0F && from[j] < may_show) to[j] = sum_in_double(rows.data() + r * k_, j);
    }
  }

  /// Returns sum |x w| for a row x and a column w of the matrix, rounded up.
  double sum_in_double(const double* x, std::size_t column) const {
    const std::vector<double>& matrix = view_.input(1).values;
    double sum = 0.0;
    for (std::size_t l = 0; l < k_; ++l)
      sum += std::abs(x[l] * matrix[plan_.b_index(0, static_cast<std::int64_t>(l), static_cast<std::int64_t>(column))]);
    return theorems::outward(sum, plan_.k + 1, plan_.k);
  }

  RecordedSums recorded(std::size_t row) const {
    RecordedSums sums;
    const std::size_t first = row * n_;
    sums.y = view_.output->values.data() + first;
    sums.addend = addend_.empty() ? nullptr : addend_.data();
    sums.columns = coarse_.nonzero.data();
    sums.nonzero = row_kernels().count_nonzero(x_.data() + row * k_, k_);
    sums.total = total_.data() + first;
    return sums;
  }

  void bound_row(std::size_t row, const CoarseProducts& products, ProductBounds& result) {
    const std::size_t first = row * n_;
    const double scale = products.scales[row] * products.scales[row];
    RecordedSums sums = recorded(row);
    sums.squares = {products.squares.data() + first, scale, coarse_.squares.column_scales.data()};
    sums.signed_squares = {products.signed_squares.data() + first, scale, coarse_.signed_squares.column_scales.data()};
    sums.signed_squares_error = theorems::coarse_error(k_);
    sums.paths = at(paths_, first);
    sums.slack_units = theorems::running_slack(plan_.k, 0.0, 0.0, 1.0);
    sums.tail_factor = setting_.tail_factor;
    const LocalErrors errors{at(result.any_order, first),
                             at(result.partial_sums, first),
                             at(result.order_aware, first),
                             at(result.probabilistic, first),
                             at(slack_, first),
                             at(result.kappa, first)};
    sum_kernels().local(sums, format_, errors, n_);
  }

  static double* at(std::vector<double>& values, std::size_t first) {
    return values.empty() ? nullptr : values.data() + first;
  }

  /// Computes `running` by T-69.
  void add_running(ProductBounds& result) const {
    const Tensor<double>& b = view_.input(1);
    const RunningTerms terms{x_,
                             b.values,
                             x_,
                             slack_,
                             &setting_.operands->forward_right(plan_, b).matrices,
                             &setting_.operands->single_right(plan_, b)};
    result.running = theorems::running_ufps(plan_, terms, setting_.machine.order, addend_.empty(), setting_.threads);
    std::vector<double> products;
    if (!setting_.machine.order.fma) products = theorems::product_ufps(plan_, terms, setting_.threads);
    for (std::size_t row = 0; row < size_ / n_; ++row) {
      RecordedSums sums = recorded(row);
      sums.products = at(products, row * n_);
      sum_kernels().running(sums, format_, result.running.data() + row * n_, n_);
    }
  }

  /// Determines the patterns (T-75), and sets probabilistic bounds with a pattern to infinity.
  void drop_patterns(ProductBounds& result) const {
    result.patterns = patterns_of(plan_, x_, view_.input(1).values, &columns_);
    for (std::size_t i = 0; i < size_; ++i)
      if (result.patterns[i] != TermPattern::none) result.probabilistic[i] = infinity;
  }

  const ProductPlan& plan_;
  const NodeView& view_;
  const CoarseWeights& coarse_;
  const RightColumns& columns_;
  const Setting& setting_;
  const RowFormat format_;
  std::span<const double> x_;
  const std::size_t n_, k_, size_;
  const bool wants_running_;
  std::vector<double> addend_;    ///< magnitudes of the addend, one row; empty: none
  std::vector<double> weighted_;  ///< weighted_by_paths() (T-11)
  std::vector<double> total_, paths_, slack_;
};

}  // namespace

bool are_floats(std::span<const double> values) {
  bool all = true;
  for (const double x : values)
    all &= static_cast<double>(static_cast<float>(x)) == x && std::abs(x) <= std::numeric_limits<float>::max();
  return all;
}

std::optional<ProductBounds> plain_product_bounds(const Product& product, const NodeView& view,
                                                  const Setting& setting) {
  if (!is_covered(product, view, setting)) return std::nullopt;
  const CoarseWeights* coarse = setting.operands->coarse_right(product.plan, view.input(1));
  if (coarse == nullptr) return std::nullopt;
  const RightColumns& columns = setting.operands->columns_of_right(product.plan, view.input(1));
  return PlainSums(product, view, *coarse, columns, setting).bounds();
}

std::optional<std::vector<double>> plain_propagation(const Product& product, const NodeView& view,
                                                     std::span<const Radii> radii, const Setting& setting) {
  const bool only_rows_move = !radii[0].empty() && radii[1].empty() && (radii.size() < 3 || radii[2].empty());
  if (setting.operands == nullptr || !only_rows_move || !is_rows_times_matrix(product.plan)) return std::nullopt;
  const CoarseWeights* coarse = setting.operands->coarse_right(product.plan, view.input(1));
  if (coarse == nullptr) return std::nullopt;
  constexpr std::size_t rows_at_once = 32;
  const RowKernels& rows = row_kernels();
  const std::size_t k = coarse->k, n = coarse->n, count = radii[0].size() / k;
  const Magnitude alpha = Magnitude(product.alpha) * Magnitude(theorems::product_weight(1.0));
  std::vector<double> moved(count * n);
  std::vector<float> elements(rows_at_once * k), sums(rows_at_once * n);
  std::vector<double> scales(rows_at_once);
  for (std::size_t first = 0; first < count; first += rows_at_once) {
    const std::size_t some = std::min(rows_at_once, count - first);
    for (std::size_t r = 0; r < some; ++r) {
      const double* e = radii[0].data() + (first + r) * k;
      const std::optional<double> scale = coarse_scale(rows.largest(e, k));
      if (!scale) return std::nullopt;
      rows.coarse(e, *scale, elements.data() + r * k, k);
      scales[r] = (Magnitude(1.0 / *scale) * alpha).value();
    }
    multiply_coarse(elements, some, *coarse, coarse->magnitudes, sums);
    for (std::size_t r = 0; r < some; ++r) {
      SumRow row;
      row.is_moved = true;
      row.moved = {sums.data() + r * n, scales[r], coarse->magnitudes.column_scales.data()};
      row.norms = coarse->norms.data();
      row.radius = infinity;
      rows.move(row, moved.data() + (first + r) * n, n);
    }
  }
  return moved;
}

}  // namespace driftbound::bounds

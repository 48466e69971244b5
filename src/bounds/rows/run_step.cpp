#include "bounds/rows/run_step.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bounds/adjoint/radii.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/accuracy.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/function_rules.hpp"
#include "bounds/nodes/gelu_steps.hpp"
#include "bounds/nodes/linear.hpp"
#include "bounds/nodes/operand_cache.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/nodes/recorded_block.hpp"
#include "bounds/nodes/transposed_product.hpp"
#include "bounds/rows/expanded_row.hpp"
#include "bounds/rows/node_step.hpp"
#include "bounds/rows/step.hpp"
#include "bounds/sums/row_groups.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "linalg/ordered_product_kernels.hpp"

namespace driftbound::bounds {
namespace {

using namespace steps;

/// Whether all numbers are powers of two, negated or not, or 0.
bool are_powers_of_two(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double c) {
    int exponent = 0;
    return c == 0.0 || std::abs(std::frexp(c, &exponent)) == 0.5;
  });
}

/// Rows times a constant matrix, plus a constant row if there is an addend.
class ProductStep : public Step {
public:
  ProductStep(const Product& product, const Tensor<double>& b, std::vector<double> addend, const CoarseWeights& coarse,
              const Setting& setting, OperandCache& operands)
      : Step(setting, product.plan.k + 1),
        plan_(product.plan),
        k_(static_cast<std::size_t>(product.plan.k)),
        n_(static_cast<std::size_t>(product.plan.n)),
        offset_(product.plan.b_batch[0]),
        forward_(operands.forward_right(product.plan, b)),
        transposed_(operands.transposed_right(product.plan, b)),
        single_(operands.single_right(product.plan, b)),
        coarse_(coarse),
        b_(operands.elements_of_right(product.plan, b)),
        columns_(&operands.columns_of_right(product.plan, b)),
        order_(setting.machine.order),
        has_addend_(product.has_addend && product.beta != 0.0),
        addend_(std::move(addend)),
        addend_sizes_(magnitudes(addend_)),
        in_single_(operands.transposed_in_single(product.plan, b)),
        spectral_(operands.norm_of_right(product.plan, b, setting.threads)) {}

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = x.rows();
    multiply(x, scratch.known, y, undecided);
    errors.added.resize(rows * n_);
    prepare(scratch, rows);
    find_distances(x, scratch);
    for (std::size_t row = 0; row < rows; ++row)
      if (!read_row(x, row, scratch)) undecided[row] = 1;
    const bool all_are_known = std::all_of(scratch.distances.begin(), scratch.distances.end(),
                                           [](double distance) { return std::isfinite(distance); });
    for (const std::size_t which : {moved, total, squares, signed_squares})
      if (which == moved || !all_are_known)
        multiply_coarse(scratch.coarse[which], rows, coarse_, matrix(which), scratch.sums[which]);
    if (request.of_terms()) prepare_terms(errors, rows);
    for (std::size_t row = 0; row < rows; ++row) bound_row(x, request, y, errors, row, scratch);
    if (request.chance.any()) errors.patterns = patterns(x.centre, rows);
    if (request.in_order) follow_order(x, y, errors, undecided, scratch);
  }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    multiply(operands[0], forward_, rows, k_, n_, result);
    for (std::size_t row = 0; row < rows; ++row)
      elements_.add(result.data() + row * n_, addend_.data(), result.data() + row * n_, n_);
  }

  void pull_back(std::size_t, const RunErrors&, std::span<const std::size_t> of, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t rows = y.defect.size();
    const auto terms = static_cast<std::int64_t>(n_);
    multiply_transposed(y.d, of, share.d);
    for (std::size_t row = 0; row < rows; ++row)
      share.defect[row] = sum_error(norm_of(y.d, row, n_), terms, transposed_).value();
  }

  void pull_back(std::size_t, const RunErrors&, std::span<const float>, std::span<const std::size_t> of,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    const double largest = largest_norm(transposed_).value();
    const auto terms = static_cast<std::int64_t>(n_);
    multiply_transposed(y.d, of, share.d);
    for (std::size_t row = 0; row < y.defect.size(); ++row) {
      const double norm = y.norm.empty() ? norm_in_single({y.d.data() + row * n_, n_}).value() : y.norm[row];
      share.defect[row] =
          is_single_enough(norm, largest, terms) ? theorems::single_defect(norm, largest, terms) : HUGE_VAL;
    }
  }

  void push(std::span<const float* const> operands, const RunErrors&, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    std::vector<std::size_t> of;
    for (const std::size_t row : rows) of.insert(of.end(), copies, row);
    multiply({operands[0], of.size() * k_}, single_.matrices.at(offset_).data(), of, k_, n_, result);
  }

  bool is_product() const override { return true; }

  void row_of_matrix(std::size_t element, float* share) const override {
    constexpr std::size_t width = panel_width<float>;
    const float* panel = in_single_.at(offset_).data() + element * width;
    for (std::size_t k = 0; k < k_; k += width, panel += n_ * width)
      std::copy_n(panel, std::min(width, k_ - k), share + k);
  }

  /// Bound of the 2-norm by which rows move whose operands move by `norm`.
  Magnitude propagated(double norm) const {
    return theorems::norm_of_constant_product({Magnitude(), Magnitude(norm)}, spectral_, Magnitude(), 1);
  }

private:
  enum Which { moved, total, squares, signed_squares, moved_in_order };
  const CoarseMatrix& matrix(std::size_t which) const {
    return which == squares ? coarse_.squares : which == signed_squares ? coarse_.signed_squares : coarse_.magnitudes;
  }

  void multiply(const double* a, const PackedFactor& factor, std::size_t m, std::size_t k, std::size_t n,
                std::vector<double>& c) const {
    const PackedProduct<double> product{a, factor.matrices.at(offset_).data(), c.data(), m, n, k, k, true};
    fastest_product_kernels().multiply(product, 0, m);
  }

  /// Skips terms that are 0 if enough of them are.
  void multiply_transposed(const std::vector<double>& d, std::span<const std::size_t> rows,
                           std::vector<double>& share) const {
    const RowGroups groups(std::span<const double>(d), rows);
    if (!groups.are_sparse()) return multiply(d.data(), transposed_, rows.size(), n_, k_, share);
    const double* matrix = transposed_.matrices.at(offset_).data();
    fastest_product_kernels().sparse_f64(
        {d.data(), matrix, share.data(), k_, n_, groups.groups().data(), groups.groups().size()});
  }

  void multiply_transposed(const std::vector<float>& d, std::span<const std::size_t> rows,
                           std::vector<float>& share) const {
    multiply(d, in_single_.at(offset_).data(), rows, n_, k_, share);
  }

  /// Rows [., k] times a packed matrix [k, n]. `rows`: the row of the block that each belongs to.
  static void multiply(std::span<const float> a, const float* matrix, std::span<const std::size_t> rows, std::size_t k,
                       std::size_t n, std::vector<float>& result) {
    const RowGroups groups(a, rows);
    const ProductKernels& kernels = fastest_product_kernels();
    if (groups.are_sparse())
      kernels.sparse_f32({a.data(), matrix, result.data(), n, k, groups.groups().data(), groups.groups().size()});
    else
      kernels.f32({a.data(), matrix, result.data(), rows.size(), n, k, k, true}, 0, rows.size());
  }

  Magnitude largest_norm(const PackedFactor& factor) const {
    const std::vector<double>& columns = factor.column_norms.at(offset_);
    return Magnitude(*std::max_element(columns.begin(), columns.end()));
  }

  /// T-64: bound of the error of every element of a row of sums of `terms` products in double.
  Magnitude sum_error(Magnitude norm, std::int64_t terms, const PackedFactor& factor) const {
    return Magnitude(theorems::defect(norm.value(), terms, 0)) * largest_norm(factor) +
           Magnitude(theorems::defect(0.0, terms, 2 * terms));
  }

  /// Computes the centres, or copies them from `known`; the error bound holds for every order of summation.
  void multiply(const RunRows& x, std::span<const double> known, RunRows& y, std::vector<char>& undecided) const {
    if (!known.empty()) return void(std::copy(known.begin(), known.end(), y.centre.begin()));
    multiply(x.centre.data(), forward_, x.rows(), k_, n_, y.centre);
    for (std::size_t row = 0; row < x.rows(); ++row) {
      double* sums = y.centre.data() + row * n_;
      if (!elements_.add(sums, addend_.data(), sums, n_)) undecided[row] = 1;
    }
  }

  void prepare(RunScratch& scratch, std::size_t rows) const {
    for (const std::size_t which : {moved, total, squares, signed_squares, moved_in_order}) {
      scratch.coarse[which].resize(rows * k_);
      scratch.sums[which].resize(rows * n_);
      scratch.scales[which].assign(rows, 0.0);
    }
    scratch.operands.assign(rows, RowOperands());
    scratch.larger.resize(k_);
    scratch.own.resize(n_);
  }

  /// T-88, 7: distance of the recorded operand from the centre, for rows that reuse the sums of the recorded operand. A
  /// row does if N <= 2^-7 ||x||_2 and the distance is at most N, N the bound for any run.
  void find_distances(const RunRows& x, RunScratch& scratch) const {
    constexpr double little = 0x1p-7;
    scratch.distances.assign(x.rows(), HUGE_VAL);
    if (scratch.known_sums.sums == nullptr || scratch.known_sums.sums->weights != &coarse_) return;
    const double* recorded = scratch.known_sums.operand;
    for (std::size_t row = 0; row < x.rows(); ++row, recorded += k_) {
      if (!(x.norm[row] <= little * norm_of(x.centre, row, k_).value())) continue;
      const double* centre = x.centre.data() + row * k_;
      for (std::size_t i = 0; i < k_; ++i) scratch.larger[i] = std::abs(recorded[i] - centre[i]);
      const Magnitude distance =
          theorems::norm_of_vector(std::span(scratch.larger).first(k_)) * Magnitude(1.0 + 0x1p-50);
      if (distance.value() <= x.norm[row]) scratch.distances[row] = distance.value();
    }
  }

  /// Converts E to scaled single precision, rounded up, and |x| + E, its squares and x|x| if the row does not reuse
  /// known sums. Returns false if coarse_scale() has no scale for the row.
  bool read_row(const RunRows& x, std::size_t row, RunScratch& scratch) const {
    const double *centre = x.centre.data() + row * k_, *radius = x.radius.data() + row * k_;
    const auto at = [&](Which which) { return scratch.coarse[which].data() + row * k_; };
    rows_.larger_operand(centre, radius, scratch.larger.data(), k_);
    const std::optional<double> of_radius = coarse_scale(rows_.largest(radius, k_));
    const RowOperands known = row_operands(scratch.larger, radius, x.norm[row], format_, scratch.small);
    const double* sizes = known.moves_by_norm ? centre : scratch.larger.data();
    const std::optional<double> of_larger = coarse_scale(rows_.largest(sizes, k_));
    if (!of_radius || !of_larger) {
      for (const Which which : {moved, total, squares, signed_squares}) std::fill_n(at(which), k_, 0.0F);
      return false;
    }
    scratch.operands[row] = known;
    rows_.coarse(radius, *of_radius, at(moved), k_);
    scratch.scales[moved][row] = 1.0 / *of_radius;
    if (std::isfinite(scratch.distances[row])) return true;
    rows_.coarse(sizes, *of_larger, at(total), k_);
    rows_.coarse_squares(sizes, *of_larger, at(squares), k_);
    rows_.coarse_signed_squares(centre, *of_larger, at(signed_squares), k_);
    scratch.scales[total][row] = 1.0 / *of_larger;
    scratch.scales[squares][row] = scratch.scales[total][row] * scratch.scales[total][row];
    scratch.scales[signed_squares][row] = scratch.scales[squares][row];
    return true;
  }

  CoarseSums coarse_sums(Which which, std::size_t row, const RunScratch& scratch) const {
    return {scratch.sums[which].data() + row * n_, scratch.scales[which][row], matrix(which).column_scales.data()};
  }

  /// Bound of |shadow - f(shadow operands)| for every element of a row.
  Magnitude own_of(const RunRows& x, const RunRows& y, std::size_t row) const {
    const Magnitude of_sums = sum_error(norm_of(x.centre, row, k_), static_cast<std::int64_t>(k_), forward_);
    return of_sums + half_ulp * largest_of(y.centre, row, n_);
  }

  SumRow sums_of_row(const RunRows& y, std::size_t row, Magnitude own, RunScratch& scratch) const {
    std::fill(scratch.own.begin(), scratch.own.end(), own.value());
    SumRow sums;
    sums.y = y.centre.data() + row * n_;
    sums.own = scratch.own.data();
    sums.addend = addend_sizes_.data();
    sums.constants = addend_.data();
    sums.columns = coarse_.nonzero.data();
    const RowOperands& known = scratch.operands[row];
    sums.norms = coarse_.norms.data();
    sums.largest = coarse_.largest.data();
    sums.radius = sums.reach = known.radius;
    sums.moves_by_norm = known.moves_by_norm;
    sums.nonzero = known.nonzero;
    sums.sets_apart = known.small_norm.has_value();
    sums.not_small = known.not_small;
    sums.small_norm = known.small_norm.value_or(0.0);
    sums.is_moved = true;
    sums.moved = coarse_sums(moved, row, scratch);
    sums.knows_signed_squares = true;
    sums.signed_squares_error = theorems::coarse_error(k_);
    if (std::isfinite(scratch.distances[row])) {
      take_known_sums(scratch, row, sums);
    } else {
      sums.total = coarse_sums(total, row, scratch);
      sums.squares = coarse_sums(squares, row, scratch);
      sums.signed_squares = coarse_sums(signed_squares, row, scratch);
    }
    return sums;
  }

  void take_known_sums(const RunScratch& scratch, std::size_t row, SumRow& sums) const {
    const CoarseProducts& known = *scratch.known_sums.sums;
    const std::size_t of_block = scratch.known_sums.first + row, first = of_block * n_;
    const double scale = known.scales[of_block];
    sums.moves_by_norm = true;
    sums.reach = theorems::reach_of_sums(sums.radius, scratch.distances[row]);
    sums.total = {known.total.data() + first, scale, coarse_.magnitudes.column_scales.data()};
    sums.squares = {known.squares.data() + first, scale * scale, coarse_.squares.column_scales.data()};
    sums.signed_squares = {known.signed_squares.data() + first, scale * scale,
                           coarse_.signed_squares.column_scales.data()};
  }

  void bound_row(const RunRows& x, const RunRequest& request, RunRows& y, RunErrors& errors, std::size_t row,
                 RunScratch& scratch) const {
    const std::size_t first = row * n_;
    const Magnitude own = own_of(x, y, row);
    const SumRow sums = sums_of_row(y, row, own, scratch);
    rows_.any_order(sums, format_, {y.radius.data() + first, errors.added.data() + first}, n_);
    if (request.of_terms())
      rows_.chances(sums, format_, errors.added.data() + first,
                    {errors.amplitudes.data() + first, errors.residuals.data() + first, errors.estimates.data() + first,
                     errors.sizes.data() + first},
                    n_);
    y.exact[row] = (propagated(x.exact[row]) + root_of(n_) * own).value();
    finish(y, row, propagated(x.norm[row]) + norm_of(errors.added, row, n_));
  }

  void prepare_terms(RunErrors& errors, std::size_t rows) const {
    for (std::vector<double>* values : {&errors.amplitudes, &errors.residuals, &errors.estimates, &errors.sizes})
      values->resize(rows * n_);
  }

  ProductPlan plan_of(std::size_t rows) const {
    ProductPlan plan = plan_;
    plan.m = static_cast<std::int64_t>(rows);
    return plan;
  }

  std::vector<TermPattern> patterns(const std::vector<double>& x, std::size_t rows) const {
    std::vector<TermPattern> found = patterns_of(plan_of(rows), x, b_, columns_);
    const bool any = std::any_of(found.begin(), found.end(), [](TermPattern p) { return p != TermPattern::none; });
    return any ? found : std::vector<TermPattern>();
  }

  /// T-69: bounds for the declared order. Starts from the any-order bounds, which hold for it too.
  void follow_order(const RunRows& x, RunRows& y, RunErrors& errors, std::vector<char>& undecided,
                    RunScratch& scratch) const {
    const std::size_t rows = x.rows();
    errors.added_in_order.assign(errors.added.begin(), errors.added.begin() + static_cast<std::ptrdiff_t>(rows * n_));
    y.in_order.radius.assign(y.radius.begin(), y.radius.begin() + static_cast<std::ptrdiff_t>(rows * n_));
    if (!order_.gives_partial_sums()) {  // the sums of this product may be in any order
      for (std::size_t row = 0; row < rows; ++row)
        finish_in_order(y, row, propagated(x.in_order.norm[row]) + norm_of(errors.added_in_order, row, n_));
      return;
    }
    scratch.all_larger.resize(rows * k_);
    scratch.by_operands.resize(rows * n_);
    scratch.slack.resize(rows * n_);
    for (std::size_t row = 0; row < rows; ++row)
      if (!read_row_in_order(x, row, scratch)) undecided[row] = 1;
    multiply_coarse(scratch.coarse[moved_in_order], rows, coarse_, matrix(moved_in_order),
                    scratch.sums[moved_in_order]);
    for (std::size_t row = 0; row < rows; ++row) {
      const OrderedSums sums = ordered_row(x, y, row, scratch);
      SumRow operands_alone = sums.sums;
      operands_alone.moved = coarse_sums(moved_in_order, row, scratch);
      operands_alone.radius = x.in_order.norm[row];
      operands_alone.own = nullptr;
      rows_.move(operands_alone, scratch.by_operands.data() + row * n_, n_);
      sum_kernels().slack(sums, errors.added.data() + row * n_, scratch.slack.data() + row * n_, n_);
    }
    const RunningTerms terms{x.centre, {}, scratch.all_larger, scratch.slack, &forward_.matrices, &single_};
    const std::vector<double> places = theorems::running_ufps(plan_of(rows), terms, order_, !has_addend_, 1);
    std::vector<double> products;
    if (!order_.fma) products = theorems::product_ufps(plan_of(rows), terms, 1);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n_;
      OrderedSums sums = ordered_row(x, y, row, scratch);
      if (!products.empty()) sums.products = products.data() + first;
      sum_kernels().in_order(sums, format_, places.data() + first,
                             {y.in_order.radius.data() + first, errors.added_in_order.data() + first}, n_);
      finish_in_order(y, row, propagated(x.in_order.norm[row]) + norm_of(errors.added_in_order, row, n_));
    }
  }

  OrderedSums ordered_row(const RunRows& x, const RunRows& y, std::size_t row, RunScratch& scratch) const {
    return {sums_of_row(y, row, own_of(x, y, row), scratch), scratch.by_operands.data() + row * n_,
            theorems::running_slack(static_cast<std::int64_t>(k_), 0.0, 0.0, 1.0)};
  }

  bool read_row_in_order(const RunRows& x, std::size_t row, RunScratch& scratch) const {
    const double* radius = x.in_order.radius.data() + row * k_;
    float* coarse = scratch.coarse[moved_in_order].data() + row * k_;
    rows_.larger_operand(x.centre.data() + row * k_, x.radius.data() + row * k_, scratch.all_larger.data() + row * k_,
                         k_);
    const std::optional<double> scale = coarse_scale(rows_.largest(radius, k_));
    if (!scale) return std::fill_n(coarse, k_, 0.0F), false;
    rows_.coarse(radius, *scale, coarse, k_);
    scratch.scales[moved_in_order][row] = 1.0 / *scale;
    return true;
  }

  const ProductPlan plan_;
  const std::size_t k_, n_;
  const std::int64_t offset_;
  const PackedFactor &forward_, &transposed_;
  const SingleColumns& single_;
  const CoarseWeights& coarse_;
  const std::span<const double> b_;
  const RightColumns* columns_;
  const SummationOrder order_;
  const bool has_addend_;
  const std::vector<double> addend_, addend_sizes_;  ///< one row, and its magnitudes; zeros without an addend
  const PackedMatrices<float>& in_single_;           ///< the elements of transposed_, which single precision holds
  const Magnitude spectral_;
};

/// The same where every row consists of several parts, each of which is multiplied with the matrix: tokens, or windows
/// of a convolution.
class PartsStep : public Step {
public:
  PartsStep(std::unique_ptr<const ProductStep> product, std::size_t parts, std::size_t k, std::size_t n,
            const Setting& setting)
      : Step(setting, 2), product_(std::move(product)), parts_(parts), k_(k), n_(n) {}

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = x.rows();
    RunRows x_parts = parts_of(x, request);
    RunRows y_parts;
    y_parts.resize(rows * parts_, n_, request.in_order);
    std::vector<char> undecided_parts(rows * parts_, 0);
    const RunRows* const all[] = {&x_parts};
    product_->forward(all, request, y_parts, errors, undecided_parts, scratch);
    y.centre.swap(y_parts.centre);
    y.radius.swap(y_parts.radius);
    if (request.in_order) y.in_order.radius.swap(y_parts.in_order.radius);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto norm_of_parts = [&](const std::vector<double>& norms) { return norm_of(norms, row, parts_); };
      y.exact[row] = (product_->propagated(x.exact[row]) + norm_of_parts(y_parts.exact)).value();
      y.norm[row] = std::min(norm_of_parts(y_parts.norm),
                             product_->propagated(x.norm[row]) + norm_of(errors.added, row, y.size()))
                        .value();
      for (std::size_t part = row * parts_; part < (row + 1) * parts_; ++part)
        if (undecided_parts[part] != 0) undecided[row] = 1;
      if (!request.in_order) continue;
      const Magnitude together =
          product_->propagated(x.in_order.norm[row]) + norm_of(errors.added_in_order, row, y.size());
      y.in_order.norm[row] = std::min(norm_of_parts(y_parts.in_order.norm), together).value();
    }
  }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    product_->evaluate(operands, rows * parts_, result);
  }

  void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const RunAdjoint y_parts{y.d, std::vector<double>(rows.size() * parts_)};
    RunAdjoint share_parts{std::move(share.d), std::vector<double>(rows.size() * parts_)};
    product_->pull_back(slot, errors, parts_of(rows), y_parts, share_parts);
    share.d = std::move(share_parts.d);
    take_largest(share_parts.defect, share.defect);
  }

  void pull_back(std::size_t slot, const RunErrors& errors, std::span<const float> slopes,
                 std::span<const std::size_t> rows, const SingleAdjoint& y, SingleAdjoint& share) const override {
    const SingleAdjoint y_parts{y.d, std::vector<double>(rows.size() * parts_), {}};
    SingleAdjoint share_parts{std::move(share.d), std::vector<double>(rows.size() * parts_), {}};
    product_->pull_back(slot, errors, slopes, parts_of(rows), y_parts, share_parts);
    share.d = std::move(share_parts.d);
    take_largest(share_parts.defect, share.defect);
  }

  void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    product_->push(operands, errors, parts_of(rows), copies, result);
  }

  bool is_product() const override { return true; }

  void row_of_matrix(std::size_t element, float* share) const override {
    std::fill_n(share, parts_ * k_, 0.0F);
    product_->row_of_matrix(element % n_, share + element / n_ * k_);
  }

private:
  /// Every part as a row, at a distance of 0 from the exact network.
  RunRows parts_of(const RunRows& x, const RunRequest& request) const {
    RunRows parts{x.centre, x.radius, {}, std::vector<double>(x.rows() * parts_), {}};
    const auto norms = [&](const std::vector<double>& radius, const std::vector<double>& of_rows) {
      std::vector<double> of_parts;
      for (std::size_t part = 0; part < x.rows() * parts_; ++part)
        of_parts.push_back(theorems::norm_of_row(norm_of(radius, part, k_).value(), of_rows[part / parts_]));
      return of_parts;
    };
    parts.norm = norms(x.radius, x.norm);
    if (request.in_order) parts.in_order = {x.in_order.radius, norms(x.in_order.radius, x.in_order.norm)};
    return parts;
  }

  std::vector<std::size_t> parts_of(std::span<const std::size_t> rows) const {
    std::vector<std::size_t> parts;
    for (const std::size_t row : rows)
      for (std::size_t part = 0; part < parts_; ++part) parts.push_back(row * parts_ + part);
    return parts;
  }

  void take_largest(const std::vector<double>& of_parts, std::vector<double>& of_rows) const {
    for (std::size_t row = 0; row < of_rows.size(); ++row)
      of_rows[row] = *std::max_element(of_parts.begin() + static_cast<std::ptrdiff_t>(row * parts_),
                                       of_parts.begin() + static_cast<std::ptrdiff_t>((row + 1) * parts_));
  }

  const std::unique_ptr<const ProductStep> product_;
  const std::size_t parts_, k_, n_;  ///< parts of a row; their sizes before and behind the product
};

/// A sum or difference of two values, or of a value and a constant row.
class SumStep : public Step {
public:
  SumStep(const Setting& setting, ElementKernels::Pair f, bool subtracts, std::vector<double> constants)
      : Step(setting, 2), f_(f), subtracts_(subtracts), constants_(std::move(constants)) {}

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    const std::size_t rows = y.rows(), n = y.size();
    errors.rounds_once = true;
    allocate_added(errors, rows * n, request);
    if (request.chance.any()) errors.residuals.resize(rows * n);
    scratch.own.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      const auto centre = [&](std::size_t slot) {
        return operands[slot] == nullptr ? constants_.data() : operands[slot]->centre.data() + first;
      };
      if (!f_(centre(0), centre(1), y.centre.data() + first, n)) undecided[row] = 1;
      std::fill_n(y.radius.data() + first, n, 0.0);
      Magnitude norm, exact;
      for (const RunRows* operand : operands) {
        if (operand == nullptr) continue;
        rows_.add(y.radius.data() + first, operand->radius.data() + first, n);
        norm = theorems::norm_of_sum(norm, Magnitude(operand->norm[row]));
        exact = theorems::norm_of_sum(exact, Magnitude(operand->exact[row]));
      }
      for (std::size_t i = 0; i < n; ++i) scratch.own[i] = unit * std::abs(y.centre[first + i]);
      const Magnitude own = half_ulp * largest_of(y.centre, row, n);
      rows_.sum(y.centre.data() + first, scratch.own.data(), &format_,
                {y.radius.data() + first, errors.added.data() + first}, n);
      y.exact[row] = (exact + root_of(n) * own).value();
      finish(y, row, norm + norm_of(errors.added, row, n));
      if (request.chance.any()) std::copy_n(scratch.own.data(), n, errors.residuals.data() + first);
      if (request.in_order) add_in_order(operands, y, errors, row, scratch);
    }
  }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    const std::size_t n = result.size() / rows;
    for (std::size_t first = 0; first < result.size(); first += n) {
      const auto at = [&](std::size_t slot) {
        return operands[slot] == nullptr ? constants_.data() : operands[slot] + first;
      };
      f_(at(0), at(1), result.data() + first, n);
    }
  }

  void pull_back(std::size_t slot, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    std::copy(y.d.begin(), y.d.end(), share.d.begin());
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
    if (subtracts_ && slot == 1)
      for (double& d : share.d) d = -d;
  }
  void pull_back(std::size_t slot, const RunErrors&, std::span<const float>, std::span<const std::size_t>,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    std::copy(y.d.begin(), y.d.end(), share.d.begin());
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
    if (subtracts_ && slot == 1)
      for (float& d : share.d) d = -d;
  }

  void push(std::span<const float* const> operands, const RunErrors&, std::span<const std::size_t>, std::size_t,
            std::vector<float>& result) const override {
    const float *a = operands[0], *b = operands[1], sign = subtracts_ ? -1.0F : 1.0F;
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = (a == nullptr ? 0.0F : a[i]) + sign * (b == nullptr ? 0.0F : b[i]);
  }

private:
  void add_in_order(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::size_t row,
                    const RunScratch& scratch) const {
    const std::size_t n = y.size(), first = row * n;
    double* radius = y.in_order.radius.data() + first;
    std::fill_n(radius, n, 0.0);
    Magnitude norm;
    for (const RunRows* operand : operands) {
      if (operand == nullptr) continue;
      rows_.add(radius, operand->in_order.radius.data() + first, n);
      norm = theorems::norm_of_sum(norm, Magnitude(operand->in_order.norm[row]));
    }
    rows_.sum(y.centre.data() + first, scratch.own.data(), &format_, {radius, errors.added_in_order.data() + first}, n);
    finish_in_order(y, row, norm + norm_of(errors.added_in_order, row, n));
  }

  const ElementKernels::Pair f_;
  const bool subtracts_;
  const std::vector<double> constants_;  ///< one row of the constant operand; empty: both vary
};

/// An elementwise product with a constant row.
class ScaleStep : public Step {
public:
  ScaleStep(const Setting& setting, std::size_t varying, std::vector<double> constants)
      : Step(setting, 2),
        varying_(varying),
        constants_(std::move(constants)),
        in_single_(constants_.begin(), constants_.end()) {
    for (const double c : constants_) largest_ = std::max(largest_, Magnitude(c));
    are_powers_of_two_ = are_powers_of_two(constants_);
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    const RunRows& x = *operands[varying_];
    const std::size_t rows = y.rows(), n = y.size();
    errors.rounds_once = true;
    allocate_added(errors, rows * n, request);
    if (request.chance.any()) errors.residuals.resize(rows * n);
    scratch.own.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      if (!elements_.mul(x.centre.data() + first, constants_.data(), y.centre.data() + first, n)) undecided[row] = 1;
      rows_.scale(x.radius.data() + first, constants_.data(), y.radius.data() + first, n);
      for (std::size_t i = 0; i < n; ++i) {
        const bool is_zero = x.centre[first + i] == 0.0 || constants_[i] == 0.0;
        const double of_double = are_powers_of_two_ ? 0.0 : unit * std::abs(y.centre[first + i]);
        scratch.own[i] = is_zero ? 0.0 : of_double + smallest.value();
        if (are_powers_of_two_) scratch.own[i] = (Magnitude(scratch.own[i]) + Magnitude(format_.eta)).value();
      }
      const RowFormat* const rounding = are_powers_of_two_ ? nullptr : &format_;
      if (are_powers_of_two_) std::copy_n(scratch.own.data(), n, errors.added.data() + first);
      const Magnitude own = half_ulp * largest_of(y.centre, row, n) + smallest;
      rows_.sum(y.centre.data() + first, scratch.own.data(), rounding,
                {y.radius.data() + first, errors.added.data() + first}, n);
      const auto propagated = [&](double norm) {
        const ElementwiseFactor moving{Magnitude(), Magnitude(), Magnitude(norm)};
        return theorems::norm_of_elementwise_product(moving, {largest_, Magnitude(), Magnitude()});
      };
      y.exact[row] = (propagated(x.exact[row]) + root_of(n) * own).value();
      finish(y, row, propagated(x.norm[row]) + norm_of(errors.added, row, n));
      if (request.chance.any()) std::copy_n(scratch.own.data(), n, errors.residuals.data() + first);
      if (!request.in_order) continue;
      double* radius = y.in_order.radius.data() + first;
      if (are_powers_of_two_) std::copy_n(scratch.own.data(), n, errors.added_in_order.data() + first);
      rows_.scale(x.in_order.radius.data() + first, constants_.data(), radius, n);
      rows_.sum(y.centre.data() + first, scratch.own.data(), rounding, {radius, errors.added_in_order.data() + first},
                n);
      finish_in_order(y, row, propagated(x.in_order.norm[row]) + norm_of(errors.added_in_order, row, n));
    }
  }

  std::vector<std::vector<double>> slopes_of(const RunErrors&, std::size_t, std::size_t) const override {
    std::vector<std::vector<double>> slopes(2);
    slopes[varying_] = constants_;
    return slopes;
  }

  void evaluate(std::span<const double* const> operands, std::size_t, std::vector<double>& result) const override {
    const std::size_t n = constants_.size();
    for (std::size_t first = 0; first < result.size(); first += n)
      elements_.mul(operands[varying_] + first, constants_.data(), result.data() + first, n);
  }

  void pull_back(std::size_t, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t n = constants_.size();
    for (std::size_t row = 0; row < y.defect.size(); ++row)
      elements_.mul(y.d.data() + row * n, constants_.data(), share.d.data() + row * n, n);
    lose_rounding(share, n);
  }
  void pull_back(std::size_t, const RunErrors&, std::span<const float>, std::span<const std::size_t>,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    for (std::size_t row = 0; row < y.defect.size(); ++row)
      multiply_row(y, in_single_.data(), share, row, in_single_.size());
  }

  void push(std::span<const float* const> operands, const RunErrors&, std::span<const std::size_t>, std::size_t,
            std::vector<float>& result) const override {
    const std::size_t n = constants_.size();
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(constants_[i % n]) * operands[varying_][i];
  }

private:
  const std::size_t varying_;
  const std::vector<double> constants_;  ///< the constant row
  const std::vector<float> in_single_;
  bool are_powers_of_two_ = false;  ///< or 0: products are exact but for underflow
  Magnitude largest_;
};

/// The source of one element of a row of a node's output.
struct RowSource {
  std::size_t slot = 0, index = 0;  ///< operand, and element of its row …
  double constant = 0.0;            ///< … or this constant if is_constant
  bool is_constant = false;
};

/// Data movement within rows (T-88, 8): elements are moved, dropped, repeated or negated, next to constants. No run
/// rounds here.
class MoveStep : public Step {
public:
  /// `sizes`: elements per row, by operand; 0 for constants. `sign`: 1 or -1, factor of all elements of operands.
  MoveStep(const Setting& setting, std::vector<RowSource> sources, std::vector<std::size_t> sizes, double sign)
      : Step(setting, 2), sources_(std::move(sources)), sizes_(std::move(sizes)), sign_(sign) {
    std::vector<std::vector<std::size_t>> uses;
    for (const std::size_t size : sizes_) uses.emplace_back(size, std::size_t{0});
    for (const RowSource& source : sources_)
      if (!source.is_constant) ++uses[source.slot][source.index];
    for (const std::vector<std::size_t>& of : uses)
      most_uses_.push_back(of.empty() ? 0 : *std::max_element(of.begin(), of.end()));
  }

  std::vector<std::vector<double>> slopes_of(const RunErrors&, std::size_t, std::size_t size) const override {
    return std::vector(sizes_.size(), std::vector<double>(size, sign_));
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors&,
               std::vector<char>&, RunScratch&) const override {
    const std::size_t rows = y.rows();
    move(of(operands, &RunRows::centre), rows, y.centre, sign_, true);
    move(of(operands, &RunRows::radius), rows, y.radius, 1.0, false);
    if (request.in_order) {
      std::vector<const double*> radii;
      for (const RunRows* operand : operands)
        radii.push_back(operand == nullptr ? nullptr : operand->in_order.radius.data());
      move(radii, rows, y.in_order.radius, 1.0, false);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const auto norm_by = [&](const auto& norm_of_operand) {
        std::vector<SelectedPart> parts;
        for (std::size_t slot = 0; slot < operands.size(); ++slot)
          if (operands[slot] != nullptr)
            parts.push_back({most_uses_[slot], Magnitude(norm_of_operand(*operands[slot]))});
        return theorems::norm_of_selection(parts).value();
      };
      y.exact[row] = norm_by([&](const RunRows& x) { return x.exact[row]; });
      y.norm[row] = theorems::norm_of_row(norm_of(y.radius, row, y.size()).value(),
                                          norm_by([&](const RunRows& x) { return x.norm[row]; }));
      if (request.in_order)
        y.in_order.norm[row] = theorems::norm_of_row(norm_of(y.in_order.radius, row, y.size()).value(),
                                                     norm_by([&](const RunRows& x) { return x.in_order.norm[row]; }));
    }
  }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    move(operands, rows, result, sign_, true);
  }

  /// Adjoint of data movement: a sum of up to k shares has the rounding error of k - 1 additions in double.
  void pull_back(std::size_t slot, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const auto additions = static_cast<std::int64_t>(most_uses_[slot]) - 1;
    move_back(slot, y.d, share.d);
    for (std::size_t row = 0; row < share.defect.size(); ++row)
      share.defect[row] = additions <= 0 ? 0.0 : theorems::defect(largest_sum(slot, y.d, row), additions, 0);
  }
  /// The same in single precision: every addition has an error of at most single_rounding() of the largest sum.
  void pull_back(std::size_t slot, const RunErrors&, std::span<const float>, std::span<const std::size_t>,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    const auto additions = static_cast<double>(most_uses_[slot]) - 1.0;
    move_back(slot, y.d, share.d);
    for (std::size_t row = 0; row < share.defect.size(); ++row) {
      const Magnitude largest = Magnitude(1.0 + 0x1p-10) * Magnitude(largest_sum(slot, y.d, row));
      const bool fits = additions <= 0.0 || (additions < 0x1p12 && largest.value() < 0x1p60);
      const Magnitude lost = Magnitude(additions) * Magnitude(theorems::single_rounding(largest.value()));
      share.defect[row] = additions <= 0.0 ? 0.0 : fits ? lost.value() : HUGE_VAL;
    }
  }

  void push(std::span<const float* const> operands, const RunErrors&, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    move(operands, rows.size() * copies, result, static_cast<float>(sign_), false);
  }

private:
  static std::vector<const double*> of(std::span<const RunRows* const> operands, std::vector<double> RunRows::*values) {
    std::vector<const double*> all;
    for (const RunRows* operand : operands) all.push_back(operand == nullptr ? nullptr : (operand->*values).data());
    return all;
  }

  /// Copies one row after the other. Constants become 0 unless with_constants, as for radii and perturbations.
  template <class Real>
  void move(std::span<const Real* const> operands, std::size_t rows, std::vector<Real>& result, Real sign,
            bool with_constants) const {
    const std::size_t n = sources_.size();
    for (std::size_t row = 0; row < rows; ++row) {
      Real* const to = result.data() + row * n;
      for (std::size_t i = 0; i < n; ++i) {
        const RowSource& source = sources_[i];
        const Real constant = with_constants ? static_cast<Real>(source.constant) : Real(0);
        to[i] = source.is_constant ? constant : sign * operands[source.slot][row * sizes_[source.slot] + source.index];
      }
    }
  }
  template <class Real>
  void move(const std::vector<const Real*>& operands, std::size_t rows, std::vector<Real>& result, Real sign,
            bool with_constants) const {
    move(std::span<const Real* const>(operands), rows, result, sign, with_constants);
  }

  template <class Real>
  void move_back(std::size_t slot, const std::vector<Real>& d, std::vector<Real>& share) const {
    const std::size_t n = sources_.size(), rows = d.size() / n;
    const auto sign = static_cast<Real>(sign_);
    std::fill(share.begin(), share.end(), Real(0));
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i < n; ++i)
        if (const RowSource& source = sources_[i]; !source.is_constant && source.slot == slot)
          share[row * sizes_[slot] + source.index] += sign * d[row * n + i];
  }

  /// Upper bound of the sum of the magnitudes of the shares of any element of an operand.
  template <class Real>
  double largest_sum(std::size_t slot, const std::vector<Real>& d, std::size_t row) const {
    const std::size_t n = sources_.size();
    double largest = 0.0;
    for (std::size_t i = row * n; i < (row + 1) * n; ++i)
      if (!(std::abs(static_cast<double>(d[i])) <= largest)) largest = std::abs(static_cast<double>(d[i]));
    return (Magnitude(static_cast<double>(most_uses_[slot])) * Magnitude(largest)).value();
  }

  const std::vector<RowSource> sources_;  ///< one row of the output
  const std::vector<std::size_t> sizes_;
  const double sign_;
  std::vector<std::size_t> most_uses_;  ///< by operand: how often its most used element is read
};

class ReluStep : public Step {
public:
  explicit ReluStep(const Setting& setting) : Step(setting, 2) {}

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = y.rows(), n = y.size();
    errors.slopes.resize(rows * n);
    allocate_remainder(errors, rows * n, request);
    errors.has_remainder.resize(rows);
    scratch.own.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      if (!elements_.relu(x.centre.data() + first, y.centre.data() + first, n)) undecided[row] = 1;
      expand_row(x, row, {y.radius.data() + first, in_order_at(y, first, request)}, errors, scratch);
      const Magnitude norm = theorems::norm_of_function(Magnitude(1.0), Magnitude(x.norm[row]));
      y.norm[row] = theorems::norm_of_row(norm_of(y.radius, row, n).value(), norm.value());
      y.exact[row] = theorems::norm_of_function(Magnitude(1.0), Magnitude(x.exact[row])).value();
      if (!request.in_order) continue;
      const Magnitude in_order = theorems::norm_of_function(Magnitude(1.0), Magnitude(x.in_order.norm[row]));
      y.in_order.norm[row] = theorems::norm_of_row(norm_of(y.in_order.radius, row, n).value(), in_order.value());
    }
  }

  void update_remainder(const RunRows& x, const RunRows&, std::span<const std::size_t> rows, const RunRequest& request,
                        RunErrors& errors, RunScratch& scratch) const override {
    const Moved moved = into(scratch, x.size(), request);
    for (const std::size_t row : rows) expand_row(x, row, moved, errors, scratch);
  }

  void evaluate(std::span<const double* const> operands, std::size_t, std::vector<double>& result) const override {
    elements_.relu(operands[0], result.data(), result.size());
  }

  /// Slopes 0 and 1 cause no rounding; chords do.
  void pull_back(std::size_t, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    multiply_by_slopes(errors, rows, y, share);
    if (errors.takes_chords) return lose_rounding(share, y.d.size() / rows.size());
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
  }
  void pull_back(std::size_t, const RunErrors&, std::span<const float> slopes, std::span<const std::size_t> rows,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    multiply_by_slopes(slopes, rows, y, share);
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
  }

  void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    push_by_slopes(operands[0], errors, rows, copies, result);
  }

private:
  void expand_row(const RunRows& x, std::size_t row, const Moved& moved, RunErrors& errors, RunScratch& scratch) const {
    const std::size_t n = x.size(), first = row * n;
    const ReluFlags flags = rows_.relu(x.centre.data() + first, x.radius.data() + first, errors.slopes.data() + first,
                                       errors.remainder.data() + first, moved.any_order, n);
    errors.has_remainder[row] = errors.takes_chords || flags.bends ? 1 : 0;
    if (errors.takes_chords)
      rows_.relu_chords(x.centre.data() + first, x.radius.data() + first, errors.slopes.data() + first,
                        errors.remainder.data() + first, n);
    if (moved.in_order == nullptr) return;
    const ReluFlags in_order = rows_.relu(x.centre.data() + first, x.in_order.radius.data() + first, scratch.own.data(),
                                          errors.remainder_in_order.data() + first, moved.in_order, n);
    if (in_order.bends) errors.has_remainder[row] = 1;
    if (errors.takes_chords) expand_in_order(x, errors, row);
  }

  /// Remainders of runs in the declared order for the slopes s in [0, 1] that were chosen for any order:
  /// max(t E, (1 - t) E - |x|) with t = 1 - s for x > 0 and t = s elsewhere (T-65).
  static void expand_in_order(const RunRows& x, RunErrors& errors, std::size_t row) {
    const std::size_t n = x.size();
    for (std::size_t i = row * n; i < (row + 1) * n; ++i) {
      const Magnitude e(x.in_order.radius[i]), slope(errors.slopes[i]);
      const Magnitude rest = subtract_up(Magnitude(1.0), errors.slopes[i]);
      const bool is_active = x.centre[i] > 0.0;
      const Magnitude near = (is_active ? rest : slope) * e, far = (is_active ? slope : rest) * e;
      errors.remainder_in_order[i] = std::max(near, subtract_up(far, std::abs(x.centre[i]))).value();
    }
  }
};

/// An upper bound of e^z - 1 - z for z >= 0, the same as in the row kernels.
double exponential_remainder(double z) {
  if (z <= 1.0) return 0.5 * z * z * (1.0 + 0.572762 * z);
  return z <= 64.0 ? std::ldexp(1.0, static_cast<int>(std::ceil(1.4426951 * z))) : HUGE_VAL;
}

/// A function of one element, with stored slopes as Jacobian.
class SlopeStep : public Step {
public:
  using Step::Step;

  void pull_back(std::size_t, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    multiply_by_slopes(errors, rows, y, share);
    lose_rounding(share, y.d.size() / y.defect.size());
  }
  void pull_back(std::size_t, const RunErrors&, std::span<const float> slopes, std::span<const std::size_t> rows,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    multiply_by_slopes(slopes, rows, y, share);
  }

  void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    push_by_slopes(operands[0], errors, rows, copies, result);
  }
};

class SmoothStep : public SlopeStep {
public:
  SmoothStep(const Setting& setting, const Op& op, const Smooth& f, FunctionError accuracy)
      : SlopeStep(setting, 2), f_(f), numbers_(f.numbers), steepest_(theorems::steepest_slope(op)), ends_(ends_of(op)) {
    numbers_.units = accuracy.units;
    numbers_.absolute_units = accuracy.absolute_units;
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch&) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = y.rows(), n = y.size();
    errors.remainder_is_quadratic = true;
    errors.slopes.resize(rows * n);
    errors.curvatures.resize(rows * n);
    allocate_added(errors, rows * n, request);
    allocate_remainder(errors, rows * n, request);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      if (!bounds::evaluate(f_, elements_, x.centre.data() + first, y.centre.data() + first,
                            errors.slopes.data() + first, errors.curvatures.data() + first, n))
        undecided[row] = 1;
      expand_row(x, y, row, {y.radius.data() + first, in_order_at(y, first, request)}, errors);
      const Magnitude own =
          Magnitude(numbers_.relative) * norm_of(y.centre, row, n) + Magnitude(numbers_.absolute) * root_of(n);
      y.exact[row] = (theorems::norm_of_function(steepest_, Magnitude(x.exact[row])) + own).value();
      limit_by_ends(x.norm[row], y.centre.data() + first, errors.added.data() + first, y.radius.data() + first, n);
      const Magnitude propagated = theorems::norm_of_function(steepest_, Magnitude(x.norm[row]));
      finish(y, row, propagated + norm_of(errors.added, row, n));
      if (!request.in_order) continue;
      limit_by_ends(x.in_order.norm[row], y.centre.data() + first, errors.added_in_order.data() + first,
                    y.in_order.radius.data() + first, n);
      const Magnitude in_order = theorems::norm_of_function(steepest_, Magnitude(x.in_order.norm[row]));
      finish_in_order(y, row, in_order + norm_of(errors.added_in_order, row, n));
    }
  }

  void update_remainder(const RunRows& x, const RunRows& y, std::span<const std::size_t> rows,
                        const RunRequest& request, RunErrors& errors, RunScratch& scratch) const override {
    const Moved moved = into(scratch, x.size(), request);
    for (const std::size_t row : rows) expand_row(x, y, row, moved, errors);
  }

  void evaluate(std::span<const double* const> operands, std::size_t, std::vector<double>& result) const override {
    std::vector<double> slopes(result.size()), curvatures(result.size());
    bounds::evaluate(f_, elements_, operands[0], result.data(), slopes.data(), curvatures.data(), result.size());
  }

  /// kappa of T-88, 3, not rounded up.
  double approx_remainder(const RunErrors& errors, std::size_t at, double distance) const override {
    constexpr double slope_error = 0x1p-49, curvature_error = 0x1p-47;
    const double m = std::abs(errors.curvatures[at]), rate = numbers_.tail_rate;
    const double at_x = numbers_.curvature_factor * m + curvature_error;
    const double curvature = std::min(at_x + numbers_.third_derivative / 3 * distance, numbers_.most_curvature);
    const double of_slope = slope_error * distance, of_curvature = 0.5 * distance * distance * curvature;
    if (rate == 0.0) return of_slope + of_curvature;
    const double there = numbers_.tail_follows_slope ? std::abs(errors.slopes[at]) : m;
    const double tail = numbers_.tail_factor * (there + curvature_error);
    return of_slope + std::min(of_curvature, tail * exponential_remainder(rate * distance) / (rate * rate));
  }

protected:
  const Smooth& f_;
  SmoothRow numbers_;

private:
  /// The exact function's values lie between its ends. `operand` is a bound of the 2-norm by which its operand moves, `added`
  /// the errors of shadow and run.
  void limit_by_ends(double operand, const double* centre, const double* added, double* radius, std::size_t n) const {
    constexpr double little = 0x1p-8;
    if (!ends_ || !std::isfinite(operand) || rows_.largest(radius, n) <= little) return;
    for (std::size_t i = 0; i < n; ++i) {
      const Magnitude within(theorems::reach_within(centre[i], ends_->first, ends_->second));
      radius[i] = std::min(radius[i], (within + Magnitude(added[i])).value());
    }
  }

  void expand_row(const RunRows& x, const RunRows& y, std::size_t row, const Moved& moved, RunErrors& errors) const {
    const std::size_t n = x.size(), first = row * n;
    SmoothRow numbers = numbers_;
    if (numbers.steps > 0.0) numbers.x = x.centre.data() + first;
    numbers.y = y.centre.data() + first;
    numbers.e = x.radius.data() + first;
    numbers.slopes = errors.slopes.data() + first;
    numbers.curvatures = errors.curvatures.data() + first;
    rows_.smooth(numbers, format_, {moved.any_order, errors.added.data() + first}, errors.remainder.data() + first, n);
    if (moved.in_order == nullptr) return;
    numbers.e = x.in_order.radius.data() + first;
    rows_.smooth(numbers, format_, {moved.in_order, errors.added_in_order.data() + first},
                 errors.remainder_in_order.data() + first, n);
  }

  const Magnitude steepest_;
  const std::optional<std::pair<double, double>> ends_;  ///< of the values of f; empty: it is not bounded
};

/// Gelu as one fused op, in both forms. Runs compute it in the steps of its body.
/// Source:    docs/theory.md T-124
class GeluStep : public SmoothStep {
public:
  GeluStep(const Setting& setting, const op::Gelu& gelu, const GeluSteps& steps)
      : SmoothStep(setting, gelu, gelu.tanh_form ? smooth_gelu_tanh : smooth_gelu, FunctionError(steps.units.value())),
        is_tanh_form_(gelu.tanh_form),
        steps_(steps) {
    numbers_.steps = steps.each.value();
    numbers_.least_step = steps.least.value();
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    SmoothStep::forward(operands, request, y, errors, undecided, scratch);
    const RunRows& x = *operands[0];
    const std::size_t n = y.size();
    for (std::size_t row = 0; row < y.rows(); ++row) {
      const Magnitude farthest = largest_of(x.centre, row, n) + largest_of(x.radius, row, n);
      if (!steps_.stay_finite(farthest, format_.largest)) undecided[row] = 1;
    }
    errors.rounds_once = request.chance.any();
    if (request.chance.any()) find_residuals(x, y, errors);
    if (request.conditioned > 0) find_sizes(x.centre, y.centre, errors.sizes);
  }

private:
  void find_residuals(const RunRows& x, const RunRows& y, RunErrors& errors) const {
    errors.residuals.resize(y.centre.size());
    for (std::size_t i = 0; i < errors.residuals.size(); ++i) {
      const Magnitude own = Magnitude(numbers_.relative) * Magnitude(y.centre[i]) + Magnitude(numbers_.absolute);
      const Magnitude farthest = Magnitude(x.centre[i]) + Magnitude(x.radius[i]);
      errors.residuals[i] = (own + steps_.each_by_no_chance * farthest + steps_.least).value();
    }
  }

  /// T-79: sum over all values of the body of |value times the derivative of the result by it|.
  void find_sizes(const std::vector<double>& x, const std::vector<double>& y, std::vector<double>& sizes) const {
    constexpr double root_half = 0.70710678118654752, step = 0.79788456080286536, cubic = 0.044715;
    sizes.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double half = 0.5 * std::abs(x[i]), cube = cubic * x[i] * x[i] * x[i], z = root_half * x[i];
      const double of_tanh = std::tanh(step * (x[i] + cube));
      const double share = is_tanh_form_ ? of_tanh : std::erf(z);
      const double of_arguments = is_tanh_form_ ? step * (1.0 - of_tanh * of_tanh) * std::abs(2.0 * x[i] + 5.0 * cube)
                                                : 2.0 * step * std::exp(-z * z) * root_half * std::abs(z);
      sizes[i] = half * (of_arguments + std::abs(share)) + 3.0 * std::abs(y[i]);
    }
  }

  const bool is_tanh_form_;
  const GeluSteps steps_;
};

/// T-88, 9: any other function of one element, evaluated element by element without a row kernel.
class FunctionStep : public SlopeStep {
public:
  FunctionStep(const Setting& setting, const Node& node, std::set<std::string>& conditions)
      : SlopeStep(setting, 2), setting_(setting), node_(node), steepest_(theorems::steepest_slope(node.op)) {
    setting_.threads = 1;
    const Tensor<double> x({1, 1}, {0.5}), y({1, 1}, {0.5});
    body_rounding({{&node_, {&x}, &y}, {{}}, {}, true}, setting_, conditions);
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch&) const override {
    const RunRows& x = *operands[0];
    const std::size_t n = y.size();
    errors.slopes.resize(y.centre.size());
    allocate_added(errors, y.centre.size(), request);
    allocate_remainder(errors, y.centre.size(), request);
    for (std::size_t row = 0; row < y.rows(); ++row) {
      const std::size_t first = row * n;
      const Centre centre = centre_of(x.centre.data() + first, n);
      const auto at = static_cast<std::ptrdiff_t>(first);
      std::copy(centre.value.values.begin(), centre.value.values.end(), y.centre.begin() + at);
      const ExpandedRow any_order = expand(x, x.radius, row, centre, true);
      std::copy(any_order.linear.slopes[0].begin(), any_order.linear.slopes[0].end(), errors.slopes.begin() + at);
      any_order.write_errors(first, errors.added, errors.remainder);
      any_order.write_moved(first, y.radius);
      const Magnitude own = theorems::norm_of_vector(centre.error);
      const Magnitude steepest = steepest_.is_finite() ? steepest_ : lipschitz_within(x, row, n, centre);
      y.exact[row] = (theorems::norm_of_function(steepest, Magnitude(x.exact[row])) + own).value();
      finish(y, row, moved_norm(any_order, x.norm[row]) + norm_of(errors.added, row, n));
      if (!std::isfinite(y.norm[row])) undecided[row] = 1;
      if (!request.in_order) continue;
      const ExpandedRow in_order = expand(x, x.in_order.radius, row, centre, false);
      in_order.write_errors(first, errors.added_in_order, errors.remainder_in_order);
      in_order.write_moved(first, y.in_order.radius);
      finish_in_order(y, row, moved_norm(in_order, x.in_order.norm[row]) + norm_of(errors.added_in_order, row, n));
    }
  }

  void update_remainder(const RunRows& x, const RunRows&, std::span<const std::size_t> rows, const RunRequest& request,
                        RunErrors& errors, RunScratch&) const override {
    const std::size_t n = x.size();
    for (const std::size_t row : rows) {
      const Centre centre = centre_of(x.centre.data() + row * n, n);
      expand(x, x.radius, row, centre, true).write_errors(row * n, errors.added, errors.remainder);
      if (request.in_order)
        expand(x, x.in_order.radius, row, centre, false)
            .write_errors(row * n, errors.added_in_order, errors.remainder_in_order);
    }
  }

  void evaluate(std::span<const double* const> operands, std::size_t, std::vector<double>& result) const override {
    result = centre_of(operands[0], result.size()).value.values;
  }

private:
  static Tensor<double> as_row(const double* values, std::size_t n) {
    return Tensor<double>({1, static_cast<std::int64_t>(n)}, std::vector<double>(values, values + n));
  }

  static Magnitude moved_norm(const ExpandedRow& row, double norm) {
    return theorems::norm_of_function(row.linear.lipschitz, Magnitude(norm));
  }

  Centre centre_of(const double* x, std::size_t n) const {
    const Tensor<double> operand = as_row(x, n);
    return centre_of_node({&node_, {&operand}, nullptr}, operand.shape, setting_);
  }

  ExpandedRow expand(const RunRows& x, const std::vector<double>& radii, std::size_t row, const Centre& y,
                     bool any_order) const {
    const std::size_t n = x.size(), first = row * n;
    const Tensor<double> operand = as_row(x.centre.data() + first, n);
    return expanded_row({&node_, {&operand}, &y.value}, {Radii(radii).subspan(first, n)}, y.error, any_order, setting_);
  }

  /// A Lipschitz constant of f within the distance ||exact - shadow||_2 of a row of the operand.
  Magnitude lipschitz_within(const RunRows& x, std::size_t row, std::size_t n, const Centre& y) const {
    const Tensor<double> operand = as_row(x.centre.data() + row * n, n);
    const std::vector<double> reach(n, x.exact[row]);
    const std::vector<Radii> radii = {reach};
    return linearise({&node_, {&operand}, &y.value}, radii, y.error, setting_).lipschitz;
  }

  Setting setting_;
  const Node node_;
  const Magnitude steepest_;
};

using StepPointer = std::unique_ptr<const RunStep>;

/// Chooses a step by op.
class StepOf {
public:
  StepOf(const RowNode& node, const OfSample& of, const Setting& setting, OperandCache& operands,
         std::set<std::string>& conditions)
      : node_(node), of_(of), setting_(setting), operands_(operands), conditions_(conditions) {}

  StepPointer operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    if (node_.varies(1)) return sample_by_sample();  // two values, or filters times the windows of a convolution
    if (!node_.varies(0)) return nullptr;
    Product product = node_.product();
    if (product.has_addend && node_.varies(2)) return sample_by_sample();
    const std::size_t lines = rows_times_matrix(product.plan), rows = static_cast<std::size_t>(node_.rows());
    const bool adds = product.has_addend && product.beta != 0.0;
    if (lines == 0 || product.alpha != 1.0 || (adds && product.beta != 1.0)) return nullptr;
    const auto k = static_cast<std::size_t>(product.plan.k), n = static_cast<std::size_t>(product.plan.n);
    auto addend = adds ? node_.constant_row(2) : std::vector<double>(n, 0.0);
    const CoarseWeights* coarse = operands_.coarse_right(product.plan, *node_.constants[1]);
    if (!addend || coarse == nullptr || !repeats_every(*addend, n)) return nullptr;
    addend->resize(n);
    auto step = std::make_unique<ProductStep>(product, *node_.constants[1], *addend, *coarse, setting_, operands_);
    if (lines == rows) return step;
    return std::make_unique<PartsStep>(std::move(step), lines / rows, k, n, setting_);
  }

  StepPointer operator()(const op::Relu&) const { return std::make_unique<ReluStep>(setting_); }
  StepPointer operator()(const op::Gelu& gelu) const {
    const auto steps = gelu_steps(gelu, setting_, conditions_);
    return steps ? std::make_unique<GeluStep>(setting_, gelu, *steps) : nullptr;
  }
  StepPointer operator()(const op::Add&) const { return sum(fastest_element_kernels().add, false); }
  StepPointer operator()(const op::Sub&) const { return sum(fastest_element_kernels().sub, true); }
  StepPointer operator()(const OneOf<op::Div, op::Min, op::Max, op::PRelu> auto&) const { return sample_by_sample(); }
  StepPointer operator()(const Comparison auto&) const { return sample_by_sample(); }
  StepPointer operator()(const op::Choice&) const { return sample_by_sample(); }
  StepPointer operator()(const Reduction auto&) const { return sample_by_sample(); }
  StepPointer operator()(const op::Softmax&) const { return sample_by_sample(); }
  StepPointer operator()(const op::Mul&) const {
    if (node_.varies(0) && node_.varies(1)) return sample_by_sample();
    const std::size_t varying = node_.varies(0) ? 0 : 1;
    auto constants = node_.constant_row(1 - varying);
    if (!constants || elements(varying) != elements()) return sample_by_sample();
    for (const double sign : {1.0, -1.0})  // products with 1 and -1 are exact
      if (std::all_of(constants->begin(), constants->end(), [&](double c) { return c == sign; }))
        return row_by_row(varying, sign);
    if (!are_powers_of_two(*constants) && is_arithmetic_of_inputs(node_.node.inputs[varying]))
      return sample_by_sample();
    return std::make_unique<ScaleStep>(setting_, varying, std::move(*constants));
  }
  StepPointer operator()(const Selection auto& op) const {
    std::vector<Shape> shapes;
    for (std::size_t slot = 0; slot < node_.constants.size(); ++slot) shapes.push_back(node_.shape(slot));
    return moves(plan_selection(op, shapes, node_.shape()), 1.0);
  }
  StepPointer operator()(const op::Neg&) const { return row_by_row(0, -1.0); }
  /// A Cast to a format that holds every number of the accumulator is exact.
  StepPointer operator()(const op::Cast& cast) const {
    const std::optional<FormatId> to = float_format(cast.to);
    const bool is_exact = to && (*to == setting_.machine.accumulator->id || *to == FormatId::fp64);
    return is_exact ? row_by_row(0, 1.0) : nullptr;
  }
  StepPointer operator()(const ElementwiseUnary auto& op) const {
    const Smooth* const f = function_rules(op).smooth;
    if (f != nullptr) return std::make_unique<SmoothStep>(setting_, op, *f, error_of(f->name, setting_, conditions_));
    return std::make_unique<FunctionStep>(setting_, node_.node, conditions_);
  }
  StepPointer operator()(const Composite auto&) const { return nullptr; }

private:
  /// Makes one product of all batches of rows times one matrix. Returns the number of rows; 0 if it is no such product.
  static std::size_t rows_times_matrix(ProductPlan& plan) {
    if (!is_rows_times_matrix(plan)) return 0;
    plan.m *= plan.batches;
    plan.batches = 1;
    plan.a_batch = {0};
    plan.b_batch = {plan.b_batch[0]};
    return static_cast<std::size_t>(plan.m);
  }

  static bool repeats_every(const std::vector<double>& row, std::size_t n) {
    for (std::size_t i = n; i < row.size(); ++i)
      if (row[i] != row[i - n]) return false;
    return true;
  }

  /// Whether a value is an input, or made of inputs and constants by moves, sums and products alone. It may be a number of
  /// the format, which body_rounding() sees (T-22).
  bool is_arithmetic_of_inputs(ValueId id, int most_steps = 4) const {
    const Graph& graph = node_.program.flat().graph;
    const std::optional<std::size_t> made_by = graph.producer(id);
    if (!made_by) return true;
    if (most_steps == 0) return false;
    const Node& node = graph.nodes[*made_by];
    const bool is_arithmetic = std::visit(
        []<class T>(const T&) { return Selection<T> || OneOf<T, op::Neg, op::Add, op::Sub, op::Mul>; }, node.op);
    return is_arithmetic && std::all_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId input) { return is_arithmetic_of_inputs(input, most_steps - 1); });
  }

  StepPointer sample_by_sample() const {
    const SampleProgram* const sample = of_.program ? of_.program() : nullptr;
    return sample == nullptr ? nullptr : node_step(*sample, of_.node, setting_, operands_, conditions_);
  }

  /// An operand that is copied or negated.
  StepPointer row_by_row(std::size_t slot, double sign) const {
    std::vector<ElementSource> sources(elements());
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i] = {slot, i};
    return moves(sources, sign);
  }

  /// Null if the rows of the output are not made of the same elements of the operands' rows, or if a constant is not a
  /// number of the accumulator.
  StepPointer moves(const std::vector<ElementSource>& all, double sign) const {
    const auto rows = static_cast<std::size_t>(node_.rows());
    const std::size_t n = elements() / std::max<std::size_t>(rows, 1);
    std::vector<std::size_t> sizes;
    for (std::size_t slot = 0; slot < node_.constants.size(); ++slot)
      sizes.push_back(node_.varies(slot) ? elements(slot) / std::max<std::size_t>(rows, 1) : 0);
    std::vector<RowSource> sources(n);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto source = source_in_row(all[i], i / n, sizes);
      if (!source) return nullptr;
      RowSource& known = sources[i % n];
      if (i < n) known = *source;
      if (known.is_constant != source->is_constant || known.slot != source->slot || known.index != source->index ||
          known.constant != source->constant)
        return nullptr;
    }
    return std::make_unique<MoveStep>(setting_, std::move(sources), std::move(sizes), sign);
  }

  std::optional<RowSource> source_in_row(const ElementSource& source, std::size_t row,
                                         const std::vector<std::size_t>& sizes) const {
    if (!source.is_fill() && node_.varies(source.input)) {
      const std::size_t size = sizes[source.input], first = row * size;
      if (source.index < first || source.index >= first + size) return std::nullopt;
      return RowSource{source.input, source.index - first, 0.0, false};
    }
    const double constant =
        source.is_fill() ? fill_value(node_.node.op) : node_.constants[source.input]->values[source.index];
    const Machine& machine = setting_.machine;
    if (!std::isfinite(constant) || !theorems::fits(constant, *machine.accumulator, machine)) return std::nullopt;
    return RowSource{0, 0, constant, true};
  }

  std::size_t elements(std::size_t slot) const { return static_cast<std::size_t>(element_count(node_.shape(slot))); }
  std::size_t elements() const { return static_cast<std::size_t>(element_count(node_.shape())); }

  StepPointer sum(ElementKernels::Pair f, bool subtracts) const {
    const bool is_joint = node_.varies(0) && node_.varies(1) && of_.program && of_.program() != nullptr &&
                          of_.program()->bounds_jointly(of_.node);
    if (is_joint) return sample_by_sample();
    std::vector<double> constants;
    for (std::size_t slot = 0; slot < 2; ++slot) {
      if (node_.varies(slot) && elements(slot) != elements()) return sample_by_sample();
      if (node_.varies(slot)) continue;
      auto row = node_.constant_row(slot);
      if (!row) return sample_by_sample();
      constants = std::move(*row);
      const bool is_zero = std::all_of(constants.begin(), constants.end(), [](double c) { return c == 0.0; });
      if (is_zero && (slot == 1 || !subtracts)) return row_by_row(1 - slot, 1.0);  // adding 0 is exact
    }
    if (is_arithmetic_of_inputs(node_.node.output)) return sample_by_sample();
    return std::make_unique<SumStep>(setting_, f, subtracts, std::move(constants));
  }

  const RowNode& node_;
  const OfSample& of_;
  const Setting& setting_;
  OperandCache& operands_;
  std::set<std::string>& conditions_;
};

}  // namespace

double RunStep::approx_remainder(const RunErrors& errors, std::size_t at, double) const {
  return errors.remainder[at];
}

bool RunRequest::knows_network() const {
  return recorded != nullptr && !recorded->network.empty();
}

void RunStep::row_of_matrix(std::size_t, float*) const {}

std::vector<std::vector<double>> RunStep::slopes_of(const RunErrors& errors, std::size_t row, std::size_t size) const {
  if (errors.slopes.empty()) return {};
  const std::span<const double> of_row = std::span(errors.slopes).subspan(row * size, size);
  return {std::vector<double>(of_row.begin(), of_row.end())};
}

void RunStep::add_secants(std::span<const RunRows* const>, std::span<const RecordedRows* const>, const RunRows&,
                          RunErrors&) const {
  throw std::logic_error("RunStep::add_secants: the node is not expanded sample by sample");
}

bool RunErrors::may_have_secants() const {
  return !slopes.empty() || !factors.empty() ||
         std::any_of(slope_sizes.begin(), slope_sizes.end(), [](std::size_t size) { return size != 0; });
}

Magnitude norm_in_single(std::span<const float> d) {
  const auto size = static_cast<std::int64_t>(d.size());
  return Magnitude(std::sqrt(theorems::outward(row_kernels().single_squares(d.data(), d.size()), size, 0)) *
                   (1.0 + 0x1p-52));
}

void RunErrors::clear() {
  for (std::vector<double>* values : {&slopes, &added, &remainder, &curvatures, &added_in_order, &remainder_in_order,
                                      &residuals, &amplitudes, &estimates, &sizes, &unattributed})
    values->clear();
  operand_slopes.clear();
  factors.clear();
  slope_sizes.clear();
  patterns.clear();
  has_remainder.clear();
  remainder_is_quadratic = takes_chords = rounds_once = false;
}

void RunRows::resize(std::size_t rows, std::size_t size, bool with_order) {
  centre.resize(rows * size);
  radius.resize(rows * size);
  norm.assign(rows, 0.0);
  exact.assign(rows, 0.0);
  if (!with_order) return;
  in_order.radius.resize(rows * size);
  in_order.norm.assign(rows, 0.0);
}

StepPointer run_step_of(const RowNode& node, const OfSample& of, const Setting& setting, OperandCache& operands,
                        std::set<std::string>& conditions) {
  const bool is_empty = element_count(node.shape()) == 0 || node.rows() == 0;
  if (is_empty) return nullptr;
  return std::visit(StepOf(node, of, setting, operands, conditions), node.node.op);
}

}  // namespace driftbound::bounds

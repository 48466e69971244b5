#include "bounds/adjoint/run_step.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bounds/accuracy.hpp"
#include "bounds/adjoint/plain_rows.hpp"
#include "bounds/adjoint/smooth.hpp"
#include "bounds/adjoint/weights.hpp"
#include "bounds/element_kernels.hpp"
#include "bounds/product_node.hpp"
#include "evaluate/product_kernels.hpp"

namespace driftbound::bounds {
namespace {

constexpr double unit = 0x1p-53;
const Magnitude half_ulp(unit);
const Magnitude smallest(0x1p-1074);

Magnitude root_of(std::size_t count) {
  return sqrt_up(Magnitude(static_cast<double>(count)));
}

/// What every step needs to know.
class Step : public RunStep {
public:
  Step(const Setting& setting, std::int64_t most_leaves)
      : rules_(*setting.rules), rows_(rules_.rows), format_(row_format(setting, most_leaves)) {}

protected:
  /// The row's radii are what element by element gives; limits them to the norm, and to what cannot overflow.
  void finish(RunRows& result, std::size_t row, Magnitude norm) const {
    const std::size_t n = result.size(), first = row * n;
    rows_.limit(result.centre.data() + first, norm.value(), format_.largest, result.radius.data() + first, n);
    result.norm[row] = rules_.trajectory.norm_of_row(norm_of(result.radius, row, n).value(), norm.value());
  }
  Magnitude norm_of(const std::vector<double>& values, std::size_t row, std::size_t n) const {
    return rules_.norms.vector(std::span(values).subspan(row * n, n));
  }
  Magnitude largest_of(const std::vector<double>& values, std::size_t row, std::size_t n) const {
    return Magnitude(rows_.largest(values.data() + row * n, n));
  }

  void multiply_by_slopes(const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                          RunAdjoint& share) const {
    const std::size_t n = y.d.size() / rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      elements_.mul(y.d.data() + i * n, errors.slopes.data() + rows[i] * n, share.d.data() + i * n, n);
  }

  /// What one rounding each takes from the elements of a row of shares.
  void lose_rounding(RunAdjoint& share, std::size_t size) const {
    for (std::size_t row = 0; row < share.defect.size(); ++row)
      share.defect[row] = rules_.defect(largest_of(share.d, row, size).value(), 1, 1);
  }

  const Rules& rules_;
  const RowKernels& rows_;
  const ElementKernels& elements_ = fastest_element_kernels();
  const RowFormat format_;
};

/// Rows times a constant matrix, and perhaps a constant row.
class ProductStep : public Step {
public:
  ProductStep(const Product& product, const Tensor<double>& b, std::vector<double> addend, const CoarseWeights& coarse,
              const Setting& setting, Weights& weights)
      : Step(setting, product.plan.k + 1),
        k_(static_cast<std::size_t>(product.plan.k)),
        n_(static_cast<std::size_t>(product.plan.n)),
        offset_(product.plan.b_batch[0]),
        forward_(weights.forward_right(product.plan, b)),
        transposed_(weights.transposed_right(product.plan, b)),
        coarse_(coarse),
        addend_(std::move(addend)),
        addend_sizes_(magnitudes(addend_)),
        spectral_(weights.norm_of_right(product.plan, b, setting.threads)) {}

  void forward(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::vector<char>& open,
               RunScratch& scratch) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = x.rows();
    multiply(x.centre, forward_, rows, k_, n_, y.centre);
    errors.added.resize(rows * n_);
    prepare(scratch, rows);
    for (std::size_t row = 0; row < rows; ++row) {
      if (!add_constants(y, row) || !read_row(x, row, scratch)) open[row] = 1;
    }
    for (const std::size_t which : {moved, total, squares, sides})
      multiply_coarse(scratch.coarse[which], rows, coarse_, matrix(which), scratch.sums[which]);
    for (std::size_t row = 0; row < rows; ++row) bound_row(x, y, errors, row, scratch);
  }

  void pull_back(std::size_t, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t rows = y.defect.size();
    const auto terms = static_cast<std::int64_t>(n_);
    multiply(y.d, transposed_, rows, n_, k_, share.d);
    for (std::size_t row = 0; row < rows; ++row)
      share.defect[row] = sum_error(norm_of(y.d, row, n_), terms, transposed_).value();
  }

private:
  enum Which { moved, total, squares, sides };
  const CoarseMatrix& matrix(std::size_t which) const {
    return which == squares ? coarse_.squares : which == sides ? coarse_.sides : coarse_.magnitudes;
  }

  void multiply(const std::vector<double>& a, const PackedFactor& factor, std::size_t m, std::size_t k, std::size_t n,
                std::vector<double>& c) const {
    const PackedProduct<double> product{a.data(), factor.matrices.at(offset_).data(), c.data(), m, n, k, k, true};
    fastest_product_kernels().multiply(product, 0, m);
  }

  /// Of any element of a row of sums of `terms` products in double: T-64.
  Magnitude sum_error(Magnitude norm, std::int64_t terms, const PackedFactor& factor) const {
    const std::vector<double>& columns = factor.column_norms.at(offset_);
    const Magnitude largest(*std::max_element(columns.begin(), columns.end()));
    return Magnitude(rules_.defect(norm.value(), terms, 0)) * largest + Magnitude(rules_.defect(0.0, terms, 2 * terms));
  }

  bool add_constants(RunRows& y, std::size_t row) const {
    double* sums = y.centre.data() + row * n_;
    return elements_.add(sums, addend_.data(), sums, n_);
  }

  void prepare(RunScratch& scratch, std::size_t rows) const {
    for (const std::size_t which : {moved, total, squares, sides}) {
      scratch.coarse[which].resize(rows * k_);
      scratch.sums[which].resize(rows * n_);
      scratch.scales[which].assign(rows, 0.0);
    }
    scratch.operands.assign(rows, RowOperands());
    scratch.larger.resize(k_);
    scratch.own.resize(n_);
  }

  /// Scales and rounds up E, |x| + E and its squares.
  bool read_row(const RunRows& x, std::size_t row, RunScratch& scratch) const {
    const double *centre = x.centre.data() + row * k_, *radius = x.radius.data() + row * k_;
    const auto at = [&](Which which) { return scratch.coarse[which].data() + row * k_; };
    rows_.larger_operand(centre, radius, scratch.larger.data(), k_);
    const std::optional<double> of_radius = coarse_scale(rows_.largest(radius, k_));
    const RowOperands known = row_operands(scratch.larger, radius, x.norm[row], format_, rules_, scratch.small);
    const double* sizes = known.moves_by_norm ? centre : scratch.larger.data();
    const std::optional<double> of_larger = coarse_scale(rows_.largest(sizes, k_));
    if (!of_radius || !of_larger) {
      for (const Which which : {moved, total, squares, sides}) std::fill_n(at(which), k_, 0.0F);
      return false;
    }
    rows_.coarse(radius, *of_radius, at(moved), k_);
    rows_.coarse(sizes, *of_larger, at(total), k_);
    rows_.coarse_squares(sizes, *of_larger, at(squares), k_);
    rows_.coarse_sides(centre, *of_larger, at(sides), k_);
    scratch.scales[moved][row] = 1.0 / *of_radius;
    scratch.scales[total][row] = 1.0 / *of_larger;
    scratch.scales[squares][row] = scratch.scales[total][row] * scratch.scales[total][row];
    scratch.scales[sides][row] = scratch.scales[squares][row];
    scratch.operands[row] = known;
    return true;
  }

  void bound_row(const RunRows& x, RunRows& y, RunErrors& errors, std::size_t row, RunScratch& scratch) const {
    const std::size_t first = row * n_;
    const Magnitude of_sums = sum_error(norm_of(x.centre, row, k_), static_cast<std::int64_t>(k_), forward_);
    const Magnitude own = of_sums + half_ulp * largest_of(y.centre, row, n_);
    std::fill(scratch.own.begin(), scratch.own.end(), own.value());
    const auto sums_of = [&](Which which) {
      return CoarseSums{scratch.sums[which].data() + first, scratch.scales[which][row],
                        matrix(which).column_scales.data()};
    };
    SumRow sums;
    sums.y = y.centre.data() + first;
    sums.own = scratch.own.data();
    sums.addend = addend_sizes_.data();
    sums.columns = coarse_.nonzero.data();
    const RowOperands& known = scratch.operands[row];
    sums.norms = coarse_.norms.data();
    sums.largest = coarse_.largest.data();
    sums.radius = known.radius;
    sums.moves_by_norm = known.moves_by_norm;
    sums.nonzero = known.nonzero;
    sums.sets_apart = known.small_norm.has_value();
    sums.not_small = known.not_small;
    sums.small_norm = known.small_norm.value_or(0.0);
    sums.is_moved = true;
    sums.moved = sums_of(moved);
    sums.total = sums_of(total);
    sums.squares = sums_of(squares);
    sums.knows_sides = true;
    sums.sides = sums_of(sides);
    sums.sides_error = coarse_error(k_);
    rows_.any_order(sums, format_, {y.radius.data() + first, errors.added.data() + first}, n_);
    const auto handed_on = [&](double norm) {
      return rules_.norms.constant_product({Magnitude(), Magnitude(norm)}, spectral_, Magnitude(), 1);
    };
    y.exact[row] = (handed_on(x.exact[row]) + root_of(n_) * own).value();
    finish(y, row, handed_on(x.norm[row]) + norm_of(errors.added, row, n_));
  }

  const std::size_t k_, n_;
  const std::int64_t offset_;
  const PackedFactor &forward_, &transposed_;
  const CoarseWeights& coarse_;
  const std::vector<double> addend_, addend_sizes_;  ///< of one row; zeros without
  const Magnitude spectral_;
};

/// A sum or difference of two values, or of one and a constant row.
class SumStep : public Step {
public:
  SumStep(const Setting& setting, ElementKernels::Pair f, bool subtracts, std::vector<double> constants)
      : Step(setting, 2), f_(f), subtracts_(subtracts), constants_(std::move(constants)) {}

  void forward(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::vector<char>& open,
               RunScratch& scratch) const override {
    const std::size_t rows = y.rows(), n = y.size();
    errors.added.resize(rows * n);
    scratch.own.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      const auto centre = [&](std::size_t slot) {
        return operands[slot] == nullptr ? constants_.data() : operands[slot]->centre.data() + first;
      };
      if (!f_(centre(0), centre(1), y.centre.data() + first, n)) open[row] = 1;
      std::fill_n(y.radius.data() + first, n, 0.0);
      Magnitude norm, exact;
      for (const RunRows* operand : operands) {
        if (operand == nullptr) continue;
        rows_.add(y.radius.data() + first, operand->radius.data() + first, n);
        norm = rules_.norms.sum(norm, Magnitude(operand->norm[row]));
        exact = rules_.norms.sum(exact, Magnitude(operand->exact[row]));
      }
      for (std::size_t i = 0; i < n; ++i) scratch.own[i] = unit * std::abs(y.centre[first + i]);
      const Magnitude own = half_ulp * largest_of(y.centre, row, n);
      rows_.sum(y.centre.data() + first, scratch.own.data(), &format_,
                {y.radius.data() + first, errors.added.data() + first}, n);
      y.exact[row] = (exact + root_of(n) * own).value();
      finish(y, row, norm + norm_of(errors.added, row, n));
    }
  }

  void pull_back(std::size_t slot, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    std::copy(y.d.begin(), y.d.end(), share.d.begin());
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
    if (subtracts_ && slot == 1)
      for (double& d : share.d) d = -d;
  }

private:
  const ElementKernels::Pair f_;
  const bool subtracts_;
  const std::vector<double> constants_;  ///< the operand that does not vary, one row of it
};

/// A product of every element with a constant of its own.
class ScaleStep : public Step {
public:
  ScaleStep(const Setting& setting, std::size_t varying, std::vector<double> constants)
      : Step(setting, 2), varying_(varying), constants_(std::move(constants)) {
    for (const double c : constants_) largest_ = std::max(largest_, Magnitude(c));
  }

  void forward(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::vector<char>& open,
               RunScratch& scratch) const override {
    const RunRows& x = *operands[varying_];
    const std::size_t rows = y.rows(), n = y.size();
    errors.added.resize(rows * n);
    scratch.own.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      if (!elements_.mul(x.centre.data() + first, constants_.data(), y.centre.data() + first, n)) open[row] = 1;
      rows_.scale(x.radius.data() + first, constants_.data(), y.radius.data() + first, n);
      for (std::size_t i = 0; i < n; ++i) {
        const bool is_zero = x.centre[first + i] == 0.0 || constants_[i] == 0.0;
        scratch.own[i] = is_zero ? 0.0 : unit * std::abs(y.centre[first + i]) + smallest.value();
      }
      const Magnitude own = half_ulp * largest_of(y.centre, row, n) + smallest;
      rows_.sum(y.centre.data() + first, scratch.own.data(), &format_,
                {y.radius.data() + first, errors.added.data() + first}, n);
      const auto handed_on = [&](double norm) {
        const ElementwiseFactor moving{Magnitude(), Magnitude(), Magnitude(norm)};
        return rules_.norms.elementwise_product(moving, {largest_, Magnitude(), Magnitude()});
      };
      y.exact[row] = (handed_on(x.exact[row]) + root_of(n) * own).value();
      finish(y, row, handed_on(x.norm[row]) + norm_of(errors.added, row, n));
    }
  }

  void pull_back(std::size_t, const RunErrors&, std::span<const std::size_t>, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t n = constants_.size();
    for (std::size_t row = 0; row < y.defect.size(); ++row)
      elements_.mul(y.d.data() + row * n, constants_.data(), share.d.data() + row * n, n);
    lose_rounding(share, n);
  }

private:
  const std::size_t varying_;
  const std::vector<double> constants_;  ///< one row
  Magnitude largest_;
};

class ReluStep : public Step {
public:
  explicit ReluStep(const Setting& setting) : Step(setting, 2) {}

  void forward(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::vector<char>& open,
               RunScratch&) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = y.rows(), n = y.size();
    errors.slopes.resize(rows * n);
    errors.remainder.resize(rows * n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      if (!elements_.relu(x.centre.data() + first, y.centre.data() + first, n)) open[row] = 1;
      rows_.relu(x.centre.data() + first, x.radius.data() + first, errors.slopes.data() + first,
                 errors.remainder.data() + first, y.radius.data() + first, n);
      if (errors.takes_chords)
        rows_.relu_chords(x.centre.data() + first, x.radius.data() + first, errors.slopes.data() + first,
                          errors.remainder.data() + first, n);
      const Magnitude norm = rules_.norms.function(Magnitude(1.0), Magnitude(x.norm[row]));
      y.norm[row] = rules_.trajectory.norm_of_row(norm_of(y.radius, row, n).value(), norm.value());
      y.exact[row] = rules_.norms.function(Magnitude(1.0), Magnitude(x.exact[row])).value();
    }
  }

  /// Nothing rounds where slopes are 0 and 1.
  void pull_back(std::size_t, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    multiply_by_slopes(errors, rows, y, share);
    if (errors.takes_chords) return lose_rounding(share, y.d.size() / rows.size());
    std::fill(share.defect.begin(), share.defect.end(), 0.0);
  }
};

class SmoothStep : public Step {
public:
  SmoothStep(const Setting& setting, const Smooth& f, FunctionError accuracy)
      : Step(setting, 2), f_(f), numbers_(f.numbers) {
    numbers_.units = accuracy.units;
    numbers_.absolute_units = accuracy.absolute_units;
  }

  void forward(std::span<const RunRows* const> operands, RunRows& y, RunErrors& errors, std::vector<char>& open,
               RunScratch& scratch) const override {
    const RunRows& x = *operands[0];
    const std::size_t rows = y.rows(), n = y.size();
    for (std::vector<double>* values : {&errors.slopes, &errors.added, &errors.remainder}) values->resize(rows * n);
    scratch.curvature.resize(n);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = row * n;
      SmoothRow numbers = numbers_;
      numbers.y = y.centre.data() + first;
      numbers.e = x.radius.data() + first;
      numbers.slopes = errors.slopes.data() + first;
      numbers.curvatures = scratch.curvature.data();
      if (!evaluate(f_, elements_, x.centre.data() + first, y.centre.data() + first, errors.slopes.data() + first,
                    scratch.curvature.data(), n))
        open[row] = 1;
      rows_.smooth(numbers, format_, {y.radius.data() + first, errors.added.data() + first},
                   errors.remainder.data() + first, n);
      const Magnitude own =
          Magnitude(numbers_.relative) * norm_of(y.centre, row, n) + Magnitude(numbers_.absolute) * root_of(n);
      y.exact[row] = (rules_.norms.function(Magnitude(1.0), Magnitude(x.exact[row])) + own).value();
      const Magnitude handed_on = rules_.norms.function(Magnitude(1.0), Magnitude(x.norm[row]));
      finish(y, row, handed_on + norm_of(errors.added, row, n));
    }
  }

  void pull_back(std::size_t, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    multiply_by_slopes(errors, rows, y, share);
    lose_rounding(share, y.d.size() / y.defect.size());
  }

private:
  const Smooth& f_;
  SmoothRow numbers_;
};

using StepPointer = std::unique_ptr<const RunStep>;

/// Chooses a step by op.
class StepOf {
public:
  StepOf(const RowNode& node, const Setting& setting, Weights& weights, std::set<std::string>& conditions)
      : node_(node), setting_(setting), weights_(weights), conditions_(conditions) {}

  StepPointer operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    if (!node_.varies(0) || node_.varies(1)) return nullptr;
    const Product product = node_.product();
    const ProductPlan& plan = product.plan;
    const bool is_rows_times_matrix = plan.batches == 1 && plan.m == node_.rows() && plan.k > 0 && plan.a_col == 1 &&
                                      plan.a_row == plan.k && plan.a_batch[0] == 0;
    const bool adds = product.has_addend && product.beta != 0.0;
    if (!is_rows_times_matrix || product.alpha != 1.0 || (adds && (product.beta != 1.0 || node_.varies(2))))
      return nullptr;
    const auto addend = adds ? node_.constant_row(2) : std::vector<double>(static_cast<std::size_t>(plan.n), 0.0);
    const CoarseWeights* coarse = weights_.coarse_right(plan, *node_.constants[1]);
    if (!addend || coarse == nullptr) return nullptr;
    return std::make_unique<ProductStep>(product, *node_.constants[1], *addend, *coarse, setting_, weights_);
  }

  StepPointer operator()(const op::Relu&) const { return std::make_unique<ReluStep>(setting_); }
  StepPointer operator()(const op::Tanh&) const { return smooth(smooth_tanh); }
  StepPointer operator()(const op::Softplus&) const { return smooth(smooth_softplus); }
  StepPointer operator()(const op::Sin&) const { return smooth(smooth_sin); }
  StepPointer operator()(const op::Add&) const { return sum(fastest_element_kernels().add, false); }
  StepPointer operator()(const op::Sub&) const { return sum(fastest_element_kernels().sub, true); }
  StepPointer operator()(const op::Mul&) const {
    if (node_.varies(0) == node_.varies(1)) return nullptr;
    const std::size_t varying = node_.varies(0) ? 0 : 1;
    auto constants = node_.constant_row(1 - varying);
    if (!constants || elements(varying) != elements()) return nullptr;
    return std::make_unique<ScaleStep>(setting_, varying, std::move(*constants));
  }
  StepPointer operator()(const auto&) const { return nullptr; }

private:
  std::size_t elements(std::size_t slot) const { return static_cast<std::size_t>(element_count(node_.shape(slot))); }
  std::size_t elements() const { return static_cast<std::size_t>(element_count(node_.shape())); }

  StepPointer smooth(const Smooth& f) const {
    return std::make_unique<SmoothStep>(setting_, f, error_of(f.name, setting_, conditions_));
  }

  StepPointer sum(ElementKernels::Pair f, bool subtracts) const {
    std::vector<double> constants;
    for (std::size_t slot = 0; slot < 2; ++slot) {
      if (node_.varies(slot) && elements(slot) != elements()) return nullptr;
      if (node_.varies(slot)) continue;
      auto row = node_.constant_row(slot);
      if (!row) return nullptr;
      constants = std::move(*row);
    }
    return std::make_unique<SumStep>(setting_, f, subtracts, std::move(constants));
  }

  const RowNode& node_;
  const Setting& setting_;
  Weights& weights_;
  std::set<std::string>& conditions_;
};

}  // namespace

void RunRows::resize(std::size_t rows, std::size_t size) {
  centre.resize(rows * size);
  radius.resize(rows * size);
  norm.assign(rows, 0.0);
  exact.assign(rows, 0.0);
}

StepPointer run_step_of(const RowNode& node, const Setting& setting, Weights& weights,
                        std::set<std::string>& conditions) {
  const bool is_empty = element_count(node.shape()) == 0 || node.rows() == 0;
  if (is_empty) return nullptr;
  return std::visit(StepOf(node, setting, weights, conditions), node.node.op);
}

}  // namespace driftbound::bounds

#include "reference/pair_product_node.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "reference/pair_kernels.hpp"

namespace driftbound {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::size_t size(std::int64_t extent) {
  return static_cast<std::size_t>(extent);
}

/// Batches that multiply consecutive matrices with the same one, as one product of more rows.
ProductPlan folded(ProductPlan plan) {
  const std::int64_t matrix = plan.m * plan.a_row;
  for (std::size_t batch = 0; batch < plan.a_batch.size(); ++batch) {
    if (plan.b_batch[batch] != plan.b_batch[0]) return plan;
    if (plan.a_batch[batch] != plan.a_batch[0] + static_cast<std::int64_t>(batch) * matrix) return plan;
  }
  plan.m *= plan.batches;
  plan.batches = 1;
  return plan;
}

/// One operand's matrix of one batch: packed, here or kept, with the norms of its rows' radii.
class Matrix {
public:
  Matrix(const PairInput& input, const KeptMatrices::Place& place) : input_(input), place_(place) {
    const PairTensor& tensor = *input.tensor;
    if (!tensor.is_exact()) find_norms();
  }

  const num::PairOperand& operand() const {
    if (input_.kept != nullptr) return input_.kept->packed(*input_.tensor, place_);
    if (!own_) {
      std::vector<unsigned char> certify;
      for (const double norm : norms_) certify.push_back(norm == 0.0 ? 1 : 0);
      own_.emplace(rows(), place_.side, certify.empty() ? nullptr : certify.data());
    }
    return *own_;
  }
  num::PairRows rows() const { return rows_at(*input_.tensor, place_); }
  /// Null where products by residues are not possible.
  const num::ResidueOperand* residues() const {
    return input_.kept == nullptr ? nullptr : input_.kept->residues(*input_.tensor, place_);
  }
  bool is_exact() const { return norms_.empty(); }
  double norm_of_radii(std::size_t row) const { return norms_.empty() ? 0.0 : norms_[row]; }
  const std::vector<double>& norms_of_radii() const { return norms_; }
  bool is_kept() const { return input_.kept != nullptr; }
  double spectral_norm() const { return input_.kept->spectral_norm(*input_.tensor, place_).value(); }

  /// Whether rows are those of the tensor, one after the other.
  bool is_whole() const {
    return place_.offset == 0 && place_.step == 1 && place_.row_step == static_cast<std::ptrdiff_t>(place_.length) &&
           place_.rows * place_.length == input_.tensor->size();
  }
  std::size_t parts() const { return input_.tensor->parts(); }
  double norm_of_part(std::size_t part) const { return input_.tensor->norms[part]; }

private:
  void find_norms() {
    const std::vector<double>& radius = input_.tensor->radius;
    std::vector<double> row(place_.length);
    for (std::size_t i = 0; i < place_.rows; ++i) {
      const double* from = radius.data() + place_.offset + static_cast<std::ptrdiff_t>(i) * place_.row_step;
      if (place_.step != 1) {
        for (std::size_t l = 0; l < row.size(); ++l) row[l] = from[static_cast<std::ptrdiff_t>(l) * place_.step];
        from = row.data();
      }
      norms_.push_back(fastest_pair_kernels().norm(from, place_.length));
    }
  }

  const PairInput& input_;
  KeptMatrices::Place place_;
  mutable std::optional<num::PairOperand> own_;  ///< packed where it is asked for
  std::vector<double> norms_;
};

/// Radii of the rows [first, first + rows) of C.
class Radii {
public:
  Radii(const Matrix& a, const Matrix& b, Pairs c, std::size_t columns) : a_(a), b_(b), c_(c), columns_(columns) {
    for (std::size_t j = 0; !b.is_exact() && j < columns; ++j)
      reaches_of_b_.push_back(add_up(b.operand().norms()[j], b.norm_of_radii(j)));
  }

  /// |sum a b - sum a' b'| <= |a| |db| + |da| (|b| + |db|), `most` a bound of |da|.
  void spread(std::size_t row, double most) const {
    double* const radius = c_.radius + row * columns_;
    const PairKernels& kernels = fastest_pair_kernels();
    const double norm = std::min(a_.norm_of_radii(row), most);
    if (b_.is_exact()) return kernels.spread(radius, norm, b_.operand().norms().data(), columns_);
    kernels.spread(radius, norm, reaches_of_b_.data(), columns_);
    kernels.spread(radius, a_.operand().norms()[row], b_.norms_of_radii().data(), columns_);
  }

private:
  const Matrix& a_;
  const Matrix& b_;
  Pairs c_;
  std::size_t columns_;
  std::vector<double> reaches_of_b_;
};

void multiply(const Matrix& a, const Matrix& b, const num::PairSums& sums) {
  const num::ResidueOperand* const weights = b.residues();
  if (weights == nullptr) return num::pair_product(a.operand(), b.operand(), sums);
  const num::ResidueOperand left(a.rows(), num::Side::left, 1, weights->bits(), left_bits_for(*weights),
                                 weights->kernels());
  num::residue_product(left, *weights, sums, 1);
}

void multiply_one(const Matrix& a, const Matrix& b, Pairs c, std::size_t m, std::size_t n) {
  multiply(a, b, {c.hi, c.lo, c.radius});
  const Radii radii(a, b, c, n);
  for (std::size_t row = 0; row < m; ++row) radii.spread(row, infinity);
}

/// Rows in parts times a matrix that stays: a part's norm grows by the matrix's.
bool multiply_parts(const Matrix& a, const Matrix& b, std::size_t m, std::size_t n, PairTensor& result) {
  const std::size_t parts = result.parts();
  if (!b.is_kept() || !b.is_exact() || !a.is_whole() || a.parts() != parts || parts == 0 || m % parts != 0)
    return false;
  multiply(a, b, {result.hi.data(), result.lo.data(), result.radius.data()});
  const Radii radii(a, b, result.view(), n);
  const std::size_t rows = m / parts;
  for (std::size_t part = 0; part < parts; ++part) {
    const double rounding = fastest_pair_kernels().norm(result.radius.data() + part * rows * n, rows * n);
    const double before = a.norm_of_part(part);
    for (std::size_t row = part * rows; row < (part + 1) * rows; ++row) radii.spread(row, before);
    const double carried = before == 0.0 ? 0.0 : mul_up(b.spectral_norm(), before);
    result.settle(part, add_up(carried, rounding));
  }
  return true;
}

}  // namespace

void multiply_matrices(const ProductPlan& given, const PairInput& a, const PairInput& b, PairTensor& result) {
  const ProductPlan plan = folded(given);
  const std::size_t m = size(plan.m), n = size(plan.n), k = size(plan.k);
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const Matrix left(a, {k == 0 ? 0 : plan.a_index(batch, 0, 0), m, k, plan.a_row, plan.a_col, num::Side::left});
    const Matrix right(b, {k == 0 ? 0 : plan.b_index(batch, 0, 0), n, k, plan.b_col, plan.b_row, num::Side::right});
    if (plan.batches == 1 && multiply_parts(left, right, m, n, result)) return;
    multiply_one(left, right, result.view().from(size(batch) * m * n), m, n);
  }
  result.settle();
}

}  // namespace driftbound

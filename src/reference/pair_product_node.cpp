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

/// One operand's matrix of one batch, with the norms of its rows' radii.
class Matrix {
public:
  Matrix(const PairInput& input, const KeptMatrices::Place& place) : input_(input), place_(place) {
    if (!input.tensor->is_exact()) find_norms_of_radii();
  }

  std::size_t rows() const { return place_.rows; }
  std::size_t length() const { return place_.length; }
  linalg::PairRows source() const { return rows_at(*input_.tensor, place_); }
  bool is_kept() const { return input_.kept != nullptr; }
  int most_bits() const { return input_.most_bits; }
  const linalg::PairOperand& packed() const { return input_.kept->packed(*input_.tensor, place_); }
  const linalg::ResidueOperand* residues() const {
    return is_kept() ? input_.kept->residues(*input_.tensor, place_) : nullptr;
  }
  std::vector<double> norms() const {
    return is_kept() ? input_.kept->norms(*input_.tensor, place_) : row_norms(*input_.tensor, place_);
  }
  double spectral_norm() const { return input_.kept->spectral_norm(*input_.tensor, place_).value(); }

  bool is_exact() const { return norms_of_radii_.empty(); }
  bool is_exact(std::size_t row) const { return norm_of_radii(row) == 0.0; }
  double norm_of_radii(std::size_t row) const { return is_exact() ? 0.0 : norms_of_radii_[row]; }
  const std::vector<double>& norms_of_radii() const { return norms_of_radii_; }

  /// Whether rows are those of the tensor, one after the other.
  bool is_whole() const {
    return place_.offset == 0 && place_.step == 1 && place_.row_step == static_cast<std::ptrdiff_t>(place_.length) &&
           place_.rows * place_.length == input_.tensor->size();
  }
  std::size_t parts() const { return input_.tensor->parts(); }
  double norm_of_part(std::size_t part) const { return input_.tensor->norms[part]; }

private:
  void find_norms_of_radii() {
    const Doubles& radius = input_.tensor->radius;
    std::vector<double> row(place_.length);
    for (std::size_t i = 0; i < place_.rows; ++i) {
      const double* from = radius.data() + place_.offset + static_cast<std::ptrdiff_t>(i) * place_.row_step;
      if (place_.step != 1) {
        for (std::size_t l = 0; l < row.size(); ++l) row[l] = from[static_cast<std::ptrdiff_t>(l) * place_.step];
        from = row.data();
      }
      norms_of_radii_.push_back(fastest_pair_kernels().norm(from, place_.length));
    }
  }

  const PairInput& input_;
  KeptMatrices::Place place_;
  std::vector<double> norms_of_radii_;
};

std::vector<unsigned char> exact_rows(const Matrix& a) {
  std::vector<unsigned char> exact(a.rows());
  for (std::size_t row = 0; row < a.rows(); ++row) exact[row] = a.is_exact(row) ? 1 : 0;
  return exact;
}

/// The products of midpoints by two accumulators (T-86).
void multiply_by_pairs(const linalg::PairRows& rows, const unsigned char* certify, const Matrix& b, Pairs c) {
  const linalg::PairOperand left(rows, linalg::Side::left, certify);
  const linalg::PairSums sums = {c.hi, c.lo, c.radius};
  if (b.is_kept()) return linalg::pair_product(left, b.packed(), sums);
  linalg::pair_product(left, linalg::PairOperand(b.source(), linalg::Side::right, exact_rows(b).data()), sums);
}

/// Chosen rows of A by B^T, into rows of C.
void multiply_some_by_pairs(const Matrix& a, const std::vector<std::size_t>& chosen, const Matrix& b, Pairs c) {
  const linalg::PairRows source = a.source();
  const std::size_t n = b.rows();
  for (const std::size_t row : chosen) {
    linalg::PairRows one = source;
    one.high += static_cast<std::ptrdiff_t>(row) * source.row_step;
    one.low += static_cast<std::ptrdiff_t>(row) * source.row_step;
    one.rows = 1;
    const unsigned char exact = a.is_exact(row) ? 1 : 0;
    multiply_by_pairs(one, &exact, b, c.from(row * n));
  }
}

/// Whether the matrix is so small that going to residues and back takes longer than two accumulators do: of k products
/// for each of n results, as many as k + n numbers that are converted make up for.
bool is_small(std::size_t k, std::size_t n) {
  constexpr std::size_t products_of_conversion = 32;
  return k * n <= products_of_conversion * (k + n);
}

const linalg::ResidueOperand* residues_worth_it(const Matrix& b) {
  return is_small(b.length(), b.rows()) ? nullptr : b.residues();
}

/// The products of midpoints, and what rounding them is off by. Rows go through residues (T-101) where there are
/// kernels for them and it pays, but for those that do not fit: each row by itself.
void multiply_midpoints(const Matrix& a, const Matrix& b, Pairs c) {
  const linalg::ResidueOperand* const weights = residues_worth_it(b);
  if (weights == nullptr) return multiply_by_pairs(a.source(), exact_rows(a).data(), b, c);
  const linalg::ResidueOperand rows(a.source(), linalg::Side::left, 1, weights->bits(),
                                    std::min(left_bits_for(*weights), a.most_bits()), weights->kernels());
  linalg::residue_product(rows, *weights, {c.hi, c.lo, c.radius}, 1);
  std::vector<std::size_t> others;
  for (std::size_t row = 0; row < a.rows(); ++row)
    if (!rows.row(row).fits) others.push_back(row);
  multiply_some_by_pairs(a, others, b, c);
}

/// Radii of the rows of C = A B^T.
class Radii {
public:
  Radii(const Matrix& a, const Matrix& b, Pairs c) : a_(a), b_(b), c_(c) {
    if (!a.is_exact() || !b.is_exact()) norms_of_b_ = b.norms();
    if (b.is_exact()) return;
    norms_of_a_ = a.norms();
    for (std::size_t j = 0; j < b.rows(); ++j) {
      norms_of_b_[j] = add_up(norms_of_b_[j], b.norm_of_radii(j));
      if (std::isinf(b.norm_of_radii(j))) unknown_.push_back(j);
    }
  }

  /// |sum a b - sum a' b'| <= |a| |db| + |da| (|b| + |db|), `most` a bound of |da|.
  void spread(std::size_t row, double most) const {
    double* const radius = c_.radius + row * b_.rows();
    const PairKernels& kernels = fastest_pair_kernels();
    const double norm = std::min(a_.norm_of_radii(row), most);
    if (norm > 0.0) kernels.spread(radius, norm, norms_of_b_.data(), b_.rows());
    if (!b_.is_exact()) kernels.spread(radius, norms_of_a_[row], b_.norms_of_radii().data(), b_.rows());
    for (const std::size_t column : unknown_) radius[column] = infinity;
  }

private:
  const Matrix& a_;
  const Matrix& b_;
  Pairs c_;
  std::vector<double> norms_of_a_, norms_of_b_;
  std::vector<std::size_t> unknown_;
};

void multiply_one(const Matrix& a, const Matrix& b, Pairs c) {
  multiply_midpoints(a, b, c);
  const Radii radii(a, b, c);
  for (std::size_t row = 0; row < a.rows(); ++row) radii.spread(row, infinity);
}

/// Rows in parts times a matrix that stays: a part's norm grows by the matrix's.
bool multiply_parts(const Matrix& a, const Matrix& b, PairTensor& result) {
  const std::size_t parts = result.parts();
  if (!b.is_kept() || !b.is_exact() || !a.is_whole() || a.parts() != parts || parts == 0 || a.rows() % parts != 0)
    return false;
  multiply_midpoints(a, b, result.view());
  const Radii radii(a, b, result.view());
  const std::size_t rows = a.rows() / parts, size = rows * b.rows();
  for (std::size_t part = 0; part < parts; ++part) {
    const double rounding = fastest_pair_kernels().norm(result.radius.data() + part * size, size);
    const double before = a.norm_of_part(part);
    for (std::size_t row = part * rows; row < (part + 1) * rows; ++row) radii.spread(row, before);
    const double carried = before == 0.0 ? 0.0 : mul_up(b.spectral_norm(), before);
    result.settle(part, add_up(carried, rounding));
  }
  return true;
}

}  // namespace

bool goes_by_residues(const ProductPlan& plan, const PairInput& b) {
  if (plan.n == 0 || plan.k == 0) return false;
  const Matrix right(b,
                     {plan.b_index(0, 0, 0), size(plan.n), size(plan.k), plan.b_col, plan.b_row, linalg::Side::right});
  return residues_worth_it(right) != nullptr;
}

void multiply_matrices(const ProductPlan& given, const PairInput& a, const PairInput& b, PairTensor& result) {
  const ProductPlan plan = folded(given);
  const std::size_t m = size(plan.m), n = size(plan.n), k = size(plan.k);
  if (m == 0 || n == 0) return result.settle();
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const Matrix left(a, {k == 0 ? 0 : plan.a_index(batch, 0, 0), m, k, plan.a_row, plan.a_col, linalg::Side::left});
    const Matrix right(b, {k == 0 ? 0 : plan.b_index(batch, 0, 0), n, k, plan.b_col, plan.b_row, linalg::Side::right});
    if (plan.batches == 1 && multiply_parts(left, right, result)) return;
    multiply_one(left, right, result.view().from(size(batch) * m * n));
  }
  result.settle();
}

}  // namespace driftbound

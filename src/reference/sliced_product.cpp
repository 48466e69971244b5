#include "reference/sliced_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "linalg/residue_product.hpp"

namespace driftbound {

namespace {

constexpr int bits_of_limb = GMP_NUMB_BITS;
/// What is cut off an element is so many bits below its radius.
constexpr int bits_below_radius = 16;
/// Doubles that the slices of some rows and their products may take together.
constexpr std::size_t doubles_at_once = std::size_t{1} << 21;

/// The 2-norm of k integers below 2^s is below 2^(s + norm_bits(k)), rounding included.
int norm_bits(std::size_t k) {
  return (static_cast<int>(std::bit_width(k)) + 1) / 2 + 1;
}

/// Bits of integers whose products with the matrix are exact in double-double: at least 40, as matrices that are kept
/// have 64 at most.
int row_bits_for(const linalg::ResidueOperand& b) {
  return std::min(linalg::bits_of_one_digit, linalg::bits_without_rest - b.bits());
}

/// The bits of a midpoint that is not zero, from the highest on.
class Bits {
public:
  explicit Bits(mpfr_srcptr x)
      : limbs_(static_cast<const mp_limb_t*>(mpfr_custom_get_significand(x))),
        size_((static_cast<std::int64_t>(mpfr_get_prec(x)) + bits_of_limb - 1) / bits_of_limb) {}

  /// `count` of them behind the first `offset`; those outside, in front too, are 0.
  double slice(std::int64_t offset, int count) const {
    const std::int64_t place = offset >= 0 ? offset / bits_of_limb : -((bits_of_limb - 1 - offset) / bits_of_limb);
    const auto shift = static_cast<int>(offset - place * bits_of_limb);
    const mp_limb_t window =
        shift == 0 ? limb(place) : limb(place) << shift | limb(place + 1) >> (bits_of_limb - shift);
    return static_cast<double>(window >> (bits_of_limb - count));
  }

private:
  mp_limb_t limb(std::int64_t i) const { return i < 0 || i >= size_ ? 0 : limbs_[size_ - 1 - i]; }

  const mp_limb_t* limbs_;
  std::int64_t size_;
};

/// A row of midpoints in fixed point: element l is, but for what is cut off, 2^(exponent - count slice_bits) times an
/// integer of `count` slices.
struct SlicedRow {
  std::int64_t exponent = 0;  ///< no midpoint is above 2^exponent
  std::int64_t count = 0;     ///< of slices
  bool is_void = false, is_unknown = false, is_exact = true;
  std::vector<double> radii;  ///< what is cut off included, times 2^-radius_exponent; empty where the row is exact
  std::int64_t radius_exponent = 0;
};

/// The last bit of a midpoint that is not 0, or one far enough below its radius.
std::int64_t last_useful_bit(const MpBall& ball) {
  const std::int64_t last = last_bit(ball.mid());
  return ball.is_exact() ? last : std::max<std::int64_t>(last, ball.radius.exponent() - 1 - bits_below_radius);
}

SlicedRow measure(const BallVector& row, int slice_bits) {
  SlicedRow sliced;
  std::int64_t lowest = 0;
  bool is_zero = true;
  std::vector<Scaled> radii(row.length);
  for (std::size_t l = 0; l < row.length; ++l) {
    sliced.is_void = sliced.is_void || row[l].is_void();
    sliced.is_unknown = sliced.is_unknown || row[l].is_unknown();
    radii[l] = row[l].radius;
    if (sliced.is_void || sliced.is_unknown || !mpfr_regular_p(row[l].mid())) continue;
    const std::int64_t high = mpfr_get_exp(row[l].mid()), low = last_useful_bit(row[l]);
    sliced.exponent = is_zero ? high : std::max(sliced.exponent, high);
    lowest = is_zero ? low : std::min(lowest, low);
    is_zero = false;
  }
  if (sliced.is_void || sliced.is_unknown) return sliced;
  if (!is_zero) {
    const std::int64_t most = 2 * std::int64_t{row.tensor->bits()} + 2 * bits_of_limb;
    sliced.count = (std::clamp<std::int64_t>(sliced.exponent - lowest, 1, most) + slice_bits - 1) / slice_bits;
    const std::int64_t end = sliced.exponent - sliced.count * slice_bits;
    for (std::size_t l = 0; l < row.length; ++l) {
      const mpfr_srcptr midpoint = row[l].mid();
      if (mpfr_regular_p(midpoint) && last_bit(midpoint) < end) radii[l] = add_up(radii[l], Scaled::power_of_two(end));
    }
  }
  sliced.is_exact = std::all_of(radii.begin(), radii.end(), [](const Scaled& radius) { return radius.is_zero(); });
  if (!sliced.is_exact) sliced.radius_exponent = scale_bounds(radii, sliced.radii);
  return sliced;
}

/// The slices of a row, each a row of integers below 2^slice_bits: slices[j * length + l].
void cut(const BallVector& row, const SlicedRow& sliced, int slice_bits, double* slices) {
  for (std::size_t l = 0; l < row.length; ++l) {
    const mpfr_srcptr midpoint = row[l].mid();
    if (!mpfr_regular_p(midpoint)) continue;
    const std::int64_t below = sliced.exponent - mpfr_get_exp(midpoint);
    if (below >= sliced.count * slice_bits) continue;
    const Bits bits(midpoint);
    const double sign = mpfr_sgn(midpoint) < 0 ? -1.0 : 1.0;
    for (std::int64_t j = 0; j < sliced.count; ++j)
      slices[static_cast<std::size_t>(j) * row.length + l] = sign * bits.slice(j * slice_bits - below, slice_bits);
  }
}

/// A sum of integers times powers of two, in two's complement.
class IntegerSum {
public:
  /// For sums below 2^bits in magnitude.
  explicit IntegerSum(std::int64_t bits) : limbs_(static_cast<std::size_t>(bits / bits_of_limb) + 2) {}

  void clear() { std::fill(limbs_.begin(), limbs_.end(), 0); }
  /// Adds x 2^shift for an integer x.
  void add(double x, std::int64_t shift) {
    if (x == 0.0) return;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::int64_t exponent = static_cast<std::int64_t>(bits >> 52 & 0x7ff) - 1075;
    const std::uint64_t significand = (bits & 0xfffffffffffff) | std::uint64_t{1} << 52;
    const std::uint64_t digits = exponent < 0 ? significand >> -exponent : significand;
    const std::int64_t place = shift + std::max<std::int64_t>(exponent, 0);
    const std::int64_t offset = place % bits_of_limb;
    const mp_limb_t parts[] = {digits << offset, offset == 0 ? 0 : digits >> (bits_of_limb - offset)};
    mp_limb_t* const at = limbs_.data() + place / bits_of_limb;
    const auto above = static_cast<mp_size_t>(limbs_.size()) - static_cast<mp_size_t>(place / bits_of_limb);
    (x < 0.0 ? mpn_sub : mpn_add)(at, at, above, parts, 2);
  }
  /// The sum times 2^exponent; the sum is lost.
  void store(MpBall& result, std::int64_t exponent, Scaled radius) {
    const auto size = static_cast<mp_size_t>(limbs_.size());
    const bool is_negative = limbs_.back() >> (bits_of_limb - 1) != 0;
    if (is_negative) mpn_neg(limbs_.data(), limbs_.data(), size);
    mp_size_t used = size;
    while (used > 0 && limbs_[static_cast<std::size_t>(used) - 1] == 0) --used;
    mpz_t integer;
    mpz_roinit_n(integer, limbs_.data(), is_negative ? -used : used);
    settle(result, mpfr_set_z_2exp(result.mid(), integer, exponent, MPFR_RNDN), radius);
  }

private:
  std::vector<mp_limb_t> limbs_;
};

/// sum_l r_l |w_l| in eight chains.
double sum_of_magnitudes(const std::vector<double>& r, const double* w) {
  constexpr std::size_t chains = 8;
  double sums[chains] = {};
  const std::size_t whole = r.size() / chains * chains;
  for (std::size_t l = 0; l < whole; l += chains)
    for (std::size_t i = 0; i < chains; ++i) sums[i] += r[l + i] * std::fabs(w[l + i]);
  for (std::size_t l = whole; l < r.size(); ++l) sums[0] += r[l] * std::fabs(w[l]);
  return std::accumulate(sums, sums + chains, 0.0);
}

/// The rows of a matrix that is kept.
class SlicedProduct {
public:
  SlicedProduct(const linalg::ResidueOperand& matrix, const PairTensor& tensor, const KeptMatrices::Place& place)
      : matrix_(matrix),
        tensor_(tensor),
        place_(place),
        row_bits_(row_bits_for(matrix)),
        slice_bits_(row_bits_ - norm_bits(place.length)) {}

  void multiply(MpBall* c, std::span<const BallVector> rows) const {
    for (std::size_t first = 0; first < rows.size();) {
      std::vector<SlicedRow> sliced;
      std::size_t most = 1;
      while (first + sliced.size() < rows.size()) {
        SlicedRow next = measure(rows[first + sliced.size()], slice_bits_);
        const std::size_t count = std::max(most, static_cast<std::size_t>(next.count));
        const bool fits = count * (sliced.size() + 1) * (place_.length + 2 * place_.rows) <= doubles_at_once;
        if (!fits && !sliced.empty()) break;
        sliced.push_back(std::move(next));
        most = count;
      }
      multiply(c + first * place_.rows, rows.subspan(first, sliced.size()), sliced, most);
      first += sliced.size();
    }
  }

private:
  void multiply(MpBall* c, std::span<const BallVector> rows, const std::vector<SlicedRow>& sliced,
                std::size_t most) const {
    const std::size_t n = place_.rows, k = place_.length, slices = most * rows.size();
    std::vector<double> integers(slices * k), high(slices * n), low(slices * n);
    for (std::size_t i = 0; i < rows.size(); ++i) cut(rows[i], sliced[i], slice_bits_, integers.data() + i * most * k);
    const linalg::PairRows source = {integers.data(), nullptr, slices, k, static_cast<std::ptrdiff_t>(k), 1};
    const linalg::ResidueOperand left(source, linalg::Side::left, 1, matrix_.bits(), row_bits_, matrix_.kernels());
    linalg::residue_product(left, matrix_, {high.data(), low.data(), nullptr}, 1);
    IntegerSum sum(linalg::bits_without_rest + slice_bits_ * static_cast<std::int64_t>(most));
    for (std::size_t i = 0; i < rows.size(); ++i)
      store(sliced[i], high.data() + i * most * n, low.data() + i * most * n, sum, c + i * n);
  }

  /// Sums of slices are multiples of the unit of the column's weights.
  void store(const SlicedRow& row, const double* high, const double* low, IntegerSum& sum, MpBall* c) const {
    const std::size_t n = place_.rows;
    if (row.is_void || row.is_unknown) {
      for (std::size_t column = 0; column < n; ++column) row.is_void ? make_void(c[column]) : make_unknown(c[column]);
      return;
    }
    const std::vector<double> radii = row.is_exact ? std::vector<double>(n) : radii_of(row.radii);
    for (std::size_t column = 0; column < n; ++column) {
      const double unit = matrix_.row(column).scale;
      sum.clear();
      for (std::int64_t j = 0; j < row.count; ++j) {
        const std::size_t at = static_cast<std::size_t>(j) * n + column;
        const std::int64_t shift = (row.count - 1 - j) * slice_bits_;
        sum.add(high[at] / unit, shift);
        sum.add(low[at] / unit, shift);
      }
      sum.store(c[column], row.exponent - row.count * slice_bits_ + std::ilogb(unit),
                Scaled::of(radii[column], row.radius_exponent));
    }
  }

  /// sum_l r_l |w_jl| rounded up, for all rows j of the matrix: 0 only where it is 0.
  std::vector<double> radii_of(const std::vector<double>& r) const {
    constexpr double with_low_parts = 1.0 + 0x1p-50;
    const std::size_t n = place_.rows;
    std::vector<double> sums(n, 0.0);
    const double* const first = tensor_.hi.data() + place_.offset;
    if (place_.step == 1) {
      for (std::size_t j = 0; j < n; ++j)
        sums[j] = sum_of_magnitudes(r, first + static_cast<std::ptrdiff_t>(j) * place_.row_step);
    } else {
      for (std::size_t l = 0; l < r.size(); ++l)
        for (std::size_t j = 0; j < n; ++j)
          sums[j] += r[l] * std::fabs(first[static_cast<std::ptrdiff_t>(l) * place_.step +
                                            static_cast<std::ptrdiff_t>(j) * place_.row_step]);
    }
    for (double& sum : sums) sum *= (1.0 + static_cast<double>(r.size() + 8) * 0x1p-52) * with_low_parts;
    return sums;
  }

  const linalg::ResidueOperand& matrix_;
  const PairTensor& tensor_;
  KeptMatrices::Place place_;
  int row_bits_, slice_bits_;
};

}  // namespace

bool multiply_by_slices(BallTensor& c, std::size_t first, std::span<const BallVector> rows, const PairInput& b,
                        const KeptMatrices::Place& place) {
  if (b.kept == nullptr) return false;
  const linalg::ResidueOperand* const matrix = b.kept->residues(*b.tensor, place);
  if (matrix == nullptr) return false;
  if (!rows.empty() && place.rows > 0) SlicedProduct(*matrix, *b.tensor, place).multiply(&c[first], rows);
  return true;
}

}  // namespace driftbound

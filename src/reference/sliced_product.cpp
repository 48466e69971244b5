#include "reference/sliced_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "num/residue_product.hpp"

namespace driftbound {

namespace {

constexpr int bits_of_limb = GMP_NUMB_BITS;
/// Sums of at most so many bits come from residues without a rest, and integers of so many are one digit there.
constexpr int bits_without_rest = 104, bits_of_one_digit = 50;
/// What balls are cut off at, so many bits below their precision next to the largest of a row.
constexpr int guard_bits = 8;

/// The 2-norm of k integers below 2^s is below 2^(s + norm_bits(k)), rounding included.
int norm_bits(std::size_t k) {
  return (static_cast<int>(std::bit_width(k)) + 1) / 2 + 1;
}

/// Bits of integers whose products with the matrix are exact in double-double: at least 40, as matrices that are kept
/// have 64 at most.
int row_bits_for(const num::ResidueOperand& b) {
  return std::min(bits_of_one_digit, bits_without_rest - b.bits());
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
  /// How many there are up to the last one that is not 0.
  std::int64_t length() const {
    std::int64_t last = size_ - 1;
    while (limb(last) == 0) --last;
    return (last + 1) * bits_of_limb - std::countr_zero(limb(last));
  }

private:
  mp_limb_t limb(std::int64_t i) const { return i < 0 || i >= size_ ? 0 : limbs_[size_ - 1 - i]; }

  const mp_limb_t* limbs_;
  std::int64_t size_;
};

/// An upper bound of the 2-norm of the radii.
Scaled norm_of_radii(const BallVector& row) {
  Scaled largest;
  for (std::size_t l = 0; l < row.length; ++l) largest = std::max(largest, row[l].radius);
  if (largest.is_zero() || !largest.is_finite()) return largest;
  double squares = 0.0;
  for (std::size_t l = 0; l < row.length; ++l) {
    const Scaled& radius = row[l].radius;
    if (radius.is_zero()) continue;
    const std::int64_t shift = std::max<std::int64_t>(radius.exponent() - largest.exponent(), -300);
    const double share = shift == -300 ? 0x1p-300 : std::ldexp(radius.mantissa(), static_cast<int>(shift));
    squares += share * share;
  }
  const double upward = 1.0 + static_cast<double>(row.length + 8) * 0x1p-52;
  return Scaled::of(std::sqrt(squares * upward) * (1.0 + 0x1p-50), largest.exponent());
}

/// A row of midpoints in fixed point: element l is, but for what is cut off, 2^(exponent - count slice_bits) times an
/// integer of `count` slices.
struct SlicedRow {
  std::int64_t exponent = 0;  ///< no midpoint is above 2^exponent
  std::int64_t count = 0;     ///< of slices
  bool is_void = false, is_unknown = false;
  Scaled error;  ///< of the row, radii included, in the 2-norm
};

SlicedRow measure(const BallVector& row, int slice_bits) {
  SlicedRow sliced;
  std::int64_t lowest = 0;
  bool is_zero = true;
  for (std::size_t l = 0; l < row.length; ++l) {
    sliced.is_void = sliced.is_void || row[l].is_void();
    sliced.is_unknown = sliced.is_unknown || row[l].is_unknown();
    if (!mpfr_regular_p(row[l].mid())) continue;
    const std::int64_t high = mpfr_get_exp(row[l].mid()), low = high - Bits(row[l].mid()).length();
    sliced.exponent = is_zero ? high : std::max(sliced.exponent, high);
    lowest = is_zero ? low : std::min(lowest, low);
    is_zero = false;
  }
  if (sliced.is_void || sliced.is_unknown || is_zero) {
    sliced.error = sliced.is_unknown ? Scaled::infinite() : norm_of_radii(row);
    return sliced;
  }
  sliced.error = norm_of_radii(row);
  const std::int64_t precision = row.tensor->bits();
  const std::int64_t most = sliced.error.is_zero() ? 2 * precision + 2 * bits_of_limb : precision + guard_bits;
  const std::int64_t needed = sliced.exponent - lowest;
  sliced.count = (std::min(needed, most) + slice_bits - 1) / slice_bits;
  if (needed > sliced.count * slice_bits) {
    const Scaled root = Scaled::of(std::sqrt(static_cast<double>(row.length)) * (1.0 + 0x1p-50));
    const Scaled last_bit = Scaled::power_of_two(sliced.exponent - sliced.count * slice_bits);
    sliced.error = add_up(sliced.error, mul_up(root, last_bit));
  }
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

}  // namespace

bool multiply_by_slices(BallTensor& c, std::size_t first, std::span<const BallVector> rows, const PairInput& b,
                        const KeptMatrices::Place& place) {
  if (b.kept == nullptr) return false;
  const num::ResidueOperand* const matrix = b.kept->residues(*b.tensor, place);
  if (matrix == nullptr) return false;
  const int row_bits = row_bits_for(*matrix), slice_bits = row_bits - norm_bits(matrix->length());
  std::vector<SlicedRow> sliced;
  std::int64_t most = 0;
  for (const BallVector& row : rows) most = std::max(most, sliced.emplace_back(measure(row, slice_bits)).count);
  const std::size_t n = place.rows, k = place.length, slices = static_cast<std::size_t>(most) * rows.size();
  std::vector<double> integers(slices * k), high(slices * n), low(slices * n);
  for (std::size_t i = 0; i < rows.size(); ++i)
    cut(rows[i], sliced[i], slice_bits, integers.data() + i * static_cast<std::size_t>(most) * k);
  const num::PairRows source = {integers.data(), nullptr, slices, k, static_cast<std::ptrdiff_t>(k), 1};
  const num::ResidueOperand left(source, num::Side::left, 1, matrix->bits(), row_bits, matrix->kernels());
  num::residue_product(left, *matrix, {high.data(), low.data(), nullptr}, 1);

  const std::vector<double>& norms = b.kept->norms(*b.tensor, place);
  IntegerSum sum(bits_without_rest + slice_bits * most);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SlicedRow& row = sliced[i];
    for (std::size_t column = 0; column < n; ++column) {
      MpBall& result = c[first + i * n + column];
      if (row.is_void) {
        make_void(result);
        continue;
      }
      if (row.is_unknown) {
        make_unknown(result);
        continue;
      }
      // Sums of slices are multiples of the unit of the column's weights.
      const double unit = matrix->row(column).scale;
      sum.clear();
      for (std::int64_t j = 0; j < row.count; ++j) {
        const std::size_t at = (i * static_cast<std::size_t>(most) + static_cast<std::size_t>(j)) * n + column;
        const std::int64_t shift = (row.count - 1 - j) * slice_bits;
        sum.add(high[at] / unit, shift);
        sum.add(low[at] / unit, shift);
      }
      const Scaled radius = row.error.is_zero() ? Scaled() : mul_up(row.error, Scaled::of(norms[column]));
      sum.store(result, row.exponent - row.count * slice_bits + std::ilogb(unit), radius);
    }
  }
  return true;
}

}  // namespace driftbound

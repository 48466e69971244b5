#include "reference/product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace driftbound {

namespace {

constexpr std::int64_t limb_bits = GMP_NUMB_BITS;

std::span<const mp_limb_t> significant_limbs(mpfr_srcptr x) {
  const auto* digits = static_cast<const mp_limb_t*>(mpfr_custom_get_significand(x));
  std::size_t size = (static_cast<std::size_t>(mpfr_get_prec(x)) + GMP_NUMB_BITS - 1) / GMP_NUMB_BITS;
  while (*digits == 0) ++digits, --size;
  return {digits, size};
}

// sum_k x_k y_k rounded up: four interleaved chains, at most n + 5 roundings on a path.
double dot_up(const std::vector<double>& x, const std::vector<double>& y) {
  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  const std::size_t n = x.size();
  std::size_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += x[k + lane] * y[k + lane];
  for (; k < n; ++k) sums[0] += x[k] * y[k];
  const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum * (1.0 + static_cast<double>(n + 8) * 0x1p-52);
}

// sum += digits * factor, the carry running up as far as it goes.
inline void multiply_add(mp_limb_t* sum, const mp_limb_t* digits, std::size_t size, mp_limb_t factor) {
  const mp_limb_t carry = mpn_addmul_1(sum, digits, static_cast<mp_size_t>(size), factor);
  mp_limb_t* next = sum + size;
  *next += carry;
  if (*next < carry) {
    do ++*++next;
    while (*next == 0);
  }
}

}  // namespace

std::int64_t last_bit(mpfr_srcptr x) {
  const std::span<const mp_limb_t> digits = significant_limbs(x);
  return mpfr_get_exp(x) - limb_bits * static_cast<std::int64_t>(digits.size()) + std::countr_zero(digits.front());
}

std::int64_t scale_bounds(const std::vector<Scaled>& bounds, std::vector<double>& scaled) {
  const Scaled largest = bounds.empty() ? Scaled() : *std::max_element(bounds.begin(), bounds.end());
  scaled.assign(bounds.size(), 0.0);
  if (largest.is_zero()) return 0;
  for (std::size_t k = 0; k < bounds.size(); ++k) {
    if (bounds[k].is_zero()) continue;
    const std::int64_t shift = std::max<std::int64_t>(bounds[k].exponent() - largest.exponent(), -300);
    scaled[k] = shift == -300 ? 0x1p-300 : std::ldexp(bounds[k].mantissa(), static_cast<int>(shift));
  }
  return largest.exponent();
}

void FixedPointVector::assign(const BallVector& vector) {
  const std::size_t n = vector.length;
  exact_ = true;
  void_ = unknown_ = false;
  support_.clear();
  std::int64_t highest = 0;
  std::int64_t lowest = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const MpBall& ball = vector[k];
    void_ = void_ || ball.is_void();
    unknown_ = unknown_ || ball.is_unknown();
    exact_ = exact_ && ball.is_exact();
    if (!mpfr_regular_p(ball.mid())) continue;
    const std::int64_t high = mpfr_get_exp(ball.mid());
    const std::int64_t low = last_bit(ball.mid());
    highest = support_.empty() ? high : std::max(highest, high);
    lowest = support_.empty() ? low : std::min(lowest, low);
    support_.push_back(static_cast<std::uint32_t>(k));
  }
  if (void_ || unknown_) return;

  const std::int64_t widest = 2 * static_cast<std::int64_t>(vector.tensor->bits()) + 128;
  exponent_ = std::max(lowest, highest - widest);
  limbs_ = static_cast<std::size_t>((highest - exponent_ + limb_bits - 1) / limb_bits);
  digits_.assign(n * limbs_, 0);
  elements_.assign(n, {});
  bool truncated_any = false;
  scaled_radii_.assign(n, {});
  scaled_reaches_.assign(n, {});
  for (std::size_t k = 0; k < n; ++k) scaled_radii_[k] = vector[k].radius;
  for (const std::uint32_t k : support_) {
    bool truncated = false;
    store(vector[k], k, truncated);
    if (truncated) scaled_radii_[k] = add_up(scaled_radii_[k], Scaled::power_of_two(exponent_));
    truncated_any = truncated_any || truncated;
  }
  exact_ = exact_ && !truncated_any;
  for (std::size_t k = 0; k < n; ++k) scaled_reaches_[k] = add_up(Scaled::upper(vector[k].mid()), scaled_radii_[k]);
  reach_exponent_ = scale_bounds(scaled_reaches_, reaches_);
  radius_exponent_ = exact_ ? 0 : scale_bounds(scaled_radii_, radii_);
}

// floor(|midpoint| / 2^exponent) as limbs.
void FixedPointVector::store(const MpBall& ball, std::size_t k, bool& truncated) {
  std::span<const mp_limb_t> source = significant_limbs(ball.mid());
  const std::int64_t shift =
      mpfr_get_exp(ball.mid()) - limb_bits * static_cast<std::int64_t>(source.size()) - exponent_;
  truncated = last_bit(ball.mid()) < exponent_;
  mp_limb_t* target = digits_.data() + k * limbs_;
  Element& element = elements_[k];
  element.negative = mpfr_sgn(ball.mid()) < 0;

  // The source shifted left by 0 to 63 bits, one limb longer, then moved by whole limbs.
  const std::int64_t moved = shift >= 0 ? shift / limb_bits : -((-shift + limb_bits - 1) / limb_bits);
  const auto bits = static_cast<unsigned>(shift - moved * limb_bits);
  shifted_.resize(source.size() + 1);
  shifted_.back() = 0;
  if (bits == 0) {
    std::copy(source.begin(), source.end(), shifted_.begin());
  } else {
    shifted_.back() = mpn_lshift(shifted_.data(), source.data(), static_cast<mp_size_t>(source.size()), bits);
  }
  for (std::size_t i = 0; i < shifted_.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) + moved;
    if (place >= 0 && place < static_cast<std::int64_t>(limbs_)) target[place] = shifted_[i];
  }

  element.first = 0;
  element.last = static_cast<std::uint32_t>(limbs_);
  while (element.last > 0 && target[element.last - 1] == 0) --element.last;
  while (element.first < element.last && target[element.first] == 0) ++element.first;
}

void DotProduct::operator()(MpBall& result, const FixedPointVector& x, const FixedPointVector& y) {
  if (x.void_ || y.void_) return make_void(result);
  if (x.unknown_ || y.unknown_) return make_unknown(result);

  // One limb more than a product holds up to 2^64 products.
  const std::size_t size = x.limbs_ + y.limbs_ + 1;
  sums_.assign(2 * size, 0);
  mp_limb_t* const sums[2] = {sums_.data(), sums_.data() + size};
  for (const std::uint32_t k : x.support_) {
    const FixedPointVector::Element& factor = y.elements_[k];
    mp_limb_t* const sum = sums[x.elements_[k].negative != factor.negative];
    const mp_limb_t* const left = x.digits_.data() + k * x.limbs_;
    const mp_limb_t* const right = y.digits_.data() + k * y.limbs_;
    for (std::uint32_t i = factor.first; i < factor.last; ++i) multiply_add(sum + i, left, x.limbs_, right[i]);
  }

  const bool negative = mpn_cmp(sums[0], sums[1], static_cast<mp_size_t>(size)) < 0;
  mp_limb_t* const difference = sums[negative ? 1 : 0];
  mpn_sub_n(difference, difference, sums[negative ? 0 : 1], static_cast<mp_size_t>(size));
  std::size_t used = size;
  while (used > 0 && difference[used - 1] == 0) --used;
  mpz_t integer;
  const auto signed_size = static_cast<mp_size_t>(used);
  mpz_roinit_n(integer, difference, negative ? -signed_size : signed_size);
  const int ternary = mpfr_set_z_2exp(result.mid(), integer, x.exponent_ + y.exponent_, MPFR_RNDN);

  Scaled radius;
  if (!x.exact_) radius = Scaled::of(dot_up(x.radii_, y.reaches_), x.radius_exponent_ + y.reach_exponent_);
  if (!y.exact_)
    radius = add_up(radius, Scaled::of(dot_up(x.reaches_, y.radii_), x.reach_exponent_ + y.radius_exponent_));
  settle(result, ternary, radius);
}

}  // namespace driftbound

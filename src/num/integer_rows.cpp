#include "num/integer_rows.hpp"

#include <algorithm>
#include <bit>

#include "num/exact_scale.hpp"

namespace driftbound::num {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr std::uint64_t digits_of_half = 0xfffffffffffff;
constexpr double row_factor = 0x1p47, vector_factor = 0x1p51, product_factor = 0x1p-98;

std::size_t padded(std::size_t length) {
  return (length + integer_lanes - 1) / integer_lanes * integer_lanes;
}

/// x = 2^50 high + low, 0 <= low < 2^50, for |x| <= 2^98: both are exact.
void split(WideInteger x, double& high, double& low) {
  high = static_cast<double>(static_cast<std::int64_t>(x >> 50)) * 0x1p50 * product_factor;
  low = static_cast<double>(static_cast<std::int64_t>(x & 0x3ffffffffffff)) * product_factor;
}

#ifdef DRIFTBOUND_X86_KERNELS
bool has_ifma() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512ifma");
}
#endif

}  // namespace

std::vector<const IntegerKernels*> usable_integer_kernels() {
  std::vector<const IntegerKernels*> kernels = {&integers_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (has_ifma()) kernels.push_back(&integers_ifma);
#endif
  return kernels;
}

const IntegerKernels* fastest_integer_kernels() {
#ifdef DRIFTBOUND_X86_KERNELS
  static const bool is_measured = has_ifma() && __builtin_cpu_is("amdfam19h");
  if (is_measured) return &integers_ifma;
#endif
  return nullptr;
}

IntegerVector::IntegerVector(const double* x, std::size_t length) : numbers_(padded(length), 0) {
  std::uint64_t low = 0, high = 0;  // below 2^32 length each
  for (std::size_t l = 0; l < length; ++l) {
    const double shifted = x[l] * vector_factor + (0x1p52 + vector_factor);  // between 2^52 and 2^53, exact
    numbers_[l] = std::bit_cast<std::uint64_t>(shifted) & digits_of_half;
    low += numbers_[l] & 0xffffffff;
    high += numbers_[l] >> 32;
  }
  const WideInteger sum = (static_cast<WideInteger>(high) << 32) + low - (static_cast<WideInteger>(length) << 51);
  offset_ = (sum << 47) + (static_cast<WideInteger>(length) << 98);
}

IntegerRows::IntegerRows(std::size_t rows, std::size_t length, const IntegerKernels* kernels)
    : length_(length), steps_(padded(length) / integer_lanes), kernels_(kernels) {
  const std::size_t groups = (rows + integer_rows - 1) / integer_rows;
  taken_.assign(groups * integer_rows, 1);
  std::fill_n(taken_.begin(), rows, 0);
  if (kernels == nullptr) return;
  bytes_.assign(groups * steps_ * integer_step + integer_overrun, 0);
  sums_.assign(groups * integer_rows, 0);
}

void IntegerRows::take(std::size_t i, const float* row, int exponent, std::int32_t unit) {
  if (kernels_ == nullptr || unit < row_unit) return;
  const double factor = power_of_two(-exponent) * row_factor;
  std::uint8_t* const first = bytes_.data() + i / integer_rows * steps_ * integer_step;
  for (std::size_t l = 0; l < length_; ++l) {
    const auto integer = static_cast<std::int64_t>(static_cast<double>(row[l]) * factor);
    sums_[i] += integer;
    auto number = static_cast<std::uint64_t>(integer + (std::int64_t{1} << 47));
    std::uint8_t* const bytes =
        first +
        ((l / integer_lanes * integer_rows + i % integer_rows) * integer_lanes + l % integer_lanes) * integer_bytes;
    for (std::size_t k = 0; k < integer_bytes; ++k, number >>= 8) bytes[k] = static_cast<std::uint8_t>(number);
  }
  taken_[i] = 1;
}

bool IntegerRows::has_group_of(std::size_t i) const {
  const auto* const first = taken_.data() + i / integer_rows * integer_rows;
  return std::all_of(first, first + integer_rows, [](unsigned char taken) { return taken != 0; });
}

void IntegerRows::dot(std::size_t group, const IntegerVector& x, double* high, double* low) const {
  const std::uint8_t* const first = bytes_.data() + group * steps_ * integer_step;
  const std::uint64_t* const numbers = x.numbers().data();
  Wide sums[integer_rows] = {};
  for (std::size_t step = 0; step < steps_; step += integer_terms / integer_lanes) {
    const std::size_t steps = std::min(steps_ - step, integer_terms / integer_lanes);
    std::uint64_t lows[integer_rows], highs[integer_rows];
    kernels_->dot(first + step * integer_step, numbers + step * integer_lanes, steps * integer_lanes, lows, highs);
    for (std::size_t r = 0; r < integer_rows; ++r) sums[r] += (static_cast<Wide>(highs[r]) << 52) + lows[r];
  }
  for (std::size_t r = 0; r < integer_rows; ++r) {
    const WideInteger of_row = static_cast<WideInteger>(sums_[group * integer_rows + r]) << 51;
    split(static_cast<WideInteger>(sums[r]) - of_row - x.offset(), high[r], low[r]);
  }
}

}  // namespace driftbound::num

#include "num/integer_rows.hpp"

#include <algorithm>
#include <bit>

#include "num/exact_scale.hpp"

namespace driftbound::num {
namespace {

constexpr int row_bits = -row_unit, vector_bits = -vector_unit, product_bits = row_bits + vector_bits;
constexpr std::uint64_t row_shift = std::uint64_t{1} << row_bits;
static_assert(8 * integer_bytes == row_bits + 1 && vector_bits == 51);

/// 2^-98 x = high + low, both exact, for |x| <= 2^98.
void split(WideInteger x, double& high, double& low) {
  constexpr int low_bits = 50;
  const double unit = power_of_two(-product_bits);
  high = static_cast<double>(static_cast<std::int64_t>(x >> low_bits)) * (unit * power_of_two(low_bits));
  low = static_cast<double>(static_cast<std::int64_t>(x & ((WideInteger{1} << low_bits) - 1))) * unit;
}

std::size_t padded(std::size_t length) {
  return (length + integer_lanes - 1) / integer_lanes * integer_lanes;
}

std::size_t packed_size(std::size_t rows, std::size_t length) {
  return (rows + integer_rows - 1) / integer_rows * integer_step * (padded(length) / integer_lanes);
}

#ifdef DRIFTBOUND_X86_KERNELS
bool has_ifma() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512ifma");
}

/// Six bytes an element are slower than four where they come from memory: 8 MB of them are read as fast as they are
/// multiplied, 14 MB (1600 rows of 1600) no more.
constexpr std::size_t most_bytes = std::size_t{1} << 23;
#endif

}  // namespace

std::vector<const IntegerKernels*> usable_integer_kernels() {
  std::vector<const IntegerKernels*> kernels = {&integers_baseline};
#ifdef DRIFTBOUND_X86_KERNELS
  if (has_ifma()) kernels.push_back(&integers_ifma);
#endif
  return kernels;
}

const IntegerKernels* fastest_integer_kernels([[maybe_unused]] std::size_t rows, [[maybe_unused]] std::size_t length) {
#ifdef DRIFTBOUND_X86_KERNELS
  static const bool is_measured = has_ifma() && __builtin_cpu_is("amdfam19h");
  if (is_measured && packed_size(rows, length) <= most_bytes) return &integers_ifma;
#endif
  return nullptr;
}

IntegerVector::IntegerVector(const double* x, std::size_t length) : numbers_(padded(length), 0) {
  constexpr std::uint64_t significand = 0xfffffffffffff;
  const double factor = power_of_two(vector_bits), shift = factor + 0x1p52;
  std::uint64_t low = 0, high = 0;  // below 2^32 length each
  for (std::size_t l = 0; l < length; ++l) {
    numbers_[l] = std::bit_cast<std::uint64_t>(x[l] * factor + shift) & significand;  // between 2^52 and 2^53, exact
    low += numbers_[l] & 0xffffffff;
    high += numbers_[l] >> 32;
  }
  const auto n = static_cast<WideInteger>(length);
  const WideInteger sum = (static_cast<WideInteger>(high) << 32) + low - (n << vector_bits);
  offset_ = (sum << row_bits) + (n << product_bits);
}

IntegerRows::IntegerRows(std::size_t rows, std::size_t length, const IntegerKernels* kernels)
    : length_(length), steps_(padded(length) / integer_lanes), kernels_(kernels) {
  const std::size_t groups = (rows + integer_rows - 1) / integer_rows;
  taken_.assign(groups * integer_rows, 1);
  std::fill_n(taken_.begin(), rows, 0);
  if (kernels == nullptr) return;
  bytes_.assign(packed_size(rows, length) + integer_overrun, 0);
  sums_.assign(groups * integer_rows, 0);
}

void IntegerRows::take(std::size_t i, const float* row, int exponent, std::int32_t unit) {
  if (kernels_ == nullptr || unit < row_unit) return;
  const double factor = power_of_two(-exponent) * power_of_two(row_bits);
  std::uint8_t* const group = bytes_.data() + i / integer_rows * steps_ * integer_step;
  std::int64_t sum = 0;
  for (std::size_t first = 0; first < length_; first += integer_lanes) {
    std::uint8_t* bytes = group + integer_place(i % integer_rows, first);
    for (std::size_t l = first; l < std::min(first + integer_lanes, length_); ++l, bytes += integer_bytes) {
      const auto integer = static_cast<std::int64_t>(static_cast<double>(row[l]) * factor);
      const std::uint64_t number = static_cast<std::uint64_t>(integer) + row_shift;
      sum += integer;
      for (std::size_t k = 0; k < integer_bytes; ++k) bytes[k] = static_cast<std::uint8_t>(number >> 8 * k);
    }
  }
  sums_[i] = sum;
  taken_[i] = 1;
}

bool IntegerRows::has_group_of(std::size_t i) const {
  const auto* const first = taken_.data() + i / integer_rows * integer_rows;
  return std::all_of(first, first + integer_rows, [](unsigned char taken) { return taken != 0; });
}

void IntegerRows::dot(std::size_t group, const IntegerVector& x, double* high, double* low) const {
  const std::uint8_t* const first = bytes_.data() + group * steps_ * integer_step;
  const std::uint64_t* const numbers = x.numbers().data();
  WideInteger sums[integer_rows] = {};
  for (std::size_t step = 0; step < steps_; step += integer_terms / integer_lanes) {
    const std::size_t steps = std::min(steps_ - step, integer_terms / integer_lanes);
    std::uint64_t lows[integer_rows], highs[integer_rows];
    kernels_->dot(first + step * integer_step, numbers + step * integer_lanes, steps * integer_lanes, lows, highs);
    for (std::size_t r = 0; r < integer_rows; ++r) sums[r] += (static_cast<WideInteger>(highs[r]) << 52) + lows[r];
  }
  for (std::size_t r = 0; r < integer_rows; ++r) {
    const WideInteger of_row = static_cast<WideInteger>(sums_[group * integer_rows + r]) << vector_bits;
    split(sums[r] - of_row - x.offset(), high[r], low[r]);
  }
}

}  // namespace driftbound::num

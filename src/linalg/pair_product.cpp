#include "linalg/pair_product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "linalg/exact_scale.hpp"
#include "num/error_free.hpp"

namespace driftbound::linalg {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Steps that one call of a kernel takes, so that panels stay in the second cache.
constexpr std::size_t steps_at_once = 16 * pair_steps_between;

/// Of rows that are not certified.
constexpr std::int32_t unknown_unit = -(1 << 20);

/// The root of a sum of at most 2^26 squares in double, times this, is a norm's upper bound, of low parts as well.
constexpr double upward = 1.0 + 0x1p-24;

double sum_of_squares(const double* row, std::size_t length) {
  constexpr std::size_t chains = 8;
  double sums[chains] = {};
  std::size_t l = 0;
  for (; l + chains <= length; l += chains) {
    for (std::size_t i = 0; i < chains; ++i) sums[i] += row[l + i] * row[l + i];
  }
  for (; l < length; ++l) sums[0] += row[l] * row[l];
  double sum = 0.0;
  for (const double part : sums) sum += part;
  return sum;
}

/// A row of a matrix as neighbours: where it lies, or a copy.
const double* neighbours(const double* data, const PairRows& source, std::size_t row, double* memory) {
  const double* const first = data + static_cast<std::ptrdiff_t>(row) * source.row_step;
  if (source.step == 1) return first;
  for (std::size_t l = 0; l < source.length; ++l) memory[l] = first[static_cast<std::ptrdiff_t>(l) * source.step];
  return memory;
}

bool has_low_part(const PairRows& rows, std::size_t row) {
  const double* const first = rows.low + static_cast<std::ptrdiff_t>(row) * rows.row_step;
  for (std::size_t l = 0; l < rows.length; ++l) {
    if (first[static_cast<std::ptrdiff_t>(l) * rows.step] != 0.0) return true;
  }
  return false;
}

}  // namespace

PairOperand::PairOperand(const PairRows& rows, Side side, const unsigned char* certify, const ExactKernels& kernels)
    : kernels_(&kernels),
      side_(side),
      rows_(rows.rows),
      length_(rows.length),
      width_(side == Side::left ? kernels.rows : kernels.columns) {
  require_sound_environment();
  if (length_ > longest_row) {
    throw InvalidArgument("product of pairs: rows of " + std::to_string(length_) +
                          " elements; at most 2^26 are supported");
  }
  high_ = std::make_unique_for_overwrite<double[]>(panels() * length_ * width_);
  row_has_low_.assign(rows_, 0);
  for (std::size_t i = 0; rows.low != nullptr && i < rows_; ++i) row_has_low_[i] = has_low_part(rows, i) ? 1 : 0;
  if (std::find(row_has_low_.begin(), row_has_low_.end(), 1) != row_has_low_.end())
    low_ = std::make_unique_for_overwrite<double[]>(panels() * length_ * width_);
  scales_.assign(panels() * width_, 1.0);
  norms_.assign(rows_, infinity);
  usable_.assign(rows_, 0);
  lowest_units_.assign(side == Side::left ? rows_ : panels(), no_unit);
  units_.assign(lowest_units_.size() * length_, no_unit);
  for (std::size_t p = 0; p < panels(); ++p) pack(rows, certify, p);
}

int PairOperand::prepare(std::size_t row, const double* high) {
  const double squares = sum_of_squares(high, length_);
  const bool zeros = squares == 0.0 && std::all_of(high, high + length_, [](double x) { return x == 0.0; });
  if (!zeros && !(squares >= 0x1p-900 && squares <= 0x1p900)) return 0;
  usable_[row] = 1;
  norms_[row] = std::sqrt(squares) * upward;
  return scale_exponent(squares);
}

void PairOperand::find_units(std::size_t row, const double* high, const double* low, int exponent) {
  const std::size_t place = side_ == Side::left ? row : row / width_;
  std::int16_t* const units = units_.data() + place * length_;
  for (std::size_t l = 0; l < length_; ++l) {
    const std::int32_t lowest = low == nullptr ? last_bit(high[l]) : std::min(last_bit(high[l]), last_bit(low[l]));
    const std::int32_t unit = lowest == no_unit ? lowest : lowest - exponent;
    units[l] = static_cast<std::int16_t>(std::min<std::int32_t>(units[l], unit));
    lowest_units_[place] = std::min(lowest_units_[place], unit);
  }
}

void PairOperand::pack(const PairRows& source, const unsigned char* certify, std::size_t p) {
  const std::size_t count = std::min(width_, rows_ - p * width_);
  std::vector<double> memory(source.step == 1 ? 0 : 2 * length_);
  double* const high_panel = high_.get() + p * length_ * width_;
  double* const low_panel = low_ ? low_.get() + p * length_ * width_ : nullptr;
  const auto fill = [&](double* panel, std::size_t r, const double* row, double factor) {
    if (panel == nullptr) return;
    for (std::size_t l = 0; l < length_; ++l) panel[l * width_ + r] = row == nullptr ? 0.0 : row[l] * factor;
  };
  for (std::size_t r = 0; r < width_; ++r) {
    const std::size_t row = p * width_ + r;
    const bool present = r < count;
    const double* const high = present ? neighbours(source.high, source, row, memory.data()) : nullptr;
    const int exponent = present ? prepare(row, high) : 0;
    const bool usable = present && is_usable(row);
    const double* const low =
        usable && low_ != nullptr ? neighbours(source.low, source, row, memory.data() + length_) : nullptr;
    scales_[row] = power_of_two(exponent);
    fill(high_panel, r, usable ? high : nullptr, power_of_two(-exponent));
    fill(low_panel, r, low, power_of_two(-exponent));
    if (!usable) continue;
    if (certify == nullptr || certify[row] != 0) {
      find_units(row, high, low, exponent);
    } else {
      lowest_units_[side_ == Side::left ? row : p] = unknown_unit;
    }
  }
}

double pair_product_error(std::size_t length, int lows) {
  const auto of_piece = [lows](std::size_t steps) {
    const auto n = static_cast<double>(steps);
    return n * ((1 + lows) * (n + 5.0) + 1.0);
  };
  const double pieces = static_cast<double>(length / pair_steps_between) * of_piece(pair_steps_between);
  return (pieces + of_piece(length % pair_steps_between) + 2.0) * 0x1p-106 * (1.0 + 0x1p-40);
}

namespace {

class PairMultiplication {
public:
  PairMultiplication(const PairOperand& a, const PairOperand& b, const PairSums& sums)
      : a_(a),
        b_(b),
        sums_(sums),
        kernels_(a.kernels()),
        errors_{pair_product_error(a.length(), b.has_low() ? 1 : 0),
                pair_product_error(a.length(), b.has_low() ? 2 : 1)},
        high_(tile_size()),
        low_(tile_size()) {}

  void run() {
    // Blocks whose panels of one piece stay in the second cache.
    const std::size_t block_a = std::max<std::size_t>(1, 96 / a_.width()),
                      block_b = std::max<std::size_t>(1, 128 / b_.width());
    for (std::size_t q = 0; q < b_.panels(); q += block_b) {
      for (std::size_t p = 0; p < a_.panels(); p += block_a) {
        multiply(p, std::min(p + block_a, a_.panels()), q, std::min(q + block_b, b_.panels()));
      }
    }
  }

private:
  std::size_t tile_size() const { return kernels_.rows * kernels_.columns; }

  void multiply(std::size_t first_p, std::size_t last_p, std::size_t first_q, std::size_t last_q) {
    const std::size_t size = tile_size(), across = last_q - first_q;
    states_.resize((last_p - first_p) * across * 2 * size);
    const auto state_of = [&](std::size_t p, std::size_t q) {
      return states_.data() + ((p - first_p) * across + q - first_q) * 2 * size;
    };
    for (std::size_t tile = 0; tile < states_.size(); tile += 2 * size) {
      std::fill_n(states_.data() + tile, size, 3.0);
      std::fill_n(states_.data() + tile + size, size, 0.0);
    }
    for (std::size_t l = 0; l < a_.length(); l += steps_at_once) {
      const std::size_t steps = std::min(steps_at_once, a_.length() - l);
      for (std::size_t q = first_q; q < last_q; ++q) {
        for (std::size_t p = first_p; p < last_p; ++p) {
          kernels_.pairs(a_.high(p) + l * a_.width(), a_.has_low() ? a_.low(p) + l * a_.width() : nullptr,
                         b_.high(q) + l * b_.width(), b_.has_low() ? b_.low(q) + l * b_.width() : nullptr, steps,
                         state_of(p, q));
        }
      }
    }
    for (std::size_t p = first_p; p < last_p; ++p) {
      for (std::size_t q = first_q; q < last_q; ++q) {
        kernels_.finish(state_of(p, q), a_.scales(p), b_.scales(q), high_.data(), low_.data());
        store(p, q);
      }
    }
  }

  bool is_exact(std::size_t row, std::size_t q) const {
    const std::int32_t of_row = a_.lowest_unit(row);
    if (of_row == unknown_unit || b_.lowest_unit(q) == unknown_unit || (a_.row_has_low(row) && b_.has_low()))
      return false;
    return of_row + b_.lowest_unit(q) >= exact_unit ||
           kernels_.lowest(a_.units(row), b_.units(q), a_.length()) >= exact_unit;
  }

  void store(std::size_t p, std::size_t q) const {
    const std::size_t columns = b_.rows(), first = q * kernels_.columns;
    const std::size_t count = std::min(kernels_.columns, columns - first);
    for (std::size_t r = 0; r < kernels_.rows && p * kernels_.rows + r < a_.rows(); ++r) {
      const std::size_t row = p * kernels_.rows + r;
      const bool row_is_usable = a_.is_usable(row), exact = a_.norms()[row] == 0.0 || is_exact(row, q);
      const double scale = a_.scales(p)[r], error = errors_[a_.row_has_low(row) ? 1 : 0];
      for (std::size_t c = 0; c < count; ++c) {
        const std::size_t place = row * columns + first + c, i = r * kernels_.columns + c;
        const double both = scale * b_.scales(q)[c];
        const bool usable = row_is_usable && b_.is_usable(first + c) && both >= 0x1p-800;
        const num::ErrorFree sum = num::two_sum(high_[i], low_[i]);
        sums_.high[place] = usable ? sum.value : 0.0;
        sums_.low[place] = usable ? sum.error : 0.0;
        const double radius = exact || b_.norms()[first + c] == 0.0 ? 0.0 : error * both + 0x1p-1073;
        sums_.radius[place] = usable ? radius : infinity;
      }
    }
  }

  const PairOperand& a_;
  const PairOperand& b_;
  const PairSums& sums_;
  const ExactKernels& kernels_;
  double errors_[2];  ///< of rows of A without and with low parts
  std::vector<double> states_, high_, low_;
};

}  // namespace

void pair_product(const PairOperand& a, const PairOperand& b, const PairSums& sums) {
  require_sound_environment();
  if (a.side() != Side::left || b.side() != Side::right || &a.kernels() != &b.kernels()) {
    throw InvalidArgument("product of pairs: it takes a left and a right operand packed for the same kernels");
  }
  if (a.length() != b.length()) {
    throw InvalidArgument("product of pairs: rows of " + std::to_string(a.length()) + " and of " +
                          std::to_string(b.length()) + " elements; their lengths must be the same");
  }
  PairMultiplication(a, b, sums).run();
}

}  // namespace driftbound::linalg

#include "linalg/residue_product.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "linalg/exact_scale.hpp"
#include "linalg/residue_basis.hpp"
#include "num/parallel.hpp"

namespace driftbound::linalg {

namespace {

/// Each digit but the highest of several holds 40 bits, that one 42.
constexpr int bits_of_highest_digit = 42;
static_assert(most_row_bits == 2 * limb_bits + bits_of_highest_digit);
/// With fewer, rounding to integers could make a norm larger than its margin holds.
constexpr int fewest_bits = 30;
/// What rounding high + low to an integer moves it by at most.
constexpr double cut_off = 0.5 + 0x1p-12;
constexpr double upward = 1.0 + 0x1p-48;

std::size_t digits_for(const ResidueRow& row) {
  if (row.error == 0.0 && row.bits <= bits_of_one_digit) return 1;
  return row.bits <= limb_bits + bits_of_highest_digit ? 2 : 3;
}

/// count elements, step apart, side by side at `target`.
template <class Real, class Target>
void gather(const Real* source, std::ptrdiff_t step, std::size_t count, Target* target) {
  if (step == 1) {
    std::copy_n(source, count, target);
  } else {
    for (std::size_t l = 0; l < count; ++l) target[l] = source[static_cast<std::ptrdiff_t>(l) * step];
  }
}

/// A row that fits nothing.
constexpr ResidueRow no_row = {1.0, 0, 1.0, 0.0, false};

/// Float32 numbers as integers.
ResidueRow row_of_floats(const float* elements, std::size_t length, std::vector<std::int16_t>& units) {
  const ExactKernels& exact = fastest_exact_kernels();
  const double squares = exact.squares(elements, length);
  if (!std::isfinite(squares)) return no_row;
  if (squares == 0.0) return {};
  const int exponent = scale_exponent(squares);
  units.assign(length, no_unit);
  const std::int32_t lowest = exact.lower_units(elements, length, exponent, units.data());
  const int bits = std::max(0, -lowest);
  if (bits > most_row_bits) return no_row;
  const double scale = power_of_two(exponent + lowest);
  return {scale, bits, std::sqrt(squares * (1.0 + 0x1p-20)) * upward / scale, 0.0, true};
}

/// Doubles without low parts as integers of at most `bits` bits, if they are so cut off.
ResidueRow uncut(const ResidueRow& cut, const std::vector<double>& elements) {
  if (!cut.fits) return cut;
  std::int32_t lowest = no_unit;
  for (const double x : elements) lowest = std::min(lowest, last_bit(x));
  const int unit = std::ilogb(cut.scale);
  const int bits = cut.bits - (lowest - unit);
  return lowest < unit ? cut : ResidueRow{power_of_two(lowest), bits, power_of_two(bits), 0.0, true};
}

/// Numbers cut off `bits` below their norm.
ResidueRow row_of_pairs(const double* high, std::size_t length, int bits) {
  constexpr std::size_t chains = 8;
  double sums[chains] = {}, squares = 0.0;
  for (std::size_t l = 0; l + chains <= length; l += chains)
    for (std::size_t i = 0; i < chains; ++i) sums[i] += high[l + i] * high[l + i];
  for (std::size_t l = length / chains * chains; l < length; ++l) squares += high[l] * high[l];
  for (const double sum : sums) squares += sum;
  if (!(squares >= 0x1p-800 && squares <= 0x1p800)) return no_row;
  const double scale = power_of_two(scale_exponent(squares) - bits);
  return {scale, bits, power_of_two(bits), cut_off * scale, true};
}

/// Rows that know how to measure themselves and to lie side by side in double.
struct FloatSource {
  const FloatRows& rows;
  std::vector<float> elements;
  std::vector<std::int16_t> units;

  explicit FloatSource(const FloatRows& source) : rows(source), elements(source.length) {}
  const float* first(std::size_t row) const { return rows.data + static_cast<std::ptrdiff_t>(row) * rows.row_step; }
  ResidueRow measure(std::size_t row) {
    gather(first(row), rows.step, rows.length, elements.data());
    return row_of_floats(elements.data(), rows.length, units);
  }
  bool read(std::size_t row, double* high, double*) const {
    gather(first(row), rows.step, rows.length, high);
    return false;
  }
};

struct PairSource {
  const PairRows& rows;
  int most_bits;
  std::vector<double> high;
  std::vector<float> elements;
  std::vector<std::int16_t> units;

  PairSource(const PairRows& source, int bits)
      : rows(source), most_bits(bits), high(source.length), elements(source.length) {}
  const double* first(const double* data, std::size_t row) const {
    return data + static_cast<std::ptrdiff_t>(row) * rows.row_step;
  }
  /// What is known of the low parts of a row: whether all are 0, and whether each is one, next to its high part.
  struct Lows {
    bool are_zero = true, fit = true;
  };
  Lows lows_of(std::size_t row) const {
    Lows lows;
    const double* const low = rows.low == nullptr ? nullptr : first(rows.low, row);
    for (std::size_t l = 0; low != nullptr && l < rows.length; ++l) {
      const double part = std::fabs(low[static_cast<std::ptrdiff_t>(l) * rows.step]);
      lows.are_zero = lows.are_zero && part == 0.0;
      lows.fit = lows.fit && part <= 0x1p-52 * std::fabs(high[l]);
    }
    return lows;
  }
  bool are_floats() {
    bool all = true;
    for (std::size_t l = 0; l < rows.length; ++l) {
      elements[l] = static_cast<float>(high[l]);
      all = all && static_cast<double>(elements[l]) == high[l];
    }
    return all;
  }
  ResidueRow measure(std::size_t row) {
    gather(first(rows.high, row), rows.step, rows.length, high.data());
    const Lows lows = lows_of(row);
    if (!lows.fit) return no_row;
    if (lows.are_zero && are_floats()) {
      const ResidueRow exact = row_of_floats(elements.data(), rows.length, units);
      if (exact.fits && exact.bits <= most_bits) return exact;
    }
    const ResidueRow cut = row_of_pairs(high.data(), rows.length, most_bits);
    return lows.are_zero ? uncut(cut, high) : cut;
  }
  bool read(std::size_t row, double* target, double* low) const {
    gather(first(rows.high, row), rows.step, rows.length, target);
    if (rows.low == nullptr) return false;
    gather(first(rows.low, row), rows.step, rows.length, low);
    return true;
  }
};

/// One row of a right panel: [chunk, step / 4, row, step % 4].
void store_right(const std::uint8_t* bytes, std::size_t length, std::size_t row, std::uint8_t* panel) {
  for (std::size_t l = 0; l < length; l += 4) std::memcpy(panel + l * residue_rows + row * 4, bytes + l, 4);
}

}  // namespace

int most_residue_bits() {
  return residue_basis(moduli.size()).bits;
}

ResidueOperand::ResidueOperand(const FloatRows& rows, Side side, int threads, int other_bits,
                               const ResidueKernels& kernels)
    : kernels_(&kernels), side_(side), rows_(rows.rows), length_(rows.length) {
  make(FloatSource(rows), threads, other_bits);
}

ResidueOperand::ResidueOperand(const PairRows& rows, Side side, int threads, int other_bits, int most_bits,
                               const ResidueKernels& kernels)
    : kernels_(&kernels), side_(side), rows_(rows.rows), length_(rows.length) {
  if (most_bits < fewest_bits || most_bits > most_row_bits)
    throw InvalidArgument("product by residues: most_bits = " + std::to_string(most_bits) + "; give " +
                          std::to_string(fewest_bits) + " to " + std::to_string(most_row_bits));
  make(PairSource(rows, most_bits), threads, other_bits);
}

template <class Source>
void ResidueOperand::make(const Source& source, int threads, int other_bits) {
  require_sound_environment();
  if (length_ > longest_residue_row)
    throw InvalidArgument("product by residues: rows of " + std::to_string(length_) +
                          " elements; at most 2^16 are supported");
  const std::size_t length = chunks() * residue_steps;
  other_bits_ = other_bits;
  row_.assign(rows_, {});
  const auto for_each = [&](std::size_t count, auto&& f) {
    parallel_for(static_cast<std::int64_t>(count), threads, [&](std::int64_t first, std::int64_t last) {
      Source own = source;
      for (std::int64_t i = first; i < last; ++i) f(own, static_cast<std::size_t>(i));
    });
  };
  for_each(rows_, [&](Source& own, std::size_t i) { row_[i] = own.measure(i); });
  arrange();
  residues_ = std::make_unique_for_overwrite<Line[]>(pairs() * pair_size() / sizeof(Line));
  for_each(2 * pairs(), [&](Source& own, std::size_t panel) {
    std::vector<double> high(length), low(length), digits(most_digits * length);
    std::vector<std::uint8_t> bytes(length);
    for (std::size_t place = panel * residue_rows; place < (panel + 1) * residue_rows; ++place) {
      const ResidueRow row = place < rows_ ? row_[order_[place]] : ResidueRow();
      const bool is_kept = place < rows_ && row.fits;
      if (!is_kept) std::fill(high.begin(), high.end(), 0.0);
      const bool has_low = is_kept && own.read(order_[place], high.data(), low.data());
      store(place, row, high.data(), has_low && row.error > 0.0 ? low.data() : nullptr, digits.data(), bytes.data());
    }
  });
}

std::size_t ResidueOperand::window_pairs() const {
  constexpr std::size_t elements = std::size_t{1} << 19;  // a few megabytes of residues
  return std::clamp(elements / (2 * residue_rows * std::max(length_, std::size_t{1})), std::size_t{4},
                    most_window_pairs);
}

void ResidueOperand::arrange() {
  order_.resize(rows_);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  const std::size_t together = side_ == Side::left ? rows_ : window_rows();
  for (std::size_t first = 0; first < rows_; first += together) {
    std::stable_sort(order_.begin() + static_cast<std::ptrdiff_t>(first),
                     order_.begin() + static_cast<std::ptrdiff_t>(std::min(first + together, rows_)),
                     [&](std::size_t i, std::size_t j) { return row_[i].size < row_[j].size; });
  }
  bits_of_pairs_.assign(pairs(), 0);
  size_of_pairs_.assign(pairs(), 1.0);
  scales_.assign(2 * pairs() * residue_rows, 1.0);
  for (std::size_t place = 0; place < rows_; ++place) {
    const ResidueRow& row = row_[order_[place]];
    int& bits = bits_of_pairs_[place / (2 * residue_rows)];
    bits = std::max(bits, row.bits);
    double& largest = size_of_pairs_[place / (2 * residue_rows)];
    largest = std::max(largest, row.size);
    bits_ = std::max(bits_, bits);
    scales_[place] = row.scale;
    all_fit_ = all_fit_ && row.fits;
    is_exact_ = is_exact_ && row.error == 0.0;
  }
  kept_ = moduli_for_all(bits_);
}

/// For a row of so many bits and any of the other operand.
std::size_t ResidueOperand::moduli_for_all(int bits) const {
  return moduli_for(std::min(bits + other_bits_ + spare_bits, most_residue_bits()));
}

void ResidueOperand::store(std::size_t place, const ResidueRow& row, const double* high, const double* low,
                           double* digits, std::uint8_t* row_bytes) {
  const std::size_t length = chunks() * residue_steps, panel = place / residue_rows, count = digits_for(row);
  const bool is_left = side_ == Side::left;
  kernels_->digits(high, low, length, 1.0 / row.scale, count, digits);
  const std::size_t kept = moduli_for_all(bits_of_pairs_[panel / 2]);
  const ResidueBasis& basis = residue_basis(kept);
  for (std::size_t s = 0; s < kept; ++s) {
    std::uint8_t* const target = bytes() + panel / 2 * pair_size() + (2 * s + panel % 2) * panel_size();
    if (is_left) {
      std::uint8_t* const row_of_chunk = target + place % residue_rows * residue_steps;
      kernels_->left_residues(digits, count, length, basis.modulus[s], chunk_size, row_of_chunk);
    } else {
      kernels_->right_residues(digits, count, length, basis.modulus[s], residue_steps, row_bytes);
      store_right(row_bytes, length, place % residue_rows, target);
    }
  }
}

namespace {

class ResidueMultiplication {
public:
  ResidueMultiplication(const ResidueOperand& a, const ResidueOperand& b, const PairSums& sums)
      : a_(a),
        b_(b),
        sums_(sums),
        kernels_(a.kernels()),
        window_pairs_(std::clamp(b.pairs(), std::size_t{1}, b.window_pairs())),
        window_rows_(2 * residue_rows * window_pairs_),
        root_(std::sqrt(static_cast<double>(a.length())) * upward),
        is_exact_(a.is_exact() && b.is_exact()),
        norms_of_a_(norms_of(a)),
        norms_of_b_(norms_of(b)) {}

  void run(int threads) const {
    const std::size_t windows = (b_.pairs() + window_pairs_ - 1) / window_pairs_;
    parallel_for(static_cast<std::int64_t>(windows * a_.pairs()), threads, [&](std::int64_t first, std::int64_t last) {
      Memory memory(window_pairs_);
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
        multiply(i % a_.pairs(), i / a_.pairs(), memory);
    });
  }

private:
  /// Of a pair of left panels and a window, by place.
  struct Memory {
    std::unique_ptr<std::int16_t[]> residues;
    std::unique_ptr<double[]> high, low, rest;

    explicit Memory(std::size_t pairs)
        : residues(std::make_unique_for_overwrite<std::int16_t[]>(moduli.size() * 4 * pairs * tile_size)),
          high(std::make_unique_for_overwrite<double[]>(4 * pairs * tile_size)),
          low(std::make_unique_for_overwrite<double[]>(4 * pairs * tile_size)),
          rest(std::make_unique_for_overwrite<double[]>(4 * pairs * tile_size)) {}
  };

  void multiply(std::size_t p, std::size_t window, Memory& memory) const {
    const std::size_t first = window * window_pairs_, end = std::min(first + window_pairs_, b_.pairs());
    for (std::size_t q = first, last = q; q < end; q = last) {
      const std::size_t count = moduli_of(p, q);
      while (last < end && moduli_of(p, last) == count) ++last;
      multiply_by(residue_basis(count), p, q, last - q, memory);
    }
    store(p, window, memory);
  }

  std::size_t moduli_of(std::size_t p, std::size_t q) const {
    return moduli_for_integers(a_.size_of_pair(p) * b_.size_of_pair(q));
  }

  void multiply_by(const ResidueBasis& basis, std::size_t p, std::size_t q, std::size_t pairs, Memory& memory) const {
    const std::size_t tiles = 4 * pairs;
    kernels_.multiply(a_.pair(p), b_.pair(q), b_.pair_size(), a_.chunks(), basis, pairs, memory.residues.get());
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const std::size_t i = tile / 2 % 2, j = 2 * (q + tile / 4) + tile % 2;
      if ((2 * p + i) * residue_rows >= a_.rows() || j * residue_rows >= b_.rows()) continue;
      const std::size_t place = (i * window_rows_ + j % (2 * window_pairs_)) * residue_rows;
      kernels_.combine(memory.residues.get() + tile * tile_size, tiles * tile_size, basis, a_.scales(2 * p + i),
                       b_.scales(j), window_rows_, memory.high.get() + place, memory.low.get() + place,
                       sums_.radius == nullptr ? nullptr : memory.rest.get() + place);
    }
  }

  void store(std::size_t p, std::size_t window, const Memory& memory) const {
    const std::size_t first = window * window_rows_;
    const std::span columns = b_.rows_of_window(window);
    std::array<std::int32_t, most_window_rows> place;
    for (std::size_t i = 0; i < columns.size(); ++i) place[columns[i] - first] = static_cast<std::int32_t>(i);
    const std::span rows = a_.rows_of_pair(p);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::size_t source = r * window_rows_, target = rows[r] * b_.rows() + first;
      kernels_.rearrange(memory.high.get() + source, place.data(), columns.size(), sums_.high + target);
      kernels_.rearrange(memory.low.get() + source, place.data(), columns.size(), sums_.low + target);
      if (sums_.radius == nullptr) continue;
      kernels_.rearrange(memory.rest.get() + source, place.data(), columns.size(), sums_.radius + target);
      for (std::size_t c = 0; c < columns.size(); ++c) {
        double& radius = sums_.radius[target + c];
        radius = (radius + error_of(rows[r], first + c)) * upward;
      }
    }
  }

  /// What integers in place of numbers make of a sum at most (T-101).
  double error_of(std::size_t row, std::size_t column) const {
    const ResidueRow &a = a_.row(row), &b = b_.row(column);
    if (!a.fits || !b.fits) return std::numeric_limits<double>::infinity();
    if (is_exact_) return 0.0;
    return root_ * (a.error * (norms_of_b_[column] + root_ * b.error) + norms_of_a_[row] * b.error);
  }
  static std::vector<double> norms_of(const ResidueOperand& operand) {
    std::vector<double> norms;
    for (std::size_t i = 0; i < operand.rows(); ++i) {
      const ResidueRow& row = operand.row(i);
      norms.push_back(row.bits == 0 ? 0.0 : std::ldexp(row.scale, row.bits));
    }
    return norms;
  }

  const ResidueOperand& a_;
  const ResidueOperand& b_;
  const PairSums& sums_;
  const ResidueKernels& kernels_;
  std::size_t window_pairs_, window_rows_;
  double root_;
  bool is_exact_;
  std::vector<double> norms_of_a_, norms_of_b_;
};

}  // namespace

bool has_residue_product(const ResidueOperand& a, const ResidueOperand& b) {
  return a.bits() <= b.other_bits() && b.bits() <= a.other_bits() &&
         a.bits() + b.bits() + spare_bits <= most_residue_bits();
}

void residue_product(const ResidueOperand& a, const ResidueOperand& b, const PairSums& sums, int threads) {
  require_sound_environment();
  if (a.side() != Side::left || b.side() != Side::right || &a.kernels() != &b.kernels())
    throw InvalidArgument("product by residues: it takes a left and a right operand made for the same kernels");
  if (a.length() != b.length())
    throw InvalidArgument("product by residues: rows of " + std::to_string(a.length()) + " and of " +
                          std::to_string(b.length()) + " elements; their lengths must be the same");
  if (!has_residue_product(a, b)) throw InvalidArgument("product by residues: the operands have none");
  ResidueMultiplication(a, b, sums).run(threads);
}

bool residue_product(const ResidueOperand& a, const ResidueOperand& b, ExactProduct& result, int threads) {
  if (!has_residue_product(a, b) || !a.all_fit() || !b.all_fit()) return false;
  const std::size_t size = a.rows() * b.rows();
  result.rows = a.rows();
  result.columns = b.rows();
  result.high.resize(size);
  result.low.resize(size);
  const bool has_rest = a.bits() + b.bits() > bits_without_rest;
  result.radius.assign(has_rest || !a.is_exact() || !b.is_exact() ? size : 0, 0.0);
  residue_product(a, b, {result.high.data(), result.low.data(), result.radius.empty() ? nullptr : result.radius.data()},
                  threads);
  return true;
}

}  // namespace driftbound::linalg

#include "num/residue_product.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "num/exact_scale.hpp"
#include "num/parallel.hpp"
#include "num/residue_basis.hpp"

namespace driftbound::num {

namespace {

/// 2 for the sign and for the integer to lie within a quarter of the product of the moduli.
constexpr int spare_bits = 2;
/// Integers below 2^50 are one digit; each digit more holds 40 bits, the highest of several 42.
constexpr int bits_of_one_digit = 50, bits_of_highest_digit = 42;
constexpr int most_row_bits = 2 * limb_bits + bits_of_highest_digit;

/// Integers of at most 2^104 come out of ResidueKernels::combine without a rest.
constexpr int bits_without_rest = 104;

std::size_t digits_for(int bits) {
  if (bits <= bits_of_one_digit) return 1;
  return bits <= limb_bits + bits_of_highest_digit ? 2 : 3;
}

/// Integers elements[l] * factor as `count` digits base 2^40, `step` apart.
void store_digits(const float* elements, std::size_t length, double factor, std::size_t count, std::size_t step,
                  double* digits) {
  for (std::size_t l = 0; l < length; ++l) digits[l] = static_cast<double>(elements[l]) * factor;
  for (std::size_t i = count; i-- > 1;) {
    const double unit = std::ldexp(1.0, limb_bits * static_cast<int>(i)), inverse = 1.0 / unit;
    for (std::size_t l = 0; l < length; ++l) {
      const double digit = (digits[l] * inverse + 0x1.8p52) - 0x1.8p52;  // to the nearest integer
      digits[i * step + l] = digit;
      digits[l] -= digit * unit;
    }
  }
}

/// One row of a left panel: [chunk, row, step].
void store_left(const std::vector<std::uint8_t>& bytes, std::size_t row, std::uint8_t* panel) {
  for (std::size_t l = 0; l < bytes.size(); l += residue_steps)
    std::memcpy(panel + l * residue_rows + row * residue_steps, bytes.data() + l, residue_steps);
}

/// One row of a right panel: [chunk, step / 4, row, step % 4].
void store_right(const std::vector<std::uint8_t>& bytes, std::size_t row, std::uint8_t* panel) {
  for (std::size_t l = 0; l < bytes.size(); l += 4)
    std::memcpy(panel + l * residue_rows + row * 4, bytes.data() + l, 4);
}

const float* row_of(const FloatRows& source, std::size_t row) {
  return source.data + static_cast<std::ptrdiff_t>(row) * source.row_step;
}

/// The elements of a row side by side, in `memory` where they are not so already.
const float* contiguous(const FloatRows& source, std::size_t row, std::vector<float>& memory) {
  const float* const elements = row_of(source, row);
  if (source.step == 1) return elements;
  memory.resize(source.length);
  for (std::size_t l = 0; l < source.length; ++l) memory[l] = elements[static_cast<std::ptrdiff_t>(l) * source.step];
  return memory.data();
}

}  // namespace

int most_residue_bits() {
  return residue_basis(moduli.size()).bits;
}

ResidueOperand::ResidueOperand(const FloatRows& rows, Side side, int threads, int other_bits,
                               const ResidueKernels& kernels)
    : kernels_(&kernels), side_(side), rows_(rows.rows), length_(rows.length) {
  require_sound_environment();
  if (length_ > longest_residue_row)
    throw InvalidArgument("product by residues: rows of " + std::to_string(length_) +
                          " elements; at most 2^16 are supported");
  const std::size_t padded = 2 * pairs() * residue_rows;
  scales_.assign(padded, 1.0);
  row_bits_.assign(padded, 0);
  bits_of_pairs_.assign(pairs(), 0);
  const auto for_each = [&](std::size_t count, auto&& f) {
    parallel_for(static_cast<std::int64_t>(count), threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) f(static_cast<std::size_t>(i));
    });
  };
  for_each(pairs(), [&](std::size_t p) { measure(rows, p); });
  for (const int bits : bits_of_pairs_) bits_ = std::max(bits_, bits);
  kept_ = moduli_for(std::min(bits_ + other_bits + spare_bits, most_residue_bits()));
  fits_ = bits_ <= most_row_bits;
  if (!fits_) return;
  residues_ = std::make_unique_for_overwrite<std::uint8_t[]>(pairs() * pair_size());
  for_each(2 * pairs(), [&](std::size_t panel) { reduce(rows, panel); });
}

void ResidueOperand::measure(const FloatRows& source, std::size_t pair) {
  const ExactKernels& exact = fastest_exact_kernels();
  std::vector<float> memory;
  std::vector<std::int16_t> units(length_);
  const std::size_t first = pair * 2 * residue_rows, last = std::min(first + 2 * residue_rows, rows_);
  for (std::size_t row = first; row < last; ++row) {
    const float* const elements = contiguous(source, row, memory);
    const double squares = exact.squares(elements, length_);
    if (!std::isfinite(squares)) {
      row_bits_[row] = most_row_bits + 1;
    } else if (squares > 0.0) {
      const int exponent = scale_exponent(squares);
      units.assign(length_, no_unit);
      const std::int32_t lowest = exact.lower_units(elements, length_, exponent, units.data());
      scales_[row] = power_of_two(exponent + lowest);
      row_bits_[row] = std::max(0, -lowest);
    }
    bits_of_pairs_[pair] = std::max(bits_of_pairs_[pair], row_bits_[row]);
  }
}

void ResidueOperand::reduce(const FloatRows& source, std::size_t panel) {
  const std::size_t length = chunks() * residue_steps;
  const auto residues = side_ == Side::left ? kernels_->left_residues : kernels_->right_residues;
  std::vector<float> memory;
  std::vector<double> digits;
  std::vector<std::uint8_t> bytes(length);
  for (std::size_t r = 0; r < residue_rows; ++r) {
    const std::size_t row = panel * residue_rows + r, count = digits_for(row_bits_[row]);
    digits.assign(count * length, 0.0);
    if (row < rows_)
      store_digits(contiguous(source, row, memory), length_, 1.0 / scales_[row], count, length, digits.data());
    for (std::size_t s = 0; s < kept_; ++s) {
      std::uint8_t* const target = residues_.get() + panel / 2 * pair_size() + (2 * s + panel % 2) * panel_size();
      residues(digits.data(), count, length, residue_basis(kept_).modulus[s], bytes.data());
      if (side_ == Side::left) {
        store_left(bytes, r, target);
      } else {
        store_right(bytes, r, target);
      }
    }
  }
}

namespace {

class ResidueMultiplication {
public:
  ResidueMultiplication(const ResidueOperand& a, const ResidueOperand& b, ExactProduct& result)
      : a_(a), b_(b), result_(result), kernels_(a.kernels()) {}

  void run(int threads) {
    const std::size_t size = a_.rows() * b_.rows();
    result_.rows = a_.rows();
    result_.columns = b_.rows();
    result_.high.resize(size);
    result_.low.resize(size);
    has_radii_ = a_.bits() + b_.bits() > bits_without_rest;
    result_.radius.assign(has_radii_ ? size : 0, 0.0);
    // Right pairs whose residues stay in the second cache while left ones pass by, and lefts of one task.
    constexpr std::size_t rights = 4, lefts = 8;
    const std::size_t groups = (b_.pairs() + rights - 1) / rights, tasks = (a_.pairs() + lefts - 1) / lefts;
    parallel_for(static_cast<std::int64_t>(groups * tasks), threads, [&](std::int64_t first, std::int64_t last) {
      Memory memory;
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        const std::size_t q = i / tasks * rights, p = i % tasks * lefts;
        for (std::size_t j = p; j < std::min(p + lefts, a_.pairs()); ++j)
          multiply(j, q, std::min(rights, b_.pairs() - q), memory);
      }
    });
  }

private:
  struct Memory {
    std::vector<std::int32_t> sums;
    std::vector<double> high = std::vector<double>(tile_sums), low = high, rest = high;
  };

  void multiply(std::size_t p, std::size_t q, std::size_t pairs, Memory& memory) const {
    int bits = 0;
    for (std::size_t j = q; j < q + pairs; ++j) bits = std::max(bits, b_.bits_of_pair(j));
    const ResidueBasis& basis = residue_basis(moduli_for(a_.bits_of_pair(p) + bits + spare_bits));
    const std::size_t tiles = 4 * pairs;
    memory.sums.resize(basis.count * tiles * tile_sums);
    kernels_.multiply(a_.pair(p), b_.pair(q), b_.pair_size(), a_.chunks(), basis.count, pairs, memory.sums.data());
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const std::size_t i = 2 * p + tile / 2 % 2, j = 2 * (q + tile / 4) + tile % 2;
      if (i * residue_rows >= a_.rows() || j * residue_rows >= b_.rows()) continue;
      kernels_.combine(memory.sums.data() + tile * tile_sums, tiles * tile_sums, basis, a_.scales(i), b_.scales(j),
                       memory.high.data(), memory.low.data(), memory.rest.data());
      store(i, j, memory);
    }
  }

  void store(std::size_t i, std::size_t j, const Memory& memory) const {
    const std::size_t first = j * residue_rows, count = std::min(residue_rows, b_.rows() - first);
    for (std::size_t r = 0; r < residue_rows && i * residue_rows + r < a_.rows(); ++r) {
      const std::size_t place = (i * residue_rows + r) * b_.rows() + first, source = r * residue_rows;
      std::copy_n(memory.high.data() + source, count, result_.high.data() + place);
      std::copy_n(memory.low.data() + source, count, result_.low.data() + place);
      if (!has_radii_) continue;
      for (std::size_t c = 0; c < count; ++c) result_.radius[place + c] = memory.rest[source + c] * (1.0 + 0x1p-50);
    }
  }

  const ResidueOperand& a_;
  const ResidueOperand& b_;
  ExactProduct& result_;
  const ResidueKernels& kernels_;
  bool has_radii_ = false;
};

}  // namespace

bool residue_product(const ResidueOperand& a, const ResidueOperand& b, ExactProduct& result, int threads) {
  require_sound_environment();
  if (a.side() != Side::left || b.side() != Side::right || &a.kernels() != &b.kernels())
    throw InvalidArgument("product by residues: it takes a left and a right operand made for the same kernels");
  if (a.length() != b.length())
    throw InvalidArgument("product by residues: rows of " + std::to_string(a.length()) + " and of " +
                          std::to_string(b.length()) + " elements; their lengths must be the same");
  if (!a.fits() || !b.fits()) return false;
  if (moduli_for(a.bits() + b.bits() + spare_bits) > std::min(a.moduli_kept(), b.moduli_kept())) return false;
  ResidueMultiplication(a, b, result).run(threads);
  return true;
}

}  // namespace driftbound::num

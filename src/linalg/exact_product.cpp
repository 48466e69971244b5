#include "linalg/exact_product.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "linalg/exact_scale.hpp"
#include "num/error_free.hpp"
#include "num/parallel.hpp"

namespace driftbound::linalg {

ExactOperand::ExactOperand(const FloatRows& rows, Side side, int threads, const ExactKernels& kernels)
    : kernels_(&kernels),
      side_(side),
      rows_(rows.rows),
      length_(rows.length),
      width_(side == Side::left ? kernels.rows : kernels.columns) {
  require_sound_environment();
  if (length_ > longest_row) {
    throw InvalidArgument("exact product: rows of " + std::to_string(length_) +
                          " elements; at most 2^26 are supported");
  }
  panels_ = std::make_unique_for_overwrite<double[]>(panels() * length_ * width_);
  scales_.assign(panels() * width_, 1.0);
  units_.assign(panels() * length_, no_unit);
  lowest_units_.assign(panels(), no_unit);
  finite_.assign(rows_, 1);
  parallel_for(static_cast<std::int64_t>(panels()), threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p) pack(rows, static_cast<std::size_t>(p));
  });
  all_finite_ = std::find(finite_.begin(), finite_.end(), 0) == finite_.end();
}

void ExactOperand::pack(const FloatRows& source, std::size_t p) {
  const std::size_t count = std::min(width_, rows_ - p * width_);
  std::int16_t* const units = units_.data() + p * length_;
  std::vector<float> memory;  // what no row of the source stands for: zeros; and rows of other steps
  const auto zeros = [&] {
    if (memory.empty()) memory.assign((source.step == 1 ? 1 : width_ + 1) * length_, 0.0f);
    return memory.data();
  };
  std::vector<const float*> elements(width_);
  std::vector<double> factors(width_, 1.0);
  for (std::size_t r = 0; r < width_; ++r) {
    if (r >= count) {
      elements[r] = zeros();
      continue;
    }
    const std::size_t row = p * width_ + r;
    elements[r] = source.data + static_cast<std::ptrdiff_t>(row) * source.row_step;
    if (source.step != 1) {
      float* const target = zeros() + (r + 1) * length_;
      for (std::size_t l = 0; l < length_; ++l) target[l] = elements[r][static_cast<std::ptrdiff_t>(l) * source.step];
      elements[r] = target;
    }
    const double squares = kernels_->squares(elements[r], length_);
    finite_[row] = std::isfinite(squares);
    if (finite_[row] == 0) {
      elements[r] = zeros();
      continue;
    }
    const int exponent = scale_exponent(squares);
    scales_[row] = power_of_two(exponent);
    factors[r] = 1.0 / scales_[row];
    lowest_units_[p] = std::min(lowest_units_[p], kernels_->lower_units(elements[r], length_, exponent, units));
  }
  const auto pack_panel = side_ == Side::left ? kernels_->pack_rows : kernels_->pack_columns;
  pack_panel(elements.data(), factors.data(), length_, panels_.get() + p * length_ * width_);
}

namespace {

/// The steps of a product in pieces: at most 511, and at most 512 the first.
class Pieces {
public:
  explicit Pieces(std::size_t length)
      : length_(length),
        count_(length == 0 ? 0 : std::max<std::size_t>(1, (length + steps_between - 2) / steps_between)) {}

  std::size_t count() const { return count_; }
  std::size_t first(std::size_t piece) const { return length_ / count_ * piece + std::min(piece, length_ % count_); }
  std::size_t steps(std::size_t piece) const { return first(piece + 1) - first(piece); }

  /// sum over the additions to L of how large L can be there, in units of 2^-52, twice: n (n + 3) a piece.
  double twice_the_sums_of_low() const {
    double sum = 0.0;
    for (std::size_t piece = 0; piece < count_; ++piece) {
      const auto n = static_cast<double>(steps(piece));
      sum += n * (n + 3.0);
    }
    return sum;
  }

private:
  std::size_t length_, count_;
};

class Multiplication {
public:
  Multiplication(const ExactOperand& a, const ExactOperand& b, ExactProduct& result, Doubtful doubtful)
      : a_(a), b_(b), result_(result), kernels_(a.kernels()), doubtful_(doubtful), pieces_(a.length()) {}

  void run(int threads) {
    prepare();
    // Blocks whose panels of one piece stay in the second cache.
    const std::size_t block_a = std::max<std::size_t>(1, 96 / a_.width()),
                      block_b = std::max<std::size_t>(1, 128 / b_.width());
    const std::size_t blocks_a = (a_.panels() + block_a - 1) / block_a,
                      blocks_b = (b_.panels() + block_b - 1) / block_b;
    // Blocks at the edges are smaller, and cores not equally fast: each thread takes the next one that is left.
    std::atomic<std::size_t> next = 0;
    const auto takers = static_cast<std::int64_t>(std::min(static_cast<std::size_t>(threads), blocks_a * blocks_b));
    parallel_for(takers, threads, [&](std::int64_t, std::int64_t) {
      Memory memory;
      for (std::size_t block = next++; block < blocks_a * blocks_b; block = next++) {
        const std::size_t p = block / blocks_b * block_a, q = block % blocks_b * block_b;
        multiply({p, std::min(p + block_a, a_.panels()), q, std::min(q + block_b, b_.panels())}, memory);
      }
    });
  }

private:
  struct Block {
    std::size_t first_p, last_p, first_q, last_q;
  };
  struct Memory {
    std::vector<double> state, high, low;
  };

  std::size_t tile_size() const { return kernels_.rows * kernels_.columns; }
  bool is_doubtful(std::size_t p, std::size_t q) const { return !doubts_.empty() && doubts_[p * b_.panels() + q] != 0; }

  bool certified(std::size_t p, std::size_t q) const {
    return a_.lowest_unit(p) + b_.lowest_unit(q) >= exact_unit ||
           kernels_.lowest(a_.units(p), b_.units(q), a_.length()) >= exact_unit;
  }

  void prepare() {
    const std::size_t size = a_.rows() * b_.rows();
    result_.rows = a_.rows();
    result_.columns = b_.rows();
    result_.high.resize(size);
    result_.low.resize(size);
    for (std::size_t p = 0; p < a_.panels(); ++p) {
      for (std::size_t q = 0; q < b_.panels(); ++q) {
        if (certified(p, q)) continue;
        doubts_.resize(a_.panels() * b_.panels(), 0);
        doubts_[p * b_.panels() + q] = 1;
      }
    }
    const bool exact = doubts_.empty() && a_.all_finite() && b_.all_finite();
    result_.radius.assign(exact ? 0 : size, 0.0);
  }

  void multiply(const Block& block, Memory& memory) const {
    const std::size_t size = tile_size(), across = block.last_q - block.first_q;
    memory.state.resize((block.last_p - block.first_p) * across * 2 * size);
    memory.high.resize(size);
    memory.low.resize(size);
    const auto state_of = [&](std::size_t p, std::size_t q) {
      return memory.state.data() + ((p - block.first_p) * across + q - block.first_q) * 2 * size;
    };
    for (std::size_t p = block.first_p; p < block.last_p; ++p) {
      for (std::size_t q = block.first_q; q < block.last_q; ++q) {
        std::fill_n(state_of(p, q), size, 3.0);
        std::fill_n(state_of(p, q) + size, size, 0.0);
      }
    }
    for (std::size_t piece = 0; piece < pieces_.count(); ++piece) {
      const std::size_t first = pieces_.first(piece), steps = pieces_.steps(piece);
      for (std::size_t q = block.first_q; q < block.last_q; ++q) {
        for (std::size_t p = block.first_p; p < block.last_p; ++p) {
          if (is_doubtful(p, q) && doubtful_ == Doubtful::third_accumulator) continue;
          kernels_.two(a_.panel(p) + first * a_.width(), b_.panel(q) + first * b_.width(), steps, state_of(p, q));
        }
      }
    }
    for (std::size_t p = block.first_p; p < block.last_p; ++p) {
      for (std::size_t q = block.first_q; q < block.last_q; ++q) {
        if (is_doubtful(p, q) && doubtful_ == Doubtful::third_accumulator) {
          multiply_with_three(p, q, memory);
        } else {
          kernels_.finish(state_of(p, q), a_.scales(p), b_.scales(q), memory.high.data(), memory.low.data());
          store(p, q, memory);
          if (is_doubtful(p, q)) store_radii(p, q);
        }
        if (!a_.all_finite() || !b_.all_finite()) mark_undefined(p, q);
      }
    }
  }

  template <class F>
  void for_each_row(std::size_t p, std::size_t q, F&& f) const {
    const std::size_t first = q * kernels_.columns, count = std::min(kernels_.columns, b_.rows() - first);
    for (std::size_t r = 0; r < kernels_.rows && p * kernels_.rows + r < a_.rows(); ++r) {
      f(r, count, (p * kernels_.rows + r) * b_.rows() + first);
    }
  }

  void store(std::size_t p, std::size_t q, const Memory& memory) const {
    for_each_row(p, q, [&](std::size_t r, std::size_t count, std::size_t place) {
      std::copy_n(memory.high.data() + r * kernels_.columns, count, result_.high.data() + place);
      std::copy_n(memory.low.data() + r * kernels_.columns, count, result_.low.data() + place);
    });
  }

  void store_radii(std::size_t p, std::size_t q) const {
    const double radius = pieces_.twice_the_sums_of_low() * 0x1p-106;
    for_each_row(p, q, [&](std::size_t r, std::size_t count, std::size_t place) {
      for (std::size_t c = 0; c < count; ++c) result_.radius[place + c] = radius * a_.scales(p)[r] * b_.scales(q)[c];
    });
  }

  void multiply_with_three(std::size_t p, std::size_t q, Memory& memory) const {
    const std::size_t size = tile_size();
    const int width = static_cast<int>(std::bit_width(a_.length() - 1)) + 1;  // of the binade of M: 2^width >= 2 k
    const double start = std::ldexp(1.5, width - 51);
    const auto k = static_cast<double>(a_.length());
    const bool exact = kernels_.lowest(a_.units(p), b_.units(q), a_.length()) >= 2 * width - 158;
    const double radius = exact ? 0.0 : std::ldexp(k * k + k, width - 158);

    std::vector<double> state(3 * size, 0.0);
    std::fill_n(state.begin(), size, 3.0);
    std::fill_n(state.begin() + static_cast<std::ptrdiff_t>(size), size, start);
    kernels_.three(a_.panel(p), b_.panel(q), a_.length(), state.data());
    for_each_row(p, q, [&](std::size_t r, std::size_t count, std::size_t place) {
      for (std::size_t c = 0; c < count; ++c) {
        const std::size_t i = r * kernels_.columns + c;
        const double scale = a_.scales(p)[r] * b_.scales(q)[c];
        const num::ErrorFree upper = num::two_sum(state[i] - 3.0, state[size + i] - start);
        const num::ErrorFree lower = num::two_sum(upper.error, state[2 * size + i]);
        const num::ErrorFree sum = num::two_sum(upper.value, lower.value);
        memory.high[i] = sum.value * scale;
        memory.low[i] = sum.error * scale;
        result_.radius[place + c] = (radius + std::fabs(lower.error)) * (1.0 + 0x1p-51) * scale;
      }
    });
    store(p, q, memory);
  }

  void mark_undefined(std::size_t p, std::size_t q) const {
    for_each_row(p, q, [&](std::size_t r, std::size_t count, std::size_t place) {
      for (std::size_t c = 0; c < count; ++c) {
        if (a_.is_finite(p * kernels_.rows + r) && b_.is_finite(q * kernels_.columns + c)) continue;
        result_.high[place + c] = std::numeric_limits<double>::quiet_NaN();
        result_.low[place + c] = 0.0;
        result_.radius[place + c] = std::numeric_limits<double>::infinity();
      }
    });
  }

  const ExactOperand& a_;
  const ExactOperand& b_;
  ExactProduct& result_;
  const ExactKernels& kernels_;
  Doubtful doubtful_;
  Pieces pieces_;
  std::vector<unsigned char> doubts_;  ///< [panels of A, panels of B]; empty where every tile is exact
};

}  // namespace

void exact_product(const ExactOperand& a, const ExactOperand& b, ExactProduct& result, int threads, Doubtful doubtful) {
  require_sound_environment();
  if (a.side() != Side::left || b.side() != Side::right || &a.kernels() != &b.kernels()) {
    throw InvalidArgument("exact product: it takes a left and a right operand packed for the same kernels");
  }
  if (a.length() != b.length()) {
    throw InvalidArgument("exact product: rows of " + std::to_string(a.length()) + " and of " +
                          std::to_string(b.length()) + " elements; their lengths must be the same");
  }
  Multiplication(a, b, result, doubtful).run(threads);
}

}  // namespace driftbound::linalg

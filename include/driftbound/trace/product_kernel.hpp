#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/num/format.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "driftbound/trace/dealing.hpp"

namespace driftbound {

/// When an addend (a bias) is added to a sum: to the complete sum; before the first part is; or a chain starts from it.
enum class AddendPlace { last, before_parts, chain_start };
std::string_view name_of(AddendPlace place);

/// What is done with the complete sum of a mean of n terms: nothing; it is divided by n; it is multiplied by fl(1 / n).
enum class Scaling { none, divided, multiplied };
std::string_view name_of(Scaling scaling);

/// A float32 exponential and logarithm: correctly rounded; this library's (docs/elementary.md); SLEEF's expf and logf with an
/// error of 1.0 ulp, with fused multiply-adds, which PyTorch's vector code on a CPU calls.
enum class Exponential { rounded, own, sleef };

/// How a softmax, its logarithm, a logarithm of a sum of exponentials or a norm is made of the sums of its rows x of n
/// numbers, in float32 throughout; g and b: the scale and the bias, if there are any.
struct RowSteps {
  enum class Sums {
    exponentials,  ///< s = sum of e_i = exp(x_i - max x); 0 where x_i is minus infinity, or masked
    two_passes,    ///< m = (sum x_i) / n, v = (sum (x_i - m)^2) / n
    one_pass,      ///< m = (sum x_i) / n, v = (sum x_i^2) / n - m^2
    squares,       ///< v = (sum x_i^2) / n, and m = 0
    running        ///< Welford's: m += (x_i - m) / i, q += (x_i - m before) (x_i - m after), v = q / n
  };
  /// Norms with the root r = sqrt(v + epsilon). Of exponentials: e_i / s, or e_i (1 / s), or one of the last three.
  enum class Result {
    quotient,        ///< ((x_i - m) / r) g + b
    product,         ///< ((x_i - m) (1 / r)) g + b
    shifted,         ///< (x_i (1 / r) - m (1 / r)) g + b
    folded,          ///< x_i f + (b - m f) with f = (1 / r) g
    folded_rounded,  ///< the same, where `fused` does not fuse m f, which is rounded
    scaled,          ///< (x_i - m) ((1 / r) g) + b
    less_log,        ///< (x_i - max x) - log s
    less_maximum,    ///< x_i - (max x + log s)
    log_of_sum       ///< log s + max x, one number a row
  };
  Sums sums = Sums::two_passes;
  Result result = Result::quotient;
  bool fused = false;  ///< an addition takes the product before it unrounded, in sums of squares and in results
  Exponential exponential = Exponential::rounded;
  /// Of `running`: 1 takes the numbers one after the other. Else a lane takes every so manieth number, in chunks of 16 of
  /// them, times the rounded reciprocals of i; chunks are merged as the carries of a binary counter, lanes to what is behind
  /// the last whole round, which comes first (PyTorch on a CPU).
  std::int64_t lanes = 1;
};

/// "two passes, divided by the number of terms, times the reciprocal of the root, no fused operations"
std::string describe(const RowSteps& steps);

constexpr std::int64_t all_channels = std::int64_t{1} << 40;

/// How one matrix product, or one sum of numbers, was computed, to the bit: operands are rounded, products are dealt to
/// parts, parts are added up in chains of float32 operations or in the steps of a matrix unit, and the parts are added in
/// float32. With operands in fp64 all of this is float64, without a matrix unit.
struct ProductKernel {
  bool of_products = true;             ///< else of numbers as they are: operands, unit and fma say nothing
  FormatId operands = FormatId::fp32;  ///< format that operands are rounded to; that of sums: read as they are
  Rounding operand_rounding = Rounding::nearest_even;
  std::optional<TensorCore>
      matrix_unit;  ///< exactly this one: fraction_bits, block, sum_bits; empty: float32 operations
  bool fma = true;  ///< float32 chains are fused multiply-adds; the first product is rounded
  SumParts parts;
  FormatId part_format = FormatId::fp32;  ///< that sums of several parts are rounded to before they are added
  bool rounds_sums_of_parts = false;      ///< to `part_format` too, and after every addition of a part
  AddendPlace addend = AddendPlace::last;
  Scaling scaling = Scaling::none;
  /// Of convolutions: channels whose products at one place of the window follow each other; 1: channel after channel, as
  /// in a product with patches of NCHW; all_channels: place after place. 0: no convolution.
  std::int64_t channels_together = 0;
  std::optional<RowSteps> row;  ///< of a softmax or a norm: `parts` and `scaling` are those of its sums
};

/// By node of a graph: the kernel of its products; empty: none is known. An empty vector: of no node.
using KernelsByNode = std::vector<std::optional<ProductKernel>>;

/// The kernel of sums of n products in an arithmetic with a matrix unit, which is taken for exactly as it is declared, or
/// whose order deals products out. Parts of split_k are rounded up to whole blocks of a unit; with `promotion` a chain is
/// cut into parts of so many products. Parts of split_k may be rounded (reduced_reduction).
/// Throws:    Unsupported for other orders without a matrix unit. With one: for orders other than sequential, split_k,
///            blocked, slices, balanced and lanes, for parts that are no whole blocks or longer than `promotion`, and for
///            parts with parts inside or a rest; for rounded parts in another order than split_k, or of more of them than
///            declared
ProductKernel kernel_of(const ArithmeticModel& arithmetic, std::int64_t n);

/// "fp32", "tf32", "tf32 (cut)", "tf32 (ties away)"
std::string reading_of_operands(const ProductKernel& kernel);
/// "tf32 unit, block 8, F 25, K in 4 slices added one after the other"
std::string describe(const ProductKernel& kernel, std::int64_t n);

}  // namespace driftbound

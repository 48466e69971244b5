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

/// How one matrix product was computed, to the bit: operands are rounded, products are dealt to parts, parts are added up
/// in chains of float32 operations or in the steps of a matrix unit, and the parts are added in float32.
struct ProductKernel {
  FormatId operands = FormatId::fp32;  ///< format that operands are rounded to; fp32: read as they are
  Rounding operand_rounding = Rounding::nearest_even;
  std::optional<TensorCore>
      matrix_unit;  ///< exactly this one: fraction_bits, block, sum_bits; empty: float32 operations
  bool fma = true;  ///< float32 chains are fused multiply-adds; the first product is rounded
  Dealing dealing;
  Combination combination = Combination::sequential;
  AddendPlace addend = AddendPlace::last;
};

/// The kernel of sums of n products in an arithmetic with a matrix unit, which is taken for exactly as it is declared. Parts
/// of split_k are rounded up to whole blocks.
/// Throws:    Unsupported without a matrix unit, and for orders other than sequential, split_k, and blocked by whole blocks
ProductKernel kernel_of(const ArithmeticModel& arithmetic, std::int64_t n);

/// "fp32", "tf32", "tf32 (cut)", "tf32 (ties away)"
std::string reading_of_operands(const ProductKernel& kernel);
/// "tf32 unit, block 8, F 25, K in 4 slices added one after the other"
std::string describe(const ProductKernel& kernel, std::int64_t n);

}  // namespace driftbound

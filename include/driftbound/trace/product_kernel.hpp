#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/num/format.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// How the terms of a sum are dealt to parts, each of which is added up by itself.
struct Dealing {
  enum class Kind {
    contiguous,  ///< part after part takes `run` neighbouring terms; the last one may be shorter
    balanced,    ///< the same, but what is left after full parts, if it is more than one part, makes two parts of equal
                 ///< length, the first rounded up to a multiple of `multiple` (how BLAS libraries block long sums)
    interleaved  ///< term k goes to part (k / run) mod `parts`: the lanes of a vector, the threads of a warp
  };
  Kind kind = Kind::contiguous;
  std::int64_t parts = 1;     ///< of `interleaved`
  std::int64_t run = 0;       ///< 0: all terms in one part
  std::int64_t multiple = 1;  ///< of `balanced`

  friend bool operator==(const Dealing&, const Dealing&) = default;
};

std::string_view name_of(Dealing::Kind kind);

/// How parts are added, in the accumulator to nearest: one after the other; neighbours, then neighbours of these sums; or
/// the first half to the second half, element by element, until one is left (what shuffles within a warp do).
enum class Combination { sequential, neighbours, halves };
std::string_view name_of(Combination combination);

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

/// The indices of the terms of a sum, part after part.
struct SumSchedule {
  std::vector<std::uint32_t> terms;
  std::vector<std::size_t> ends;  ///< by part: where it ends in `terms`
};

/// The parts of a sum of n terms; no part is empty.
/// Throws:    InvalidArgument for numbers below 1, where the dealing needs them
SumSchedule schedule_of(const Dealing& dealing, std::int64_t n);

/// The additions that a term passes through, at most, until the parts are combined: those of its chain and those of parts.
std::int64_t height_of(const SumSchedule& schedule, Combination combination);

/// The kernel of sums of n products in an arithmetic with a matrix unit, which is taken for exactly as it is declared. Parts
/// of split_k are rounded up to whole blocks.
/// Throws:    Unsupported without a matrix unit, and for orders other than sequential, split_k, and blocked by whole blocks
ProductKernel kernel_of(const ArithmeticModel& arithmetic, std::int64_t n);

/// "fp32", "tf32", "tf32 (cut)", "tf32 (ties away)"
std::string reading_of_operands(const ProductKernel& kernel);
/// "tf32 unit, block 8, F 25, K in 4 slices added one after the other"
std::string describe(const ProductKernel& kernel, std::int64_t n);

}  // namespace driftbound

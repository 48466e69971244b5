#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/trace/product_kernel.hpp"
#include "evaluate/rounding.hpp"

namespace driftbound {

/// Ways to read operands: as they are, then from wide formats to narrow ones.
std::vector<OperandChoice> operand_choices();

/// What adds up a part: float32 operations, or a matrix unit that exists (docs/arithmetic.md, "Tensor cores").
struct PartEngine {
  std::optional<TensorCore> matrix_unit;
  bool fma = true;
};

/// Those for operands of a format, the simple ones first; of fp64 float64 operations. Products of narrow numbers are numbers of float32: a fused
/// operation is then an addition.
std::vector<PartEngine> engines_of(FormatId operands);

/// Ways to add the parts of one dealing, which differ; the first adds them one after the other.
using DealtTerms = std::vector<SumParts>;

/// How K products may be dealt to parts; dealings in which the same products meet counted once. Blocks of a matrix unit are
/// not cut, and have no parts within parts.
std::vector<DealtTerms> dealings_of(std::int64_t k, std::int64_t block);

/// The same for sums of K numbers: trees of libraries, too, and terms that are added last.
std::vector<DealtTerms> dealings_of_numbers(std::int64_t k);

}  // namespace driftbound

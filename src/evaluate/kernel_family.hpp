#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/trace/product_kernel.hpp"

namespace driftbound {

/// How operands may be read.
struct OperandChoice {
  FormatId format = FormatId::fp32;
  Rounding rounding = Rounding::nearest_even;
};

/// Ways to read operands: as they are, then from wide formats to narrow ones.
std::vector<OperandChoice> operand_choices();

/// What adds up a part: float32 operations, or a matrix unit that exists (docs/arithmetic.md, "Tensor cores").
struct PartEngine {
  std::optional<TensorCore> matrix_unit;
  bool fma = true;
};

/// Those for operands of a format, the simple ones first. Products of narrow numbers are numbers of float32: a fused
/// operation is then an addition.
std::vector<PartEngine> engines_of(FormatId operands);

/// How K terms may be dealt to parts, those in which the same terms meet counted once; blocks of a matrix unit are not cut.
std::vector<Dealing> dealings_of(std::int64_t k, std::int64_t block);

}  // namespace driftbound

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/num/ball.hpp"
#include "reference/pair_apply.hpp"

namespace driftbound {

/// What a run recorded of a product's first operand, and the product's exact result there; one row a sample.
struct RecordedProduct {
  const Tensor<double>* operand = nullptr;
  const Tensor<Ball>* result = nullptr;
};

/// Rows times a matrix that stays, and perhaps a constant: what is known of it at recorded rows, and the product of what
/// the rows are off those, which takes fewer bits. Rows that are not near the recorded ones, or whose exact result there
/// is not known, go by apply(). Empty where all do, the op is no such product, or small matrices are as fast without.
/// Shapes:    `rows`: of the recorded tensors, each a part of the operand and of the result
/// Guarantee: as apply()
/// Source:    docs/theory.md T-89, next to a recorded run
std::optional<PairTensor> product_near_recorded(const Op& op, std::span<const PairInput> inputs,
                                                const RecordedProduct& recorded, std::span<const std::size_t> rows,
                                                const Shape& output);

}  // namespace driftbound

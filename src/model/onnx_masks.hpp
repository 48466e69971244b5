#pragma once

#include <optional>

#include "model/onnx_given.hpp"

namespace driftbound::onnx {

// Minus infinity in masks: an element that is minus infinity has the weight 0 in a Softmax. No other value of a network
// may be minus infinity, as reals have none.

/// Floats of a mask, each a number or minus infinity, in two parts.
template <class Value>
struct MaskParts {
  Value kept;                  ///< truth values: 1 where the mask is a number
  std::optional<Value> added;  ///< the numbers, 0 where it is minus infinity; empty: all of them are 0
};
/// Empty where no element is minus infinity, or another one no number.
std::optional<MaskParts<StoredTensor>> parts_of_mask(const StoredTensor& mask);
std::optional<MaskParts<GivenValue>> parts_of_mask(const GivenValue& mask);

/// Whether some elements are minus infinity and all others numbers.
bool is_mask(const StoredTensor& tensor);

/// Whether every element is minus infinity.
bool is_minus_infinity(const StoredTensor& tensor);

/// Truth values that are 1 where the others are 0.
StoredTensor inverted(const StoredTensor& truths);
GivenValue inverted(const GivenValue& truths);

}  // namespace driftbound::onnx

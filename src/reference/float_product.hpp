#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "reference/ball_tensor.hpp"

namespace driftbound {

/// Matrix products of tensors whose balls are all float32 numbers with radius 0, as weights and inputs are and what a
/// run recorded: added up exactly in double, then rounded once to the precision of the result, as T-32 rounds them.
/// Source:    docs/theory.md T-83, T-84, T-32
class FloatProduct {
public:
  FloatProduct(const BallTensor& a, const BallTensor& b, const ProductPlan& plan);

  /// Writes one batch of C; false, with C as it was, where an operand is no such tensor or some sum is not certain to
  /// be exact.
  bool multiply(BallTensor& c, std::int64_t batch) const;

private:
  const ProductPlan& plan_;
  std::vector<float> a_, b_;
  bool are_floats_;
};

}  // namespace driftbound

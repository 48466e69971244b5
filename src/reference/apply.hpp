#pragma once

#include <mutex>
#include <optional>
#include <span>

#include "driftbound/model/ops.hpp"
#include "reference/ball_tensor.hpp"
#include "reference/pair_apply.hpp"

namespace driftbound {

/// A constant as balls of one precision, which are made when they are asked for. Thread-safe.
class ConstantBalls {
public:
  ConstantBalls(const Tensor<double>& numbers, int bits) : numbers_(numbers), bits_(bits) {}
  const Shape& shape() const { return numbers_.shape; }
  const BallTensor& balls() const {
    std::call_once(made_, [this] { balls_.emplace(numbers_, bits_); });
    return *balls_;
  }

private:
  const Tensor<double>& numbers_;
  int bits_;
  mutable std::once_flag made_;
  mutable std::optional<BallTensor> balls_;
};

/// An operand: balls, or a constant with what is kept of its matrices.
class BallInput {
public:
  BallInput(const BallTensor& balls) : balls_(&balls) {}
  BallInput(const ConstantBalls& constant, const PairInput& pairs) : constant_(&constant), pairs_(pairs) {}

  const Shape& shape() const { return balls_ != nullptr ? balls_->shape() : constant_->shape(); }
  const BallTensor& operator*() const { return balls_ != nullptr ? *balls_ : constant_->balls(); }
  const PairInput& pairs() const { return pairs_; }  ///< null where it is no constant

private:
  const BallTensor* balls_ = nullptr;
  const ConstantBalls* constant_ = nullptr;
  PairInput pairs_;
};

/// The exact function of one op on tensors of balls of `bits` bits.
/// Guarantee: every real tensor in the operands has its exact result in the result.
/// Throws:    ShapeMismatch
/// Source:    docs/theory.md T-31 to T-35, T-127
BallTensor apply(const Op& op, std::span<const BallInput> inputs, const Shape& output, int bits);
BallTensor apply(const Op& op, std::span<const BallTensor* const> inputs, const Shape& output, int bits);

}  // namespace driftbound

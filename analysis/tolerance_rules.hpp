#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/tolerance.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::analysis {

/// How `tolerance` computes one op, and what a request for it may say.
struct OpRule {
  ToleranceOp op;
  /// Shapes of the operands that are made, where none are given.
  std::vector<Shape> (*shapes)(const ToleranceRequest& request) = nullptr;
  Op (*make)(const ToleranceRequest& request) = nullptr;
  bool has_worst_data = false;  ///< whether data of the largest magnitude make the largest errors
  bool is_product = false;      ///< its operands alone are read in TF32, and it may have a bias
  bool is_attention = false;    ///< it has keys, a scale and masks
  bool has_halves = false;      ///< of a row
  bool has_sums = true;
  bool has_unit_scales = false;                  ///< operands behind the first are 1 where none are given
  std::optional<double> epsilon = std::nullopt;  ///< that of an op that has one, where none is given
  std::size_t axes = 0;                          ///< of the first operand; 0: any number
  std::size_t fewest = 1;                        ///< operands
  std::size_t most = 1;                          ///< operands
};

const std::vector<OpRule>& tolerance_rules();

/// Throws:    InvalidArgument listing the ops that there are
const OpRule& tolerance_rule(const std::string& name);

/// The numbers that a mask of attention adds to scores, 0 where it hides a key; empty where it adds nothing. Booleans of
/// a mask say which keys are seen; of numbers minus infinity hides a key, and the others are added.
std::optional<Tensor<double>> added_by_mask(const StoredTensor& mask);

/// A bound for all data within a magnitude.
struct ErrorWithin {
  Magnitude result;  ///< largest magnitude of an exact result
  Magnitude error;   ///< no result of a run is off by more
};

/// Bounds |y^ - y| of one op over all data within ±ToleranceRequest::magnitude: x of softmax, norms, gelu, silu-and-mul and
/// rotary, q, k and v of attention; scales of norms, cosines and sines within ±1. For runs that keep every step in the
/// accumulator, sums in any order and rounded to nearest. Empty: the op has no such bound, or it is infinite.
/// Source:    docs/theory.md T-185
std::optional<ErrorWithin> error_within(const ToleranceRequest& request, const ArithmeticModel& arithmetic);

}  // namespace driftbound::analysis

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"

namespace driftbound::analysis {

/// How the two operands of a product are read, or which op was computed in the place of another one.
struct ReadingPair {
  OperandReading left = OperandReading::as_it_is, right = OperandReading::as_it_is;
  std::string variant = {};  ///< "epsilon 1e-06"; empty: the op itself
  friend bool operator==(const ReadingPair&, const ReadingPair&) = default;
};

/// The readings of a product's operands, or the variant of another op, whose exact result is nearest to what was recorded
/// (T-134, T-135).
struct NearestReading {
  ReadingPair nearest;
  /// Others that differ from it, on these operands, by less than what it leaves unexplained.
  std::vector<ReadingPair> alike = {};
  bool is_declared = false;  ///< whether that is the declared reading, or one that the declaration leaves open
  ReadingPair other;         ///< what it is compared with: the declared reading, or the next one if that is the nearest
  double ratio = 1.0;        ///< of the root mean square distances of `other` and of the nearest
  std::int64_t elements = 0;
  /// The probability, at most, that an honest run of the declared reading shows such agreement with another one anywhere
  /// in the report. Empty: nothing but the declared reading is nearest, or there is no model.
  std::optional<double> false_alarm;
  bool is_decisive = false;  ///< whether that is no more than the failure probability of the report
};

/// Sums up the evidence of all samples. `products`: layers of the report with such evidence.
/// Source:    docs/theory.md T-134, T-135
NearestReading nearest_reading(const ReadingTest& test, std::int64_t products, double failure_probability);

/// "tf32 (cut)", "tf32 and as it is", "epsilon 1e-06"
std::string to_string(const ReadingPair& pair);
/// "operands read as tf32 (or fp16), 2400 times nearer than as it is", "computed as another op: epsilon 1e-06, 12 times
/// nearer than the recorded one"
std::string describe(const NearestReading& reading);

}  // namespace driftbound::analysis

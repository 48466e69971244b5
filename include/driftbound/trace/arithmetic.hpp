#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/num/format.hpp"

namespace driftbound {

/// How a statement about an arithmetic is known.
enum class Evidence { documented, measured, assumed };
std::string_view name_of(Evidence evidence);

/// In which order the products of one dot product are added.
///   sequential:  one chain from the first product to the last
///   pairwise:    halves (the left one the largest power of two below n), recursively
///   blocked B:   chains of B consecutive products, their sums added one after the other
///   split_k S:   S chains of ceil(n / S) consecutive products, their sums added one after the other
///   unknown:     any order
/// With `fma` every chain step is fl(a b + s) (pairwise: the second product of each lowest pair);
/// without, products are rounded first. A chain starts from its first rounded product. A bias is added last.
struct SummationOrder {
  enum class Kind { unknown, sequential, pairwise, blocked, split_k };
  Kind kind = Kind::unknown;
  std::int64_t parameter = 0;  ///< B or S
  bool fma = false;

  friend bool operator==(const SummationOrder&, const SummationOrder&) = default;
};

/// "blocked:8+fma" and back.
std::string to_string(const SummationOrder& order);
/// Throws:    InvalidArgument listing the orders there are
SummationOrder parse_summation_order(std::string_view text);

/// Length of every chain of an order over n products, in the order in which the chains are added
/// (one entry n for sequential; empty for pairwise and unknown).
std::vector<std::int64_t> chain_lengths(const SummationOrder& order, std::int64_t n);

/// Accuracy of one function of one library: |computed - f(x)| <= units (u |f(x)| + eta), u and eta of
/// the accumulator format, wherever f(x) does not overflow. A documented maximum of E ulp against the
/// correctly rounded result is units = 2 E + 1; a true error of U ulp is units = 2 U.
/// Source:    docs/theory.md T-20
struct FunctionAccuracy {
  std::string function;  ///< "exp", "expm1", "tanh", "sigmoid", "softplus", "sin", "cos", "erf", "sqrt"
  double units = 0.0;
  Evidence evidence = Evidence::assumed;
  std::string source;
};

/// What the arithmetic of one run is, as data: stored with the trace, executed by the evaluators, read by the bounds.
struct ArithmeticModel {
  std::string name = "fp32";
  FormatId input = FormatId::fp32;        ///< format the operands of matrix products are rounded to
  FormatId accumulator = FormatId::fp32;  ///< format of sums, products and every other op
  FormatId output = FormatId::fp32;       ///< format a layer's result is stored in
  Rounding rounding = Rounding::nearest_even;
  SummationOrder order;
  bool flushes_subnormals = false;  ///< results (FTZ) and operands (DAZ)
  std::vector<FunctionAccuracy> functions;
  Evidence evidence = Evidence::assumed;
  std::string source;

  /// Throws:    Unsupported where the table has no entry for the function
  const FunctionAccuracy& accuracy(std::string_view function) const;
};

/// The arithmetics of the CPU evaluators: "fp64", "fp32", "tf32", "bf16", "fp16" (the last three: operands
/// of products rounded to nearest even, float32 accumulation and activations).
/// Throws:    InvalidArgument listing the names there are
ArithmeticModel cpu_arithmetic(std::string_view name, const SummationOrder& order);

std::string to_json(const ArithmeticModel& arithmetic);
/// Throws:    ParseError naming the field
ArithmeticModel arithmetic_from_json(std::string_view text);

}  // namespace driftbound

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/trace/dealing.hpp"

namespace driftbound {

/// How a statement about an arithmetic is known.
enum class Evidence { documented, measured, assumed };
std::string_view name_of(Evidence evidence);

/// In which order the products p_1 ... p_n (n >= 1) of one dot product are added. A chain over p_i ... p_j starts
/// as s = fl(p_i); every further step is s = fl(fl(p_k) + s), with `fma` s = fl(p_k + s).
///   sequential:  one chain
///   pairwise:    n <= 2: a chain; else fl(left + right), left over the first 2^m products (the largest power of
///                two below n), right over the rest, both by this rule
///   blocked B:   chains of B consecutive products (the last may be shorter), c_1 ... c_q; t = c_1, then
///                t = fl(t + c_j)
///   split_k S:   the same with chains of ceil(n / S) products
///   dealt:       parts as `parts` deals them out, each a chain or in parts of its own, their sums added as it says
///   height H:    any tree in which each product, fused or not, passes through at most H additions. Not executable
///   unknown:     any order
/// A bias is added last. Sums without products (Softmax) follow the same order with p_k in place of fl(p_k).
/// docs/arithmetic.md says what each op does with the sum.
struct SummationOrder {
  enum class Kind { unknown, sequential, pairwise, blocked, split_k, height, dealt };
  Kind kind = Kind::unknown;
  std::int64_t parameter = 0;  ///< B, S or H
  bool fma = false;
  SumParts parts = {};  ///< of `dealt`

  /// Whether it says which sums are formed, and not only how many additions a product may pass through.
  bool gives_partial_sums() const { return kind != Kind::unknown && kind != Kind::height; }

  friend bool operator==(const SummationOrder&, const SummationOrder&) = default;
};

/// "blocked:8+fma" and back. Orders that are dealt: "slices:64" (contiguous), "balanced:384:8" (run and multiple), and
/// "lanes:32x2" (interleaved, parts x run), for a rest with ":8" (multiple), ":8:last" (one by one) or ":8:sum"
/// (together), lanes with ":front" (short_first); each with "/neighbours", "/halves" or "/fours" where parts are not added
/// in sequence; then, behind "/", the same for parts within parts: "slices:256/lanes:2x1/halves". Trees of libraries:
/// "halved", "cascade:8x4" (lanes x chains).
std::string to_string(const SummationOrder& order);
/// Throws:    InvalidArgument listing the orders there are
SummationOrder parse_summation_order(std::string_view text);

/// Length of every chain of an order over n products, in the order in which the chains are added
/// (one entry n for sequential; empty for pairwise, height, dealt and unknown).
std::vector<std::int64_t> chain_lengths(const SummationOrder& order, std::int64_t n);

/// Accuracy of one function of one library: |computed - f(x)| <= units (u |f(x)| + eta) + absolute_units u, u and eta
/// of the accumulator format, wherever f(x) does not overflow. A documented maximum of E ulp against the
/// correctly rounded result is units = 2 E + 1; a true error of U ulp is units = 2 U.
/// Source:    docs/theory.md T-20
struct FunctionAccuracy {
  std::string function;  ///< as named by ops that call it: "tanh"
  double units = 0.0;
  Evidence evidence = Evidence::assumed;
  std::string source;
  double absolute_units = 0.0;  ///< of functions that lose their relative accuracy where they are small
};

/// A matrix unit that adds products in blocks: products are exact, all addends of a block and the running sum are
/// aligned to the largest exponent among them, cut off behind `fraction_bits` bits, added exactly, and the sum is cut
/// off behind `sum_bits` bits: to float32, where these are 23. Parts of a sum may be added up apart, cut at multiples
/// of `block` products, and must be after `promotion` of them; the parts are added in float32, to nearest, in any order.
/// Source:    docs/theory.md T-21
struct TensorCore {
  int fraction_bits = 23;      ///< at least; behind the leading bit of the largest addend
  int block = 4;               ///< products added at once, at least
  int sum_bits = 23;           ///< at least, of 23 or fewer; behind the leading bit of the sum
  int promotion = 0;           ///< products of one part at most, `block` or more; 0: any number
  bool cuts_operands = false;  ///< to the input format, toward zero; else they are rounded to nearest
};

/// A matrix product may split its sums into parts, each of which is rounded to `format` when it is complete, and
/// round again to `format` whatever it gets when it adds parts (`rounds_sums`).
/// Source:    docs/theory.md T-23
struct ReducedReduction {
  FormatId format = FormatId::bf16;
  int parts = 2;  ///< at most
  bool rounds_sums = true;
};

/// What the arithmetic of one run is, as data: stored with the trace, executed by the evaluators, read by the bounds.
struct ArithmeticModel {
  std::string name = "fp32";
  FormatId input = FormatId::fp32;        ///< format the operands of matrix products are rounded to
  FormatId accumulator = FormatId::fp32;  ///< format of sums, products and every other op
  FormatId output = FormatId::fp32;       ///< format a layer's result is stored in
  bool stores_declared_types = false;     ///< results of a narrower type, as the model declares them, are stored in it
  Rounding rounding = Rounding::nearest_even;
  SummationOrder order;
  bool flushes_subnormals = false;        ///< results (FTZ) and operands (DAZ), in every op
  bool products_may_flush = false;        ///< the same in matrix products alone: may, or may not
  std::optional<TensorCore> tensor_core;  ///< what adds up matrix products; empty: additions of the accumulator
  std::optional<ReducedReduction> reduced_reduction;  ///< empty: parts of a sum are kept in the accumulator
  std::vector<FunctionAccuracy> functions;
  Evidence evidence = Evidence::assumed;
  std::string source;

  /// Throws:    Unsupported where the table has no entry for the function
  const FunctionAccuracy& accuracy(std::string_view function) const;
};

/// The format in which a run stores a result that the model declares as `declared`: `output`, or the declared type where
/// `stores_declared_types` is set and `output` holds numbers that the type does not; the accumulator for integers and
/// truth values, which are exact.
FormatId stored_format(const ArithmeticModel& arithmetic, ElementType declared);

/// The arithmetics of the CPU evaluators: "fp64", "fp32", and "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2" (operands
/// of products rounded to nearest even, float32 accumulation and activations).
/// Throws:    InvalidArgument listing the names there are
ArithmeticModel cpu_arithmetic(std::string_view name, const SummationOrder& order);

std::string to_json(const ArithmeticModel& arithmetic);
/// Throws:    ParseError naming the field
ArithmeticModel arithmetic_from_json(std::string_view text);

}  // namespace driftbound

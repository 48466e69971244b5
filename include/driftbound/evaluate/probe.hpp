#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/evaluate/summation_tree.hpp"
#include "driftbound/num/format.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// C [m, n] = A [m, k] B [k, n].
struct ProductShape {
  std::int64_t m = 1, k = 1, n = 1;
};

/// Something that multiplies float32 matrices, row-major, or adds up rows.
using ProductCall =
    std::function<std::vector<float>(const ProductShape&, std::span<const float> a, std::span<const float> b)>;
using SumCall =
    std::function<std::vector<float>(std::int64_t rows, std::int64_t length, std::span<const float> values)>;

struct ProbeOptions {
  std::int64_t calls = 20'000;   ///< of the kernel, at most, for the masks of one class of elements
  double seconds = 300.0;        ///< for these, at most, as the calls before tell
  std::int64_t classes = 8;      ///< of elements whose trees are looked for, the largest ones
  std::int64_t verified = 512;   ///< elements of each class that are computed along its tree
  std::uint64_t seed = 1;        ///< of the data
  SummationOrder expected = {};  ///< named where it forms the sums found, and others do too
};

/// How a kernel reads the numbers of one operand.
struct ProbedReading {
  int precision = 24;                            ///< significand bits that are kept
  std::optional<Rounding> rounding;              ///< of the others; empty: none are left, or it is no rounding
  int highest_power = 127, lowest_power = -149;  ///< of two that are read as they are: largest and smallest

  /// The format with this precision and range; empty where there is none.
  std::optional<FormatId> format() const;
  bool sees_lowest = true;  ///< whether results hold numbers as small as operands may
  /// Whether subnormal numbers of the format are read as they are; empty where there is no such format, or none are seen.
  std::optional<bool> keeps_subnormals() const;
};

/// How the sums of one kind of node are rounded.
struct SumRounding {
  int precision = 24;                ///< significand bits of a sum that are kept
  std::optional<Rounding> rounding;  ///< empty: it could not be seen
  /// The rounding is hidden by that of results, or operands have too few bits to show it; so are the bits, unless they are
  /// fewer than those of a float32.
  bool is_hidden = false;
};

/// The format that results are rounded to in the end.
struct ProbedResult {
  FormatId format = FormatId::fp32;  ///< float32 where nothing narrower is seen, or bf16 or fp16
  std::optional<Rounding> rounding;  ///< to bf16 or fp16; empty: none that is known here

  bool is_narrow() const { return format != FormatId::fp32; }
};

/// A step of a matrix unit: several products, and a sum, added at once.
struct StepArithmetic {
  std::int64_t block = 0;            ///< products added at once, at most
  std::optional<int> fraction_bits;  ///< behind the largest addend that are kept; empty: at least `visible_bits`
  SumRounding sums;
  int visible_bits = 60;  ///< behind the largest addend that operands can show
};

/// Elements of the result that are computed alike.
struct ElementClass {
  std::int64_t elements = 0, first_row = 0, first_column = 0;
  std::optional<SummationTree> tree;  ///< empty: not found
  /// By node of the tree: whether its sum is rounded once more, as ProbeFindings::parts says. Empty: none is.
  std::vector<bool> rounded_parts;
  /// By product: whether it is rounded to the bits of additions, fewer than 24, before it is added. Empty: none is.
  std::vector<bool> rounded_products;
  std::string reason;  ///< why there is no tree, or none that could be verified
  /// Elements of random data that have the bits computed along the tree, of how many.
  std::int64_t equal_bits = 0, verified = 0;
};

struct ProbeFindings {
  ProductShape shape;
  ProbedReading left, right;
  ProbedResult result;
  std::optional<SumRounding> additions;  ///< of nodes with two summands; empty: there are none
  std::optional<StepArithmetic> steps;   ///< of nodes with more; empty: there are none
  std::optional<SumRounding> parts;  ///< how sums are rounded that are kept in fewer bits than others; empty: none are
  std::optional<bool> keeps_subnormal_results;  ///< of float32; empty: products or parts are never as small
  SummationOrder order;               ///< of the largest class: a named order that forms these sums, else height:H
  std::vector<ElementClass> classes;  ///< the largest one first
  std::int64_t calls = 0, masks = 0;

  const SummationTree& tree() const { return *classes.front().tree; }
  /// Whether all elements were computed along trees with the kernel's bits.
  bool is_confirmed() const;
};

/// The order of summation and the arithmetic of a kernel, from its results alone. The trees are found by masks: one
/// product is M, another one -M, all others are units that M absorbs, so that the result counts the units that are added
/// after M and -M have met (docs/probe.md). Elements of the result that differ on equal rows and columns are classes of
/// their own. Random data is computed along each tree found, and compared with the kernel bit for bit.
/// Domain:    shapes from 1 on, operands of fewer than 2^31 numbers, kernels that depend on their operands alone
/// Guarantee: the tree is the kernel's if its order does not depend on the values and its sums absorb units; what
///            contradicts that is an error, never an answer
/// Throws:    InvalidArgument where the kernel throws or returns another shape; Unsupported where no tree explains its
///            results, they are not finite, or the size is too large to reveal; what driftbound's own kernels throw
/// Source:    docs/probe.md
ProbeFindings probe_product(const ProductCall& kernel, const ProductShape& shape, const ProbeOptions& options = {});
/// The same of sums of the rows of one matrix.
ProbeFindings probe_sum(const SumCall& kernel, std::int64_t rows, std::int64_t length,
                        const ProbeOptions& options = {});

/// One MatMul, of the inputs "a" and "b".
Graph product_graph(const ProductShape& shape);
/// This product by an evaluator.
ProductCall product_call(const Evaluator& evaluator);
/// One ReduceSum of the rows of the input "a".
Graph sum_graph(std::int64_t rows, std::int64_t length);
/// These sums by an evaluator.
SumCall sum_call(const Evaluator& evaluator);

/// The arithmetic found, to judge runs by.
ArithmeticModel arithmetic_of(const ProbeFindings& findings, const std::string& name);

/// What repeated calls with the same numbers gave.
struct RepeatedCalls {
  std::int64_t calls = 0, differing_calls = 0;
  std::int64_t first_call = -1, first_element = -1;  ///< of the first difference; -1: there is none
  std::int64_t differing_elements = 0;               ///< in any call
  float first = 0.0F, other = 0.0F;                  ///< what the first call and that call have there
};
/// Calls the kernel so many times on the same random data, and compares all bits with those of the first call.
/// Throws:    InvalidArgument for fewer than 2 calls, and as probe_product
RepeatedCalls repeat_product(const ProductCall& kernel, const ProductShape& shape, std::int64_t calls,
                             std::uint64_t seed);
/// The same of sums of the rows of one matrix.
RepeatedCalls repeat_sum(const SumCall& kernel, std::int64_t rows, std::int64_t length, std::int64_t calls,
                         std::uint64_t seed);

}  // namespace driftbound

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// A kernel, and how many of the numbers compared it gives that the kernels before it do not.
struct KernelShare {
  ProductKernel kernel;
  std::int64_t numbers = 0;
};

/// How a kernel that does not give all numbers compared differs from them.
struct KernelDifference {
  ProductKernel kernel;
  std::int64_t differing = 0;  ///< numbers
  double most_ulps = 0.0;      ///< of the recorded number, in the format that results are stored in
  std::int64_t first = -1;  ///< the smallest row-major place of such a number in the recorded result; -1: there is none

  /// Counts what the kernel gives in place of a recorded number, stored in a format, at a place of the result.
  void add(double given, double recorded, const Format& stored, std::int64_t place);
};

/// What a search for the kernel of one product, or of one sum of numbers, found.
struct KernelFinding {
  /// The simplest member of the family that gives all numbers compared; empty: no member does.
  std::optional<ProductKernel> kernel;
  /// Further kernels, where it takes two or three to give all numbers: libraries use others at the edges of a product.
  std::vector<KernelShare> others = {};
  std::vector<ProductKernel> alike = {};   ///< a few of the other members that give all numbers compared
  std::optional<FormatId> stored_in = {};  ///< the format of both operands of a product; empty: they differ, or none
  std::int64_t k = 0;                      ///< terms of a sum
  std::int64_t family = 0;                 ///< members, those that form the same sums counted once
  std::int64_t members_left = 0;           ///< members that give all numbers compared, or do so together
  std::int64_t equal_bits = 0;             ///< numbers that the kernel gives; without one, that `nearest` gives
  std::int64_t compared = 0;               ///< numbers that were compared with the members left, then with `nearest`
  /// Where no member gives all numbers: the last one that gave all, or most of the first ones.
  std::optional<KernelDifference> nearest = {};
  /// An estimate: expected members that give all numbers compared by chance, if each gave one as often as the members
  /// that are out do on average; not below the members left whose sums differ from the kernel's before results are stored.
  double estimate_chance_hits = 0.0;
  std::string why_not;  ///< why nothing was searched; empty: it was

  /// Whether the bits tell the kernel from other members of the family.
  bool tells() const { return kernel && estimate_chance_hits < 1.0; }
};

/// Whether the family has kernels of an op: Gemm, MatMul, Conv, ReduceSum, ReduceMean, GlobalAveragePool, Softmax, masked or
/// not, LogSoftmax, ReduceLogSumExp and the norms of rows (layer, RMS, group, instance).
bool has_kernels(const Op& op);

/// Searches a family of kernels for those that give all bits of one recorded op, in float32 sums, or in float64 sums of
/// operands as they are where the run accumulates so (not of softmax and norms). Of products: operands read as they are
/// or rounded to tf32, bf16, fp16 or fp8; float32 multiply-adds, fused or not, or steps of a matrix unit; products in one
/// chain, in slices, in lanes in turn, or in slices with lanes inside; parts added one after the other, neighbour to
/// neighbour or half to half, and rounded to bf16 or fp16 or not; the addend last, before the parts, or first. Of sums
/// and means: float32 additions in such parts and in the trees of numpy and PyTorch; means are divided by the number of
/// terms or multiplied by its rounded reciprocal. Convolutions are products with the terms channel after channel, or place
/// after place of the window in a number of channels at a time. Of softmax and norms: the order of the sums, the function
/// that makes the terms, the moments and the steps behind them (RowSteps). A member that gives other bits is out; zeros of either sign are equal.
/// Source:    docs/explain.md
class KernelSearch {
public:
  /// `node`: of the graph; an op that the family has no kernels of is not searched. `most_work`: products in all members of a
  /// group of numbers beyond which the search is left out; 0: any number, and more numbers are compared.
  KernelSearch(const Graph& graph, std::size_t node, std::int64_t most_work);
  ~KernelSearch();
  KernelSearch(KernelSearch&&) noexcept;
  KernelSearch& operator=(KernelSearch&&) noexcept;

  /// Compares the members left with the numbers of one more evaluation (without sample axis where the model is not
  /// batched). Returns whether the members that are left give all of them: all numbers of the evaluation, each compared.
  bool add(const Trace& evaluation);
  /// The same of a graph with the same nodes and other constants.
  bool add(const Graph& graph, const Trace& evaluation);
  KernelFinding finding() const;

private:
  class Work;
  template <class Real>
  class WorkIn;
  class Searches;
  std::unique_ptr<Searches> searches_;
};

/// The declared arithmetic, with the order of summation and the matrix unit of a kernel that gave all numbers of a
/// product: bounds of this arithmetic hold for these numbers, whatever computed them. Empty for sums of numbers, and where
/// the declaration does not cover the kernel: it reads operands as narrower numbers, rounds parts, or adds the addend
/// before the sum is complete.
/// Shapes:    k terms in each sum
/// Source:    docs/explain.md; docs/theory.md T-11, T-21, T-69
std::optional<ArithmeticModel> with_kernel(const ArithmeticModel& declared, const ProductKernel& kernel,
                                           std::int64_t k);

/// The same of what a search found, where it gives all numbers of a product and its bits tell the kernel: that of the one kernel; of several kernels that
/// give all numbers together, sums in any order in which no product passes through more additions than in one of them.
/// Source:    docs/theory.md T-170
std::optional<ArithmeticModel> with_finding(const ArithmeticModel& declared, const KernelFinding& finding);

}  // namespace driftbound

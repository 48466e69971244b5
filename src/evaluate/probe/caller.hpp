#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/probe.hpp"

namespace driftbound::probe {

/// A kernel, whose results are checked. Sums of rows are products with ones.
class Caller {
public:
  /// Throws:    InvalidArgument for a shape that is none
  Caller(ProductCall kernel, const ProductShape& shape, bool has_right_operand);

  const ProductShape& shape() const { return shape_; }
  bool has_right_operand() const { return has_right_operand_; }
  std::int64_t calls() const { return calls_; }
  /// That one call took so far, on average.
  double seconds_per_call() const { return seconds_ / static_cast<double>(calls_); }

  /// Throws:    InvalidArgument where the kernel fails or its result has another size
  std::vector<float> operator()(std::span<const float> a, std::span<const float> b);
  /// The same for results that have to be finite.
  /// Throws:    Unsupported naming the element
  std::vector<float> finite(std::span<const float> a, std::span<const float> b);
  /// Throws:    Unsupported where an element of the result is not finite
  void require_finite(std::int64_t at, float x) const;
  /// "call 3, [4, 64] x [64, 8]"
  std::string place() const;

private:
  ProductCall kernel_;
  ProductShape shape_;
  bool has_right_operand_;
  std::int64_t calls_ = 0;
  double seconds_ = 0.0;
};

/// Products by their places.
using Places = std::vector<std::int64_t>;

/// One sum to be formed: products are 0 but those named, and others at some places.
struct SumProbe {
  std::vector<std::pair<std::int64_t, float>> at;
  float others = 0.0F;
  std::shared_ptr<const Places> where = {};  ///< of the others; null: everywhere

  /// Calls put(k, number) for every number but 0, those that are named last.
  template <class Put>
  void for_each(std::int64_t count, const Put& put) const {
    if (where)
      for (const std::int64_t k : *where) put(k, others);
    else if (others != 0.0F)
      for (std::int64_t k = 0; k < count; ++k) put(k, others);
    for (const auto& [k, number] : at) put(k, number);
  }
};

/// Elements of the result, each of which can form another sum in the same call. Either they are in one row or one column:
/// their own rows of A (columns of B) hold the numbers, the other operand one number. Or no two of them share a row or a
/// column, and both operands hold a part of every number: the product of the two parts.
struct Lanes {
  bool along_rows = true;                 ///< elements of one column, whose rows differ
  std::int64_t fixed = 0;                 ///< that column, or row
  std::vector<std::int64_t> where;        ///< the rows, or columns
  std::vector<std::int64_t> across = {};  ///< the column of each of the rows `where`; empty: all in one line
  int highest_left = 0;                   ///< with `across`: the largest power of two that A holds
  int lowest_right = 0;                   ///< and the smallest that B does
};

/// The results of the probes in their order, as many in one call as there are lanes.
std::vector<float> run_probes(Caller& caller, const Lanes& lanes, const std::vector<SumProbe>& probes,
                              float other = 1.0F);
/// The same for results that have to be finite.
/// Throws:    Unsupported naming the element
std::vector<float> run_finite_probes(Caller& caller, const Lanes& lanes, const std::vector<SumProbe>& probes,
                                     float other = 1.0F);

}  // namespace driftbound::probe

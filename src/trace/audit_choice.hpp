#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "trace/value_view.hpp"

/// Which elements of a result an audit judges: independent draws, on which the statement of the audit stands (T-140), and
/// those that a cheap test of the whole result suspects. A test chooses; it never judges.
namespace driftbound {

/// splitmix64 (S. Vigna): the same numbers on every machine.
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// Uniform in [0, end).
  std::int64_t below(std::int64_t end);

private:
  std::uint64_t next();
  std::uint64_t state_;
};

/// `draws` independent numbers in [0, rows * columns), the elements of a matrix by rows. Half of them are drawn one from
/// each of as many bands of consecutive elements, the other half one from each of as many bands of the transpose: with
/// four draws for each row and column every one of them is met. If a share p of all elements has a property, all draws
/// miss it with probability (1 - p)^draws at most (T-140).
std::vector<std::int64_t> stratified_draws(std::int64_t rows, std::int64_t columns, std::int64_t draws, Random& random);

/// Of each of 16 blocks of a value the largest finite element and the first one that is not finite.
std::vector<std::int64_t> extreme_elements(const ValueView& value);

/// Of a value in rows of `length` elements: the rows with a number that is not finite, four at most, and those whose
/// sum, or whose sum of squares, is farthest from the median of all rows, two of each.
std::vector<std::int64_t> outlying_rows(const ValueView& value, std::int64_t length);

/// A product alpha A B + beta C and what was computed for it. `addend_of`: the element of C, by element of the result.
struct CheckedProduct {
  const ProductPlan& plan;
  double alpha, beta;
  const ValueView &a, &b;
  const ValueView* c;
  std::function<std::int64_t(std::int64_t)> addend_of;
  const ValueView& computed;
};

/// Elements that the checksums of a product speak against: with vectors z and w of random weights, the rows where
/// Y z - alpha A (B z) - beta C z is large for |A_i| and the columns where w Y - alpha (w A) B - beta w C is large for
/// |B_j|, in the Euclidean norm, and the elements where the worst ones cross. Up to 16 of a matrix, 64 in all; none where C hides elements
/// (masks of minus infinity).
/// Source:    K.-H. Huang, J. A. Abraham, Algorithm-based fault tolerance for matrix operations (1984)
std::vector<std::int64_t> suspects_of_product(const CheckedProduct& product, Random& random);

}  // namespace driftbound

#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/ball.hpp"
#include "reference/ball_tensor.hpp"
#include "reference/kernels/pairs.hpp"

namespace driftbound {

/// Bits that a midpoint hi + lo has at least.
inline constexpr int pair_bits = 106;

/// Memory whose numbers are whatever was there until they are written.
template <class T>
struct Unwritten : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Unwritten<U>;
  };
  template <class U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
};
using Doubles = std::vector<double, Unwritten<double>>;

/// The shape with so many rows.
Shape with_rows(Shape shape, std::size_t rows);

/// A dense array of balls with midpoints hi + lo, in equal parts one after the other (one a sample, or all of it). Of
/// each part one number more is known: the 2-norm of the distances of all its exact values from their midpoints.
/// What has no value, or none that can be held here, is the whole line.
struct PairTensor {
  Shape shape;
  Doubles hi, lo, radius;
  std::vector<double> norms;  ///< [parts]; infinite where an element is the whole line

  /// Balls that are still to be written; norms are 0.
  PairTensor(Shape shape, std::size_t parts);
  /// Exact numbers.
  explicit PairTensor(const Tensor<double>& values);
  /// Rows (indices on axis 0) of a tensor, each a part.
  PairTensor(const Tensor<double>& values, std::span<const std::size_t> rows);
  PairTensor(const BallTensor& balls, std::size_t parts);
  /// Rows of a tensor, each a part.
  PairTensor(const Tensor<Ball>& balls, std::span<const std::size_t> rows);

  std::size_t size() const { return hi.size(); }
  std::size_t parts() const { return norms.size(); }
  std::size_t part_size() const { return norms.empty() ? 0 : size() / norms.size(); }
  bool is_exact() const;
  ConstPairs view() const { return {hi.data(), lo.data(), radius.data()}; }
  Pairs view() { return {hi.data(), lo.data(), radius.data()}; }

  /// What is the whole line has no value there.
  BallTensor balls(int bits) const;

  /// Takes a part's norm to be at most `norm`, finds what its radii make of it, and lowers each to the other.
  void settle(std::size_t part, double norm);
  /// The same of all parts, without any knowledge but the radii.
  void settle();
};

}  // namespace driftbound

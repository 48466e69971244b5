#pragma once

#include <gmp.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/ball_tensor.hpp"

namespace driftbound {

/// `length` balls of a tensor, `stride` apart.
struct BallVector {
  const BallTensor* tensor = nullptr;
  std::size_t offset = 0;
  std::size_t stride = 0;
  std::size_t length = 0;
  const MpBall& operator[](std::size_t k) const { return (*tensor)[offset + k * stride]; }
};

/// Exponent of the last bit of x that is not zero; x is not zero.
std::int64_t last_bit(mpfr_srcptr x);

/// Writes upper bounds as doubles times 2^exponent, and returns that. Bounds far below the largest are raised to 2^-300
/// of it, so that no product of two of them underflows.
std::int64_t scale_bounds(const std::vector<Scaled>& bounds, std::vector<double>& scaled);

/// A vector of balls in fixed point: element k is sign_k digits_k 2^exponent, all with the same number of
/// limbs. Digits below 2^-(2 bits + 128) of the largest element are cut off and added to the radii.
/// The radii and |element| + radius are doubles (upper bounds) times a power of two.
class FixedPointVector {
public:
  void assign(const BallVector& vector);

  bool is_void() const { return void_; }
  bool is_unknown() const { return unknown_; }

private:
  friend class DotProduct;
  struct Element {
    bool negative = false;
    std::uint32_t first = 0, last = 0;  ///< the limbs that are not zero: [first, last)
  };
  void store(const MpBall& ball, std::size_t k, bool& truncated);

  std::vector<Element> elements_;
  std::vector<std::uint32_t> support_;  ///< elements that are not zero
  std::vector<mp_limb_t> digits_;
  std::vector<mp_limb_t> shifted_;
  std::size_t limbs_ = 0;
  std::int64_t exponent_ = 0;

  std::vector<Scaled> scaled_radii_, scaled_reaches_;
  std::vector<double> radii_, reaches_;
  std::int64_t radius_exponent_ = 0, reach_exponent_ = 0;
  bool exact_ = true, void_ = false, unknown_ = false;
};

/// Dot products of fixed-point vectors: the digits are multiplied and added exactly and rounded once.
/// |x y - mid| <= sum_k (|x_k| + r_k) s_k + r_k (|y_k| + s_k), r and s the radii of x and y.
/// Source:    docs/theory.md T-32
class DotProduct {
public:
  void operator()(MpBall& result, const FixedPointVector& x, const FixedPointVector& y);

private:
  std::vector<mp_limb_t> sums_;  ///< of the positive and of the negative products
};

}  // namespace driftbound

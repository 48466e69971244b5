#pragma once

#include <mpfr.h>

#include <cstddef>
#include <span>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/ball.hpp"
#include "reference/scaled.hpp"

namespace driftbound {

/// The reals within `radius` of the midpoint, with a midpoint of any precision. Two special states:
///   unknown: the radius is infinite; a higher precision may help
///   void:    the midpoint is NaN; the exact function has no value here (NaN or infinity in the data,
///            a division by exactly zero), and no precision helps
/// Owns no memory: midpoints live in the arena of their tensor.
struct MpBall {
  __mpfr_struct midpoint;
  Scaled radius;

  mpfr_ptr mid() { return &midpoint; }
  mpfr_srcptr mid() const { return &midpoint; }
  bool is_void() const { return mpfr_nan_p(mid()) != 0; }
  bool is_unknown() const { return !radius.is_finite(); }
  bool is_exact() const { return radius.is_zero(); }
};

void make_void(MpBall& ball);
void make_unknown(MpBall& ball);

/// To be called after a midpoint was rounded to nearest: adds 2^log2_units half units in its last place
/// to `propagated` unless the result was exact. Overflow of the exponent makes the ball void.
void settle(MpBall& ball, int ternary, Scaled propagated, int log2_units = 0);

void assign(MpBall& ball, double value);
void assign(MpBall& ball, const MpBall& other);

/// A dense array of balls of one precision, their midpoints in one block of memory.
class BallTensor {
public:
  BallTensor(Shape shape, int bits);
  BallTensor(const Tensor<double>& values, int bits);
  /// Rows (indices on axis 0) of a tensor.
  BallTensor(const Tensor<double>& values, std::span<const std::size_t> rows, int bits);
  BallTensor(BallTensor&&) = default;
  BallTensor& operator=(BallTensor&&) = default;
  BallTensor(const BallTensor&) = delete;
  BallTensor& operator=(const BallTensor&) = delete;
  ~BallTensor() = default;

  const Shape& shape() const { return shape_; }
  int bits() const { return bits_; }
  std::size_t size() const { return balls_.size(); }
  MpBall& operator[](std::size_t i) { return balls_[i]; }
  const MpBall& operator[](std::size_t i) const { return balls_[i]; }

private:
  Shape shape_;
  int bits_;
  std::vector<mp_limb_t> limbs_;
  std::vector<MpBall> balls_;
};

/// The public form; its radius includes the rounding of the midpoint to hi + lo.
/// `scratch` holds at least two balls of at least the precision of `ball`.
Ball to_ball(const MpBall& ball, BallTensor& scratch);

}  // namespace driftbound

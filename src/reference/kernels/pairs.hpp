#pragma once

#include <cstddef>

#include "simd/target.hpp"

namespace driftbound {

/// Balls of midpoints hi + lo, |lo| at most half a unit in the last place of hi, in three arrays; an infinite radius is
/// the whole line, and goes with a midpoint of 0.
struct ConstPairs {
  const double* hi;
  const double* lo;
  const double* radius;

  ConstPairs from(std::size_t i) const { return {hi + i, lo + i, radius + i}; }
};
struct Pairs {
  double* hi;
  double* lo;
  double* radius;

  Pairs from(std::size_t i) const { return {hi + i, lo + i, radius + i}; }
};

/// How large a radius may be; PairKernels::judge says which number bounds what.
struct WantedPrecision {
  double error_ratio, relative_radius, of_computed, absolute;
};

/// One build of loops over n such balls for one instruction set. Each encloses; y may be an operand. Those of two
/// operands return the largest of what rounding added to a radius.
struct PairKernels {
  const char* name;

  // T-07
  double (*add)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);
  double (*subtract)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);
  double (*multiply)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);
  // T-87
  void (*divide)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);
  void (*square_root)(Pairs y, ConstPairs x, std::size_t n);
  void (*rectified)(Pairs y, ConstPairs x, std::size_t n);
  void (*absolute)(Pairs y, ConstPairs x, std::size_t n);
  void (*maximum)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);
  void (*minimum)(Pairs y, ConstPairs a, ConstPairs b, std::size_t n);

  /// Upper bound of the 2-norm; infinite where an element is.
  double (*norm)(const double* radius, std::size_t n);
  /// radius[i] = min(radius[i], most)
  void (*cap)(double* radius, double most, std::size_t n);
  /// radius[i] += norm_r norm_w[i], rounded up
  void (*spread)(double* radius, double norm_r, const double* norm_w, std::size_t n);
  /// precise[i]: radius <= error_ratio |computed - mid| where that is more than the radius, else radius <=
  /// relative_radius |hi|; or radius <= of_computed |computed| + absolute. `computed` may be null, then the last two are
  /// 0. How many are not; where none is, `precise` may stay as it was.
  std::size_t (*judge)(ConstPairs x, const double* computed, const WantedPrecision& wanted, std::size_t n,
                       unsigned char* precise);
};

DRIFTBOUND_SIMD_BUILDS(PairKernels, pairs);

}  // namespace driftbound

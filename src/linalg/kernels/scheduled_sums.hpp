#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/target.hpp"

namespace driftbound::linalg {

/// Sums that are computed together, one a lane.
inline constexpr std::size_t sum_lanes = 16;

/// Parts of sums of products in a chain of operations on numbers of one format.
template <class Real>
struct ChainParts {
  const Real* a = nullptr;  ///< [k] for all lanes, or [k, sum_lanes]
  const Real* b = nullptr;  ///< [k, sum_lanes]
  bool a_by_lane = false;
  bool fma = true;
  const std::uint32_t* terms = nullptr;  ///< of all parts, one after the other
  const std::size_t* ends = nullptr;     ///< [parts], in `terms`
  std::size_t parts = 0;
  const Real* start = nullptr;  ///< [sum_lanes] what the chains start from; null: the first product, rounded
  Real* sums = nullptr;         ///< [parts, sum_lanes]
};

/// Sums of float32 numbers by the steps of a matrix unit (docs/theory.md T-21). Factors are numbers of the unit's input format.
struct UnitParts {
  const double* a = nullptr;        ///< [k] for all lanes, or [k, sum_lanes]
  const double* a_power = nullptr;  ///< as a: the power of two that the unit takes for a factor's exponent
  const double* b = nullptr;        ///< [k, sum_lanes]
  const double* b_power = nullptr;
  bool a_by_lane = false;
  std::size_t block = 4;
  double fraction_unit = 1.0;  ///< 2^fraction_bits
  double sum_unit = 1.0;       ///< 2^sum_bits
  const std::uint32_t* terms = nullptr;
  const std::size_t* ends = nullptr;
  std::size_t parts = 0;
  const float* start = nullptr;  ///< [sum_lanes]: what the first step adds to; null: 0
  float* sums = nullptr;         ///< [parts, sum_lanes]
};

/// One build for one instruction set. Every build gives the same bits.
struct ScheduledKernels {
  const char* name;
  void (*chains)(const ChainParts<float>& parts);
  void (*chains_in_double)(const ChainParts<double>& parts);
  void (*units)(const UnitParts& parts);
};

DRIFTBOUND_SIMD_BUILDS(ScheduledKernels, scheduled);

}  // namespace driftbound::linalg

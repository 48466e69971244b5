#pragma once

#include <cstddef>
#include <string_view>

#include "bounds/kernels/elements.hpp"
#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

/// A smooth function of one element, as RowKernels::smooth takes it.
/// Source:    docs/theory.md T-88
struct Smooth {
  std::string_view name;
  ElementKernels::Function ElementKernels::*value;
  ElementKernels::Function ElementKernels::*slope;  ///< null: 1 - value²
  enum class Curvature { value, value_times_slope, slope_less_square, itself } curvature;
  SmoothRow numbers;                                       ///< without rows, and what runs are off
  ElementKernels::Bends ElementKernels::*bends = nullptr;  ///< values, slopes and curvatures at once
};

extern const Smooth smooth_tanh, smooth_softplus, smooth_sin, smooth_gelu, smooth_gelu_tanh;

/// Values, slopes, and that by which curvature_factor is multiplied. False where an x is not covered.
bool evaluate(const Smooth& f, const ElementKernels& kernels, const double* x, double* y, double* slopes,
              double* curvatures, std::size_t n);

}  // namespace driftbound::bounds

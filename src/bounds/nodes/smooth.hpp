#pragma once

#include <cstddef>
#include <string_view>

#include "bounds/kernels/elements.hpp"
#include "bounds/kernels/rows.hpp"

namespace driftbound::bounds {

/// A smooth function of one element whose values, slopes and second derivatives the element kernels compute, with the
/// constants for RowKernels::smooth.
/// Source:    docs/theory.md T-88
struct Smooth {
  std::string_view name;
  ElementKernels::Function ElementKernels::*value;
  ElementKernels::Function ElementKernels::*slope;  ///< null: the slope is 1 - value²
  enum class Curvature { value, value_times_slope, slope_less_square, itself } curvature;
  SmoothRow numbers;  ///< constants of f; the pointers to rows and the accuracy of runs are not set
  ElementKernels::Bends ElementKernels::*bends = nullptr;  ///< computes values, slopes and curvatures; null: not used
};

extern const Smooth smooth_tanh, smooth_softplus, smooth_sin, smooth_erf, smooth_gelu, smooth_gelu_tanh;

/// Computes y = f(x), slopes ~ f'(x) and curvatures m with |f''(x)| ~ curvature_factor |m|. Returns false if an x is
/// not covered by the kernels; the results must not be used then.
/// Shapes:    all [n]
bool evaluate(const Smooth& f, const ElementKernels& kernels, const double* x, double* y, double* slopes,
              double* curvatures, std::size_t n);

}  // namespace driftbound::bounds

#include "bounds/nodes/smooth.hpp"

#include <algorithm>

#include "bounds/theorems/op_traits.hpp"

namespace driftbound::bounds {

// `relative` and `absolute` are the errors of values by T-80. 0.769801, 0.25 and 0.096226 are 4 / (3 sqrt 3), 1/4 and
// 1 / (6 sqrt 3), rounded up.
const Smooth smooth_tanh{"tanh",
                         &ElementKernels::tanh,
                         nullptr,
                         Smooth::Curvature::value_times_slope,
                         {.relative = 0x6p-53,
                          .curvature_factor = 2.0,
                          .most_curvature = OpTraits<op::Tanh>::curvature,
                          .third_derivative = OpTraits<op::Tanh>::third_derivative,
                          .tail_factor = 2.0,
                          .tail_rate = 2.0,
                          .tail_follows_slope = true}};
const Smooth smooth_softplus{"softplus",
                             &ElementKernels::softplus,
                             &ElementKernels::sigmoid,
                             Smooth::Curvature::slope_less_square,
                             {.relative = 0x9p-53,
                              .curvature_factor = 1.0,
                              .most_curvature = OpTraits<op::Softplus>::curvature,
                              .third_derivative = OpTraits<op::Softplus>::third_derivative,
                              .tail_factor = 1.0,
                              .tail_rate = 1.0}};
const Smooth smooth_sin{"sin",
                        &ElementKernels::sin,
                        &ElementKernels::cos,
                        Smooth::Curvature::value,
                        {.absolute = 0x3p-53,
                         .curvature_factor = 1.0,
                         .most_curvature = OpTraits<op::Sin>::curvature,
                         .third_derivative = OpTraits<op::Sin>::third_derivative}};

const Smooth smooth_erf{"erf",
                        nullptr,
                        nullptr,
                        Smooth::Curvature::itself,
                        {.absolute = 0x9p-53,
                         .curvature_factor = 1.0,
                         .most_curvature = OpTraits<op::Erf>::curvature,
                         .third_derivative = OpTraits<op::Erf>::third_derivative},
                        &ElementKernels::erf};

namespace {

constexpr Smooth gelu(std::string_view name, ElementKernels::Bends ElementKernels::*bends) {
  return {name,
          nullptr,
          nullptr,
          Smooth::Curvature::itself,
          {.relative = 0x9p-53,
           .absolute = 0x28p-53,
           .curvature_factor = 1.0,
           .most_curvature = OpTraits<op::Gelu>::curvature,
           .third_derivative = OpTraits<op::Gelu>::third_derivative},
          bends};
}

}  // namespace

const Smooth smooth_gelu = gelu("gelu", &ElementKernels::gelu);
const Smooth smooth_gelu_tanh = gelu("gelu_tanh", &ElementKernels::gelu_tanh);

bool evaluate(const Smooth& f, const ElementKernels& kernels, const double* x, double* y, double* slopes,
              double* curvatures, std::size_t n) {
  if (f.bends != nullptr) return (kernels.*f.bends)(x, y, slopes, curvatures, n);
  bool is_covered = (kernels.*f.value)(x, y, n);
  if (f.slope != nullptr) {
    is_covered = (kernels.*f.slope)(x, slopes, n) && is_covered;
  } else {
    for (std::size_t i = 0; i < n; ++i) slopes[i] = 1.0 - y[i] * y[i];
  }
  switch (f.curvature) {
    case Smooth::Curvature::value:
      std::copy_n(y, n, curvatures);
      break;
    case Smooth::Curvature::value_times_slope:
      for (std::size_t i = 0; i < n; ++i) curvatures[i] = y[i] * slopes[i];
      break;
    case Smooth::Curvature::slope_less_square:
      for (std::size_t i = 0; i < n; ++i) curvatures[i] = slopes[i] * (1.0 - slopes[i]);
      break;
    case Smooth::Curvature::itself:
      break;
  }
  return is_covered;
}

}  // namespace driftbound::bounds

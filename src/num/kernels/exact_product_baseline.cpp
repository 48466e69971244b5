#include "num/kernels/exact_product_kernel.hpp"

namespace driftbound::num {
namespace {

/// Two neighbouring columns in plain C++.
struct Plain {
  typedef float Floats __attribute__((vector_size(16)));
  typedef std::int32_t Integers __attribute__((vector_size(16)));
  typedef std::int16_t Shorts __attribute__((vector_size(8)));
  static constexpr std::size_t lanes = 2;
  double lane[lanes];

  static Plain load(const double* p) { return {{p[0], p[1]}}; }
  static Plain widen(const float* p) { return {{static_cast<double>(p[0]), static_cast<double>(p[1])}}; }
  static Plain all(double x) { return {{x, x}}; }
  void store(double* p) const { p[0] = lane[0], p[1] = lane[1]; }
  friend Plain add(const Plain& x, const Plain& y) { return {{x.lane[0] + y.lane[0], x.lane[1] + y.lane[1]}}; }
  friend Plain sub(const Plain& x, const Plain& y) { return {{x.lane[0] - y.lane[0], x.lane[1] - y.lane[1]}}; }
  friend Plain mul(const Plain& x, const Plain& y) { return {{x.lane[0] * y.lane[0], x.lane[1] * y.lane[1]}}; }
  friend Plain fma(const Plain& x, const Plain& y, const Plain& z) {
    return {{__builtin_fma(x.lane[0], y.lane[0], z.lane[0]), __builtin_fma(x.lane[1], y.lane[1], z.lane[1])}};
  }
  friend Plain fms(const Plain& x, const Plain& y, const Plain& z) {
    return {{__builtin_fma(x.lane[0], y.lane[0], -z.lane[0]), __builtin_fma(x.lane[1], y.lane[1], -z.lane[1])}};
  }
};

}  // namespace

const ExactKernels exact_baseline = exact_kernels<Plain, 2, 2>("baseline");

}  // namespace driftbound::num

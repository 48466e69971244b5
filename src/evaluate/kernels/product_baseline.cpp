#include "evaluate/kernels/product_kernel.hpp"

namespace driftbound {
namespace {

float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

/// 16 bytes of neighbouring columns in plain C++; the compiler finds the vector instructions.
template <class Real>
struct Plain {
  using Scalar = Real;
  static constexpr std::size_t lanes = 16 / sizeof(Real);
  Real lane[lanes];

  static Plain load(const Real* p) {
    Plain x;
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] = p[i];
    return x;
  }
  static Plain all(Real value) {
    Plain x;
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] = value;
    return x;
  }
  void store(Real* p) const {
    for (std::size_t i = 0; i < lanes; ++i) p[i] = lane[i];
  }
  friend Plain add(Plain x, const Plain& y) {
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] += y.lane[i];
    return x;
  }
  friend Plain mul(Plain x, const Plain& y) {
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] *= y.lane[i];
    return x;
  }
  friend Plain fma(const Plain& x, const Plain& y, Plain z) {
    for (std::size_t i = 0; i < lanes; ++i) z.lane[i] = fused(x.lane[i], y.lane[i], z.lane[i]);
    return z;
  }
};

}  // namespace

const ProductKernels product_baseline = {"baseline", &multiply_rows<Plain<float>, 2>, &multiply_rows<Plain<double>, 2>,
                                         &multiply_sparse<Plain<float>>, &multiply_sparse<Plain<double>>};

}  // namespace driftbound

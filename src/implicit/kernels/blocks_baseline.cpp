#include "implicit/kernels/blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

/// 16 bytes of neighbouring rows in plain C++; the compiler finds the vector instructions.
template <class Number>
struct Numbers {
  using Real = Number;
  static constexpr std::size_t lanes = 16 / sizeof(Real);
  static constexpr std::size_t outputs = 4;  ///< of a tile, computed together
  Real lane[lanes];

  static Numbers load(const Real* p) {
    Numbers x;
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] = p[i];
    return x;
  }
  static Numbers all(Real value) {
    Numbers x;
    for (std::size_t i = 0; i < lanes; ++i) x.lane[i] = value;
    return x;
  }
  void store(Real* p) const {
    for (std::size_t i = 0; i < lanes; ++i) p[i] = lane[i];
  }
  template <class F>
  static Numbers zip(const Numbers& x, const Numbers& y, const F& f) {
    Numbers z;
    for (std::size_t i = 0; i < lanes; ++i) z.lane[i] = f(x.lane[i], y.lane[i]);
    return z;
  }
  friend Numbers add(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a + b; });
  }
  friend Numbers subtract(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a - b; });
  }
  friend Numbers multiply(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a * b; });
  }
  friend Numbers divide(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a / b; });
  }
  friend Numbers maximum(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a > b ? a : b; });
  }
  friend Numbers minimum(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a < b ? a : b; });
  }
  /// Two roundings.
  friend Numbers multiply_add(const Numbers& x, const Numbers& y, const Numbers& z) { return add(multiply(x, y), z); }
  friend Numbers rectified_of(const Numbers& x) {
    return zip(x, x, [](Real a, Real) { return a < 0 ? Real{0} : a; });
  }
  friend Numbers negative_of(const Numbers& x) {
    return zip(x, x, [](Real a, Real) { return a > 0 ? Real{0} : a; });
  }
  friend Numbers where_negative(const Numbers& x, const Numbers& y) {
    return zip(x, y, [](Real a, Real b) { return a < 0 ? b : a; });
  }
};

struct Vectors {
  static constexpr std::size_t lanes = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));
  using Real = double;
  using Reals = Doubles;
};

struct FloatVectors {
  static constexpr std::size_t lanes = 4;
  typedef float Reals __attribute__((vector_size(16)));
  typedef std::int32_t Integers __attribute__((vector_size(16)));
  using Real = float;
};

}  // namespace

const BlockKernels blocks_baseline = block_kernels<Numbers<double>, Vectors>("baseline");
const FloatBlockKernels float_blocks_baseline = float_block_kernels<Numbers<float>, FloatVectors>("baseline");

}  // namespace driftbound::implicit

#include "implicit/kernels/blocks_kernel.hpp"

namespace driftbound::implicit {
namespace {

/// 16 bytes of neighbouring rows in plain C++; the compiler finds the vector instructions.
struct Doubles {
  static constexpr std::size_t lanes = 2;
  static constexpr std::size_t outputs = 4;  ///< of a tile, computed together
  double lane[lanes];

  static Doubles load(const double* p) { return {{p[0], p[1]}}; }
  static Doubles all(double x) { return {{x, x}}; }
  void store(double* p) const {
    p[0] = lane[0];
    p[1] = lane[1];
  }
  template <class F>
  friend Doubles zip(const Doubles& x, const Doubles& y, const F& f) {
    return {{f(x.lane[0], y.lane[0]), f(x.lane[1], y.lane[1])}};
  }
  friend Doubles add(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a + b; });
  }
  friend Doubles subtract(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a - b; });
  }
  friend Doubles multiply(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a * b; });
  }
  friend Doubles divide(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a / b; });
  }
  friend Doubles maximum(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a > b ? a : b; });
  }
  friend Doubles minimum(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a < b ? a : b; });
  }
  /// Two roundings.
  friend Doubles multiply_add(const Doubles& x, const Doubles& y, const Doubles& z) { return add(multiply(x, y), z); }
  friend Doubles rectified_of(const Doubles& x) {
    return zip(x, x, [](double a, double) { return a < 0.0 ? 0.0 : a; });
  }
  friend Doubles negative_of(const Doubles& x) {
    return zip(x, x, [](double a, double) { return a > 0.0 ? 0.0 : a; });
  }
  friend Doubles where_negative(const Doubles& x, const Doubles& y) {
    return zip(x, y, [](double a, double b) { return a < 0.0 ? b : a; });
  }
};

struct Vectors {
  static constexpr std::size_t lanes = 2;
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::int64_t Integers __attribute__((vector_size(16)));
  using Real = double;
  using Reals = Doubles;
};

}  // namespace

const BlockKernels blocks_baseline = block_kernels<Doubles, Vectors>("baseline");

}  // namespace driftbound::implicit

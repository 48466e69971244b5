// The kernels of `ElementKernels`. No operation is fused or reordered.

#include "bounds/kernels/elements.hpp"

#include "bounds/kernels/element_functions.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = __builtin_inf();
using Functions = ElementFunctions<false>;

template <Functions::Bend (*second_order_remainder)(D)>
bool bends(const double* x, double* y, double* slopes, double* curvatures, std::size_t n) {
  I finite = ~I{};
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D at = D::load(x + i, count);
    finite &= at - at == 0.0;
    const Functions::Bend bend = second_order_remainder(at);
    bend.value.store(y + i, count);
    if (slopes == nullptr) return;
    bend.slope.store(slopes + i, count);
    bend.curvature.store(curvatures + i, count);
  });
  return simd::every(finite);
}

bool relu(const double* x, double* y, std::size_t n) {
  I finite = ~I{};
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D at = D::load(x + i, count);
    finite &= at - at == 0.0;
    larger(at, 0.0).store(y + i, count);
  });
  return simd::every(finite);
}

/// y = operation(a, b). Returns false if a result is not finite.
template <class Operation>
bool of_pairs(const double* a, const double* b, double* y, std::size_t n, const Operation& operation) {
  I finite = ~I{};
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D result = operation(D::load(a + i, count), D::load(b + i, count));
    finite &= result - result == 0.0;
    result.store(y + i, count);
  });
  return simd::every(finite);
}
bool add(const double* a, const double* b, double* y, std::size_t n) {
  return of_pairs(a, b, y, n, [](D one, D other) { return one + other; });
}
bool subtract(const double* a, const double* b, double* y, std::size_t n) {
  return of_pairs(a, b, y, n, [](D one, D other) { return one - other; });
}
bool multiply(const double* a, const double* b, double* y, std::size_t n) {
  return of_pairs(a, b, y, n, [](D one, D other) { return one * other; });
}

/// Rounds a + b up by TwoSum, for a, b >= 0. The rounding error `lost` is NaN if the sum is infinite, which then stays
/// as it is.
void add_up(const double* a, const double* b, double* y, std::size_t n) {
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D x = D::load(a + i, count), z = D::load(b + i, count);
    const D sum = x + z, of_z = sum - x, lost = (x - (sum - of_z)) + (z - of_z);
    const D up = bits_as<double>(bits_of(sum) - (lost > 0.0));  // a true mask is -1, which gives the next double
    where(sum == sum, up, infinity).store(y + i, count);
  });
}

double deviation(const double* computed, const double* shadow, double radius, double u, double* bound, std::size_t n) {
  // The factor covers three roundings. It may leave subnormal numbers unchanged, but sums of those are exact.
  constexpr double outward_factor = 1.0 + 0x1p-50;
  D largest{};
  simd::in_vectors<D::lanes>(n, [&](std::size_t i, auto count) {
    const D at = D::load(computed + i, count), difference = magnitude(at - D::load(shadow + i, count));
    const D off = where(difference == difference, difference, infinity);
    largest = larger(u * magnitude(at), larger(off, largest));
    ((off + radius) * outward_factor).store(bound + i, count);
  });
  return simd::largest_of(largest);
}

}  // namespace

const ElementKernels DRIFTBOUND_SIMD_NAME(elements) = {DRIFTBOUND_SIMD_TARGET_NAME,
                                                       &function<Exp<false>>,
                                                       &function<Tanh<false>>,
                                                       &function<Sigmoid<false>>,
                                                       &function<Softplus<false>>,
                                                       &function<Sin<false>>,
                                                       &function<Cos<false>>,
                                                       &bends<&Functions::gelu>,
                                                       &bends<&Functions::gelu_tanh>,
                                                       &bends<&Functions::erf>,
                                                       &relu,
                                                       &add,
                                                       &subtract,
                                                       &multiply,
                                                       &add_up,
                                                       &deviation};

}  // namespace driftbound::bounds

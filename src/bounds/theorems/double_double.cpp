#include "bounds/theorems/double_double.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// u^2, u = 2^-53, enlarged to cover terms of higher order.
constexpr double u2 = 0x1p-106 * (1.0 + 0x1p-20);
/// Upper bound of the error of one op's roundings below the range of normal numbers.
constexpr double underflow = 0x1p-1070;

Magnitude error_of(double units, Magnitude size) {
  return Magnitude(units * u2) * size + Magnitude(underflow);
}

}  // namespace

Magnitude pair_sum_error(Magnitude a, Magnitude b) {
  return error_of(3.0, a + b);
}

Magnitude pair_product_error(Magnitude result) {
  return error_of(6.0, result);
}

Magnitude pair_quotient_error(Magnitude result) {
  return error_of(11.0, result);
}

Magnitude pair_function_error(num::DoubleDoubleFunction f, Magnitude result) {
  const num::DoubleDoubleError error = num::error_of(f);
  return Magnitude(error.relative) * result + Magnitude(error.absolute) + Magnitude(error.of_nothing);
}

Magnitude pair_dense_error(std::int64_t products, Magnitude terms, Magnitude factor) {
  const auto k = static_cast<double>(products);
  return error_of(0.5 * k * (k + 11.0) + 16.0, terms) + Magnitude(k * underflow) * factor;
}

}  // namespace driftbound::bounds::inline theorems

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "bounds/theorems/double_double.hpp"
#include "implicit/kernels/pair_blocks.hpp"
#include "num/double_double.hpp"
#include "support/real.hpp"

/// Ops in double-double against 700 bits: the largest share of what the rules of T-114 allow.
namespace checks {

using driftbound::Magnitude;
namespace bounds = driftbound::bounds;
using driftbound::implicit::pair_outputs;
using driftbound::implicit::pair_rows;
using driftbound::implicit::PairBlockKernels;

/// A block of pairs, `features` of them a row.
class PairBlock {
public:
  explicit PairBlock(std::size_t features) : values_(2 * features * pair_rows, 0.0) {}
  double* data() { return values_.data(); }
  double& high(std::size_t feature, std::size_t row) { return values_[2 * feature * pair_rows + row]; }
  double& low(std::size_t feature, std::size_t row) { return values_[(2 * feature + 1) * pair_rows + row]; }
  Real real(std::size_t feature, std::size_t row) { return Real(high(feature, row)) + Real(low(feature, row)); }

private:
  std::vector<double> values_;
};

/// Numbers whose significands are random, or have few bits, where roundings are largest; of any sign.
inline double awkward_number(std::mt19937_64& engine, int exponents) {
  const double significand = std::uniform_real_distribution<double>(1.0, 2.0)(engine);
  const double size = engine() % 2 == 0 ? significand : 1.0 + 0x1p-20 * significand;
  const int exponent = exponents == 0 ? 0 : static_cast<int>(engine() % static_cast<unsigned>(exponents));
  return std::ldexp(engine() % 2 == 0 ? size : -size, -exponent);
}

inline PairBlock awkward_pairs(std::size_t features, int exponents, std::mt19937_64& engine) {
  PairBlock block(features);
  for (std::size_t f = 0; f < features; ++f)
    for (std::size_t row = 0; row < pair_rows; ++row) {
      const double high = awkward_number(engine, exponents);
      const double part = std::fmin(std::fabs(awkward_number(engine, 0)), std::fabs(high));
      block.high(f, row) = high;
      block.low(f, row) = (engine() % 2 == 0 ? 0x1p-53 : -0x1p-53) * part;
    }
  return block;
}

inline double share_of(const Real& computed, const Real& exact, Magnitude allowed) {
  return (abs(computed - exact) / Real(allowed.value())).to_double();
}
inline Magnitude size_of(const Real& x) {
  return Magnitude(std::nextafter(std::fabs(x.to_double()), HUGE_VAL));
}

inline double dense_share(const PairBlockKernels& kernels, std::size_t inputs, int exponents, std::mt19937_64& engine) {
  std::vector<double> weights(inputs * pair_outputs), bias(pair_outputs);
  for (double& w : weights) w = awkward_number(engine, exponents);
  for (double& b : bias) b = awkward_number(engine, exponents);
  PairBlock x = awkward_pairs(inputs, exponents, engine), y(pair_outputs);
  double check[pair_rows] = {}, largest = 0.0;
  kernels.dense(weights.data(), bias.data(), x.data(), y.data(), inputs, pair_outputs, false, check);
  for (std::size_t j = 0; j < pair_outputs; ++j)
    for (std::size_t row = 0; row < pair_rows; ++row) {
      Real exact(bias[j]), terms = abs(exact);
      for (std::size_t k = 0; k < inputs; ++k) {
        const Real product = Real(weights[k * pair_outputs + j]) * x.real(k, row);
        exact += product;
        terms += abs(product);
      }
      const Magnitude allowed =
          bounds::pair_dense_error(static_cast<std::int64_t>(inputs), size_of(terms), Magnitude(1.0));
      largest = std::fmax(largest, share_of(y.real(j, row), exact, allowed));
    }
  return largest;
}

/// Operations 0 to 5: a + b, a - b, a b, a / b, max, min. Exact ones have the share 0, or HUGE_VAL.
inline double operation_share(const PairBlockKernels& kernels, std::size_t operation, bool with_constants,
                              std::mt19937_64& engine) {
  PairBlock a = awkward_pairs(1, 3, engine), b = awkward_pairs(1, 3, engine), y(1);
  double check[pair_rows] = {}, largest = 0.0;
  const double constant = b.high(0, 0);
  if (with_constants) {
    kernels.with_constants[operation](a.data(), &constant, y.data(), 1, check);
  } else {
    kernels.of_values[operation](a.data(), b.data(), y.data(), 1, check);
  }
  for (std::size_t row = 0; row < pair_rows; ++row) {
    const Real s = a.real(0, row), t = with_constants ? Real(constant) : b.real(0, row);
    const Real exact[] = {s + t, s - t, s * t, s / t, s < t ? t : s, s < t ? s : t};
    const Magnitude size = size_of(exact[operation]);
    const Magnitude allowed[] = {bounds::pair_sum_error(size_of(s), size_of(t)),
                                 bounds::pair_sum_error(size_of(s), size_of(t)),
                                 bounds::pair_product_error(size),
                                 bounds::pair_quotient_error(size),
                                 Magnitude(),
                                 Magnitude()};
    const bool is_exact = y.real(0, row) <= exact[operation] && y.real(0, row) >= exact[operation];
    if (!is_exact) largest = std::fmax(largest, share_of(y.real(0, row), exact[operation], allowed[operation]));
  }
  return largest;
}

template <class Exact>
double function_share(driftbound::num::DoubleDoubleFunction f, Exact exact, std::mt19937_64& engine) {
  PairBlock x = awkward_pairs(1, 6, engine), y(1);
  driftbound::num::fastest_double_double_kernels().loops[static_cast<std::size_t>(f)](
      x.data(), x.data() + pair_rows, pair_rows, y.data(), y.data() + pair_rows);
  double largest = 0.0;
  for (std::size_t row = 0; row < pair_rows; ++row) {
    const Real value = x.real(0, row).apply(exact);
    largest = std::fmax(largest, share_of(y.real(0, row), value, bounds::pair_function_error(f, size_of(value))));
  }
  return largest;
}

}  // namespace checks

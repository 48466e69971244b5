#pragma once

#include <cstddef>
#include <functional>

#include "implicit/packer.hpp"
#include "region/kernels/cells.hpp"

namespace driftbound::region {

/// A smooth function as cells need it.
struct CellFunction {
  const char* name;
  BentFunction bent;
  /// f and f' at n points, each within 2^-47 (1 + |f|) and 2^-47 (1 + |f'|); false: at some point nothing is known.
  std::function<bool(const double* x, double* value, double* slope, std::size_t n)> evaluate;
};

/// Source:    docs/theory.md T-151
CellFunction function_of(implicit::PackedFunction f);
/// x for x >= 0, alpha (e^x - 1) below, 0 < alpha <= 2^20
CellFunction elu_function(double alpha);
/// x (1 + erf(x / sqrt 2)) / 2; in its tanh form x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
/// Source:    docs/theory.md T-151
CellFunction gelu_function(bool tanh_form);

}  // namespace driftbound::region

#pragma once

#include <string_view>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// What the bounds of an op rest on: ids in docs/theory.md, and the functions whose accuracy (T-20) they use. A
/// composite's rest on those of its body's nodes too.
struct OpTheorems {
  std::vector<std::string_view> local;        ///< the rounding of one application
  std::vector<std::string_view> propagation;  ///< how far the exact function moves with its operands
  std::vector<std::string_view> functions;
};

/// Whether a source ends in a clause "correctly rounded" of its own, after a comma or semicolon (T-20): bounds with any other are conditional.
bool is_correctly_rounded(const FunctionAccuracy& accuracy);

/// Results that are stored in a narrower format than they are computed in add T-14, operands read in a narrower one
/// their propagation; both are left out where the op has no other reason for them.
OpTheorems theorems_of(const Op& op);

}  // namespace driftbound

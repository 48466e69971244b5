#pragma once

#include <string_view>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

// Names the theorems of docs/theory.md that the bounds of each op use.

/// The theorems that the bounds of an op use, by their ids in docs/theory.md, and the functions whose accuracy entries
/// (T-20) they use. The bounds of a composite also use the theorems of the nodes of its body.
struct OpTheorems {
  std::vector<std::string_view> local;        ///< the rounding of one application
  std::vector<std::string_view> propagation;  ///< the change of the exact function when its operands change
  std::vector<std::string_view> functions;
};

/// Whether an accuracy entry documents a correctly rounded function: its source ends in ", correctly rounded" or
/// "; correctly rounded", and its errors are 1 unit and 0 absolute units (T-20). Bounds that use any other entry are
/// conditional.
bool is_correctly_rounded(const FunctionAccuracy& accuracy);

/// Returns the theorems of an op. T-14, for results stored in a narrower format than the accumulator, and the theorems
/// for operands rounded to a narrower format are listed only if the op itself uses them.
OpTheorems theorems_of(const Op& op);

}  // namespace driftbound

#pragma once

#include "bounds/nodes/smooth.hpp"
#include "bounds/theorems/expansions.hpp"
#include "bounds/theorems/propagation.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {

/// The theorems and vector loops for one function of one element; its numbers are in OpTraits.
struct FunctionRules {
  UnaryPropagation propagate = nullptr;                        ///< how far the function moves with its operand
  UnaryExpansion expand = nullptr;                             ///< its slope, and the remainder of that
  double parameter = 0.0;                                      ///< Point::alpha of both
  ElementKernels::Function ElementKernels::*values = nullptr;  ///< a vector loop for values in double; may be null …
  double units = 0.0;                                          ///< … its error in units of 2^-53 …
  bool is_absolute = false;                                    ///< … of 1, not of the value
  const Smooth* smooth = nullptr;  ///< with a vector loop for values, slopes and curvatures; may be null
};

/// Throws:    std::logic_error for an op that is no function of one element
FunctionRules function_rules(const Op& op);

}  // namespace driftbound::bounds

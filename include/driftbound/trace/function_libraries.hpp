#pragma once

#include <string_view>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

/// How accurate the float32 functions of a library are, as its makers or others measured or documented them.
struct FunctionLibrary {
  std::string_view name;   ///< "cuda", "pytorch-cuda", "xla-gpu", "jax-cuda", "pytorch-cpu", "glibc"
  std::string_view about;  ///< versions and devices it speaks of
  std::string_view source;
  std::vector<FunctionAccuracy> functions;  ///< functions that nothing is known of are left out
};

/// Guarantee: none; a bound that uses an entry is conditional on it
/// Source:    docs/functions.md, docs/theory.md T-20
const std::vector<FunctionLibrary>& function_libraries();

/// Throws:    InvalidArgument listing the names there are
const FunctionLibrary& function_library(std::string_view name);

}  // namespace driftbound

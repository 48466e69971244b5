#pragma once

#include <string_view>

#include "driftbound/model/ops.hpp"

namespace driftbound {

/// How the evaluators compute an op, in a few words; docs/arithmetic.md has all of them. Empty for
/// a composite whose body says it all.
std::string_view evaluation_of(const Op& op);

}  // namespace driftbound

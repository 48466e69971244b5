#pragma once

#include "conformance/suite.hpp"

// The runs of the suite against the certified reference and the bounds of the arithmetic that they declare.
namespace conformance {

/// Every op within its proven or conditional bounds.
void check_within_bounds(const Backend& backend);

/// At zeros, the smallest and the largest numbers no bound is broken.
void check_extremes(const Backend& backend);

/// Results that are no finite numbers never pass.
void check_nothing_passes_by_nan(const Backend& backend);

void check_judged(const Backend& backend);

}  // namespace conformance

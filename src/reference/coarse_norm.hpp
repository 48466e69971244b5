#pragma once

#include "bounds/matrices/spectral_norm.hpp"

namespace driftbound {

/// Upper bound of the largest singular value of W, from its Gram matrix squared once in single precision, or the
/// Frobenius norm where that is smaller: bounds::spectral_norm() at a tenth of its cost. 0 for an empty matrix,
/// infinite where an element is not finite.
/// Guarantee: proven
/// Tightness: too large by a factor of at most about n^(1/8), n the smaller of rows and columns, 1.5 for random ones
/// Source:    docs/theory.md T-63
Magnitude coarse_spectral_norm(const bounds::MatrixView& w);

}  // namespace driftbound

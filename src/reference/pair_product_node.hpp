#pragma once

#include "driftbound/model/layout.hpp"
#include "reference/pair_apply.hpp"

namespace driftbound {

/// The products of a plan, into a result of its size.
/// Source:    docs/theory.md T-86, T-89
void multiply_matrices(const ProductPlan& plan, const PairInput& a, const PairInput& b, PairTensor& result);

/// Whether rows times the matrix go through residues (T-101).
bool goes_by_residues(const ProductPlan& plan, const PairInput& b);

}  // namespace driftbound

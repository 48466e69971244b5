#pragma once

#include <vector>

#include "linalg/kernels/residue_product.hpp"

namespace driftbound::linalg {

/// The builds of products by residues that this processor can run, the slowest first.
std::vector<const ResidueKernels*> usable_residue_kernels();

/// The last of them where it multiplies bytes in vectors; null where only plain loops would be left, which are slower
/// than the kernels of exact_product().
const ResidueKernels* fastest_residue_kernels();

}  // namespace driftbound::linalg

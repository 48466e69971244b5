#pragma once

#include "linalg/kernels/residue_product.hpp"

namespace driftbound::linalg {

/// The first `count` moduli. 1 <= count <= moduli.size().
const ResidueBasis& residue_basis(std::size_t count);

/// The fewest moduli whose product is at least 2^bits; more than there are where all of them are not enough.
std::size_t moduli_for(int bits);
/// The fewest moduli that tell integers of that magnitude at most apart (T-100); more than there are where none do.
std::size_t moduli_for_integers(double largest);

}  // namespace driftbound::linalg

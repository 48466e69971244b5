#pragma once

#include <cstddef>

#include "driftbound/model/graph.hpp"

namespace driftbound::fuzz {

/// Four models that inputs and traces are read for: 0 two dense layers on [N, 3], 1 two inputs, 2 integers of a fixed
/// shape [2, 2], 3 a model whose rows are not samples.
const Graph& small_model(std::size_t number);

}  // namespace driftbound::fuzz

#pragma once

#include "driftbound/model/graph.hpp"

namespace driftbound::fuzz {

/// What the program does with a graph before it looks at numbers: validates it, cuts its inputs into samples, infers
/// shapes for several extents, plans its ops. Requires that whatever is accepted is consistent.
void study(const Graph& graph);

}  // namespace driftbound::fuzz

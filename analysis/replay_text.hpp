#pragma once

#include <string>
#include <string_view>

#include "analysis/report.hpp"

namespace driftbound::analysis {

/// The first layer, in graph order, in which a recorded run is not the run of its declared arithmetic (T-97); nullptr
/// where there is none, or nothing was made to compare with.
const LayerSummary* first_difference(const Comparison& comparison);

/// Whether a bound for sums in any order is exceeded somewhere.
bool exceeds_any_order(const Comparison& comparison);

/// What may have run where a bound that stands on the declared order is exceeded, and none for sums in any order.
std::string_view what_may_have_run(const Comparison& comparison);

/// Whether the run of the declared arithmetic was made beside the recorded one.
bool is_compared_with_replay(const Comparison& comparison);

/// Whether a recorded run is that of its declared arithmetic, and if not, from which layer on; empty where that is not
/// known.
std::string replay_text(const Report& report);

}  // namespace driftbound::analysis

#pragma once

#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// This library on this processor, now.
Provenance cpu_provenance();

}  // namespace driftbound

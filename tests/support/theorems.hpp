#pragma once

#include "bounds/rules.hpp"

/// The rules as they are, without a fault.
inline const driftbound::bounds::Rules& theorems() {
  return driftbound::bounds::default_rules();
}

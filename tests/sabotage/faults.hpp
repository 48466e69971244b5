#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bounds/kernels/row_kernels.hpp"
#include "faults/theorems.hpp"

namespace checks {

inline driftbound::Magnitude halved(driftbound::Magnitude m) {
  return driftbound::Magnitude(0.5) * m;
}

inline const driftbound::bounds::RowKernels& sound() {
  return driftbound::bounds::fastest_row_kernels();
}

/// A deliberate fault in one rule of the bounds, and a check that counts violations: none with the theorems, some
/// with the fault.
struct BoundFault {
  std::string name;
  std::function<void(Theorems&)> inject;
  std::function<std::int64_t()> check;
};

/// Faults in the rules that bound() uses.
std::vector<BoundFault> bound_faults();
/// Faults in the expansions that the adjoints use.
std::vector<BoundFault> linear_faults();
/// Faults in the bounds by two trajectories.
std::vector<BoundFault> trajectory_faults();
/// Faults in the bounds over boxes.
std::vector<BoundFault> box_faults();
/// Faults in the rounded shadow.
std::vector<BoundFault> narrow_faults();
/// Faults in runs of declared orders that are made again.
std::vector<BoundFault> replay_faults();
/// Faults in the bounds that leave rounding errors to chance.
std::vector<BoundFault> chance_faults();

}  // namespace checks

#pragma once

#include <string_view>
#include <vector>

#include "driftbound/num/interval.hpp"

namespace driftbound {

// Enclosures of a target from the rounded shadow (docs/theory.md T-76), and the verdict on its sign that they give.

/// Enclosures of a target, one entry per sample. They are computed from the inputs, without a run, and are subject to
/// the conditions of "rounded-shadow".
struct RunEnclosures {
  std::vector<Interval> runs;   ///< contains the target of every run of the arithmetic; the whole line if undecided
  std::vector<Interval> exact;  ///< contains the exact target
};

/// Whether the runs of an arithmetic compute the correct sign of a target.
enum class SignVerdict {
  right,  ///< every run has the sign of the exact target
  wrong,  ///< every run has the opposite sign
  open    ///< undecided; also where an enclosure contains 0
};
std::string_view name_of(SignVerdict verdict);

/// Returns the verdict that two enclosures prove: `runs` of the target of every run, `exact` of the exact target.
/// Guarantee: that of the enclosures, subject to the conditions of "rounded-shadow"
/// Source:    docs/theory.md T-76
SignVerdict sign_of_runs(const Interval& runs, const Interval& exact);

}  // namespace driftbound

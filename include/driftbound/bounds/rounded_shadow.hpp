#pragma once

#include <string_view>
#include <vector>

#include "driftbound/num/interval.hpp"

namespace driftbound {

/// What is known of one number of interest, sample by sample, without a run: on the conditions of "rounded-shadow".
struct RunEnclosures {
  std::vector<Interval> runs;   ///< holds it in every run of the arithmetic; the whole line where nothing is certain
  std::vector<Interval> exact;  ///< holds the exact one
};

/// Whether every run gives a number the sign that it has.
enum class SignVerdict {
  right,  ///< every run does
  wrong,  ///< no run does: each has the opposite sign
  open    ///< neither is certain; 0 has no sign
};
std::string_view name_of(SignVerdict verdict);

/// Guarantee: as the enclosures, on the conditions of "rounded-shadow"
/// Source:    docs/theory.md T-76
SignVerdict sign_of_runs(const Interval& runs, const Interval& exact);

}  // namespace driftbound

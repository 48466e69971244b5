#pragma once

#include <cstdint>

#include "driftbound/num/format.hpp"

/// The decisions of `num` on which soundness rests, as a table, so that a test can replace one of
/// them by a wrong one and see that the suite notices.
namespace driftbound::num {

struct Rules {
  /// round_to, value halfway between two neighbours: whether to take the one larger in magnitude.
  bool (*tie_goes_away)(bool significand_is_odd, Rounding rounding);
  /// The outward step of every directed operation (and so of Magnitude, Interval and Ball).
  double (*step_up)(double rounded);
  double (*step_down)(double rounded);
  /// The number of roundings that gamma and growth count for n.
  std::int64_t (*counted_roundings)(std::int64_t n);
};

const Rules& default_rules();

/// The rules in force, in every thread.
const Rules& rules();

/// Puts other rules in force, in every thread, until it is destroyed. For tests only.
class ScopedRules {
public:
  explicit ScopedRules(const Rules& replacement);
  ~ScopedRules();
  ScopedRules(const ScopedRules&) = delete;
  ScopedRules& operator=(const ScopedRules&) = delete;

private:
  Rules replacement_;
  const Rules* previous_;
};

}  // namespace driftbound::num

#include "num/rules.hpp"

#include <atomic>

#include "driftbound/num/directed.hpp"

namespace driftbound::num {
namespace {

bool tie_goes_away(bool significand_is_odd, Rounding rounding) {
  return rounding == Rounding::nearest_away || significand_is_odd;
}

std::int64_t counted_roundings(std::int64_t n) {
  return n;
}

constexpr Rules defaults{tie_goes_away, next_up, next_down, counted_roundings};

std::atomic<const Rules*> in_force{&defaults};

}  // namespace

const Rules& default_rules() {
  return defaults;
}

const Rules& rules() {
  return *in_force.load(std::memory_order_relaxed);
}

ScopedRules::ScopedRules(const Rules& replacement)
    : replacement_(replacement), previous_(in_force.exchange(&replacement_)) {}

ScopedRules::~ScopedRules() {
  in_force.store(previous_);
}

}  // namespace driftbound::num

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "driftbound/region/range.hpp"

namespace driftbound::region {

/// Ends a search where small parts of a box tell no more of f than the whole box does: all of them would be evaluated,
/// for nothing.
class Narrowing {
public:
  Narrowing(const RegionEvaluator& evaluator, const Boxes& whole) {
    const Ranges ranges = evaluator.ranges(whole);
    enough_ = (ranges.upper.at(0) - ranges.lower.at(0)) / 2.0;
  }

  /// Counts parts of one size. Where f has a sign, enough is known.
  void take(const Ranges& ranges) {
    for (std::size_t i = 0; i < ranges.size(); ++i)
      if (ranges.sign[i] == RegionSign::unknown && ranges.upper[i] - ranges.lower[i] >= enough_) ++wide_;
  }
  /// `all`: as many parts of this size as there are; the next ones are counted anew.
  /// Throws:    InvalidArgument where the parts are many, and most of them are hardly narrower than the whole
  void check(double all, std::string_view verb, std::string_view advice) {
    constexpr std::size_t many = std::size_t{1} << 15U;
    const std::size_t wide = wide_;
    wide_ = 0;
    if (wide < many || static_cast<double>(wide) < all / 2.0) return;
    throw InvalidArgument(
        fmt::format("{}: in {} of {:.0f} cells hardly more is known of the values than over the whole box: the network "
                    "oscillates within a cell, is too large there, or is 0; take a smaller box{}",
                    verb, wide, all, advice));
  }

private:
  double enough_ = 0.0;
  std::size_t wide_ = 0;
};

}  // namespace driftbound::region

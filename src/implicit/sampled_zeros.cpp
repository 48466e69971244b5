#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "driftbound/implicit/segment.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

[[noreturn]] void fail(const std::string& message) {
  throw InvalidArgument("samples of a segment: " + message);
}

void require(std::span<const double> t, std::span<const double> values, double within) {
  if (t.size() != values.size())
    fail("there are " + std::to_string(t.size()) + " numbers t and " + std::to_string(values.size()) + " values");
  for (std::size_t i = 0; i < t.size(); ++i) {
    const bool ascends = i == 0 ? t[i] >= 0.0 : t[i] > t[i - 1];
    if (!ascends || !(t[i] <= 1.0)) fail("t must ascend from 0 to 1, and does not at sample " + std::to_string(i));
    if (std::isnan(values[i])) fail("the value of sample " + std::to_string(i) + " is NaN, which has no sign");
  }
  if (!(within >= 0.0)) fail("gaps cannot be widened by a negative number");
}

/// Where a computed zero may have its exact one; ascending in both bounds.
std::vector<Interval> gaps_of(std::span<const double> t, std::span<const double> values, double within) {
  std::vector<Interval> gaps;
  const auto add = [&](std::size_t first, std::size_t last) {
    gaps.emplace_back(sub_down(t[first], within), add_up(t[last], within));
  };
  for (std::size_t i = 0; i < t.size();) {
    std::size_t end = i;
    while (end < t.size() && values[end] == 0.0) ++end;
    if (end > i)
      add(i > 0 ? i - 1 : 0, std::min(end, t.size() - 1));
    else if (i + 1 < t.size() && values[i + 1] != 0.0 && (values[i] < 0.0) != (values[i + 1] < 0.0))
      add(i, i + 1);
    i = std::max(end, i + 1);
  }
  return gaps;
}

bool meet(const Interval& a, const Interval& b) {
  return a.lower() <= b.upper() && b.lower() <= a.upper();
}

}  // namespace

SampledZeros compare_with_sampled(const SegmentZeros& zeros, std::span<const double> t, std::span<const double> values,
                                  double within) {
  require(t, values, within);
  SampledZeros result;
  std::size_t next = 0;  // everything before is in a pair, or ends before all gaps to come
  for (const Interval& gap : gaps_of(t, values, within)) {
    ++result.computed;
    while (next < zeros.zeros.size() && zeros.zeros[next].t.upper() < gap.lower()) ++next;
    const bool is_matched = next < zeros.zeros.size() && meet(zeros.zeros[next].t, gap);
    const bool is_open =
        std::any_of(zeros.stretches.begin(), zeros.stretches.end(), [&](const Interval& s) { return meet(s, gap); }) ||
        std::any_of(zeros.unresolved.begin(), zeros.unresolved.end(),
                    [&](const UnresolvedPiece& piece) { return meet(piece.t, gap); });
    if (is_matched) ++next;
    result.matched += is_matched ? 1 : 0;
    result.undecidable += !is_matched && is_open ? 1 : 0;
    result.spurious += !is_matched && !is_open ? 1 : 0;
  }
  result.missed = static_cast<std::int64_t>(zeros.zeros.size()) - result.matched;
  return result;
}

}  // namespace driftbound

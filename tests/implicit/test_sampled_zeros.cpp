#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "driftbound/implicit/segment.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"

using namespace driftbound;

namespace {

SegmentZeros zeros_at(const std::vector<Interval>& intervals) {
  SegmentZeros zeros;
  for (const Interval& t : intervals) zeros.zeros.push_back({t, Crossing::rising});
  return zeros;
}

bool is(const SampledZeros& found, std::int64_t computed, std::int64_t matched, std::int64_t spurious,
        std::int64_t missed) {
  CAPTURE(found.computed);
  CAPTURE(found.matched);
  CAPTURE(found.spurious);
  CAPTURE(found.missed);
  const bool counts =
      found.computed == computed && found.matched == matched && found.spurious == spurious && found.missed == missed;
  CHECK(counts);
  return counts;
}

const std::vector<double> t = {0.0, 0.25, 0.5, 0.75, 1.0};

/// As many pairs of gaps and zeros as there are, by augmenting paths.
class Pairing {
public:
  Pairing(const std::vector<Interval>& gaps, const std::vector<Interval>& zeros) : gaps_(gaps), zeros_(zeros) {}
  std::int64_t operator()() {
    gap_of_zero_.assign(zeros_.size(), gaps_.size());
    std::int64_t pairs = 0;
    for (std::size_t gap = 0; gap < gaps_.size(); ++gap) {
      seen_.assign(zeros_.size(), false);
      pairs += pair(gap) ? 1 : 0;
    }
    return pairs;
  }

private:
  bool pair(std::size_t gap) {
    for (std::size_t zero = 0; zero < zeros_.size(); ++zero) {
      const bool meet = zeros_[zero].lower() <= gaps_[gap].upper() && gaps_[gap].lower() <= zeros_[zero].upper();
      if (!meet || seen_[zero]) continue;
      seen_[zero] = true;
      if (gap_of_zero_[zero] < gaps_.size() && !pair(gap_of_zero_[zero])) continue;
      gap_of_zero_[zero] = gap;
      return true;
    }
    return false;
  }
  const std::vector<Interval>&gaps_, &zeros_;
  std::vector<std::size_t> gap_of_zero_;
  std::vector<bool> seen_;
};

}  // namespace

TEST_CASE("a computed zero is a change of sign between neighbours, or a run of zeros with both its neighbours") {
  const SegmentZeros one = zeros_at({Interval(0.3)});
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, 1.0, 1.0, 1.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, 1.0, 1.0, 1.0, 1.0}), 1, 0, 1, 1));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, 1.0, -1.0, 1.0}), 3, 1, 2, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, -1.0, -1.0, -1.0}), 0, 0, 0, 1));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, 0.0, -0.0, 1.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{1.0, 0.0, 0.0, 1.0, 1.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{0.0, 0.0, 0.0, 0.0, 0.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{-5e-324, 5e-324, 1.0, 1.0, 1.0}), 1, 0, 1, 1));
}

TEST_CASE("a zero at a sample belongs to either of its gaps, and to one computed zero only") {
  const SegmentZeros one = zeros_at({Interval(0.5)});
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, 1.0, 1.0, 1.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, -1.0, 1.0, 1.0}), 1, 1, 0, 0));
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, -1.0, 1.0, -1.0, -1.0}), 2, 1, 1, 0));
}

TEST_CASE("several exact zeros in one gap are one found and the others missed; gaps can be widened") {
  const SegmentZeros three = zeros_at({Interval(0.3), Interval(0.35), Interval(0.4)});
  CHECK(is(compare_with_sampled(three, t, std::vector{-1.0, -1.0, 1.0, 1.0, 1.0}), 1, 1, 0, 2));
  const SegmentZeros one = zeros_at({Interval(0.3)});
  CHECK(is(compare_with_sampled(one, t, std::vector{-1.0, 1.0, 1.0, 1.0, 1.0}, 0.1), 1, 1, 0, 0));
}

TEST_CASE("computed zeros in what is not resolved are not called false") {
  SegmentZeros zeros = zeros_at({});
  zeros.unresolved.push_back({Interval(0.6, 0.7), Sign::positive, Sign::positive, false, false});
  zeros.stretches.emplace_back(0.8, 1.0);
  const SampledZeros found = compare_with_sampled(zeros, t, std::vector{-1.0, 1.0, 1.0, -1.0, 1.0});
  CHECK(found.computed == 3);
  CHECK(found.spurious == 1);
  CHECK(found.undecidable == 2);
}

TEST_CASE("no other pairing has more pairs") {
  std::mt19937_64 generator(1);
  for (int repetition = 0; repetition < 2000; ++repetition) {
    std::vector<double> samples, values;
    for (int i = 0; i <= 16; ++i) {
      samples.push_back(i / 16.0);
      values.push_back(static_cast<double>(generator() % 3) - 1.0);
    }
    std::vector<double> places;
    for (int i = 0; i < 5; ++i) places.push_back(static_cast<double>(generator() % 129) / 128.0);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    const std::vector<Interval> zeros(places.begin(), places.end());
    const double within = static_cast<double>(generator() % 3) / 16.0;
    std::vector<Interval> gaps;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool starts = values[i] == 0.0 && (i == 0 || values[i - 1] != 0.0);
      if (starts) {
        std::size_t end = i;
        while (end + 1 < values.size() && values[end] == 0.0) ++end;
        gaps.emplace_back(samples[i == 0 ? 0 : i - 1] - within, samples[end] + within);
      } else if (i + 1 < values.size() && values[i] * values[i + 1] < 0.0) {
        gaps.emplace_back(samples[i] - within, samples[i + 1] + within);
      }
    }
    const SampledZeros found = compare_with_sampled(zeros_at(zeros), samples, values, within);
    CHECK(found.computed == static_cast<std::int64_t>(gaps.size()));
    CHECK(found.matched + found.spurious + found.undecidable == found.computed);
    CHECK(found.matched + found.missed == static_cast<std::int64_t>(zeros.size()));
    CHECK_EXACT("T-123", found.matched == Pairing(gaps, zeros)());
  }
}

TEST_CASE("samples that are no samples are refused") {
  const SegmentZeros zeros = zeros_at({});
  const std::vector<double> ones(5, 1.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(compare_with_sampled(zeros, t, std::vector{1.0}), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, std::vector{0.0, 0.5, 0.5, 0.75, 1.0}, ones), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, std::vector{-0.1, 0.25, 0.5, 0.75, 1.0}, ones), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, std::vector{0.0, 0.25, 0.5, 0.75, 1.1}, ones), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, std::vector{0.0, 0.25, nan, 0.75, 1.0}, ones), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, t, std::vector{1.0, 1.0, nan, 1.0, 1.0}), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, t, ones, -1.0), InvalidArgument);
  CHECK_THROWS_AS(compare_with_sampled(zeros, t, ones, nan), InvalidArgument);
  CHECK(compare_with_sampled(zeros, {}, {}).computed == 0);
}

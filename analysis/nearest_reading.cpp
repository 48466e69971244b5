#include "analysis/nearest_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "driftbound/num/directed.hpp"

namespace driftbound::analysis {
namespace {

/// A reading differs from the nearest one by less than that leaves unexplained where its squares are up to twice those.
constexpr double alike = 2.0;

ReadingPair pair_of(const ReadingEvidence& evidence) {
  return {evidence.left, evidence.right, evidence.variant};
}

bool reads_both_alike(const ReadingEvidence& one) {
  return one.left == one.right;
}

/// The pairs that are alike to the nearest one, those that read both operands alike first.
std::vector<const ReadingEvidence*> nearest_pairs(const ReadingTest& test) {
  const auto nearest = std::min_element(test.pairs.begin(), test.pairs.end(),
                                        [](const auto& a, const auto& b) { return a.squares < b.squares; });
  std::vector<const ReadingEvidence*> pairs;
  for (const bool both_alike : {true, false})
    for (const ReadingEvidence& one : test.pairs)
      if (one.squares <= alike * nearest->squares && reads_both_alike(one) == both_alike) pairs.push_back(&one);
  return pairs;
}

/// Others that are alike, of those that read both operands alike as the first one does or does not. What is no
/// narrower than the accumulator is left out.
std::vector<ReadingPair> alike_pairs(const std::vector<const ReadingEvidence*>& pairs) {
  std::vector<ReadingPair> others;
  for (const ReadingEvidence* one : pairs) {
    const bool is_wide = one->left == OperandReading::fp32 || one->right == OperandReading::fp32;
    if (one == pairs.front() || is_wide || reads_both_alike(*one) != reads_both_alike(*pairs.front())) continue;
    others.push_back(pair_of(*one));
  }
  return others;
}

}  // namespace

NearestReading nearest_reading(const ReadingTest& test, std::int64_t products, double failure_probability) {
  const ReadingEvidence* declared = nullptr;
  for (const ReadingEvidence& one : test.pairs)
    if (one.is_declared && (!declared || one.squares < declared->squares)) declared = &one;
  const std::vector<const ReadingEvidence*> nearest_ones = nearest_pairs(test);
  NearestReading result;
  result.elements = test.elements;
  result.is_declared = declared->squares <= alike * nearest_ones.front()->squares ||
                       std::find(nearest_ones.begin(), nearest_ones.end(), declared) != nearest_ones.end();
  const ReadingEvidence* nearest = result.is_declared ? declared : nearest_ones.front();
  const ReadingEvidence* other = declared;
  if (result.is_declared)
    for (const ReadingEvidence& one : test.pairs)
      if (one.squares > alike * nearest->squares && (other == declared || one.squares < other->squares)) other = &one;
  if (!result.is_declared) result.alike = alike_pairs(nearest_ones);
  result.nearest = pair_of(*nearest);
  result.other = pair_of(*other);
  result.ratio = other->squares == nearest->squares ? 1.0 : std::sqrt(other->squares / nearest->squares);
  if (result.is_declared || !test.is_modelled) return result;
  const double statements = static_cast<double>(products) * static_cast<double>(test.pairs.size());
  result.false_alarm = std::min(1.0, mul_up(statements, chance_of_agreement(*nearest)));
  result.is_decisive = result.false_alarm <= failure_probability;
  return result;
}

std::string to_string(const ReadingPair& pair) {
  if (!pair.variant.empty()) return pair.variant;
  const std::string left(name_of(pair.left)), right(name_of(pair.right));
  return left == right ? left : left + " and " + right;
}

std::string describe(const NearestReading& reading) {
  const std::string times =
      reading.ratio < 100.0 ? fmt::format("{:.2g}", reading.ratio) : fmt::format("{:.0f}", reading.ratio);
  std::string others;
  for (const ReadingPair& pair : reading.alike) others += (others.empty() ? " (or " : ", ") + to_string(pair);
  if (!others.empty()) others += ")";
  const bool is_variant = !reading.nearest.variant.empty() || !reading.other.variant.empty();
  if (is_variant)
    return fmt::format("computed as another op: {}{}, {} times nearer than the recorded one",
                       to_string(reading.nearest), others, times);
  return fmt::format("operands read as {}{}, {} times nearer than {}", to_string(reading.nearest), others, times,
                     to_string(reading.other));
}

}  // namespace driftbound::analysis

#include "evaluate/probe/arithmetic_probe.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "driftbound/num/errors.hpp"
#include "evaluate/probe/reading.hpp"

namespace driftbound::probe {
namespace {

constexpr int most_bits = 60;  ///< behind the leading one that are looked at

/// The base next to which small numbers are put: 1, or half of the largest power of two of the narrow range of operands or
/// results, so that twice the base is a number of these, too.
int base_exponent(const ProbedClass& probed) {
  const int highest = std::min(probed.reading.highest_power, format(probed.result.format).max_exponent);
  return highest > 100 ? 0 : highest - 1;
}

/// Bits behind that of the base that operands and results can hold.
int bits_behind(const ProbedClass& probed) {
  const int lowest = std::max(probed.reading.lowest_power, lowest_power_of(probed.result));
  return std::min(most_bits, base_exponent(probed) - lowest);
}

double in_units(float x, int unit_exponent) {
  return std::ldexp(static_cast<double>(x), -unit_exponent);
}

float power(int exponent) {
  return std::ldexp(1.0F, exponent);
}

/// How many of the numbers base 2^-1, base 2^-2, … come back one after the other.
int bits_returned(Caller& caller, const ProbedClass& probed, const std::vector<SumProbe>& probes, bool has_base) {
  const int base = base_exponent(probed);
  const std::vector<float> results = run_finite_probes(caller, probed.lanes, probes);
  int kept = 0;
  for (const float result : results) {
    const double expected = (has_base ? 1.0 : 0.0) + std::ldexp(1.0, -kept - 1);
    if (in_units(result, base) != expected) break;
    ++kept;
  }
  return kept;
}

/// Bits of base + small that stay: the base is taken away again by a product outside of the node, where there is one.
int precision_of_sum(Caller& caller, const ProbedClass& probed, const TreeIndex& index, std::int64_t node) {
  const int base = base_exponent(probed);
  const std::vector<std::int64_t>& children = index.children(node);
  const std::optional<std::int64_t> outside = index.product_outside(node);
  std::vector<SumProbe> probes;
  for (int t = 1; t <= bits_behind(probed); ++t) {
    SumProbe probe{
        {{index.first_product(children[0]), power(base)}, {index.first_product(children[1]), power(base - t)}}};
    if (outside) probe.at.emplace_back(*outside, -power(base));
    probes.push_back(std::move(probe));
  }
  return 1 + bits_returned(caller, probed, probes, !outside.has_value());
}

/// The results of whole + 3/2 units, whole + 1/2 unit, and their negatives, where `wholes` add up to the whole and the
/// last products of `parts` hold the units; in units, without the whole.
std::array<double, 4> rounded_sums(Caller& caller, const ProbedClass& probed, const TreeIndex& index, std::int64_t node,
                                   const std::vector<std::int64_t>& wholes, const std::vector<std::int64_t>& parts,
                                   int unit) {
  const int base = base_exponent(probed);
  const std::optional<std::int64_t> outside = index.product_outside(node);
  const float whole = static_cast<float>(wholes.size()) * power(base);
  std::vector<SumProbe> probes;
  for (const float sign : {1.0F, -1.0F})
    for (const bool is_above : {true, false}) {
      SumProbe probe;
      for (const std::int64_t product : wholes) probe.at.emplace_back(product, sign * power(base));
      if (parts.size() == 1) {
        probe.at.emplace_back(parts[0], sign * (is_above ? 1.5F : 0.5F) * power(unit));
      } else {
        if (is_above) probe.at.emplace_back(parts[0], sign * power(unit));
        probe.at.emplace_back(parts[1], sign * power(unit - 1));
      }
      if (outside) probe.at.emplace_back(*outside, -sign * whole);
      probes.push_back(std::move(probe));
    }
  const std::vector<float> results = run_finite_probes(caller, probed.lanes, probes);
  std::array<double, 4> units{};
  for (std::size_t i = 0; i < units.size(); ++i) {
    const float taken = outside ? 0.0F : (i < 2 ? whole : -whole);
    units[i] = in_units(results[i] - taken, unit);
  }
  return units;
}

/// The first node of some kind, one with products outside of it if there is such.
template <class Predicate>
std::optional<std::int64_t> node_where(const TreeIndex& index, const Predicate& is_wanted) {
  std::optional<std::int64_t> found;
  for (std::int64_t t = 0; t < std::ssize(index.tree().nodes); ++t) {
    const std::int64_t node = index.tree().leaves + t;
    if (!is_wanted(node)) continue;
    if (index.parent(node) >= 0) return node;
    found = node;
  }
  return found;
}

std::vector<std::int64_t> products_first(const TreeIndex& index, std::int64_t node) {
  std::vector<std::int64_t> children = index.children(node);
  std::stable_partition(children.begin(), children.end(), [&](std::int64_t child) { return index.is_product(child); });
  for (std::int64_t& child : children) child = index.first_product(child);
  return children;
}

std::int64_t products_of(const TreeIndex& index, std::int64_t node) {
  const std::vector<std::int64_t>& children = index.children(node);
  return std::count_if(children.begin(), children.end(), [&](std::int64_t child) { return index.is_product(child); });
}

/// How far behind the largest of three addends, which two others cancel, a number is not cut off.
std::optional<int> fraction_bits_of(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                    std::int64_t node) {
  const int base = base_exponent(probed);
  const std::vector<std::int64_t> products = products_first(index, node);
  std::vector<SumProbe> probes;
  for (int t = 1; t <= bits_behind(probed); ++t)
    probes.push_back({{{products[0], power(base)}, {products[1], -power(base)}, {products[2], power(base - t)}}});
  const int kept = bits_returned(caller, probed, probes, false);
  return kept == bits_behind(probed) ? std::nullopt : std::optional(kept);
}

/// A step may have cut off what is behind the unit of its largest addend: two of these carry into the next bit.
std::optional<Rounding> rounding_of_step(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                         std::int64_t node, int precision) {
  const std::vector<std::int64_t> products = products_first(index, node);
  if (products.size() < 4) return std::nullopt;
  const int unit = base_exponent(probed) + 2 - precision;
  return rounding_with(
      rounded_sums(caller, probed, index, node, {products[0], products[1]}, {products[2], products[3]}, unit));
}

/// The products that a node adds to one other number, and the first product of that.
std::vector<std::pair<std::int64_t, std::int64_t>> products_with_siblings(const TreeIndex& index) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t k = 0; k < index.tree().leaves && index.tree().leaves > 1; ++k) {
    const std::vector<std::int64_t>& siblings = index.children(index.parent(k));
    if (siblings.size() != 2) continue;
    pairs.emplace_back(k, index.first_product(siblings[0] == k ? siblings[1] : siblings[0]));
  }
  return pairs;
}

/// How the sum of a node that adds two numbers is rounded.
SumRounding rounding_at(Caller& caller, const ProbedClass& probed, const TreeIndex& index, std::int64_t node) {
  SumRounding sums;
  sums.precision = precision_of_sum(caller, probed, index, node);
  const bool keeps_all = sums.precision > bits_behind(probed);
  if (keeps_all && sums.precision < 24) return {24, std::nullopt, true};
  const std::vector<std::int64_t>& children = index.children(node);
  const int unit = base_exponent(probed) + 1 - sums.precision;
  if (unit > probed.reading.lowest_power)
    sums.rounding = rounding_with(rounded_sums(caller, probed, index, node, {index.first_product(children[0])},
                                               {index.first_product(children[1])}, unit));
  return sums;
}

}  // namespace

bool is_step(const TreeIndex& index, std::int64_t node, bool tree_has_steps) {
  const std::vector<std::int64_t>& children = index.children(node);
  return children.size() > 2 || (tree_has_steps && products_of(index, node) > 0);
}

int lowest_power_of(const ProbedResult& result) {
  const Format& f = format(result.format);
  return f.min_exponent - f.precision + 1;
}

std::vector<bool> find_rounded_parts(Caller& caller, const ProbedClass& probed, const TreeIndex& index) {
  constexpr int bit = 11;  // behind the first one: of float32, of steps of all units known, not of bf16 or fp16
  if (bits_behind(probed) < bit) return {};
  const int base = base_exponent(probed);
  std::vector<SumProbe> probes;
  std::vector<std::size_t> asked;
  for (std::size_t t = 0; t < index.tree().nodes.size(); ++t) {
    const std::int64_t node = index.tree().leaves + static_cast<std::int64_t>(t);
    const std::optional<std::int64_t> outside = index.product_outside(node);
    if (!outside) continue;
    const std::vector<std::int64_t>& children = index.children(node);
    probes.push_back({{{index.first_product(children[0]), power(base)},
                       {index.first_product(children[1]), power(base - bit)},
                       {*outside, -power(base)}}});
    asked.push_back(t);
  }
  const std::vector<float> results = run_finite_probes(caller, probed.lanes, probes);
  std::vector<bool> rounded(index.tree().nodes.size(), false);
  bool is_any = false;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    rounded[asked[i]] = results[i] == 0.0F;
    is_any = is_any || rounded[asked[i]];
  }
  return is_any ? rounded : std::vector<bool>();
}

SumRounding find_parts(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                       const std::vector<bool>& rounded) {
  const auto first = std::find(rounded.begin(), rounded.end(), true);
  return rounding_at(caller, probed, index, index.tree().leaves + (first - rounded.begin()));
}

std::optional<SumRounding> find_additions(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                          const std::vector<bool>& rounded) {
  const bool has_steps = !index.tree().is_binary();
  const auto is_addition = [&](std::int64_t id) { return !is_step(index, id, has_steps); };
  const auto is_rounded = [&](std::int64_t id) {
    return !rounded.empty() && rounded[static_cast<std::size_t>(id - index.tree().leaves)];
  };
  auto node = node_where(index, [&](std::int64_t id) { return is_addition(id) && !is_rounded(id); });
  // Of the last node nothing is seen behind the rounding of results: what the others do is said in its place.
  if (!node || (probed.result.is_narrow() && index.parent(*node) < 0)) node = node_where(index, is_addition);
  if (!node) return std::nullopt;
  if (probed.result.is_narrow() && index.parent(*node) < 0) return SumRounding{24, std::nullopt, true};
  return rounding_at(caller, probed, index, *node);
}

std::vector<bool> find_rounded_products(Caller& caller, const ProbedClass& probed, const TreeIndex& index,
                                        int precision) {
  const bool has_bits = probed.reading.precision >= precision && bits_behind(probed) >= precision;
  if (!caller.has_right_operand() || !probed.lanes.across.empty() || !has_bits) return {};
  // 3/2 (1 + 2^(1-p)) has one bit more than p. The next product takes 3/2 away.
  const float last = power(1 - precision);
  std::vector<SumProbe> probes;
  for (const auto& [product, sibling] : products_with_siblings(index))
    probes.push_back({{{product, 1.0F + last}, {sibling, -1.0F}}});
  const std::vector<float> results = run_finite_probes(caller, probed.lanes, probes, 1.5F);
  std::vector<bool> rounded(static_cast<std::size_t>(index.tree().leaves), false);
  bool is_any = false;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const bool is_rounded = results[i] != 1.5F * last;
    rounded[static_cast<std::size_t>(probes[i].at[0].first)] = is_rounded;
    is_any = is_any || is_rounded;
  }
  return is_any ? rounded : std::vector<bool>();
}

std::optional<StepArithmetic> find_steps(Caller& caller, const ProbedClass& probed, const TreeIndex& index) {
  const auto has_width = [&](std::size_t width) {
    return node_where(index, [&](std::int64_t id) { return index.children(id).size() >= width; });
  };
  const auto node = has_width(3);
  if (!node) return std::nullopt;
  StepArithmetic steps;
  steps.block = index.tree().products_at_once();
  steps.visible_bits = bits_behind(probed);
  steps.fraction_bits = fraction_bits_of(caller, probed, index, *node);
  steps.sums.is_hidden = probed.result.is_narrow() && index.parent(*node) < 0;
  if (steps.sums.is_hidden) return steps;
  steps.sums.precision = precision_of_sum(caller, probed, index, *node);
  // A step before another one loses bits of its sum there: of few bits only a last step tells.
  constexpr int of_float = 24;
  const auto last = node_where(index, [&](std::int64_t id) {
    const bool is_result = index.parent(id) < 0;
    if (is_result && probed.result.is_narrow()) return false;
    return index.children(id).size() >= 4 && (is_result || !is_step(index, index.parent(id), true));
  });
  const bool has_few_bits = steps.sums.precision < of_float;
  if (const auto wide = last || has_few_bits ? last : has_width(4))
    steps.sums.rounding = rounding_of_step(caller, probed, index, *wide, steps.sums.precision);
  else
    steps.sums.is_hidden = has_few_bits && probed.result.is_narrow();
  return steps;
}

std::optional<bool> find_subnormal_results(Caller& caller, const ProbedClass& probed) {
  constexpr int subnormal = -140, half = -70;
  if (probed.result.is_narrow()) return std::nullopt;
  if (!caller.has_right_operand())
    return run_finite_probes(caller, probed.lanes, {{{{0, power(subnormal)}}}})[0] == power(subnormal);
  if (probed.reading.highest_power < 100) return std::nullopt;
  return run_finite_probes(caller, probed.lanes, {{{{0, power(half)}}}}, power(half))[0] == power(subnormal);
}

std::vector<bool> find_fused(Caller& caller, const ProbedClass& probed, const TreeIndex& index) {
  const SummationTree& tree = index.tree();
  if (!caller.has_right_operand() || probed.reading.precision < 24) return {};
  std::vector<bool> fused(static_cast<std::size_t>(tree.leaves), false);
  if (tree.leaves < 2) return fused;
  // The square of this number is x + 2^-24, where x is a float32: a fused multiply-add keeps the 2^-24.
  const float number = 1.0F + power(-12);
  const float lost = power(-24);
  std::vector<SumProbe> probes;
  for (const auto& [product, sibling] : products_with_siblings(index))
    probes.push_back({{{product, number}, {sibling, -number}}});
  const std::vector<float> results = run_finite_probes(caller, probed.lanes, probes, number);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (results[i] != 0.0F && results[i] != lost && results[i] != -lost)
      throw Unsupported("probe: two products that cancel leave " + std::to_string(results[i]) + " (" + caller.place() +
                        "), which neither rounded products nor fused multiply-adds do");
    fused[static_cast<std::size_t>(probes[i].at[0].first)] = results[i] == lost;
  }
  return fused;
}

}  // namespace driftbound::probe

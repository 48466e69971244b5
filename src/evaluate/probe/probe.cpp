#include "driftbound/evaluate/probe.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "driftbound/model/graph.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/probe/arithmetic_probe.hpp"
#include "evaluate/probe/caller.hpp"
#include "evaluate/probe/mask_search.hpp"
#include "evaluate/probe/reading.hpp"
#include "evaluate/probe/tree_run.hpp"

namespace driftbound {
namespace probe {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

/// What a mask is made of.
struct MaskNumbers {
  float large = 0.0F, unit = 0.0F;
};

/// The first for all pairs, the others for some.
std::vector<MaskNumbers> mask_numbers(const ProbedReading& reading) {
  if (reading.highest_power > 100) return {{0x1p127F, 1.0F}, {-0x1p100F, 2.0F}};
  const float large = std::ldexp(1.0F, reading.highest_power), unit = std::ldexp(1.0F, reading.lowest_power);
  return {{large, unit}, {-large, unit}};
}

/// Numbers of both signs over eight binades, with all bits of a float32.
class RandomNumbers {
public:
  explicit RandomNumbers(std::uint64_t seed) : draw_(seed) {}
  std::vector<float> operator()(std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& x : numbers) {
      const std::uint64_t bits = draw_();
      const double within = static_cast<double>(bits >> 11) * 0x1p-53;
      x = static_cast<float>(std::ldexp(2.0 * within - 1.0, static_cast<int>(bits % 8) - 4));
    }
    return numbers;
  }

private:
  std::mt19937_64 draw_;
};

std::vector<float> repeated_rows(const std::vector<float>& row, std::int64_t count) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < count; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<float> repeated_columns(const std::vector<float>& column, std::int64_t count) {
  std::vector<float> all;
  for (const float x : column) all.insert(all.end(), static_cast<std::size_t>(count), x);
  return all;
}

/// Elements of the result, by their row-major places.
using Elements = std::vector<std::int64_t>;

class Prober {
public:
  Prober(Caller& caller, const ProbeOptions& options) : caller_(caller), options_(options), random_(options.seed) {}

  ProbeFindings run() {
    findings_.shape = caller_.shape();
    constexpr std::int64_t most_counted = std::int64_t{1} << 24;
    if (shape().k > most_counted)
      throw Unsupported(
          "probe: k = " + std::to_string(shape().k) +
          " is too large to reveal: results in float32 count no more than 2^24 products; probe a smaller k");
    const std::vector<float> results = same_results();
    const ProbedResult result = findings_.result = find_result(caller_, every_row(), results);
    findings_.left = read_operand(caller_, every_row(), result);
    findings_.right = caller_.has_right_operand() ? read_operand(caller_, every_column(), result) : ProbedReading();
    const std::vector<Elements> classes = classes_of_elements();
    for (std::size_t i = 0; i < classes.size(); ++i) findings_.classes.push_back(probe_class(classes[i], i == 0));
    verify(classes);
    findings_.order = order_of(findings_.tree(), options_.expected);
    findings_.calls = caller_.calls();
    return std::move(findings_);
  }

private:
  const ProductShape& shape() const { return caller_.shape(); }
  std::vector<float> ones_or(std::vector<float> b) const {
    return caller_.has_right_operand() ? std::move(b) : std::vector<float>(b.size(), 1.0F);
  }

  static Lanes all_of(bool along_rows, std::int64_t count) {
    Lanes lanes{along_rows, 0, Elements(static_cast<std::size_t>(count))};
    std::iota(lanes.where.begin(), lanes.where.end(), 0);
    return lanes;
  }
  Lanes every_row() const { return all_of(true, shape().m); }
  Lanes every_column() const { return all_of(false, shape().n); }

  /// Of two calls with the same random numbers.
  std::vector<float> same_results() {
    const std::vector<float> a = random_(shape().m * shape().k), b = ones_or(random_(shape().k * shape().n));
    const std::vector<float> first = caller_.finite(a, b), second = caller_.finite(a, b);
    for (std::size_t i = 0; i < first.size(); ++i)
      if (std::bit_cast<std::uint32_t>(first[i]) != std::bit_cast<std::uint32_t>(second[i]))
        throw Unsupported("probe: two calls with the same numbers differ at element " + std::to_string(i) +
                          ": the kernel's order changes from call to call; probe --determinism N says how often");
    return first;
  }

  /// Elements that have the same bits wherever rows and columns are the same, the largest class first.
  std::vector<Elements> classes_of_elements() {
    constexpr int rounds = 12;
    std::vector<std::uint64_t> marks(static_cast<std::size_t>(shape().m * shape().n), 0);
    for (int round = 0; round < rounds; ++round) {
      const std::vector<float> a = repeated_rows(random_(shape().k), shape().m);
      const std::vector<float> b = ones_or(repeated_columns(random_(shape().k), shape().n));
      const std::vector<float> c = caller_.finite(a, b);
      for (std::size_t i = 0; i < c.size(); ++i)
        marks[i] = (marks[i] ^ std::bit_cast<std::uint32_t>(c[i])) * 0x9E3779B97F4A7C15U + (marks[i] >> 29);
    }
    std::map<std::uint64_t, Elements> by_mark;
    for (std::size_t i = 0; i < marks.size(); ++i) by_mark[marks[i]].push_back(static_cast<std::int64_t>(i));
    std::vector<Elements> classes;
    for (auto& [mark, elements] : by_mark) classes.push_back(std::move(elements));
    std::stable_sort(classes.begin(), classes.end(), [](const Elements& a, const Elements& b) {
      return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
    });
    return classes;
  }

  /// The column with the most elements of a class, or the row where that has more.
  Lanes lanes_of(const Elements& elements) const {
    std::map<std::int64_t, Elements> by_column, by_row;
    for (const std::int64_t element : elements) {
      by_column[element % shape().n].push_back(element / shape().n);
      by_row[element / shape().n].push_back(element % shape().n);
    }
    const auto longest = [](const std::map<std::int64_t, Elements>& lines) {
      return std::max_element(lines.begin(), lines.end(),
                              [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    };
    const auto column = longest(by_column), row = longest(by_row);
    if (!caller_.has_right_operand() || column->second.size() >= row->second.size())
      return {true, column->first, column->second};
    return {false, row->first, row->second};
  }

  /// Elements of which no two share a row or a column.
  Lanes lanes_across(const Elements& elements) const {
    Lanes lanes;
    std::vector<char> row_used(static_cast<std::size_t>(shape().m)), column_used(static_cast<std::size_t>(shape().n));
    for (const std::int64_t element : elements) {
      const std::int64_t row = element / shape().n, column = element % shape().n;
      char& in_row = row_used[static_cast<std::size_t>(row)];
      char& in_column = column_used[static_cast<std::size_t>(column)];
      if (in_row != 0 || in_column != 0) continue;
      in_row = in_column = 1;
      lanes.where.push_back(row);
      lanes.across.push_back(column);
    }
    lanes.highest_left = findings_.left.highest_power;
    lanes.lowest_right = findings_.right.lowest_power;
    return lanes;
  }

  /// Whether numbers of this range can mask all products: sums of 24 bits lose all units next to M.
  bool has_wide_range(const ProbedReading& reading) const {
    const MaskNumbers numbers = mask_numbers(reading)[0];
    return static_cast<double>(numbers.large) >=
           static_cast<double>(shape().k) * 0x1p25 * static_cast<double>(numbers.unit);
  }

  /// Where one operand has too few powers of two for masks, both hold a part of every number.
  ProbedClass class_to_probe(const Elements& elements) const {
    Lanes lanes = lanes_of(elements);
    const ProbedReading& reading = lanes.along_rows ? findings_.left : findings_.right;
    if (has_wide_range(reading) || !caller_.has_right_operand()) return {std::move(lanes), reading, findings_.result};
    ProbedReading of_both = findings_.left;
    of_both.highest_power += findings_.right.highest_power;
    of_both.lowest_power =
        std::max(of_both.lowest_power + findings_.right.lowest_power, lowest_power_of(findings_.result));
    return {lanes_across(elements), of_both, findings_.result};
  }

  ElementClass probe_class(const Elements& elements, bool is_largest) {
    ElementClass found;
    found.elements = std::ssize(elements);
    found.first_row = elements.front() / shape().n;
    found.first_column = elements.front() % shape().n;
    if (std::ssize(findings_.classes) >= options_.classes) {
      found.reason = "not looked for: there are more than " + std::to_string(options_.classes) + " classes";
      return found;
    }
    const ProbedClass probed = class_to_probe(elements);
    try {
      TreeIndex index(tree_by_masks(probed));
      SummationTree tree = index.tree();
      tree.fused = find_fused(caller_, probed, index);
      found.rounded_parts = find_rounded_parts(caller_, probed, index);
      if (is_largest) probe_arithmetic(probed, index, found.rounded_parts);
      leave_out_additions(index, found.rounded_parts);
      if (is_largest && found.rounded_parts.empty()) findings_.parts.reset();
      const bool are_narrow = findings_.additions && findings_.additions->precision < 24;
      if (are_narrow && !findings_.steps)
        found.rounded_products = find_rounded_products(caller_, probed, index, findings_.additions->precision);
      if (const std::optional<MaskNumbers> numbers = moderate_numbers(probed.reading))
        require_other_masks_agree(probed, *numbers, tree);
      found.tree = std::move(tree);
    } catch (const Unsupported& error) {
      if (is_largest) throw;
      found.reason = error.what();
    }
    return found;
  }

  void probe_arithmetic(const ProbedClass& probed, const TreeIndex& index, const std::vector<bool>& rounded) {
    findings_.additions = find_additions(caller_, probed, index, rounded);
    findings_.steps = find_steps(caller_, probed, index);
    if (!rounded.empty()) findings_.parts = find_parts(caller_, probed, index, rounded);
    if (rounded.empty()) findings_.keeps_subnormal_results = find_subnormal_results(caller_, probed);
  }

  /// Additions that are all kept in the bits of parts round in this way, whether their sums are parts or not.
  void leave_out_additions(const TreeIndex& index, std::vector<bool>& rounded) {
    const bool are_alike =
        findings_.additions && findings_.parts && findings_.additions->precision == findings_.parts->precision;
    for (std::size_t t = 0; are_alike && t < rounded.size(); ++t)
      if (!is_step(index, index.tree().leaves + static_cast<std::int64_t>(t), !index.tree().is_binary()))
        rounded[t] = false;
    if (std::none_of(rounded.begin(), rounded.end(), [](bool is) { return is; })) rounded.clear();
  }

  /// M no larger than the sums found take to absorb k units, both about 1, as data is; empty: operands have too few powers of
  /// two for a choice, or steps cut nothing off.
  std::optional<MaskNumbers> moderate_numbers(const ProbedReading& reading) const {
    const std::optional<StepArithmetic>& steps = findings_.steps;
    if (reading.highest_power <= 100 || (steps && !steps->fraction_bits)) return std::nullopt;
    const int bits =
        std::max(findings_.additions ? findings_.additions->precision : 0, steps ? *steps->fraction_bits : 0);
    const int powers = std::max(bits, 24) + 2 + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(shape().k)));
    const int unit = std::max(-powers / 2, lowest_power_of(findings_.result));
    return MaskNumbers{std::ldexp(1.0F, unit + powers), std::ldexp(1.0F, unit)};
  }

  SummationTree tree_by_masks(const ProbedClass& probed) {
    require_wide_range(probed.reading);
    const std::vector<MaskNumbers> numbers = mask_numbers(probed.reading);
    const ProbedResult& result = findings_.result;
    const std::int64_t most = result.is_narrow() ? std::int64_t{1} << format(result.format).precision : shape().k;
    exact_units_ = std::min(shape().k, most);
    for (const MaskNumbers& one : numbers) find_exact_units(probed, one.unit);
    const std::int64_t first_call = caller_.calls();
    const SummationTree tree = find_tree(shape().k, [&](const std::vector<OpenPart>& parts) {
      const std::int64_t lanes = std::ssize(probed.lanes.where);
      std::int64_t masks = 0;
      for (const OpenPart& part : parts) masks += (std::ssize(part.members) - 1) * (is_counted_at_once(part) ? 1 : 2);
      require_few_calls(probed, caller_.calls() - first_call + (masks + lanes - 1) / lanes);
      return counts_in_parts(probed, numbers[0], parts);
    });
    for (std::size_t i = 1; i < numbers.size(); ++i) require_other_masks_agree(probed, numbers[i], tree);
    return tree;
  }

  /// Places in groups of so many units as one result counts exactly; null: one group of all products.
  std::vector<std::shared_ptr<const Places>> groups_of_units(const Places& places) const {
    std::vector<std::shared_ptr<const Places>> groups;
    for (auto first = places.begin(); first != places.end();) {
      const auto last = first + std::min<std::ptrdiff_t>(exact_units_, places.end() - first);
      groups.push_back(std::make_shared<const Places>(first, last));
      first = last;
    }
    return groups;
  }
  std::vector<std::shared_ptr<const Places>> groups_of_all() const {
    if (exact_units_ >= shape().k) return {nullptr};
    Places all(static_cast<std::size_t>(shape().k));
    std::iota(all.begin(), all.end(), 0);
    return groups_of_units(all);
  }
  bool is_counted_at_once(const OpenPart& part) const {
    return exact_units_ >= shape().k || std::ssize(part.members) < exact_units_;
  }

  /// `calls`: for the masks of one tree, at least.
  void require_few_calls(const ProbedClass& probed, std::int64_t calls) const {
    const double seconds = static_cast<double>(calls) * caller_.seconds_per_call();
    const bool are_few = calls <= options_.calls;
    if (are_few && seconds <= options_.seconds) return;
    const std::string rows_or_columns =
        probed.lanes.across.empty()
            ? "take a shape with more rows, each of which holds a mask"
            : "operands with so few powers of two hold a mask in every row that has a column of its own: take as many "
              "columns as rows, or more of both";
    const std::string limit = are_few ? std::to_string(std::llround(options_.seconds)) + " seconds"
                                      : std::to_string(options_.calls) + " calls";
    throw Unsupported("probe: the masks of one tree take more than " + limit + " (" +
                      std::to_string(std::ssize(probed.lanes.where)) + " in a call, " + std::to_string(calls) +
                      " calls at least, some " + std::to_string(std::llround(std::ceil(seconds))) + " seconds); " +
                      rows_or_columns + "; or a smaller k, or allow more (--calls, --seconds)");
  }

  void require_wide_range(const ProbedReading& reading) const {
    if (has_wide_range(reading)) return;
    throw Unsupported("probe: products of operands reach from 2^" + std::to_string(reading.lowest_power) + " to 2^" +
                      std::to_string(reading.highest_power) + ", too few powers of two to mask " +
                      std::to_string(shape().k) + " products with; probe a smaller k, or another arithmetic");
  }

  /// Lowers `exact_units_` to a power of two of so many units that the sums of neighbouring products count exactly: fewer
  /// than k where results, or sums before them, have few bits.
  void find_exact_units(const ProbedClass& probed, float unit) {
    constexpr std::int64_t fewest = 16;
    std::string inexact;
    const auto are_exact = [&] {
      std::vector<SumProbe> probes;
      for (const auto& group : groups_of_all()) {
        probes.push_back({{}, unit, group});
        probes.push_back({{{group ? group->front() : 0, 0.0F}}, unit, group});  // powers of two may add up by luck
      }
      const std::vector<float> sums = run_finite_probes(caller_, probed.lanes, probes);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const std::int64_t all = probes[i].where ? std::ssize(*probes[i].where) : shape().k;
        const std::int64_t units = all - std::ssize(probes[i].at);
        if (sums[i] == static_cast<float>(units) * unit) continue;
        inexact =
            std::to_string(units) + " products of " + std::to_string(unit) + " add up to " + std::to_string(sums[i]);
        return false;
      }
      return true;
    };
    while (!are_exact()) {
      const auto below = static_cast<std::uint64_t>(std::max<std::int64_t>(exact_units_ - 1, 1));
      exact_units_ = static_cast<std::int64_t>(std::bit_floor(below));
      if (exact_units_ < fewest)
        throw Unsupported("probe: " + inexact +
                          ": the sums do not hold so many units exactly, and masks cannot be read; probe a smaller k");
    }
  }

  /// How many units each mask of a pair of products leaves, added up over groups of them; rounded where a group has more
  /// than `exact_units_`.
  std::vector<double> units_left(const ProbedClass& probed, const MaskNumbers& numbers, const std::vector<Pair>& pairs,
                                 const std::vector<std::vector<std::shared_ptr<const Places>>>& groups) {
    findings_.masks += std::ssize(pairs);
    std::vector<SumProbe> probes;
    for (std::size_t p = 0; p < pairs.size(); ++p)
      for (const auto& group : groups[p])
        probes.push_back({{{pairs[p].first, numbers.large}, {pairs[p].second, -numbers.large}}, numbers.unit, group});
    const std::vector<float> results = run_finite_probes(caller_, probed.lanes, probes);
    std::vector<double> left;
    std::size_t at = 0;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      double units = 0.0;
      bool are_exact = true;
      for (const auto& group : groups[p]) {
        units += static_cast<double>(results[at++]);
        are_exact = are_exact && (group ? std::ssize(*group) : shape().k) <= exact_units_;
      }
      units /= static_cast<double>(numbers.unit);
      const double most = (static_cast<double>(shape().k) - 2.0) * (are_exact ? 1.0 : 1.5);
      if (!(units >= 0.0 && units <= most && units == std::floor(units)))
        throw Unsupported("probe: a mask leaves " + std::to_string(units) + " of " + std::to_string(shape().k) +
                          " units: the kernel does not absorb a unit in 2^127 (or in the largest power of two of its "
                          "operands), or is no sum of products in one order");
      left.push_back(units);
    }
    return left;
  }

  std::vector<std::int64_t> counts_below(const ProbedClass& probed, const MaskNumbers& numbers,
                                         const std::vector<Pair>& pairs) {
    const std::vector<std::vector<std::shared_ptr<const Places>>> groups(pairs.size(), groups_of_all());
    std::vector<std::int64_t> counts;
    for (const double left : units_left(probed, numbers, pairs, groups))
      counts.push_back(shape().k - static_cast<std::int64_t>(left));
    return counts;
  }

  /// The counts of CountsBelow. Where one result does not count all units, masks have units at the members of a part alone,
  /// and at one product outside, which is lost only below the node of the part. Of more members than one result counts,
  /// results are rounded: they tell which members are nearer to the pivot, and a second mask counts those of a rounded result.
  std::vector<std::vector<std::int64_t>> counts_in_parts(const ProbedClass& probed, const MaskNumbers& numbers,
                                                         const std::vector<OpenPart>& parts) {
    const bool counts_all = exact_units_ >= shape().k;
    std::vector<Pair> pairs;
    std::vector<std::vector<std::shared_ptr<const Places>>> groups;
    for (const OpenPart& part : parts) {
      Places places = part.members;
      if (part.outside >= 0) places.push_back(part.outside);
      const auto where = counts_all ? nullptr : std::make_shared<const Places>(std::move(places));
      for (const std::int64_t member : part.members) {
        if (member == part.pivot) continue;
        pairs.emplace_back(part.pivot, member);
        groups.push_back({where});
      }
    }
    const std::vector<double> left = units_left(probed, numbers, pairs, groups);
    std::vector<std::vector<std::int64_t>> counts;
    std::vector<NearMembers> near;
    std::size_t first = 0;
    for (const OpenPart& part : parts) {
      const std::span<const double> of_part(&left[first], part.members.size() - 1);
      first += of_part.size();
      std::vector<std::int64_t>& mine = counts.emplace_back();
      for (const double units : of_part) mine.push_back(count_of(part, static_cast<std::int64_t>(units)));
      if (!is_counted_at_once(part)) append_near_members(part, counts.size() - 1, of_part, near);
    }
    count_near_members(probed, numbers, parts, near, counts);
    return counts;
  }

  /// Products below the lowest node of the pivot and a member, whose mask leaves so many units.
  std::int64_t count_of(const OpenPart& part, std::int64_t units) const {
    if (exact_units_ >= shape().k) return shape().k - units;
    if (part.outside < 0) return std::ssize(part.members) - units;
    return units == 0 ? part.limit : std::ssize(part.members) + 1 - units;
  }

  /// Members of a part whose first masks leave the same rounded number of units.
  struct NearMembers {
    std::size_t part = 0;
    std::vector<std::size_t> slots;  ///< in the counts of the part
    Places places;
    std::int64_t nearer = 0;  ///< products that are nearer to the pivot, and the pivot
  };

  static void append_near_members(const OpenPart& part, std::size_t number, std::span<const double> left,
                                  std::vector<NearMembers>& near) {
    std::map<double, NearMembers, std::greater<>> by_units;
    std::size_t slot = 0;
    for (const std::int64_t member : part.members) {
      if (member == part.pivot) continue;
      NearMembers& alike = by_units[left[slot]];
      alike.slots.push_back(slot++);
      alike.places.push_back(member);
    }
    std::int64_t nearer = 1;
    for (auto& [units, alike] : by_units) {
      const auto count = std::ssize(alike.places);
      alike.part = number;
      alike.nearer = nearer;
      nearer += count;
      if (units != 0.0 || part.outside < 0)
        near.push_back(std::move(alike));  // else all below the part's node are lost
    }
  }

  void count_near_members(const ProbedClass& probed, const MaskNumbers& numbers, const std::vector<OpenPart>& parts,
                          const std::vector<NearMembers>& near, std::vector<std::vector<std::int64_t>>& counts) {
    std::vector<Pair> pairs;
    std::vector<std::vector<std::shared_ptr<const Places>>> groups;
    for (const NearMembers& alike : near) {
      const auto of_all = groups_of_units(alike.places);
      for (const std::int64_t member : alike.places) pairs.emplace_back(parts[alike.part].pivot, member);
      groups.insert(groups.end(), alike.places.size(), of_all);
    }
    const std::vector<double> left = units_left(probed, numbers, pairs, groups);
    std::size_t at = 0;
    for (const NearMembers& alike : near)
      for (const std::size_t slot : alike.slots)
        counts[alike.part][slot] = alike.nearer + std::ssize(alike.places) - static_cast<std::int64_t>(left[at++]);
  }

  /// Other numbers, of other signs, in some pairs: an order that depends on the values may show itself.
  void require_other_masks_agree(const ProbedClass& probed, const MaskNumbers& numbers, const SummationTree& tree) {
    if (tree.leaves < 2) return;
    constexpr int most = 64;
    const TreeIndex index(tree);
    std::mt19937_64 draw(options_.seed);
    std::vector<Pair> pairs;
    while (std::ssize(pairs) < most) {
      const auto n = static_cast<std::uint64_t>(tree.leaves);
      const auto i = static_cast<std::int64_t>(draw() % n);
      pairs.emplace_back(i, (i + 1 + static_cast<std::int64_t>(draw() % (n - 1))) % tree.leaves);
    }
    const std::vector<std::int64_t> counts = counts_below(probed, numbers, pairs);
    for (std::size_t p = 0; p < pairs.size(); ++p)
      if (counts[p] != index.products_below_both(pairs[p].first, pairs[p].second))
        throw Unsupported("probe: masks of other numbers show another tree (products " +
                          std::to_string(pairs[p].first) + " and " + std::to_string(pairs[p].second) +
                          "): the kernel's order of summation depends on the values; declare its order as unknown");
  }

  /// Random data, computed along the trees.
  void verify(const std::vector<Elements>& classes) {
    const TreeArithmetic arithmetic{findings_.left,      findings_.right, findings_.result,
                                    findings_.additions, findings_.steps, findings_.parts};
    const std::string obstacle = obstacle_to_run(arithmetic);
    const std::vector<float> a = random_(shape().m * shape().k), b = ones_or(random_(shape().k * shape().n));
    const std::vector<float> c = caller_.finite(a, b);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      ElementClass& found = findings_.classes[i];
      if (!found.tree) continue;
      if (obstacle.empty())
        verify_class(found, classes[i], arithmetic, a, b, c);
      else
        found.reason = "not verified: " + obstacle;
      require_explained(found, i == 0);
    }
  }

  void verify_class(ElementClass& found, const Elements& elements, const TreeArithmetic& arithmetic,
                    const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& c) {
    const TreeIndex index(*found.tree);
    found.verified = std::min<std::int64_t>(std::ssize(elements), options_.verified);
    for (std::int64_t i = 0; i < found.verified; ++i) {
      const std::int64_t element = elements[static_cast<std::size_t>(i * std::ssize(elements) / found.verified)];
      const std::int64_t row = element / shape().n, column = element % shape().n;
      const float computed = run_along(
          index, found, arithmetic, [&](std::int64_t k) { return a[static_cast<std::size_t>(row * shape().k + k)]; },
          [&](std::int64_t k) { return b[static_cast<std::size_t>(k * shape().n + column)]; });
      if (computed == c[static_cast<std::size_t>(element)]) ++found.equal_bits;
    }
  }

  /// What the tree does not give to the last bit was not computed along it.
  void require_explained(ElementClass& found, bool is_largest) const {
    if (found.equal_bits == found.verified) return;
    const std::string reason = std::to_string(found.verified - found.equal_bits) + " of " +
                               std::to_string(found.verified) +
                               " elements of random data have other bits than their tree gives: the order of "
                               "summation depends on the values, or sums are rounded in another way than was found; "
                               "declare the order as unknown";
    if (is_largest) throw Unsupported("probe: " + reason);
    found.tree.reset();
    found.reason = reason;
  }

  Caller& caller_;
  const ProbeOptions& options_;
  RandomNumbers random_;
  ProbeFindings findings_;
  std::int64_t exact_units_ = 0;  ///< so many units, or fewer, are counted exactly in one result
};

}  // namespace
}  // namespace probe

namespace {

/// Sums of rows, called like products.
ProductCall as_product(const SumCall& kernel) {
  return [kernel](const ProductShape& shape, std::span<const float> a, std::span<const float>) {
    return kernel(shape.m, shape.k, a);
  };
}

RepeatedCalls repeated(probe::Caller& caller, std::int64_t calls, std::uint64_t seed) {
  if (calls < 2) throw InvalidArgument("probe: calls are compared from 2 on, not " + std::to_string(calls));
  const ProductShape& shape = caller.shape();
  probe::RandomNumbers random(seed);
  const std::vector<float> a = random(shape.m * shape.k), b = random(shape.k * shape.n);
  const std::vector<float> first = caller.finite(a, b);
  RepeatedCalls found;
  found.calls = calls;
  std::set<std::size_t> differing;
  for (std::int64_t call = 1; call < calls; ++call) {
    const std::vector<float> other = caller(a, b);
    bool differs = false;
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(first[i]) == std::bit_cast<std::uint32_t>(other[i])) continue;
      if (found.first_call < 0) {
        found.first_call = call;
        found.first_element = static_cast<std::int64_t>(i);
        found.first = first[i];
        found.other = other[i];
      }
      differs = true;
      differing.insert(i);
    }
    found.differing_calls += differs ? 1 : 0;
  }
  found.differing_elements = std::ssize(differing);
  return found;
}

/// An order of all classes: the named one of them all, or any that is no higher than their trees.
SummationOrder common_order(const ProbeFindings& findings) {
  std::int64_t height = 1;
  bool are_equal = true, are_binary = true;
  for (const ElementClass& found : findings.classes) {
    if (!found.tree) return {};
    height = std::max(height, found.tree->height());
    are_equal = are_equal && *found.tree == findings.tree();
    are_binary = are_binary && found.tree->is_binary();
  }
  if (are_equal) return findings.order;
  return are_binary ? SummationOrder{SummationOrder::Kind::height, height, false} : SummationOrder{};
}

/// What is rounded to the format of parts in the sum of one class of elements.
struct PartRoundings {
  int lowest = 0;  ///< nodes whose sum is rounded, above no other one
  int most = 0;    ///< that one product passes through
  int all = 0;     ///< of products and sums
};

PartRoundings part_roundings(const ElementClass& found, bool are_additions_narrow) {
  const SummationTree& tree = *found.tree;
  const probe::TreeIndex index(tree);
  std::vector<int> passed(static_cast<std::size_t>(tree.leaves) + tree.nodes.size(), 0);  // at most, up to it
  const auto passed_at = [&](std::int64_t id) -> int& { return passed[static_cast<std::size_t>(id)]; };
  PartRoundings roundings;
  for (std::size_t k = 0; k < found.rounded_products.size(); ++k) {
    passed[k] = found.rounded_products[k] ? 1 : 0;
    roundings.all += passed[k];
  }
  for (std::size_t t = 0; t < tree.nodes.size(); ++t) {
    const std::int64_t node = tree.leaves + static_cast<std::int64_t>(t);
    int below = 0;
    for (const std::int64_t child : tree.nodes[t]) below = std::max(below, passed_at(child));
    const bool is_part = !found.rounded_parts.empty() && found.rounded_parts[t];
    const bool is_rounded = is_part || (are_additions_narrow && !probe::is_step(index, node, !tree.is_binary()));
    passed_at(node) = below + (is_rounded ? 1 : 0);
    roundings.lowest += is_rounded && below == 0 ? 1 : 0;
    roundings.all += is_rounded ? 1 : 0;
  }
  roundings.most = passed.back();
  return roundings;
}

/// Sums that are kept in the bits of bf16 or fp16, in the terms of T-23: P is the number of parts, and large enough for the
/// P + 1 roundings of a product and the 2 P + 1 roundings in all that the theorem admits, so that it covers any tree.
void take_rounded_parts(const ProbeFindings& findings, ArithmeticModel& model) {
  const bool are_additions_narrow =
      findings.additions && !findings.additions->is_hidden && findings.additions->precision < 24;
  if (!findings.parts && !are_additions_narrow) return;
  const int bits = findings.parts ? findings.parts->precision : findings.additions->precision;
  const bool is_bf16 = bits == format(FormatId::bf16).precision;
  if (!is_bf16 && bits != format(FormatId::fp16).precision)
    throw Unsupported("probe: sums are kept with " + std::to_string(bits) +
                      " bits in a way that no arithmetic here describes");
  ReducedReduction reduction{is_bf16 ? FormatId::bf16 : FormatId::fp16, 1, false};
  for (const ElementClass& found : findings.classes) {
    if (!found.tree) throw Unsupported("probe: some elements have no tree: how their parts are rounded is not known");
    const PartRoundings roundings = part_roundings(found, are_additions_narrow);
    reduction.parts = std::max({reduction.parts, roundings.lowest, roundings.most, (roundings.all + 1) / 2});
    reduction.rounds_sums = reduction.rounds_sums || roundings.most > 1;
  }
  model.reduced_reduction = reduction;
}

}  // namespace

bool ProbeFindings::is_confirmed() const {
  return std::all_of(classes.begin(), classes.end(), [](const ElementClass& found) {
    return found.tree && found.verified > 0 && found.equal_bits == found.verified;
  });
}

ProbeFindings probe_product(const ProductCall& kernel, const ProductShape& shape, const ProbeOptions& options) {
  probe::Caller caller(kernel, shape, true);
  return probe::Prober(caller, options).run();
}

ProbeFindings probe_sum(const SumCall& kernel, std::int64_t rows, std::int64_t length, const ProbeOptions& options) {
  probe::Caller caller(as_product(kernel), {rows, length, 1}, false);
  return probe::Prober(caller, options).run();
}

ArithmeticModel arithmetic_of(const ProbeFindings& findings, const std::string& name) {
  ArithmeticModel model = cpu_arithmetic("fp32", findings.order);
  model.name = name;
  model.functions.clear();
  model.evidence = Evidence::measured;
  model.source = "driftbound probe";
  const std::optional<FormatId> left = findings.left.format(), right = findings.right.format();
  if (!left || left != right)
    throw Unsupported("probe: the operands are read in formats that no arithmetic here describes");
  model.input = *left;
  if (findings.result.is_narrow() && findings.result.rounding != Rounding::nearest_even)
    throw Unsupported("probe: results are rounded to " + std::string(format(findings.result.format).name) +
                      " in a way that no arithmetic here describes");
  model.output = findings.result.format;
  const bool cuts = findings.left.rounding == Rounding::toward_zero;
  if (findings.additions && findings.additions->precision == 53) model.accumulator = FormatId::fp64;
  model.products_may_flush = !findings.keeps_subnormal_results.value_or(true);
  model.order = common_order(findings);
  take_rounded_parts(findings, model);
  if (findings.steps) {
    TensorCore unit;
    unit.fraction_bits = findings.steps->fraction_bits.value_or(23);
    unit.block = static_cast<int>(findings.steps->block);
    unit.sum_bits = std::min(23, findings.steps->sums.precision - 1);
    unit.cuts_operands = cuts;
    model.tensor_core = unit;
  } else if (cuts) {
    throw Unsupported("probe: operands are cut, which an arithmetic describes of matrix units alone");
  }
  return model;
}

Graph product_graph(const ProductShape& shape) {
  Graph graph;
  const auto input = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return graph.add_input(name, ElementType::f32, {{rows, ""}, {columns, ""}});
  };
  const ValueId left = input("a", shape.m, shape.k), right = input("b", shape.k, shape.n);
  graph.outputs = {graph.add_node("c", op::MatMul{}, {left, right})};
  return graph;
}

Graph sum_graph(std::int64_t rows, std::int64_t length) {
  Graph graph;
  const ValueId terms = graph.add_input("a", ElementType::f32, {{rows, ""}, {length, ""}});
  graph.outputs = {graph.add_node("c", op::ReduceSum{{1}, false}, {terms})};
  return graph;
}

namespace {

StoredTensor matrix(std::int64_t rows, std::int64_t columns, std::span<const float> values) {
  return StoredTensor::from(Tensor<float>({rows, columns}, {values.begin(), values.end()}));
}

std::vector<float> result_of(const Evaluator& evaluator, const Graph& graph, const Inputs& inputs) {
  const Tensor<double> c = evaluator.run(graph, inputs).layers.front().output.to_double();
  return {c.values.begin(), c.values.end()};
}

}  // namespace

ProductCall product_call(const Evaluator& evaluator) {
  return [evaluator](const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
    Inputs inputs;
    inputs.tensors = {{"a", matrix(shape.m, shape.k, a)}, {"b", matrix(shape.k, shape.n, b)}};
    return result_of(evaluator, product_graph(shape), inputs);
  };
}

SumCall sum_call(const Evaluator& evaluator) {
  return [evaluator](std::int64_t rows, std::int64_t length, std::span<const float> values) {
    Inputs inputs;
    inputs.tensors = {{"a", matrix(rows, length, values)}};
    return result_of(evaluator, sum_graph(rows, length), inputs);
  };
}

RepeatedCalls repeat_product(const ProductCall& kernel, const ProductShape& shape, std::int64_t calls,
                             std::uint64_t seed) {
  probe::Caller caller(kernel, shape, true);
  return repeated(caller, calls, seed);
}

RepeatedCalls repeat_sum(const SumCall& kernel, std::int64_t rows, std::int64_t length, std::int64_t calls,
                         std::uint64_t seed) {
  probe::Caller caller(as_product(kernel), {rows, length, 1}, false);
  return repeated(caller, calls, seed);
}

}  // namespace driftbound

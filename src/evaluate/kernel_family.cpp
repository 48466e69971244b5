#include "evaluate/kernel_family.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

namespace driftbound {
namespace {

TensorCore unit_of(int fraction_bits, int block, int sum_bits = 23) {
  TensorCore unit;
  unit.fraction_bits = fraction_bits;
  unit.block = block;
  unit.sum_bits = sum_bits;
  return unit;
}

bool is_fp8(FormatId format) {
  return format == FormatId::fp8_e4m3 || format == FormatId::fp8_e5m2;
}

std::vector<TensorCore> units_of(FormatId operands) {
  if (operands == FormatId::tf32)
    return {unit_of(25, 8), unit_of(25, 4), unit_of(24, 4), unit_of(24, 8), unit_of(23, 4)};
  if (operands == FormatId::bf16 || operands == FormatId::fp16)
    return {unit_of(25, 16), unit_of(25, 8),  unit_of(25, 4), unit_of(24, 8),
            unit_of(24, 4),  unit_of(24, 16), unit_of(23, 4)};
  if (is_fp8(operands))
    return {unit_of(13, 32, 13), unit_of(13, 16, 13), unit_of(25, 32),
            unit_of(25, 16),     unit_of(13, 32),     unit_of(13, 16)};
  return {};
}

/// The ways to add `count` sums that differ; vectors of four numbers have lanes alone.
std::vector<Combination> ways_to_add(std::size_t count, bool are_lanes) {
  std::vector<Combination> ways = {Combination::sequential};
  if (count > 3) ways.push_back(Combination::neighbours);
  if (count > 2) ways.push_back(Combination::halves);
  if (are_lanes && count > 4 && std::has_single_bit(count)) ways.push_back(Combination::fours);
  return ways;
}

/// The ways to add parts that differ; parts with parts inside are added one after the other.
std::vector<SumParts> ways_to_add(const SumParts& dealt, const SumJoins& joins) {
  if (dealt.tree != SumTree::dealt) return {dealt};
  std::vector<Combination> outer = {Combination::sequential}, inner = outer;
  if (joins.within > 0) {
    inner = ways_to_add(static_cast<std::size_t>(dealt.inside.parts), true);
  } else {
    const bool has_lanes = dealt.dealing.kind == Dealing::Kind::interleaved;
    outer = ways_to_add(has_lanes ? static_cast<std::size_t>(dealt.dealing.parts) : joins.parts(), has_lanes);
  }
  std::vector<SumParts> all;
  for (const Combination of_parts : outer)
    for (const Combination within : inner) all.push_back({dealt.dealing, of_parts, dealt.inside, within});
  return all;
}

/// What tells lists of numbers apart: two hashes of 64 bits. Lists that are taken for each other by chance, one in 2^100,
/// would leave a kernel out.
class ListKey {
public:
  template <class Number>
  void add(const std::vector<Number>& list) {
    for (const Number number : list) add(static_cast<std::uint64_t>(number));
    add(~std::uint64_t{0});
  }
  void add(std::uint64_t number) {
    first_ = (first_ ^ number) * 0x9e3779b97f4a7c15;
    first_ ^= first_ >> 29;
    second_ = (second_ + number) * 0xc2b2ae3d27d4eb4f;
    second_ ^= second_ >> 31;
  }
  std::pair<std::uint64_t, std::uint64_t> value() const { return {first_, second_}; }

private:
  std::uint64_t first_ = 1, second_ = 2;
};

/// Collects dealings that differ.
class Dealings {
public:
  explicit Dealings(std::int64_t k, std::int64_t block) : k_(k), block_(block) {}

  void add(const SumParts& parts) {
    const Dealing& dealing = parts.dealing;
    const bool is_balanced = dealing.kind == Dealing::Kind::balanced;
    const bool is_in_parts = dealing.run > 0 && dealing.run < k_;
    if (is_in_parts && (dealing.run % block_ != 0 || (is_balanced && dealing.multiple % block_ != 0))) return;
    const SumSchedule schedule = schedule_of(parts, k_);
    ListKey chains;
    chains.add(schedule.terms);
    chains.add(schedule.ends);
    const auto [found, is_new] = places_.try_emplace(chains.value(), found_.size());
    if (is_new) found_.emplace_back();
    for (const SumParts& way : ways_to_add(parts, schedule.joins)) {
      const SumJoins joins = joins_of(way, k_);
      ListKey key = chains;
      for (const SumJoins::Join& join : joins.list) key.add(std::uint64_t{join.to} << 32 | join.from);
      key.add(joins.within);
      if (ways_.insert(key.value()).second) found_[found->second].push_back(way);
    }
    if (is_new && found_.back().empty()) found_.pop_back();
  }

  /// Slices and lanes of K terms.
  void add_parts() {
    using Kind = Dealing::Kind;
    add({});
    for (const std::int64_t slices : {2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  18,  20,
                                      22, 24, 27, 28, 32, 33, 36, 40, 44, 48, 54, 64, 66, 96, 108, 128, 132}) {
      for (const std::int64_t multiple : {1, 4, 8, 16, 32, 64, 128}) {
        const std::int64_t run = ((k_ + slices - 1) / slices + multiple - 1) / multiple * multiple;
        if (run < k_) add({{Kind::contiguous, 1, run, 1}});
      }
    }
    for (const std::int64_t run : {1,   2,   4,   8,   16,  24,  32,  48,  64,  96,  128, 192, 240,  256,  288, 320,
                                   336, 352, 360, 384, 400, 416, 448, 480, 512, 576, 640, 768, 1024, 2048, 4096}) {
      if (run >= k_) break;
      add({{Kind::contiguous, 1, run, 1}});
      for (const std::int64_t multiple : {1, 4, 8, 16, 24, 32}) add({{Kind::balanced, 1, run, multiple}});
    }
    for (const std::int64_t run : {1, 2, 4, 8, 16, 32, 64})
      for (const std::int64_t parts : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256})
        if (parts * run <= 2 * k_) add({{Kind::interleaved, parts, run, 1}});
  }

  /// Lanes with a rest, blocks with lanes inside, and the blocks in which products of a matrix and a vector are added.
  void add_blocks_of_lanes() {
    using Kind = Dealing::Kind;
    std::vector<Dealing> lanes;
    for (const std::int64_t parts : {2, 4, 8, 16, 32})
      for (const std::int64_t multiple : {1, 4, 8, 16, 32})
        if (multiple == 1 || multiple > parts / 2) lanes.push_back({Kind::interleaved, parts, 1, multiple});
    for (const Dealing& dealing : lanes) add({dealing});
    for (const std::int64_t parts : {4, 8, 16, 32})
      for (const std::int64_t multiple : {1, 4, 8})
        for (const bool is_short_first : {false, true})
          add({{Kind::interleaved, parts, 1, multiple, Dealing::Rest::together, is_short_first}});
    for (const std::int64_t run : {4, 8, 16}) {
      if (run >= k_) break;
      for (const std::int64_t multiple : {1, 2, 4, 8}) {
        const Dealing blocks{Kind::contiguous, 1, run, multiple, Dealing::Rest::one_by_one};
        add({blocks});
        for (const std::int64_t parts : {2, 4})
          add({blocks, Combination::sequential, {Kind::interleaved, parts, 1, 1}});
      }
    }
    for (const std::int64_t run : {64, 96, 128, 192, 240, 256, 320, 336, 352, 384, 448, 512, 640, 768, 1024, 2048}) {
      if (run >= k_) break;
      std::vector<Dealing> blocks = {{Kind::contiguous, 1, run, 1}};
      for (const std::int64_t multiple : {1, 4, 8, 16}) blocks.push_back({Kind::balanced, 1, run, multiple});
      for (const Dealing& outer : blocks)
        for (const Dealing& inner : lanes) add({outer, Combination::sequential, inner});
    }
  }

  /// Trees of libraries, and lanes to whose sum the rest is added.
  void add_trees() {
    using Kind = Dealing::Kind;
    for (const std::int64_t parts : {4, 8, 16, 32, 64})
      for (const std::int64_t multiple : {4, 8, 16, 32, 64})
        if (multiple >= parts) add({{Kind::interleaved, parts, 1, multiple, Dealing::Rest::one_by_one}});
    SumParts tree;
    tree.tree = SumTree::halved;
    add(tree);
    tree.tree = SumTree::cascade;
    for (const std::int64_t lanes : {1, 4, 8, 16}) {
      for (const std::int64_t chains : {1, 4}) {
        tree.lanes = lanes;
        tree.chains = chains;
        add(tree);
      }
    }
  }

  std::vector<DealtTerms> take() { return std::move(found_); }

private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  std::int64_t k_, block_;
  std::map<Key, std::size_t> places_;  // in found_, by chains
  std::set<Key> ways_;                 // chains and joins
  std::vector<DealtTerms> found_;
};

}  // namespace

std::vector<OperandChoice> operand_choices() {
  return {{FormatId::fp32, Rounding::nearest_even},     {FormatId::tf32, Rounding::nearest_even},
          {FormatId::tf32, Rounding::nearest_away},     {FormatId::tf32, Rounding::toward_zero},
          {FormatId::bf16, Rounding::nearest_even},     {FormatId::fp16, Rounding::nearest_even},
          {FormatId::fp8_e4m3, Rounding::nearest_even}, {FormatId::fp8_e5m2, Rounding::nearest_even}};
}

std::vector<PartEngine> engines_of(FormatId operands) {
  std::vector<PartEngine> engines;
  for (const TensorCore& unit : units_of(operands)) engines.push_back({unit, false});
  engines.push_back({std::nullopt, true});
  const bool rounds_products = operands == FormatId::fp32 || operands == FormatId::fp64;
  if (rounds_products) engines.push_back({std::nullopt, false});
  return engines;
}

std::vector<DealtTerms> dealings_of(std::int64_t k, std::int64_t block) {
  Dealings all(k, block);
  all.add_parts();
  if (block == 1) all.add_blocks_of_lanes();
  return all.take();
}

std::vector<DealtTerms> dealings_of_numbers(std::int64_t k) {
  Dealings all(k, 1);
  all.add_parts();
  all.add_blocks_of_lanes();
  all.add_trees();
  return all.take();
}

}  // namespace driftbound

#include "driftbound/trace/dealing.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

std::int64_t to_whole(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Terms of a sum, chain after chain. Without `has_terms` only the ends are there.
struct Chains {
  std::vector<std::uint32_t> terms;
  std::vector<std::size_t> ends;
  std::size_t rest = 0;  ///< the last so many chains are terms that are added to the sum of the others
};

/// Contiguous parts of the first n terms.
void add_contiguous(const Dealing& dealing, std::int64_t n, Chains& chains) {
  const std::int64_t run = dealing.run == 0 ? n : std::min(dealing.run, n);
  const std::int64_t multiple = std::min(dealing.multiple, n);
  for (std::int64_t done = 0; done < n; done = static_cast<std::int64_t>(chains.ends.back())) {
    const std::int64_t left = n - done;
    const bool is_halved = dealing.kind == Dealing::Kind::balanced && left > run && left < 2 * run;
    const std::int64_t half = dealing.multiple > 1 ? left / 2 : (left + 1) / 2;
    const std::int64_t length = is_halved ? to_whole(half, multiple) : run;
    chains.ends.push_back(static_cast<std::size_t>(done + std::min(length, left)));
  }
}

/// Lanes of the first `whole` of n terms; the others follow the terms of lane 0 where `takes_rest` is set.
void add_lanes(const Dealing& dealing, std::int64_t whole, std::int64_t n, bool takes_rest, bool has_terms,
               Chains& chains) {
  const std::int64_t parts = std::min(dealing.parts, n), run = std::min(dealing.run, n);  // parts behind these have no terms
  const std::int64_t stride = parts * run;
  const std::int64_t front = dealing.short_first ? whole % stride : 0;  // terms of a short first round
  std::size_t end = 0;
  for (std::int64_t part = 0; part == 0 || part < parts; ++part) {
    const std::size_t before = end;
    const auto take = [&](std::int64_t from, std::int64_t to) {
      if (to <= from) return;
      end += static_cast<std::size_t>(to - from);
      for (std::int64_t k = from; has_terms && k < to; ++k) chains.terms.push_back(static_cast<std::uint32_t>(k));
    };
    const std::int64_t first = part * run;
    take(first, std::min(first + run, front));
    for (std::int64_t from = front + first; from < whole; from += stride) take(from, std::min(from + run, whole));
    if (part == 0 && takes_rest) take(whole, n);
    if (end > before) chains.ends.push_back(end);
  }
}

Chains chains_of(const Dealing& dealing, std::int64_t n, bool has_terms) {
  const bool has_lanes = dealing.kind == Dealing::Kind::interleaved;
  if (n < 1 || dealing.run < 0 || dealing.parts < 1 || dealing.multiple < 1 || (has_lanes && dealing.run < 1))
    throw InvalidArgument("parts of a sum: terms, parts and their lengths are 1 or more");
  const std::int64_t multiple = dealing.kind == Dealing::Kind::balanced ? 1 : dealing.multiple;
  const std::int64_t whole = n / multiple * multiple;
  const bool is_in_part = dealing.rest == Dealing::Rest::in_part || whole == 0;
  Chains chains;
  if (has_lanes) {
    add_lanes(dealing, whole, n, is_in_part, has_terms, chains);
  } else {
    add_contiguous(dealing, whole == 0 ? n : whole, chains);
    if (is_in_part) chains.ends.back() = static_cast<std::size_t>(n);
  }
  const auto dealt = static_cast<std::int64_t>(chains.ends.back());
  const std::size_t from = chains.terms.size();
  if (has_terms) chains.terms.resize(static_cast<std::size_t>(n));
  if (has_terms)
    std::iota(chains.terms.begin() + static_cast<std::ptrdiff_t>(from), chains.terms.end(),
              static_cast<std::uint32_t>(from));
  for (std::int64_t k = dealt; k < n; ++k) chains.ends.push_back(static_cast<std::size_t>(k) + 1);
  chains.rest = static_cast<std::size_t>(n - dealt);
  return chains;
}

/// Adds the joins that leave the sum of some chains in the first of them.
void combine(std::vector<std::uint32_t> sums, Combination combination, std::vector<SumJoins::Join>& joins) {
  if (combination == Combination::sequential) {
    for (std::size_t i = 1; i < sums.size(); ++i) joins.push_back({sums[0], sums[i]});
    return;
  }
  while (sums.size() > 1) {
    const std::size_t half = (sums.size() + 1) / 2;
    const bool by_halves = combination == Combination::halves || (combination == Combination::fours && sums.size() > 4);
    std::vector<std::uint32_t> left;
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t a = by_halves ? i : 2 * i, b = by_halves ? i + half : 2 * i + 1;
      if (b < sums.size()) joins.push_back({sums[a], sums[b]});
      left.push_back(sums[a]);
    }
    sums = std::move(left);
  }
}

/// The same with the rest of the chains, which are the last of them.
void combine(const Chains& chains, std::vector<std::uint32_t> sums, const Dealing& dealing, Combination combination,
             std::vector<SumJoins::Join>& joins) {
  std::vector<std::uint32_t> rest(sums.end() - static_cast<std::ptrdiff_t>(chains.rest), sums.end());
  sums.resize(sums.size() - chains.rest);
  if (!rest.empty() && dealing.rest == Dealing::Rest::together) {
    combine(rest, Combination::sequential, joins);
    rest.resize(1);
  }
  const std::uint32_t sum = sums.front();
  combine(std::move(sums), combination, joins);
  for (const std::uint32_t one : rest) joins.push_back({sum, one});
}

/// Writes the chains and joins of a sum whose accumulators take terms and each other.
class TreeOfLibrary {
public:
  explicit TreeOfLibrary(std::int64_t n) : n_(n) {}

  SumSchedule schedule(const SumParts& parts) {
    if (n_ < 1 || parts.lanes < 1 || parts.chains < 1)
      throw InvalidArgument("tree of a sum: terms, lanes and chains are 1 or more");
    const Accumulator sum = parts.tree == SumTree::halved ? halved(0, n_) : cascade(parts.lanes, parts.chains);
    const auto renamed = [&](std::size_t chain) -> std::uint32_t {  // the chain that is left is the first
      const std::size_t name = chain == 0 ? *sum.chain : chain == *sum.chain ? 0 : chain;
      return static_cast<std::uint32_t>(name);
    };
    std::swap(chains_[0], chains_[*sum.chain]);
    SumSchedule schedule;
    for (const std::vector<std::uint32_t>& chain : chains_) {
      schedule.terms.insert(schedule.terms.end(), chain.begin(), chain.end());
      schedule.ends.push_back(schedule.terms.size());
    }
    for (const auto& [to, from] : joins_) schedule.joins.list.push_back({renamed(to), renamed(from)});
    schedule.joins.chains = chains_.size();
    return schedule;
  }

private:
  struct Accumulator {
    std::optional<std::size_t> chain;  ///< empty: 0
    bool is_chain = true;              ///< it took terms alone
  };

  void add_term(Accumulator& to, std::int64_t k) {
    if (to.chain && to.is_chain) return chains_[*to.chain].push_back(static_cast<std::uint32_t>(k));
    chains_.push_back({static_cast<std::uint32_t>(k)});
    add(to, {chains_.size() - 1, true});
  }

  void add(Accumulator& to, const Accumulator& from) {
    if (!from.chain) return;
    if (!to.chain) {
      to = from;
      return;
    }
    joins_.emplace_back(*to.chain, *from.chain);
    to.is_chain = false;
  }

  Accumulator halved(std::int64_t first, std::int64_t n) {
    constexpr std::int64_t lanes = 8, most = 128;
    if (n > most) {
      const std::int64_t half = n / 2 / lanes * lanes;
      Accumulator sum = halved(first, half);
      add(sum, halved(first + half, n - half));
      return sum;
    }
    const std::int64_t whole = n / lanes * lanes;
    std::vector<Accumulator> sums(lanes);
    for (std::int64_t k = 0; k < whole; ++k) add_term(sums[static_cast<std::size_t>(k % lanes)], first + k);
    for (std::size_t apart = 1; apart < sums.size(); apart *= 2)
      for (std::size_t i = 0; i < sums.size(); i += 2 * apart) add(sums[i], sums[i + apart]);
    for (std::int64_t k = whole; k < n; ++k) add_term(sums[0], first + k);
    return sums[0];
  }

  Accumulator cascade(std::int64_t lanes, std::int64_t chains) {
    const std::int64_t vectors = n_ / lanes, rows = vectors / chains;
    Accumulator sum;
    for (std::int64_t k = vectors * lanes; k < n_; ++k) add_term(sum, k);
    for (std::int64_t lane = 0; lane < lanes && vectors > 0; ++lane) {
      std::vector<Accumulator> sums;
      for (std::int64_t chain = 0; chain < chains; ++chain)
        sums.push_back(levels(rows, chain * lanes + lane, chains * lanes));
      for (std::int64_t row = rows * chains; row < vectors; ++row) add_term(sums[0], row * lanes + lane);
      for (std::size_t chain = 1; chain < sums.size(); ++chain) add(sums[0], sums[chain]);
      add(sum, sums[0]);
    }
    return sum;
  }

  /// The terms first, first + stride, … in four levels.
  Accumulator levels(std::int64_t terms, std::int64_t first, std::int64_t stride) {
    const auto bits =
        static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(terms, 1) - 1)));
    const std::int64_t power = std::max<std::int64_t>(4, bits / 4), step = std::int64_t{1} << power;
    std::array<Accumulator, 4> level;
    std::int64_t i = 0;
    while (i + step <= terms) {
      for (std::int64_t j = 0; j < step; ++j, ++i) add_term(level[0], first + i * stride);
      for (std::size_t j = 1; j < level.size(); ++j) {
        add(level[j], std::exchange(level[j - 1], {}));
        if (i & ((step - 1) << (static_cast<std::int64_t>(j) * power))) break;
      }
    }
    for (; i < terms; ++i) add_term(level[0], first + i * stride);
    for (std::size_t j = 1; j < level.size(); ++j) add(level[0], level[j]);
    return level[0];
  }

  std::int64_t n_;
  std::vector<std::vector<std::uint32_t>> chains_;
  std::vector<std::pair<std::size_t, std::size_t>> joins_;
};

}  // namespace

std::string_view name_of(Dealing::Kind kind) {
  switch (kind) {
    case Dealing::Kind::contiguous:
      return "contiguous";
    case Dealing::Kind::balanced:
      return "balanced";
    case Dealing::Kind::interleaved:
      return "interleaved";
  }
  return "contiguous";
}

std::string_view name_of(SumTree tree) {
  switch (tree) {
    case SumTree::dealt:
      return "dealt";
    case SumTree::halved:
      return "halved";
    case SumTree::cascade:
      return "cascade";
  }
  return "dealt";
}

std::string_view name_of(Combination combination) {
  switch (combination) {
    case Combination::sequential:
      return "sequential";
    case Combination::neighbours:
      return "neighbours";
    case Combination::halves:
      return "halves";
    case Combination::fours:
      return "fours";
  }
  return "sequential";
}

namespace {

SumSchedule dealt(const SumParts& parts, std::int64_t n, bool has_terms) {
  Chains outer = chains_of(parts.dealing, n, has_terms);
  SumSchedule schedule;
  std::vector<std::uint32_t> firsts;  // of the parts: their first chain
  if (parts.inside == Dealing{}) {
    schedule.terms = std::move(outer.terms);
    schedule.ends = outer.ends;
    firsts.resize(schedule.ends.size());
    std::iota(firsts.begin(), firsts.end(), 0U);
  } else {
    std::size_t first = 0;
    for (const std::size_t end : outer.ends) {
      const Chains inner = chains_of(parts.inside, static_cast<std::int64_t>(end - first), has_terms);
      std::vector<std::uint32_t> chains(inner.ends.size());
      std::iota(chains.begin(), chains.end(), static_cast<std::uint32_t>(schedule.ends.size()));
      firsts.push_back(chains.front());
      for (const std::uint32_t term : inner.terms) schedule.terms.push_back(outer.terms[first + term]);
      for (const std::size_t inner_end : inner.ends) schedule.ends.push_back(first + inner_end);
      combine(inner, std::move(chains), parts.inside, parts.inside_combination, schedule.joins.list);
      first = end;
    }
  }
  schedule.joins.within = schedule.joins.list.size();
  schedule.joins.chains = schedule.ends.size();
  combine(outer, std::move(firsts), parts.dealing, parts.combination, schedule.joins.list);
  return schedule;
}

}  // namespace

SumSchedule schedule_of(const SumParts& parts, std::int64_t n) {
  return parts.tree == SumTree::dealt ? dealt(parts, n, true) : TreeOfLibrary(n).schedule(parts);
}

SumJoins joins_of(const SumParts& parts, std::int64_t n) {
  return parts.tree == SumTree::dealt ? dealt(parts, n, false).joins : TreeOfLibrary(n).schedule(parts).joins;
}

std::int64_t height_of(const SumSchedule& schedule) {
  std::vector<std::int64_t> heights;
  std::size_t first = 0;
  for (const std::size_t end : schedule.ends) {
    heights.push_back(static_cast<std::int64_t>(end - first) - 1);
    first = end;
  }
  for (const SumJoins::Join& join : schedule.joins.list)
    heights[join.to] = 1 + std::max(heights[join.to], heights[join.from]);
  return heights.front();
}

}  // namespace driftbound

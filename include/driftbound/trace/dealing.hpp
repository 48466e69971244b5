#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace driftbound {

/// How the terms of a sum are dealt to parts, each of which is added up by itself.
struct Dealing {
  enum class Kind {
    contiguous,  ///< part after part takes `run` neighbouring terms; the last one may be shorter
    balanced,    ///< the same, but what is left after full parts, if it is more than one part, makes two: the first has
                 ///< half of it, rounded up; with `multiple` above 1 rounded down, then up to a multiple of that (how
                 ///< BLAS libraries block long sums)
    interleaved  ///< term k goes to part (k / run) mod `parts`: the lanes of a vector, the threads of a warp
  };
  /// What becomes of the rest, terms behind the last whole multiple of `multiple` (contiguous and interleaved parts): part
  /// 0 takes them at last (of contiguous parts: the last part), they are added to the sum of the parts one by one, or
  /// added up, each a product rounded by itself, and their sum to that of the parts.
  enum class Rest { in_part, one_by_one, together };
  Kind kind = Kind::contiguous;
  std::int64_t parts = 1;  ///< of `interleaved`
  std::int64_t run = 0;    ///< 0: all terms in one part
  std::int64_t multiple = 1;
  Rest rest = Rest::in_part;
  bool short_first = false;  ///< of `interleaved`: where parts times run does not divide the terms, the first round of
                             ///< terms to parts, not the last one, is the short one

  friend bool operator==(const Dealing&, const Dealing&) = default;
};

std::string_view name_of(Dealing::Kind kind);

/// How parts are added, in the accumulator to nearest: one after the other; neighbours, then neighbours of these sums; or
/// the first half to the second half, element by element, until one is left (what shuffles within a warp do), or until four
/// are left, which are added as neighbours (what vectors of four numbers do).
enum class Combination { sequential, neighbours, halves, fours };
std::string_view name_of(Combination combination);

/// Trees of libraries for sums of numbers:
///   dealt:      as SumParts deals the terms out
///   halved:     more than 128 terms are halved, the left half rounded down to a multiple of 8; 128 or fewer are 8 lanes
///               of 1 term in turn, added neighbour to neighbour, and a rest of fewer than 8 (numpy)
///   cascade:    `lanes` x `chains` lanes of 1 term in turn, each in 4 levels: 2^p terms make a sum of the lowest level,
///               2^p sums of a level one of the next, p = max(4, floor(ceil(log2 m) / 4)) for m terms in a lane; the
///               `chains` of a vector lane are added, then its lanes to what a vector is too long for (PyTorch on a CPU)
/// Source:    numpy, loops_utils.h.src (pairwise sum); PyTorch, aten/src/ATen/native/cpu/SumKernel.cpp (cascade_sum)
enum class SumTree { dealt, halved, cascade };
std::string_view name_of(SumTree tree);

/// The parts of a sum and how they are added. The terms of a part may be dealt to parts again: blocks with lanes inside.
struct SumParts {
  Dealing dealing = {};
  Combination combination = Combination::sequential;
  Dealing inside = {};  ///< of the terms of each part; by default they are one chain
  Combination inside_combination = Combination::sequential;
  SumTree tree = SumTree::dealt;  ///< another one: the members above say nothing
  std::int64_t lanes = 1;         ///< of `cascade`, as the next
  std::int64_t chains = 1;

  friend bool operator==(const SumParts&, const SumParts&) = default;
};

/// The additions that make one number of the sums of chains.
struct SumJoins {
  struct Join {
    std::uint32_t to = 0, from = 0;  ///< chain `to` becomes the sum of both

    friend bool operator==(const Join&, const Join&) = default;
  };
  std::vector<Join> list;  ///< in their order: those within parts, then those of parts; chain 0 is left
  std::size_t within = 0;  ///< how many of them are within parts
  std::size_t chains = 0;

  std::size_t parts() const { return chains - within; }  ///< sums that are complete before they are added to each other
};

/// The chains of a sum, and what is done with them.
struct SumSchedule {
  std::vector<std::uint32_t> terms;  ///< chain after chain
  std::vector<std::size_t> ends;     ///< by chain: where it ends in `terms`
  SumJoins joins;
};

/// The chains of a sum of n terms; none is empty.
/// Throws:    InvalidArgument for numbers below 1, where the dealing needs them
SumSchedule schedule_of(const SumParts& parts, std::int64_t n);

/// The additions alone.
/// Throws:    as schedule_of()
SumJoins joins_of(const SumParts& parts, std::int64_t n);

/// The additions that a term passes through, at most: those of its chain and those of chains.
std::int64_t height_of(const SumSchedule& schedule);

}  // namespace driftbound

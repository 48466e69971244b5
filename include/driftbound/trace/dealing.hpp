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
    balanced,    ///< the same, but what is left after full parts, if it is more than one part, makes two parts of equal
                 ///< length, the first rounded up to a multiple of `multiple` (how BLAS libraries block long sums)
    interleaved  ///< term k goes to part (k / run) mod `parts`: the lanes of a vector, the threads of a warp
  };
  Kind kind = Kind::contiguous;
  std::int64_t parts = 1;     ///< of `interleaved`
  std::int64_t run = 0;       ///< 0: all terms in one part
  std::int64_t multiple = 1;  ///< of `balanced`

  friend bool operator==(const Dealing&, const Dealing&) = default;
};

std::string_view name_of(Dealing::Kind kind);

/// How parts are added, in the accumulator to nearest: one after the other; neighbours, then neighbours of these sums; or
/// the first half to the second half, element by element, until one is left (what shuffles within a warp do).
enum class Combination { sequential, neighbours, halves };
std::string_view name_of(Combination combination);

/// The indices of the terms of a sum, part after part.
struct SumSchedule {
  std::vector<std::uint32_t> terms;
  std::vector<std::size_t> ends;  ///< by part: where it ends in `terms`
};

/// The parts of a sum of n terms; no part is empty.
/// Throws:    InvalidArgument for numbers below 1, where the dealing needs them
SumSchedule schedule_of(const Dealing& dealing, std::int64_t n);

/// The additions that a term passes through, at most, until the parts are combined: those of its chain and those of parts.
std::int64_t height_of(const SumSchedule& schedule, Combination combination);

}  // namespace driftbound

#include "driftbound/trace/dealing.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

std::int64_t to_whole(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Where contiguous parts of n terms end.
std::vector<std::int64_t> ends_of_parts(const Dealing& dealing, std::int64_t n) {
  const std::int64_t run = dealing.run == 0 ? n : dealing.run;
  std::vector<std::int64_t> ends;
  for (std::int64_t done = 0; done < n; done = ends.back()) {
    const std::int64_t left = n - done;
    const bool is_halved = dealing.kind == Dealing::Kind::balanced && left > run && left < 2 * run;
    const std::int64_t length = is_halved ? to_whole((left + 1) / 2, dealing.multiple) : run;
    ends.push_back(done + std::min(length, left));
  }
  return ends;
}

SumSchedule interleaved(const Dealing& dealing, std::int64_t n) {
  SumSchedule schedule;
  schedule.terms.reserve(static_cast<std::size_t>(n));
  const std::int64_t stride = dealing.parts * dealing.run;
  for (std::int64_t part = 0; part < dealing.parts && part * dealing.run < n; ++part) {
    for (std::int64_t first = part * dealing.run; first < n; first += stride)
      for (std::int64_t k = first; k < std::min(first + dealing.run, n); ++k)
        schedule.terms.push_back(static_cast<std::uint32_t>(k));
    schedule.ends.push_back(schedule.terms.size());
  }
  return schedule;
}

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

std::string_view name_of(Combination combination) {
  switch (combination) {
    case Combination::sequential:
      return "sequential";
    case Combination::neighbours:
      return "neighbours";
    case Combination::halves:
      return "halves";
  }
  return "sequential";
}

SumSchedule schedule_of(const Dealing& dealing, std::int64_t n) {
  if (n < 1 || dealing.run < 0 || dealing.parts < 1 || dealing.multiple < 1 ||
      (dealing.kind == Dealing::Kind::interleaved && dealing.run < 1))
    throw InvalidArgument("parts of a sum: terms, parts and their lengths are 1 or more");
  if (dealing.kind == Dealing::Kind::interleaved) return interleaved(dealing, n);
  SumSchedule schedule;
  schedule.terms.resize(static_cast<std::size_t>(n));
  std::iota(schedule.terms.begin(), schedule.terms.end(), 0U);
  for (const std::int64_t end : ends_of_parts(dealing, n)) schedule.ends.push_back(static_cast<std::size_t>(end));
  return schedule;
}

std::int64_t height_of(const SumSchedule& schedule, Combination combination) {
  std::int64_t longest = 0, first = 0, height = 0, index = 0;
  const auto parts = static_cast<std::int64_t>(schedule.ends.size());
  for (const std::size_t end : schedule.ends) {
    const std::int64_t length = static_cast<std::int64_t>(end) - first;
    first = static_cast<std::int64_t>(end);
    longest = std::max(longest, length);
    const std::int64_t additions_of_parts = index == 0 ? parts - 1 : parts - index;
    height = std::max(height, length - 1 + additions_of_parts);
    ++index;
  }
  if (combination == Combination::sequential) return height;
  return longest - 1 + static_cast<std::int64_t>(std::bit_width(schedule.ends.size() - 1));
}

}  // namespace driftbound

#include "bounds/rows/bound_cache.hpp"

#include <cstddef>

#include "bounds/rows/row_walk.hpp"
#include "bounds/rows/run_walk.hpp"

namespace driftbound::bounds {

template <class Walk>
std::shared_ptr<const Walk> BoundCache::walk_of(const Program& program, const std::string& run, const Setting& setting,
                                                std::vector<OfProgram<Walk>>& known) {
  constexpr std::size_t most_kept = 8;
  const std::lock_guard lock(mutex_);
  for (const OfProgram<Walk>& one : known)
    if (one.program == program.identity() && one.run == run) return one.walk;
  if (known.size() == most_kept) known.erase(known.begin());
  known.push_back({program.identity(), run, Walk::of(program, setting, *this)});
  return known.back().walk;
}

std::shared_ptr<const RowWalk> BoundCache::row_walk(const Program& program, const Setting& setting) {
  return walk_of(program, "", setting, row_walks_);
}

std::shared_ptr<const RunWalk> BoundCache::run_walk(const Program& program, const Setting& setting) {
  const std::string run = to_json(*setting.arithmetic) + (setting.is_own_run ? " ours" : "");
  return walk_of(program, run, setting, run_walks_);
}

std::shared_ptr<RunMemories> BoundCache::memories_of_runs() {
  const std::lock_guard lock(memories_mutex_);
  if (memories_of_runs_ == nullptr) memories_of_runs_ = run_memories();
  return memories_of_runs_;
}

}  // namespace driftbound::bounds

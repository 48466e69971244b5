#include "bounds/rows/bound_cache.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "bounds/rows/row_walk.hpp"
#include "bounds/rows/run_walk.hpp"

namespace driftbound::bounds {

template <class Walk>
std::shared_ptr<const Walk> BoundCache::walk_of(const Program& program, const std::string& run, const Setting& setting,
                                                std::vector<OfProgram<Walk>>& known, std::string& obstacle) {
  constexpr std::size_t most_kept = 8;
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(known.begin(), known.end(), [&](const OfProgram<Walk>& one) {
    return one.program == program.identity() && one.run == run;
  });
  if (found == known.end()) {
    if (known.size() == most_kept) known.erase(known.begin());
    OfProgram<Walk> made{program.identity(), run, nullptr, ""};
    made.walk = Walk::of(program, setting, *this, made.obstacle);
    found = known.insert(known.end(), std::move(made));
  }
  obstacle = found->obstacle;
  return found->walk;
}

std::shared_ptr<const RowWalk> BoundCache::row_walk(const Program& program, const Setting& setting,
                                                    std::string& obstacle) {
  return walk_of(program, "", setting, row_walks_, obstacle);
}

std::shared_ptr<const RunWalk> BoundCache::run_walk(const Program& program, const Setting& setting,
                                                    std::string& obstacle) {
  std::string run = to_json(*setting.arithmetic) + (setting.is_own_run ? " ours" : "");
  if (setting.found != nullptr)
    for (const std::optional<ArithmeticModel>& found : *setting.found) run += found ? to_json(*found) : " as declared";
  return walk_of(program, run, setting, run_walks_, obstacle);
}

std::shared_ptr<RunMemories> BoundCache::memories_of_runs() {
  const std::lock_guard lock(memories_mutex_);
  if (memories_of_runs_ == nullptr) memories_of_runs_ = run_memories();
  return memories_of_runs_;
}

}  // namespace driftbound::bounds

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bounds/nodes/operand_cache.hpp"
#include "program/program_cache.hpp"

namespace driftbound::bounds {

class RowWalk;
class RunMemories;
class RunWalk;

/// What the bounds of one graph keep from block to block: operands, programs, and walks over rows. Thread-safe.
class BoundCache : public OperandCache, public ProgramCache {
public:
  /// RowWalk::of()
  std::shared_ptr<const RowWalk> row_walk(const Program& program, const Setting& setting, std::string& obstacle);
  /// RunWalk::of() for the setting's arithmetic.
  std::shared_ptr<const RunWalk> run_walk(const Program& program, const Setting& setting, std::string& obstacle);
  /// What all walks of runs share.
  std::shared_ptr<RunMemories> memories_of_runs();

private:
  template <class Walk>
  struct OfProgram {
    std::uint64_t program = 0;  ///< its identity
    std::string run;            ///< what else the walk depends on
    std::shared_ptr<const Walk> walk;
    std::string obstacle;  ///< where there is none
  };
  template <class Walk>
  std::shared_ptr<const Walk> walk_of(const Program& program, const std::string& run, const Setting& setting,
                                      std::vector<OfProgram<Walk>>& known, std::string& obstacle);

  std::mutex mutex_;
  std::vector<OfProgram<RowWalk>> row_walks_;
  std::vector<OfProgram<RunWalk>> run_walks_;
  std::mutex memories_mutex_;
  std::shared_ptr<RunMemories> memories_of_runs_;
};

}  // namespace driftbound::bounds

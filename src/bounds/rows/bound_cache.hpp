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

/// The cache of the bounds of one graph, kept from block to block: packed operands, compiled programs, and row and run
/// walks. Thread-safe.
class BoundCache : public OperandCache, public ProgramCache {
public:
  /// Returns the result of RowWalk::of(), which may be null: `obstacle` says why.
  std::shared_ptr<const RowWalk> row_walk(const Program& program, const Setting& setting, std::string& obstacle);
  /// Returns the result of RunWalk::of() for the setting's arithmetic, which may be null: `obstacle` says why.
  std::shared_ptr<const RunWalk> run_walk(const Program& program, const Setting& setting, std::string& obstacle);
  /// Returns the buffers that all run walks of the graph share.
  std::shared_ptr<RunMemories> memories_of_runs();

private:
  template <class Walk>
  struct OfProgram {
    std::uint64_t program = 0;  ///< Program::identity()
    std::string run;            ///< the other key: arithmetic of the run; "" for row walks
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

#pragma once

#include <cstdint>

#include "analysis/judge.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound::analysis {

struct AuditOptions {
  std::int64_t draws = 0;  ///< elements drawn of every result; 0: all are judged
  std::uint64_t seed = 1;
};

/// Judges every record of a run by itself, one after the other, with the bounds of one layer: the exact op on the recorded
/// operands. Layers of the comparison are the results of records. Of the options, those for targets, boxes and memory
/// have no effect, and `progress` is called with records.
/// Throws:    Unsupported where nothing of the run can be judged, saying why; what judge() throws
Judgement judge_records(const RecordedRun& run, const JudgeOptions& options, const AuditOptions& audit = {});

/// Judges the network that the records of a run are, and adds what it says from the input on to the run's judgement:
/// accumulated errors of results, outputs and numbers of interest. Where there is no such network, adds why.
/// Throws:    what judge() throws
void judge_from_input(const RecordedRun& run, const RecordChain& chain, const JudgeOptions& options,
                      Judgement& judgement);

/// The share p of violating elements for which `draws` independent draws miss all of them with this probability:
/// (1 - p)^draws = probability.
double share_missed_with(double probability, std::int64_t draws);

}  // namespace driftbound::analysis

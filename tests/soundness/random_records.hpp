#pragma once

#include <cstdint>

#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// What a campaign over recorded runs counts.
struct RecordsTally {
  Tally tally;
  std::int64_t judged = 0;  ///< results of records that a report has judged
  std::int64_t alarms = 0;  ///< of these, violated or improbable

  void merge(const RecordsTally& other);
};

/// A recorded run of one to five calls (products, attention, norms, softmax, functions, losses, sums of parts, casts,
/// moves), each on the result of the one before where it takes it: values of a random family of data, stored as float32,
/// bfloat16 or float16, some in part, some not at all. Results are those of the CPU evaluator in orders drawn at random.
/// Holds every part of every record, and the network that the records are, against every bound, and the report on them
/// against the truth: that all is honest. The seed says everything.
void check_random_records(std::uint64_t seed, RecordsTally& tally);

}  // namespace driftbound::soundness

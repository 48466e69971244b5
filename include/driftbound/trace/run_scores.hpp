#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/trace/recorded_run.hpp"

namespace driftbound {

/// Finds the scores of a run: what nothing but softmax and the masks of attention read, and nothing but masks on the way to
/// them (sums, selections, limits, scalar factors). Elements of scores that a mask sets to a large negative number make no
/// difference, whatever number that is.
class ScoreFinder {
public:
  explicit ScoreFinder(const RecordedRun& run);

  /// Whether the value is read, and so alone. LogSoftmax is no such reader: it shows the number itself.
  bool are_scores(const std::string& id);

private:
  bool are_scores_at(std::size_t record, std::size_t slot);

  const RecordedRun& run_;
  std::map<std::string, std::vector<std::pair<std::size_t, std::size_t>>> readers_;  ///< by id: record and slot
  std::map<std::string, bool> known_;
};

}  // namespace driftbound

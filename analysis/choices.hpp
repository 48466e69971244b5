#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/trace/recorded_run.hpp"

namespace driftbound::analysis {

/// Which values of a run are made for choosing among the numbers of a row: outputs, and those that nothing reads but what
/// chooses (results of integers; topk, max, sort) and softmax or log-softmax at the end, through records that move elements.
class ChosenFrom {
public:
  explicit ChosenFrom(const RecordedRun& run);
  /// False for the result of a softmax whose operand is such a value, too: that one counts.
  bool are_chosen_from(const std::string& id) const;

private:
  bool ends_in_choices(const std::string& id) const;
  bool is_softmax_of_logits(const std::string& id) const;

  const RecordedRun& run_;
  std::map<std::string, std::vector<std::size_t>> readers_;  ///< records by the value that they read
};

/// A recorded choice that is not the largest number (argmax, the indices of topk), or the smallest where that is asked for.
struct WrongChoice {
  std::int64_t rows = 0, wrong = 0;  ///< rows that are judged, and those with a wrong choice
  std::int64_t row = 0;              ///< the first of them, along the axis of the choice
  std::int64_t chosen = 0;           ///< its index there
  double number = 0.0;               ///< at this index; NaN where there is none
  std::int64_t better = 0;           ///< an index that is not chosen and has a larger number
  double of_better = 0.0;
  bool is_smallest = false;  ///< the smallest numbers are asked for: `better` has a smaller one
  std::string text() const;
};

/// Returns:   empty where the record is no choice, its numbers are not recorded whole, or every choice is right. Of equal
///            numbers any may be chosen; rows with NaN are left out
/// Guarantee: proven: numbers are compared as they are recorded
/// Source:    docs/theory.md T-182
std::optional<WrongChoice> wrong_choice(const RecordedRun& run, std::size_t record);

}  // namespace driftbound::analysis

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/trace/recorded_run.hpp"
#include "driftbound/trace/run_alignment.hpp"

namespace driftbound {

/// A record that looks up rows of a table by integers with one or two axes.
struct Lookup {
  std::string ids, table, result;
  std::size_t record = 0;
  bool is_first = false;  ///< of its table: those behind it are chosen by a run that goes on with its own tokens
};
std::vector<Lookup> lookups_of(const RecordedRun& of);

/// What a run reads of its texts in one step.
struct TextStep {
  std::int64_t begin = 0;  ///< position of the first token that the step reads
  std::int64_t first = 0;  ///< position of the first token that no step before has read
  std::int64_t end = 0;    ///< behind the last one
  std::size_t record = 0;  ///< the first one of the step
};

/// The texts of a run as it reads them, in one step or in several.
struct ReadTexts {
  Tensor<std::int64_t> tokens;  ///< texts x positions
  std::vector<TextStep> steps;
  bool goes_on_with_others = false;  ///< what is looked up then are other texts
};

/// Integers of a value; empty where not all of them are recorded.
using KnownIntegers = std::function<std::optional<Tensor<std::int64_t>>(const std::string& id)>;

/// The texts whose first tokens are `first`, and all that is looked up in the same table after them. A step reads the
/// tokens behind those of the steps before, or all of them again and some more. It begins behind the last record that
/// follows from tokens of the steps before: with its positions and masks, if they come before its tokens.
/// `are_positions_first`: the first of two axes of tokens counts positions
/// Returns:   empty where tokens are not recorded, or steps have no tokens for every text; the first texts, where others
///            follow that read nothing of what was computed for these
std::optional<ReadTexts> texts_of(const RecordedRun& run, const std::vector<Lookup>& lookups, const std::string& first,
                                  bool are_positions_first, const KnownIntegers& integers);

/// A step of each run, and what of their values is the same.
struct StepPair {
  std::size_t a = 0, b = 0;  ///< positions in ReadTexts::steps
  AlignedStep step;
};

/// The steps of two runs that have positions in common which are new in both.
/// `rows`: of the texts as a whole
/// Returns:   empty where the runs read these positions in the same steps
std::vector<StepPair> pairs_of_steps(const ReadTexts& a, const ReadTexts& b, const AlignedRows& rows);

}  // namespace driftbound

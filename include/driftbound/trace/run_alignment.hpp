#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound {

/// What shows that two results are the same value of two runs.
///   op       the module, the op, the number of elements a row, and the order are the same
///   module   the same but for the op: one run fuses several ops into one
///   order    the same but for the module: the runs call their modules otherwise, or do not name them
///   numbers  the numbers of elements a row are the same, and the numbers nearer than those of any other candidate
enum class AlignedBy { op, module, order, numbers };
/// "op", "module", "order", "numbers"
std::string_view name_of(AlignedBy by);

/// What the operands of two aligned records say of each other: they are the same values of two runs, some are not, or
/// values without a counterpart keep that open.
enum class OperandsAre { same, other, open };

/// The same value of two runs.
struct AlignedResult {
  RecordedResult a, b;
  AlignedBy by = AlignedBy::op;
  std::string kind;  ///< what run a's record computes, by ops of this library: "product+Add", "Softmax", "Mul+Add"
  OperandsAre operands = OperandsAre::open;
  bool casts_otherwise = false;            ///< one run rounds an operand to another type first, the other does not
  std::size_t other_slot = 0;              ///< of the first operand that is another value; only with OperandsAre::other
  std::vector<std::size_t> reads;          ///< positions in RunAlignment::results of what run a's record reads
  std::vector<std::size_t> reads_sources;  ///< the same in RunAlignment::sources
  /// All that it follows from is the same in both runs, where sequences part: it is compared as a whole.
  bool has_same_inputs = false;
  /// Of values of a step of a recurrent network, where sequences part: the last position that they follow from. Larger
  /// than any where the runs do not agree.
  std::optional<std::int64_t> last_position = std::nullopt;
  std::size_t in_step = 0;  ///< position in RunAlignment::steps, where there are steps
  bool reads_left_out = false;  ///< it reads results that without_pairs() left out
};

/// A value from outside that both runs read: a weight, an input, a constant.
struct AlignedSource {
  std::string a, b;            ///< ids
  bool is_transposed = false;  ///< b is the transpose of a
  bool is_identical = false;   ///< bit for bit, transposed and by rows as they are aligned
  std::string table;           ///< what run a looks up by these integers, by id; empty: nothing
  std::size_t step = 0;        ///< how often a table has been looked up again when run a reads it first
  std::size_t in_step = 0;     ///< position in RunAlignment::steps, where there are steps
};

/// Positions of a sequence that two runs have in common.
struct AlignedStretch {
  std::int64_t first_a = 0, first_b = 0, count = 0;
  friend bool operator==(const AlignedStretch&, const AlignedStretch&) = default;
};

/// The first tokens in which two sequences differ.
struct PartingTokens {
  std::int64_t row = 0, position = 0;  ///< in run a
  std::int64_t a = 0, b = 0;
};

/// The positions whose keys attention reads in a step of both runs: those of the step, and those of all steps before.
struct AlignedKeys {
  std::int64_t a = 0, b = 0;            ///< positions of each run
  std::vector<AlignedStretch> of_b;     ///< by row of b
  std::int64_t room_a = 0, room_b = 0;  ///< positions that a cache of a fixed size has; 0: there is none
};

/// Sequences that are the same in part: they part at a token, or are padded. Values without positions are not compared.
struct AlignedPositions {
  std::int64_t a = 0, b = 0;             ///< positions of a sequence of each run
  std::vector<AlignedStretch> of_b;      ///< by row of b
  std::string tokens_in_a, tokens_in_b;  ///< the values from outside that say so, by id
  std::optional<PartingTokens> parting;  ///< empty: one sequence goes on where the other ends, or they are no integers
  bool lie_first = false;                ///< the first axis of the tokens counts positions, the second one rows
  std::optional<AlignedKeys> keys = std::nullopt;  ///< of AlignedStep
};

/// Which rows of two runs are the same sample. The axis of a value along which they lie, one by one or in blocks, is the
/// one along which the numbers of both runs are nearest.
struct AlignedRows {
  std::int64_t a = 0, b = 0;       ///< rows of the runs
  std::vector<std::int64_t> of_b;  ///< by row of b: the row of a, -1: none

  std::optional<AlignedPositions> positions = std::nullopt;  ///< empty: rows are the same as a whole
  bool lacks_rows = false;  ///< only these rows are the same, also of values with as many elements in both runs
};

/// A step of each run that have positions in common. A run reads a text at once, or in several steps: a prompt, and
/// then token by token what it chose, with a cache of keys, or all of it again.
struct AlignedStep {
  std::optional<AlignedRows> rows;  ///< of the values of these steps; empty: all are the same
  std::int64_t first_a = 0;         ///< position in the text of the first position of run a's values
  /// One of the runs reads positions again in this step that the other one's step has not: what its values have there is
  /// not compared.
  bool leaves_some_out = false;
};

/// What of two runs is the same.
struct RunAlignment {
  std::vector<AlignedResult> results;          ///< in the order of a
  std::vector<RecordedResult> only_a, only_b;  ///< computed results without a counterpart
  std::vector<AlignedSource> sources;          ///< in the order in which a reads them
  std::vector<std::string> sources_only_a, sources_only_b;
  std::optional<AlignedRows> rows;  ///< empty: all rows are the same. Where there are steps: of the texts as a whole
  /// Where the runs read the same positions in different steps: a result of one run may then be the same as results of
  /// several steps of the other. Empty: the runs read them in the same steps.
  std::vector<AlignedStep> steps;
  bool has_other_texts = false;  ///< a run reads one text after the other; steps are then aligned one by one
  Tensor<std::int64_t> texts;    ///< where there are steps: tokens of run a, texts x positions

  /// How rows of a value of both runs lie; empty: it has the same ones in both.
  std::optional<AlignedRows> rows_of(const AlignedResult& result) const;
  /// The same of a value from outside.
  const std::optional<AlignedRows>& rows_of(const AlignedSource& source) const;
};

/// Finds which results and which values from outside of two runs are the same. Results are compared in the order of the
/// calls by the longest common subsequence: of module, op and elements a row first, then, between results that are
/// aligned, of less. Records that move elements are looked through. Where the first axis of an operand from outside
/// differs in the two runs, or its rows stand in another order, rows with the same numbers are the same sample: batches
/// may be packed otherwise. A run that looks up its table again and again, as one that goes on with its own tokens, is
/// compared step by step; where the other run reads the same text at once, or in other steps, each step is compared with
/// the positions that the other run has of it. Where no row is the same as a whole, sequences may have their first positions in common, or one of them ends
/// with the whole of the other (padding before it). What has no counterpart is listed, not guessed.
/// Throws:    what the files of the runs throw
RunAlignment align_runs(const RecordedRun& a, const RecordedRun& b);

/// The same alignment without some pairs of results, by position: they are results of each run alone, and what read them
/// reads what they were made of.
RunAlignment without_pairs(const RunAlignment& alignment, const std::set<std::size_t>& pairs);

/// Whether an op draws its result at random.
bool draws_at_random(std::string_view op);

/// Whether values of these shapes may have the rows and positions of both runs along an axis.
bool may_have_rows_in_common(const Shape& a, const Shape& b, const AlignedRows& rows);

/// The rows of a value without positions that follows from the sequences' positions up to `last`: of those that begin and
/// go on alike as far as that.
AlignedRows rows_up_to(const AlignedRows& rows, std::int64_t last);

/// The elements of a value of run a in the place that they have in run b: its rows, and its shape.
/// Returns:   empty where the values do not fit, or b has rows that a lacks
std::optional<StoredTensor> as_in_b(const StoredTensor& of_a, const StoredTensor& of_b,
                                    const std::optional<AlignedRows>& rows);

/// A value of both runs, cut down to the rows and positions that both have.
struct AlignedNumbers {
  StoredTensor a, b;  ///< of the same shape
  /// By row (along the last axis): its number in the value of each run. Empty: all rows, as they are.
  std::vector<std::int64_t> rows_of_a = {}, rows_of_b = {};
};
/// Returns:   empty where the values do not fit
std::optional<AlignedNumbers> aligned_numbers(const StoredTensor& a, const StoredTensor& b,
                                              const std::optional<AlignedRows>& rows);

}  // namespace driftbound

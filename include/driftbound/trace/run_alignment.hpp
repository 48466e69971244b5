#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
};

/// A value from outside that both runs read: a weight, an input, a constant.
struct AlignedSource {
  std::string a, b;            ///< ids
  bool is_transposed = false;  ///< b is the transpose of a
  bool is_identical = false;   ///< bit for bit, transposed and by rows as they are aligned
};

/// Which rows of two runs are the same sample. The axis of a value along which they lie, one by one or in blocks, is the
/// one along which the numbers of both runs are nearest.
struct AlignedRows {
  std::int64_t a = 0, b = 0;       ///< rows of the runs
  std::vector<std::int64_t> of_b;  ///< by row of b: the row of a, -1: none
};

/// What of two runs is the same.
struct RunAlignment {
  std::vector<AlignedResult> results;          ///< in the order of a
  std::vector<RecordedResult> only_a, only_b;  ///< computed results without a counterpart
  std::vector<AlignedSource> sources;          ///< in the order in which a reads them
  std::vector<std::string> sources_only_a, sources_only_b;
  std::optional<AlignedRows> rows;  ///< empty: all rows are the same
};

/// Finds which results and which values from outside of two runs are the same. Results are compared in the order of the
/// calls by the longest common subsequence: of module, op and elements a row first, then, between results that are
/// aligned, of less. Records that move elements are looked through. Where the first axis of an operand from outside
/// differs in the two runs, or its rows stand in another order, rows with the same numbers are the same sample: batches
/// may be packed otherwise. What has no counterpart is listed, not guessed.
/// Throws:    what the files of the runs throw
RunAlignment align_runs(const RecordedRun& a, const RecordedRun& b);

/// The elements of a value of run a in the place that they have in run b: its rows, and its shape.
/// Returns:   empty where the values do not fit, or b has rows that a lacks
std::optional<StoredTensor> as_in_b(const StoredTensor& of_a, const StoredTensor& of_b,
                                    const std::optional<AlignedRows>& rows);

/// A value of both runs, cut down to the rows that both have.
struct AlignedNumbers {
  StoredTensor a, b;  ///< of the same shape
};
/// Returns:   empty where the values do not fit
std::optional<AlignedNumbers> aligned_numbers(const StoredTensor& a, const StoredTensor& b,
                                              const std::optional<AlignedRows>& rows);

}  // namespace driftbound

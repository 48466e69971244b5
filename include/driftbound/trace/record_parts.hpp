#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/recorded_run.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// How a record is cut into parts.
struct CutOptions {
  /// Elements of every result that are drawn at random and independently, half of them spread over the rows and half over
  /// the columns (T-140); 0: all elements are judged. A draw brings in what comes with it: the row of a softmax or a norm.
  /// Beside the draws are the largest elements, those that are not finite, rows of a softmax or a norm that differ from
  /// the others, and elements of a product that its checksums speak against.
  std::int64_t draws = 0;
  std::uint64_t seed = 1;
};

/// A part of a record, as a network of one node with one sample for every element (or row) of the record's result, and
/// the run of it that was recorded. It can be judged as any other network.
struct RecordPart {
  std::size_t result = 0;  ///< of the record
  Graph graph;
  Trace trace;
  /// By sample: the row-major number, in the record's result, of the sample's first element. The others follow at the
  /// distance `stride`.
  std::vector<std::int64_t> places;
  std::int64_t stride = 1;
  /// The numbers of all elements, sample after sample, where they follow no stride; else empty.
  std::vector<std::int64_t> elements;
  double share = 1.0;  ///< of the elements of the result among which those of the part were chosen, roughly

  /// The number in the record's result of an element of a sample.
  std::int64_t place_of(std::int64_t sample, std::int64_t element) const;
};

/// What became of one result of a record.
struct ResultCoverage {
  std::size_t result = 0;
  bool is_view = false;        ///< its elements are moved, not computed: there is nothing to judge
  std::string why_not;         ///< why nothing of it is judged; empty: it is
  bool is_op_unknown = false;  ///< `why_not` is that this version does not know the op
  std::int64_t elements = 0;   ///< of the whole result
  std::int64_t judged = 0;
  std::int64_t draws = 0;     ///< independent ones among those judged; 0: all elements were to be judged
  std::int64_t infinite = 0;  ///< elements that are infinite, or NaN, as their operands make them
  std::int64_t lacking = 0;   ///< elements for which a part of an operand is not recorded
};

/// Cuts a record into parts, hands them out one after the other and returns what became of its results. `take` returns
/// whether to go on.
/// Throws:    InvalidArgument where there is no such record; what the files of the run throw
std::vector<ResultCoverage> cut_record(const RecordedRun& run, std::size_t record, const CutOptions& options,
                                       const std::function<bool(RecordPart&&)>& take);

}  // namespace driftbound

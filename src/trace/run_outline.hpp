#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/recorded_run.hpp"

namespace driftbound {

/// Where a value comes from when moves of elements are looked through: results of records and values from outside.
struct Root {
  std::optional<RecordedResult> result;  ///< empty: from outside
  std::string id;
  bool is_cast = false;  ///< rounded to another type on the way

  friend bool operator==(const Root&, const Root&) = default;
};

/// What a record computes, whatever the program calls it.
struct RecordKind {
  std::string
      kind;  ///< "Softmax", "product+Add"; empty: the record moves elements, or casts them. The op's name: not known
  bool is_cast = false;
  std::vector<bool> is_judged;  ///< by result; others are statistics beside a result. Empty: all are
};
RecordKind kind_of_record(const RecordedRun& run, const Record& record);

/// A result that a record computes.
struct ComputedResult {
  RecordedResult at;
  std::string id, module;
  std::string kind;  ///< what is computed, whatever the program calls it: "Gemm", "Softmax"
  Shape shape;
  std::vector<std::vector<Root>> operands;  ///< of the record
};

/// A value from outside, where it is read first.
struct SourceUse {
  std::string id;
  std::string kind, module;  ///< of the record that reads it
  std::size_t slot = 0;
  std::size_t record = 0;  ///< that reads it
};

/// An operand all of which comes from outside, as an op reads it.
struct OutsideOperand {
  std::string id;    ///< of a value that may follow from others by moves
  std::string kind;  ///< of the record that reads it
  std::size_t slot = 0;
};

/// What a run computes, and from what, without its moves of elements.
struct RunOutline {
  std::vector<ComputedResult> computed;  ///< in the order of the calls
  std::vector<SourceUse> sources;        ///< in the order in which they are read
  std::vector<OutsideOperand> outside;   ///< in the order of the calls
  std::vector<std::string> moved;        ///< values that follow by moves from values from outside
};

RunOutline outline_of(const RecordedRun& run);

/// A value from outside that has positions along an axis.
struct SequenceSource {
  std::string id;
  std::int64_t positions = 0;
  std::int64_t inner =
      1;  ///< elements of a position that lie together: element i is of position (i / inner) % positions
};

/// By computed result, the last position of a sequence that a value of a step of a recurrent network follows from, as it
/// reads what was taken apart position by position, or such values; empty where it is none, or that is not known.
/// `is_same`: a value from outside follows from no position.
std::vector<std::optional<std::int64_t>> last_positions(const RecordedRun& run, const RunOutline& outline,
                                                        const SequenceSource& sequence,
                                                        const std::function<bool(const std::string&)>& is_same);

}  // namespace driftbound

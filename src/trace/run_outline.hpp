#pragma once

#include <cstddef>
#include <cstdint>
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

}  // namespace driftbound

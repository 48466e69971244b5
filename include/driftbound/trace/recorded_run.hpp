#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/recorded_call.hpp"
#include "driftbound/model/tensor.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// One call of an op in a recorded run.
struct Record {
  std::string name;  ///< unique in the run
  std::string op;
  std::int64_t opset = 21;
  std::string module;  ///< dotted path; may be empty
  std::string device;
  std::int64_t rank = 0;
  std::map<std::string, Attribute> attributes;
  std::vector<std::optional<std::string>> operands;  ///< ids of values; empty: left out
  std::vector<std::optional<std::string>> results;   ///< ids of values; empty: not recorded
  std::string arithmetic;                            ///< name of the declared arithmetic; may be empty
};

/// Which part of a value is recorded.
struct RecordedPart {
  /// By axis: the indices that are recorded, ascending. Of the other axes all are.
  std::map<std::size_t, std::vector<std::int64_t>> axes;
  /// The row-major indices of single elements that are recorded, ascending; `axes` is empty then.
  std::optional<std::vector<std::int64_t>> elements;
  /// How many of the recorded elements, or rows, were drawn uniformly and independently; 0: none, or unknown.
  std::int64_t draws = 0;
};

/// Whether a file is a recorded run (trace version 2). False for files that are no .safetensors file, too.
bool is_recorded_run(const std::filesystem::path& file);

/// A recorded run: its shards, mapped, and the values in them. Thread-safe.
class RecordedRun {
public:
  /// Shards that are missing or are of another run are left out and named by problems(). So are records that are
  /// damaged.
  /// Throws:    FileError, ParseError for the first shard
  explicit RecordedRun(const std::filesystem::path& file);
  ~RecordedRun();
  RecordedRun(RecordedRun&&) noexcept;
  RecordedRun& operator=(RecordedRun&&) noexcept;

  /// In the order of the calls.
  const std::vector<Record>& records() const;
  const Provenance& provenance() const;
  /// What is wrong with the recording as a whole, one sentence each.
  const std::vector<std::string>& problems() const;
  /// The declared arithmetic of a record; where it declares none, operations of float32 (float64 where `is_double`) with
  /// results stored in the types they have, assumed.
  /// Throws:    InvalidArgument for a name that is not declared
  ArithmeticModel arithmetic_of(const Record& record, bool is_double) const;

  bool has(const std::string& id) const;
  /// What messages call a value: its name in the program, as of a weight, or that of the value whose elements it has; else
  /// its id.
  std::string called(const std::string& id) const;
  /// Throws (these and the next):    InvalidArgument for an id that the run does not have
  ElementType type_of(const std::string& id) const;
  const Shape& shape_of(const std::string& id) const;
  /// The record whose result the value is; empty: it came from outside of what was recorded.
  std::optional<std::size_t> producer_of(const std::string& id) const;
  /// Whether the numbers are stored; else they follow from the record that produces the value.
  bool is_stored(const std::string& id) const;
  /// The part of the value that is stored; empty: all of it.
  std::optional<RecordedPart> part_of(const std::string& id) const;
  /// What is stored of the value, mapped.
  /// Throws:    FileError, ParseError, ShapeMismatch for a file of weights that is missing, of another hash or lacks the
  ///            tensor; Unsupported where nothing is stored
  StoredTensor stored(const std::string& id) const;
  /// Gives the memory of numbers that were read back to the system. They are read again when they are asked for.
  void release_pages() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace driftbound

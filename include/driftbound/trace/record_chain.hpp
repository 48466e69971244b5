#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/recorded_run.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// A result of a record.
struct RecordedResult {
  std::size_t record = 0, result = 0;

  friend auto operator<=>(const RecordedResult&, const RecordedResult&) = default;
};

/// The records of a run whose values chain, as one network, and the run of it that was recorded: one sample. It can be
/// judged as any other network, from the input on too.
struct RecordChain {
  Graph graph;
  Trace trace;
  std::vector<std::optional<RecordedResult>> results;  ///< by node: the result that it computes; empty: moved elements
  /// Names of records that are no part of the network, though others read their results, which are inputs of it.
  std::vector<std::string> given;
  /// Whether programs may, or may not, round some numbers as they read them (CallMeaning::may_round_numbers): bounds of
  /// determined runs (T-76) take such a cast for certain, and do not hold for others.
  bool may_round_numbers = false;
  /// Why the network has no arithmetic: that of the trace is not all records' own, and no bound holds but those of exact
  /// numbers. Empty: it has one.
  std::string no_arithmetic;
  std::string why_not;  ///< why there is no network; empty: there is one
};

/// The numbers of a result of a record; empty where they are not known.
using NumbersOf = std::function<std::optional<StoredTensor>(RecordedResult)>;

/// Joins the records of a run, each as its op's graph (meaning_of). A value that no record computes is an input of the
/// network where a record reads nothing else that depends on an input, else a constant. Results that are recorded whole
/// are layers; others lie inside segments (recorded_graph). Elements that are minus infinity are those of masks:
/// Softmax leaves them out. A record with an unknown op, or with operands that are not known wholly, is no part.
/// `most_numbers`: beyond so many numbers in operands and results there is no network, as it would take too much memory.
/// `numbers`: of another run, in the place of the results that this one recorded: the network is this run's, and the run
/// of it is the other one.
/// Throws:    what the files of the run throw
/// Source:    docs/theory.md T-22
RecordChain chain_records(const RecordedRun& run, std::int64_t most_numbers, const NumbersOf& numbers = {});

}  // namespace driftbound

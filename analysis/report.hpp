#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/comparison.hpp"
#include "analysis/document.hpp"
#include "driftbound/trace/recorded_graph.hpp"

namespace driftbound::analysis {

/// What of a model a trace records, where that is not all of it under the model's own names.
struct RecordedLayers {
  std::size_t recorded = 0, nodes = 0;        ///< layers, and nodes of the model
  std::size_t inside = 0;                     ///< nodes inside segments
  std::vector<SegmentParts> segments;         ///< by layer; may be empty
  std::vector<std::string> outputs_left_out;  ///< of the model
  std::vector<MatchedName> matched;
  std::vector<std::string> copies, unplaced;
};

/// Everything a report says beside the comparison.
struct ReportContext {
  std::string command = {}, date = {};
  double seconds = 0.0;

  std::string model_file = {}, model_sha256 = {}, model_format = {};
  std::int64_t parameters = 0;
  std::int64_t nodes = 0;

  std::string inputs_file = {};       ///< empty: generated
  std::string inputs_generator = {};  ///< "uniform" …, empty: from a file or a trace
  std::string inputs_sha256 = {};
  std::uint64_t seed = 0;
  std::string domain = {};

  Provenance provenance = {};  ///< of the run
  ArithmeticModel arithmetic = {};
  /// Of a trace that lacks layers, or names them otherwise; empty in runs of our own.
  std::optional<RecordedLayers> recorded = {};
  std::vector<std::string> left_out = {};  ///< nodes that are not supported; the outputs behind them are not judged
  std::string results = {};   ///< formats of the results: "fp16 and fp32, as the model declares them"; empty: `output`
  std::string declared = {};  ///< type of a result as the model declares it, where the run stores another; else empty
  std::string stored = {};    ///< the format in which the run stores that result
  std::vector<std::string> bounds_left_out = {};  ///< as they would have taken more memory than was allowed
  std::uint64_t memory_needed = 0;                ///< bytes that these would have taken, roughly
  std::string rounded_inputs = {};  ///< "float64, the model takes float32"; empty: it takes the numbers as they are
  bool interrupted = false;
  std::int64_t requested_samples = 0;
};

/// Whether the run stores results in fewer digits than it computes them in.
inline bool stores_narrowly(const ArithmeticModel& arithmetic) {
  return arithmetic.stores_declared_types || arithmetic.output != arithmetic.accumulator;
}

struct Report {
  ReportContext context;
  Comparison comparison;
};

/// What makes the exit status of a report non-zero: a violation and what is left open, a bound approached too, nothing.
enum class FailOn { violation, approach, never };

/// What a report is held against beside its verdict.
struct ExitRules {
  FailOn fail_on = FailOn::violation;
  std::vector<Question> required = {};  ///< questions that may not stay open
};

/// Exit status of `report`: 0 every proven and conditional bound holds; 1 undecided, improbable or void somewhere, a required
/// question is open, or with FailOn::approach a bound approached; 2 violated.
int exit_status(const Comparison& comparison, const ExitRules& rules);

/// The report as a document: one sentence with the verdict, the layer it hangs on and why; a line per layer and scope,
/// the bounds of every output, a chart of errors and bounds per layer. JSON has the schema driftbound/report/1
/// (docs/schema/report-1.json), CSV one line per layer, scope and bound, JUnit a case for the verdict, one per layer and
/// output, and one where the work was interrupted.
Document document_of(const Report& report, const ExitRules& rules = {});

}  // namespace driftbound::analysis

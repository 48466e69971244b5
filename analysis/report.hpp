#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/comparison.hpp"

namespace driftbound::analysis {

/// Everything a report says beside the comparison.
struct ReportContext {
  std::string command, date;
  double seconds = 0.0;

  std::string model_file, model_sha256, model_format;
  std::int64_t parameters = 0;
  std::int64_t nodes = 0;

  std::string inputs_file;       ///< empty: generated
  std::string inputs_generator;  ///< "uniform" …, empty: from a file or a trace
  std::string inputs_sha256;
  std::uint64_t seed = 0;
  std::string domain;

  std::string backend, device;
  std::string gemm;  ///< what multiplied matrices: "cublas", "cublas-pedantic", "ordered"; empty: unknown
  ArithmeticModel arithmetic;
  std::int64_t batch = 0;      ///< samples evaluated together; 0: unknown
  std::string rounded_inputs;  ///< "float64, the model takes float32"; empty: it takes the numbers as they are
  ObserverEffect observer_effect = ObserverEffect::not_checked;
  bool interrupted = false;
  std::int64_t requested_samples = 0;
};

struct Report {
  ReportContext context;
  Comparison comparison;
};

/// What ran the model: "cpu", "cuda (NVIDIA H200, gemm cublas)".
std::string backend_text(const ReportContext& context);

/// "recorded samples' outputs with and without capture: identical" or "… CHANGED"; empty where that was not checked.
std::string observer_text(const ReportContext& context);

/// The report as JSON (schema driftbound/report/1, docs/schema/report-1.json). Numbers that are not
/// finite are strings ("inf", "-inf", "nan").
std::string to_json(const Report& report);

/// One line per layer, scope and bound.
std::string to_csv(const Report& report);

/// JUnit XML for CI: a test case for the verdict, another one where the work was interrupted, and one per layer and
/// output; violated is a failure, undecided, void and interrupted an error, not checked is skipped.
std::string to_junit(const Report& report);

/// One self-contained HTML page (no scripts, nothing loaded): verdict, a chart of errors and bounds per
/// layer, the tables, and what they mean.
std::string to_html(const Report& report);

/// What rounding the inputs means for errors; empty where they are not rounded.
std::string inputs_text(const ReportContext& context);

/// How many elements of the references were settled at which precision, and how many at none: one line.
std::string reference_text(const Comparison& comparison);

struct TextOptions {
  bool colour = false;
  bool explain = false;
};

/// The report as text of at most 100 columns: one sentence with the verdict, the layer it hangs on and
/// why; then a table with a line per layer and one per output.
std::string to_text(const Report& report, const TextOptions& options = {});

/// What every column of the table means, in the words of the text or of the HTML page.
enum class Words { text, page };
std::string explain_columns(Words words = Words::text);

/// The first sentence of the text report.
std::string headline(const Report& report);

enum class FailOn { violation, approach, never };

/// Exit status of `report`: 0 every proven and conditional bound holds; 1 undecided or void somewhere, or
/// with FailOn::approach a bound approached; 2 violated.
int exit_status(const Comparison& comparison, FailOn fail_on);

}  // namespace driftbound::analysis

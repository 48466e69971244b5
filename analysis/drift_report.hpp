#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "analysis/drift.hpp"

namespace driftbound::analysis {

/// A run of a drift report.
struct DriftRunContext {
  std::string file, sha256;
  Provenance provenance;
  std::int64_t records = 0;
  std::vector<std::string> problems;
  std::optional<double> seconds = std::nullopt;  ///< of the evaluation, where the run was made here
  /// Root mean square error of DriftReport::target, and what it was predicted to be before the run was made (T-73).
  std::optional<double> rms = std::nullopt, predicted_rms = std::nullopt;
};

/// Everything that `drift` says: of every run but the first, how it differs from the first.
struct DriftReport {
  std::string command, date;
  double seconds = 0.0;
  std::vector<DriftRunContext> runs;
  std::vector<RunsDrift> drifts;  ///< of the runs from the second one on
  /// Runs of a model whose outputs are the same bit for bit, by number: classes of batch sizes, threads, orders. Empty: of
  /// recordings.
  std::vector<std::vector<std::size_t>> classes;
  std::string target;  ///< the number of interest whose error is given for every run; empty: none

  DriftVerdict verdict() const;
};

/// Runs with the same fingerprint of their outputs, each class in order.
std::vector<std::vector<std::size_t>> classes_of(const std::vector<std::string>& fingerprints);

/// The report as a document: one sentence with the verdict, the op that it hangs on and why; a line per op; what has no
/// counterpart. JSON has the schema driftbound/drift/1 (docs/schema/drift-1.json), CSV one line per op, JUnit a case per
/// run and op. Exit status: 0 expected, 1 suspicious or undecided, 2 bug.
Document document_of(const DriftReport& report);

/// "Choices by 'head': 3 of 512 rows differ (2.1 expected of independent noise); …"
std::string text_of(const Decisions& decisions);
/// The same of several values, as of every step of a run. Of many, those with rows that differ, and all of them in one.
std::vector<std::string> texts_of(const std::vector<Decisions>& decisions);
Json json_of_decisions(const std::vector<Decisions>& decisions);

}  // namespace driftbound::analysis

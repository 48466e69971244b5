#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

/// What became of rows while the other rows of the batch were replaced by something.
struct LeakFinding {
  std::string others;               ///< "zeros": what the other rows were
  std::int64_t answered = 0;        ///< rows whose bits changed
  std::optional<std::int64_t> row;  ///< the first of them
  std::string layer;                ///< where it changed first
  double largest = 0.0;             ///< largest change of an output of these rows; NaN where it is no number
};

struct LeakReport {
  std::string command, date, model;
  double seconds = 0.0;
  std::string program, arithmetic;
  std::int64_t samples = 0;        ///< in the batch
  std::vector<std::int64_t> rows;  ///< that were tested
  std::vector<LeakFinding> findings;

  bool has_leak() const;
};

/// Runs a batch again with the other rows of it permuted, copies of the row, and, of floats, zeros, huge, NaN or infinite, of
/// integers values that the batch has; and with more rows behind it. Compares all layers of some rows bit for bit. Each row
/// has its place, and no bit of driftbound's own runs depends on the size of the batch: a row whose bits change answers to
/// the others.
/// `run`:     evaluates the inputs as one batch
/// Throws:    Unsupported where the model has no axis of samples; InvalidArgument for fewer than two samples; what `run`
///            throws
LeakReport test_leaks(const Graph& graph, const Inputs& inputs, const std::function<Trace(const Inputs&)>& run);

/// JSON has the schema driftbound/leak/1 (docs/schema/leak-1.json). Exit status: 0 no row answers, 2 one does.
Document document_of(const LeakReport& report);

}  // namespace driftbound::analysis

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "driftbound/evaluate/probe.hpp"

namespace driftbound::analysis {

/// What was found of one shape, or of one batch size.
struct ProbedShape {
  ProductShape shape;
  std::optional<ProbeFindings> findings;  ///< empty: calls were repeated instead
  std::optional<RepeatedCalls> repeated;
  double seconds = 0.0;
};

/// What `probe` says.
struct ProbeReport {
  std::string command, date;
  double seconds = 0.0;
  std::string kernel;                       ///< "driftbound CPU, fp32", "libopenblas.so.0"
  std::optional<ArithmeticModel> declared;  ///< what the kernel is said to compute, where it says so
  std::optional<SummationOrder> expected;   ///< the order that is declared or expected; empty: none
  bool is_sum = false;                      ///< rows are added up
  std::vector<ProbedShape> shapes;

  /// What was declared and is not what was found, in words; empty where they agree or nothing was declared.
  std::vector<std::string> differences(const ProbedShape& probed) const;
};

/// Text, page (with the trees drawn) and JSON (schema driftbound/probe/1). Exit status 0: what was declared was found and
/// everything is confirmed; 1: not so.
Document document_of(const ProbeReport& report);

/// Leaves that can be told apart in a drawing.
inline constexpr std::int64_t most_drawn_leaves = 256;
/// A tree as SVG; with more leaves groups of terms are drawn as one leaf. Empty for a single term.
std::string draw_tree(const SummationTree& tree);

}  // namespace driftbound::analysis

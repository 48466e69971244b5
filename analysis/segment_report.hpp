#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/point_source.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/segment.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// All zeros on a segment, and what samples of a run show of them.
struct SegmentReport {
  std::vector<double> a, b;
  SegmentZeros zeros;
  SampledZeros sampled;
  std::string arithmetic;  ///< of the run: "fp32 in order blocked:8+fma"
  double within = 0.0;     ///< how far apart, in t, a sampled and a certified zero may be
};

/// Called with points computed, or with pieces of the segment looked at; returning false ends the work: Interrupted.
using GoOn = std::function<bool(std::int64_t)>;

/// The scalar minus iso as an evaluator computes it at all points, which it rounds to the type of the model's input.
/// Throws:    what the evaluator throws; Interrupted
std::vector<double> computed_values(const Graph& graph, const Target& target, double iso, const Evaluator& evaluator,
                                    const PointSource& points, int threads, const GoOn& go_on = {});

/// Zeros from a to b, and those that `values`, computed at points evenly spaced in t, show.
/// Throws:    as zeros_on_segment and compare_with_sampled
SegmentReport report_segment(const SignField& field, const std::vector<double>& a, const std::vector<double>& b,
                             const std::vector<double>& values, double within, const GoOn& go_on = {});

}  // namespace driftbound::analysis

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

/// The scalar minus iso as an evaluator computes it at all points, which it rounds to the type of the model's input.
/// Throws:    what the evaluator throws
std::vector<double> computed_values(const Graph& graph, const Target& target, double iso, const Evaluator& evaluator,
                                    const PointSource& points, int threads);

/// Zeros from a to b, and those that `values`, computed at points evenly spaced in t, show.
/// Throws:    as zeros_on_segment and compare_with_sampled
SegmentReport report_segment(const SignField& field, const std::vector<double>& a, const std::vector<double>& b,
                             const std::vector<double>& values, double within);

/// Two sentences: the zeros there are, and those that the run shows.
std::string to_text(const SegmentReport& report);

}  // namespace driftbound::analysis

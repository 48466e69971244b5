#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/report.hpp"

namespace driftbound::analysis {

/// The first sentence of a report: verdict, the layer that it hangs on, and why.
std::string headline(const Report& report);

/// Where nobody declared an arithmetic, and all products of a run that are judged by the default are explained by one way to
/// read operands and one unit that are not the default's: which, and how to declare it. Empty: it is not so.
/// `arithmetics`: of the run
std::string undeclared_kernel(const Comparison& comparison, const std::vector<ArithmeticModel>& arithmetics);

/// What ran the model: "cpu", "unknown".
std::string backend_of(const Provenance& run);
/// What multiplied matrices: "cublas", "cublas-pedantic", "ordered"; empty: unknown.
std::string gemm_of(const Provenance& run);

/// Whether the run of the declared arithmetic was made beside the recorded one.
bool is_compared_with_replay(const Comparison& comparison);
/// The first layer, in graph order, in which a recorded run is not the run of its declared arithmetic (T-97); nullptr
/// where there is none, or nothing was made to compare with.
const LayerSummary* first_difference(const Comparison& comparison);
/// Whether a bound for sums in any order is exceeded somewhere.
bool exceeds_any_order(const Comparison& comparison);
/// What may have run where a bound that stands on the declared order is exceeded, and none for sums in any order.
std::string_view what_may_have_run(const Comparison& comparison);
/// Whether a recorded run is that of its declared arithmetic, and if not, from which layer on; empty where that is not
/// known.
std::string replay_text(const Report& report);

/// "any run: not certifiable in float32 from '/b.1/ln1' on: the divisor ... (4 of 4 values)"; where no bound was asked for,
/// that; empty where the question is answered.
std::string open_question_text(const Report& report, Question question);
/// Which bounds say nothing of values that others decide; empty where none does.
std::string decided_by_some_text(const Comparison& comparison);

/// Which layers read the operands of their products otherwise than declared, by T-134; empty where none is known to.
std::string readings_text(const Comparison& comparison);

/// How many elements of the references were settled at which precision, and how many at none.
std::string reference_text(const Comparison& comparison);

/// What every column of the tables means, in the words of the text or of the page.
std::string explain_columns(Medium medium = Medium::text);

/// Of every output and scalar: the measured error, the bounds by the question that they answer, what they do not say,
/// and where the error comes from.
Section outputs_section(const Comparison& comparison);
/// "the sign of every run (rounded-shadow): right in 95, wrong in 1, open in 4 samples"
std::string signs_text(const OutputSummary& output);

/// The report in JSON.
Json fields_of(const Report& report);

/// One curve over the layers of a report; negative values are "nothing here", zeros sit on the floor as "exact".
struct ChartSeries {
  std::string name;
  std::string css_class;
  bool line = false;  ///< line through the points (bounds) or marks only (measurements)
  std::vector<double> values;
};

/// A self-contained SVG: layers from left to right, values on a logarithmic axis, each mark with a tooltip.
std::string log_chart(const std::vector<std::string>& layers, const std::vector<ChartSeries>& series);

}  // namespace driftbound::analysis

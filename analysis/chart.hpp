#pragma once

#include <string>
#include <vector>

namespace driftbound::analysis {

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

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/markup.hpp"
#include "analysis/report_parts.hpp"

namespace driftbound::analysis {
namespace {

constexpr double left = 70, top = 20, plot_height = 300, legend_row = 22;

struct Scale {
  int low = -9, high = 0;  ///< decades
  double width = 600;
  std::size_t layers = 1;

  double x(std::size_t layer) const {
    return left + width * (static_cast<double>(layer) + 0.5) / static_cast<double>(layers);
  }
  double y(double value) const {
    if (value <= 0.0) return top + plot_height;
    const double share = (std::log10(value) - low) / (high - low);
    return top + plot_height * (1.0 - std::clamp(share, 0.0, 1.0));
  }
};

Scale scale_for(const std::vector<ChartSeries>& series, std::size_t layers) {
  double low = std::numeric_limits<double>::infinity(), high = 0.0;
  for (const ChartSeries& curve : series)
    for (double value : curve.values)
      if (value > 0.0 && std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  Scale scale;
  if (high > 0.0) {
    scale.high = static_cast<int>(std::ceil(std::log10(high)));
    scale.low = std::min(static_cast<int>(std::floor(std::log10(low))) - 1, scale.high - 2);
  }
  scale.layers = std::max<std::size_t>(layers, 1);
  scale.width = std::max(840.0, 26.0 * static_cast<double>(layers));
  return scale;
}

std::string axis(const Scale& scale) {
  std::string text;
  const int step = std::max(1, (scale.high - scale.low) / 10);
  for (int decade = scale.high; decade > scale.low; decade -= step) {
    const double y = scale.y(std::pow(10.0, decade));
    text += fmt::format("<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>", left, y,
                        left + scale.width);
    text += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\">1e{}</text>", left - 8, y + 4, decade);
  }
  const double floor = top + plot_height;
  text += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{2:.1f}\" y2=\"{1}\"/>", left, floor,
                      left + scale.width);
  return text + fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\">exact</text>\n", left - 8, floor + 4);
}

std::string curve(const ChartSeries& series, const std::vector<std::string>& layers, const Scale& scale) {
  std::string points, marks;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const double value = series.values[i];
    if (!(value >= 0.0) || !std::isfinite(value)) {  // a gap ends the line
      points += "\"/><polyline points=\"";
      continue;
    }
    const double x = scale.x(i), y = scale.y(value);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: {} {:.3g}</title></circle>", x, y,
                         series.line ? 2 : 4, escape_markup(layers[i]), escape_markup(series.name), value);
  }
  const std::string line = series.line ? fmt::format("<polyline points=\"{}\"/>", points) : "";
  return fmt::format("<g class=\"{}\">{}{}</g>\n", series.css_class, line, marks);
}

std::string legend(const std::vector<ChartSeries>& series, double y) {
  std::string text;
  double x = left;
  for (const ChartSeries& entry : series) {
    const std::string sample =
        entry.line ? fmt::format("<polyline points=\"{:.0f},{:.0f} {:.0f},{:.0f}\"/>", x, y - 4, x + 18, y - 4)
                   : fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"4\"/>", x + 9, y - 4);
    text += fmt::format("<g class=\"{}\">{}</g><text class=\"legend\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>",
                        entry.css_class, sample, x + 24, y, escape_markup(entry.name));
    x += 40 + 7.0 * static_cast<double>(entry.name.size());
  }
  return text;
}

std::string layer_labels(const std::vector<std::string>& layers, const Scale& scale) {
  std::string text;
  for (std::size_t i = 0; i < layers.size(); ++i)
    text += fmt::format("<text class=\"layer\" transform=\"translate({:.1f},{:.0f}) rotate(-60)\">{}</text>",
                        scale.x(i) + 4, top + plot_height + 14, escape_markup(layers[i].substr(0, 18)));
  return text + "\n";
}

}  // namespace

std::string log_chart(const std::vector<std::string>& layers, const std::vector<ChartSeries>& series) {
  const Scale scale = scale_for(series, layers.size());
  const double width = left + scale.width + 20, height = top + plot_height + 130 + legend_row;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\" aria-label=\"errors and bounds per layer\">\n",
      width, height, width);
  svg += axis(scale);
  for (const ChartSeries& entry : series) svg += curve(entry, layers, scale);
  return svg + layer_labels(layers, scale) + legend(series, height - 8) + "</svg>\n";
}

}  // namespace driftbound::analysis

#include "analysis/breakdown_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "analysis/markup.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

constexpr std::size_t most_rows = 24;
constexpr double row_height = 20, head = 22, label_width = 170, panel_width = 250, figure_width = 60;
constexpr double error_left = label_width + figure_width, error_middle = error_left + panel_width / 2,
                 bound_left = error_left + panel_width + 2 * figure_width,
                 width = bound_left + panel_width + figure_width;

struct Row {
  std::string name;
  double of_error = 0.0, of_bound = 0.0;
  double size() const { return std::max(std::abs(of_error), of_bound); }
};

std::vector<Row> rows_of(const Breakdown& breakdown) {
  std::vector<Row> rows = {{"the inputs", breakdown.share_of_error(breakdown.inputs), 0.0}};
  for (const LayerPart& part : breakdown.layers)
    rows.push_back({part.layer, breakdown.share_of_error(part.part), part.bound_share.value_or(0.0)});
  std::erase_if(rows, [](const Row& row) { return !(row.size() > 0.0); });
  return rows;
}

/// Those with the largest bars, in the order they had.
std::vector<Row> largest(const std::vector<Row>& rows) {
  if (rows.size() <= most_rows) return rows;
  std::vector<double> sizes;
  for (const Row& row : rows) sizes.push_back(row.size());
  std::nth_element(sizes.begin(), sizes.begin() + most_rows - 1, sizes.end(), std::greater<>());
  std::vector<Row> kept;
  for (const Row& row : rows)
    if (row.size() >= sizes[most_rows - 1] && kept.size() < most_rows) kept.push_back(row);
  return kept;
}

struct Scale {
  double error = 0.0, bound = 0.0;  ///< the longest bars
};

Scale scale_for(const std::vector<Row>& rows) {
  Scale scale;
  for (const Row& row : rows) {
    scale.error = std::max(scale.error, std::abs(row.of_error));
    scale.bound = std::max(scale.bound, row.of_bound);
  }
  return scale;
}

double length(double share, double longest, double room) {
  return longest > 0.0 && share > 0.0 ? room * share / longest : 0.0;
}

std::string bar(const char* css_class, double x, double y, double size) {
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" rx=\"2\"/>",
                     css_class, x, y + 3, size, row_height - 6);
}

std::string row_svg(const Row& row, const Scale& scale, double y) {
  const double text_y = y + row_height - 6;
  const double of_error = length(std::abs(row.of_error), scale.error, panel_width / 2);
  const double of_bound = length(row.of_bound, scale.bound, panel_width);
  const double percent = std::abs(row.of_error) < 0.0005 ? 0.0 : 100.0 * row.of_error;
  const bool negative = percent < 0.0;
  std::string svg = fmt::format("<text class=\"layer\" x=\"{}\" y=\"{}\">{}</text>", label_width, text_y,
                                escape_markup(shorten(row.name, 26)));
  svg += bar("part", negative ? error_middle - of_error : error_middle, y, of_error);
  svg += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{}\">{:+.1f}%</text>", negative ? "tick" : "figure",
                     negative ? error_middle - of_error - 5 : error_middle + of_error + 5, text_y, percent);
  if (scale.bound > 0.0)
    svg += bar("share", bound_left, y, of_bound) +
           fmt::format("<text class=\"figure\" x=\"{:.1f}\" y=\"{}\">{:.1f}%</text>", bound_left + of_bound + 5, text_y,
                       100.0 * row.of_bound);
  return svg + "\n";
}

std::string heads(const Scale& scale) {
  std::string svg = fmt::format("<text class=\"middle\" x=\"{}\" y=\"12\">of the error, signed</text>", error_middle);
  if (scale.bound > 0.0)
    svg += fmt::format("<text class=\"figure\" x=\"{}\" y=\"12\">of the bound adjoint/any-order</text>", bound_left);
  return svg + "\n";
}

}  // namespace

std::string breakdown_chart(const Breakdown& breakdown) {
  const std::vector<Row> all = rows_of(breakdown), rows = largest(all);
  const Scale scale = scale_for(rows);
  const double height = head + row_height * static_cast<double>(rows.size()) + 4;
  std::string svg =
      fmt::format(
          "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" role=\"img\" aria-label=\"parts of the error "
          "and of the bound by layer\">\n",
          width, height) +
      heads(scale);
  for (std::size_t i = 0; i < rows.size(); ++i)
    svg += row_svg(rows[i], scale, head + row_height * static_cast<double>(i));
  svg += fmt::format("<line class=\"axis\" x1=\"{0}\" y1=\"{1}\" x2=\"{0}\" y2=\"{2}\"/></svg>\n", error_middle, head,
                     height - 4);
  if (rows.size() < all.size())
    svg += fmt::format("<p class=\"note\">{} layers with smaller parts are left out.</p>\n", all.size() - rows.size());
  return svg;
}

}  // namespace driftbound::analysis

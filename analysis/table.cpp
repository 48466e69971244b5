#include "analysis/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftbound::analysis {

std::string table(const std::vector<Strings>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Strings& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) text += fmt::format("| {:<{}} ", rows[r][i], widths[i]);
    text += "|\n";
    if (r > 0) continue;
    for (const std::size_t width : widths) text += "|" + std::string(width + 2, '-');
    text += "|\n";
  }
  return text;
}

}  // namespace driftbound::analysis

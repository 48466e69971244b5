#pragma once

#include <string>
#include <vector>

namespace driftbound::analysis {

using Strings = std::vector<std::string>;

/// Columns as wide as their widest cell: a table for a terminal that Markdown reads too.
std::string table(const std::vector<Strings>& rows);

}  // namespace driftbound::analysis

#include "bounds/adjoint/row_groups.hpp"

#include <algorithm>
#include <numeric>

namespace driftbound::bounds {
namespace {

/// What a row that goes alone, and one of two, costs next to one of many.
constexpr double alone = 2.0, of_two = 1.2;

}  // namespace

RowGroups::RowGroups(std::span<const double> d, std::span<const std::size_t> rows) {
  const std::size_t count = rows.size(), n = d.size() / count;
  rows_.resize(count);
  std::iota(rows_.begin(), rows_.end(), std::uint32_t{0});
  std::stable_sort(rows_.begin(), rows_.end(), [&](std::uint32_t a, std::uint32_t b) { return rows[a] < rows[b]; });
  // one more: every column is written before it is kept
  columns_ = std::make_unique_for_overwrite<std::uint32_t[]>(count * n + 1);
  std::vector<std::uint8_t> is_used(n);
  std::uint32_t* columns = columns_.get();
  double work = 0.0;
  for (std::size_t first = 0, last = 0; first < count; first = last) {
    std::fill(is_used.begin(), is_used.end(), std::uint8_t{0});
    for (; last < count && rows[rows_[last]] == rows[rows_[first]]; ++last) {
      const double* row = d.data() + rows_[last] * n;
      for (std::size_t k = 0; k < n; ++k) is_used[k] |= static_cast<std::uint8_t>(row[k] != 0.0);
    }
    SparseRows group{rows_.data() + first, columns, last - first, 0};
    for (std::size_t k = 0; k < n; ++k) {
      columns[group.column_count] = static_cast<std::uint32_t>(k);
      group.column_count += is_used[k];
    }
    columns += group.column_count;
    const double cost = group.row_count == 1 ? alone : group.row_count == 2 ? of_two : 1.0;
    work += cost * static_cast<double>(group.row_count * group.column_count);
    groups_.push_back(group);
  }
  is_worth_it_ = work < 0.9 * static_cast<double>(count * n);
}

}  // namespace driftbound::bounds

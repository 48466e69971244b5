#include "bounds/sums/row_groups.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>

namespace driftbound::bounds {
namespace {

/// Cost per row and column of groups of one and of two rows, relative to that of large groups.
constexpr double alone = 2.0, of_two = 1.2;
/// Sparse products are used if their cost is below this fraction of the cost of the full product.
constexpr double worth_it = 0.9;

}  // namespace

/// Whether at least `worth_it` of all elements are nonzero, estimated from the first row of each group.
template <class Real>
bool RowGroups::are_dense(std::span<const Real> d, std::span<const std::size_t> rows, std::size_t n) const {
  std::size_t used = 0, of_row = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (i == 0 || rows[rows_[i]] != rows[rows_[i - 1]]) {
      const Real* row = d.data() + rows_[i] * n;
      of_row = n - static_cast<std::size_t>(std::count(row, row + n, Real(0)));
    }
    used += of_row;
  }
  return static_cast<double>(used) >= worth_it * static_cast<double>(d.size());
}

template <class Real>
RowGroups::RowGroups(std::span<const Real> d, std::span<const std::size_t> rows) {
  using Digits = std::conditional_t<sizeof(Real) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
  const std::size_t count = rows.size(), n = d.size() / count;
  rows_.resize(count);
  std::iota(rows_.begin(), rows_.end(), std::uint32_t{0});
  std::stable_sort(rows_.begin(), rows_.end(), [&](std::uint32_t a, std::uint32_t b) { return rows[a] < rows[b]; });
  if (are_dense(d, rows, n)) return;
  // one element more: each column index is written before it is decided whether it is kept
  columns_ = std::make_unique_for_overwrite<std::uint32_t[]>(count * n + 1);
  std::vector<Digits> used(n);  // bitwise or of the rows' elements without their sign bits
  std::uint32_t* columns = columns_.get();
  double work = 0.0;
  for (std::size_t first = 0, last = 0; first < count; first = last) {
    std::fill(used.begin(), used.end(), Digits{0});
    for (; last < count && rows[rows_[last]] == rows[rows_[first]]; ++last) {
      const Real* row = d.data() + rows_[last] * n;
      for (std::size_t k = 0; k < n; ++k) used[k] |= std::bit_cast<Digits>(row[k]) << 1;
    }
    SparseRows group{rows_.data() + first, columns, last - first, 0};
    for (std::size_t k = 0; k < n; ++k) {
      columns[group.column_count] = static_cast<std::uint32_t>(k);
      group.column_count += used[k] != 0;
    }
    columns += group.column_count;
    const double cost = group.row_count == 1 ? alone : group.row_count == 2 ? of_two : 1.0;
    work += cost * static_cast<double>(group.row_count * group.column_count);
    groups_.push_back(group);
  }
  is_worth_it_ = work < worth_it * static_cast<double>(count * n);
}

template RowGroups::RowGroups(std::span<const float> d, std::span<const std::size_t> rows);
template RowGroups::RowGroups(std::span<const double> d, std::span<const std::size_t> rows);

}  // namespace driftbound::bounds

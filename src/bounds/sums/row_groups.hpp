#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "evaluate/kernels/product.hpp"

namespace driftbound::bounds {

/// Rows of adjoints that stand for the same row of the values, and the columns in which any of them is other than 0:
/// where a function is flat, all of them are 0.
class RowGroups {
public:
  /// Shapes:    d [rows, n] of float or double; `rows`: the row of the values that each of them stands for
  template <class Real>
  RowGroups(std::span<const Real> d, std::span<const std::size_t> rows);

  /// Whether leaving out zeros is worth what smaller products cost.
  bool are_sparse() const { return is_worth_it_; }
  const std::vector<SparseRows>& groups() const { return groups_; }

private:
  template <class Real>
  bool are_dense(std::span<const Real> d, std::span<const std::size_t> rows, std::size_t n) const;

  std::vector<std::uint32_t> rows_;
  std::unique_ptr<std::uint32_t[]> columns_;  ///< of all groups
  std::vector<SparseRows> groups_;
  bool is_worth_it_ = false;
};

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "linalg/kernels/ordered_product.hpp"

namespace driftbound::bounds {

/// Groups of adjoint rows that belong to the same row of values, each with the columns in which at least one of its
/// rows is nonzero. Where a function is flat, all adjoints of the group are 0.
class RowGroups {
public:
  /// Shapes:    d [rows.size(), n] of float or double; rows[i] is the row of values to which row i of d belongs
  template <class Real>
  RowGroups(std::span<const Real> d, std::span<const std::size_t> rows);

  /// Whether products that omit the zero columns are cheaper than the full product.
  bool are_sparse() const { return is_worth_it_; }
  const std::vector<SparseRows>& groups() const { return groups_; }

private:
  template <class Real>
  bool are_dense(std::span<const Real> d, std::span<const std::size_t> rows, std::size_t n) const;

  std::vector<std::uint32_t> rows_;
  std::unique_ptr<std::uint32_t[]> columns_;  ///< column indices of all groups, one after the other
  std::vector<SparseRows> groups_;
  bool is_worth_it_ = false;
};

}  // namespace driftbound::bounds

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Memory for tensors that a file describes but does not hold: folded constants, sparse tensors made dense. A small
/// file must not be able to ask for more than files of its size need.
class Allowance {
public:
  explicit Allowance(std::size_t bytes) : left_(bytes) {}
  std::size_t left() const { return left_; }
  void add(std::size_t bytes) { left_ += bytes; }
  /// False, and nothing taken, where less is left. `working_space` must fit as well but is given back at once.
  bool take(std::size_t bytes, std::size_t working_space = 0);

private:
  std::size_t left_;
};

/// The op of constants where that is exact: selections, and casts that lose nothing. Empty where it is not exact on
/// these operands, or where the allowance is used up.
/// Throws:    ShapeMismatch
std::optional<StoredTensor> fold(const Op& op, const std::vector<const StoredTensor*>& operands, Allowance& allowance);

}  // namespace driftbound

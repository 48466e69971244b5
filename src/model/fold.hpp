#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// Evaluates ops of constants where that is exact: selections, and casts that lose nothing.
class ConstantFolder {
public:
  /// Folded tensors take at most this much memory in all; what would go beyond stays a node.
  explicit ConstantFolder(std::size_t bytes) : budget_(bytes) {}

  /// Empty where the op is not exact on these operands, or there is no room left.
  /// Throws:    ShapeMismatch
  std::optional<StoredTensor> fold(const Op& op, const std::vector<const StoredTensor*>& operands);

private:
  std::optional<StoredTensor> select_elements(const Op& op, const std::vector<const StoredTensor*>& operands,
                                              const Shape& shape);
  bool take(std::size_t bytes);

  std::size_t budget_;
};

}  // namespace driftbound

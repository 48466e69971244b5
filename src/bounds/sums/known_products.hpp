#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound::bounds {

/// Cache of products of a block's rows with constant matrices, plus constant rows, computed in double in some order of
/// summation. A product is reused only for operands that are equal bit for bit.
class KnownProducts {
public:
  void keep(ValueId result, const Tensor<double>& operand, const Tensor<double>& product) {
    products_[result] = {operand.values, product.values};
  }

  /// The cached product of rows [first, first + rows) of the block; empty if there is none for this operand.
  /// Shapes:    operand [rows, k]; result [rows, n]
  std::span<const double> find(ValueId result, std::size_t first, std::size_t rows, std::size_t rows_of_block,
                               std::span<const double> operand) const {
    const auto known = products_.find(result);
    if (known == products_.end() || rows == 0) return {};
    const auto& [operands, products] = known->second;
    const std::size_t k = operand.size() / rows, n = products.size() / rows_of_block;
    const bool is_same = operands.size() == rows_of_block * k &&
                         std::memcmp(operands.data() + first * k, operand.data(), operand.size_bytes()) == 0;
    return is_same ? std::span(products).subspan(first * n, rows * n) : std::span<const double>();
  }

private:
  std::map<ValueId, std::pair<std::vector<double>, std::vector<double>>> products_;  ///< operands and results
};

}  // namespace driftbound::bounds

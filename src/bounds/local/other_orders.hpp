#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bounds/nodes/product_node.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

// The sums of a product at its recorded operands, as the accumulator makes them in several orders.

/// The factors of the terms of one sum that are not 0: those of a row and a column, and an addend as a factor of beta.
struct Factors {
  std::vector<double> left, right;
};

/// The orders of summation in which networks and ops are run when a model of random errors is tried on the data.
std::span<const SummationOrder> tried_orders();

class OtherOrders {
public:
  /// Product, view and machine must outlive it.
  OtherOrders(const Product& product, const NodeView& view, const Machine& machine);

  /// The factors of the terms of element i, as the machine reads the operands.
  Factors factors_of(std::size_t i) const;

  static std::size_t count();
  /// The sum in one of the orders, in float32 or, where the accumulator is float64, in float64.
  /// Domain:    order < count()
  double sum(const Factors& factors, std::size_t order) const;

private:
  const Product& product_;
  const Machine& machine_;
  std::vector<double> a_, b_, addend_;
  std::optional<BroadcastIndex> index_;
};

}  // namespace driftbound::bounds

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "evaluate/rounding.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound {

/// The values of one run: what is the same for every sample, kept for the whole run, and what belongs to
/// the batch at hand. Constants and inputs are rounded when an op first asks for them.
template <class Real>
class Values {
public:
  Values(const Graph& graph, const ArithmeticModel& arithmetic);

  /// Forgets the last batch; the inputs must outlive the new one.
  void start_batch(const Inputs& inputs);
  void set(ValueId id, Tensor<Real> computed);
  bool depends_on_input(ValueId id) const { return depends_[id]; }

  Shape shape(ValueId id) const;
  /// In the accumulator's format.
  const Tensor<Real>& operand(ValueId id);
  /// In the format that operands of products have.
  const Tensor<Real>& product_operand(ValueId id);
  const PackedMatrices<Real>& packed_operand(std::size_t node, ValueId id, const ProductPlan& plan);

private:
  struct Entry {
    const StoredTensor* stored = nullptr;  ///< constants and inputs
    std::optional<Tensor<Real>> rounded_to_accumulator;
    std::optional<Tensor<Real>> rounded_to_input;
  };

  const Graph* graph_;
  FormatId input_, accumulator_;
  std::vector<bool> depends_;
  std::vector<Entry> entries_;
  std::map<std::size_t, PackedMatrices<Real>> packed_;  ///< by node
};

}  // namespace driftbound

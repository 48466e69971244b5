#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "evaluate/rounding.hpp"
#include "linalg/ordered_product.hpp"
#include "program/program.hpp"

namespace driftbound {

/// As the arithmetic declares it.
OperandChoice reading_of(const ArithmeticModel& arithmetic);

/// The values of one run: what is the same for every sample, kept for the whole run, and what belongs to
/// the batch at hand. Constants and inputs are rounded when an op first asks for them.
template <class Real>
class Values {
public:
  /// The program outlives the object. `accumulator`: the format of values.
  Values(const Program& program, FormatId accumulator);

  /// Forgets the last batch; the inputs must outlive the new one.
  void start_batch(const Inputs& inputs);
  void set(ValueId id, Tensor<Real> computed);
  /// Frees a value of the batch; what is the same for every sample stays.
  void release(ValueId id);

  /// In the accumulator's format.
  const Tensor<Real>& operand(ValueId id);
  /// As a product reads it.
  const Tensor<Real>& product_operand(ValueId id, const OperandChoice& reading);
  /// The same, packed; a node reads in one way throughout the run.
  const PackedMatrices<Real>& packed_operand(std::size_t node, ValueId id, const OperandChoice& reading,
                                             const ProductPlan& plan);

private:
  struct Entry {
    const StoredTensor* stored = nullptr;  ///< constants and inputs
    std::optional<Tensor<Real>> rounded_to_accumulator;
    std::vector<std::pair<OperandChoice, std::unique_ptr<const Tensor<Real>>>> read_by_products;
  };

  const Program* program_;
  FormatId accumulator_;
  std::vector<Entry> entries_;
  std::map<std::size_t, PackedMatrices<Real>> packed_;  ///< by node
};

}  // namespace driftbound

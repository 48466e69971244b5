#include "evaluate/values.hpp"

namespace driftbound {
namespace {

Rounding operand_rounding(const ArithmeticModel& arithmetic) {
  const bool cuts = arithmetic.tensor_core && arithmetic.tensor_core->cuts_operands;
  return cuts ? Rounding::toward_zero : Rounding::nearest_even;
}

}  // namespace

template <class Real>
Values<Real>::Values(const Program& program, const ArithmeticModel& arithmetic)
    : program_(&program),
      input_(arithmetic.input),
      accumulator_(arithmetic.accumulator),
      operand_rounding_(operand_rounding(arithmetic)),
      entries_(program.size()) {
  const Graph& graph = program.flat().graph;
  for (ValueId id = 0; id < program.size(); ++id)
    if (graph.is_constant(id)) entries_[id].stored = &graph.value(id).constant;
}

template <class Real>
void Values<Real>::start_batch(const Inputs& inputs) {
  const Graph& graph = program_->flat().graph;
  for (ValueId id = 0; id < entries_.size(); ++id) release(id);
  for (const ValueId id : graph.inputs) entries_[id].stored = &inputs.at(graph.value(id).name);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::vector<ValueId>& operands = graph.nodes[node].inputs;
    if (operands.size() >= 2 && program_->varies(operands[1])) packed_.erase(node);
  }
}

template <class Real>
void Values<Real>::release(ValueId id) {
  if (program_->varies(id)) entries_[id] = Entry{};
}

template <class Real>
void Values<Real>::set(ValueId id, Tensor<Real> computed) {
  entries_[id].rounded_to_accumulator = std::move(computed);
}

template <class Real>
const Tensor<Real>& Values<Real>::operand(ValueId id) {
  Entry& entry = entries_.at(id);
  if (!entry.rounded_to_accumulator) entry.rounded_to_accumulator = rounded<Real>(*entry.stored, accumulator_);
  return *entry.rounded_to_accumulator;
}

template <class Real>
const Tensor<Real>& Values<Real>::product_operand(ValueId id) {
  if (input_ == accumulator_) return operand(id);
  Entry& entry = entries_.at(id);
  if (!entry.rounded_to_input) {
    entry.rounded_to_input = entry.stored ? rounded<Real>(*entry.stored, input_, operand_rounding_)
                                          : rounded<Real>(operand(id), input_, operand_rounding_);
  }
  return *entry.rounded_to_input;
}

template <class Real>
const PackedMatrices<Real>& Values<Real>::packed_operand(std::size_t node, ValueId id, const ProductPlan& plan) {
  PackedMatrices<Real>& packed = packed_[node];
  pack_missing(plan, product_operand(id), packed);
  return packed;
}

template class Values<float>;
template class Values<double>;

}  // namespace driftbound

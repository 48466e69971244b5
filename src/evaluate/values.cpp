#include "evaluate/values.hpp"

namespace driftbound {

OperandChoice reading_of(const ArithmeticModel& arithmetic) {
  const bool cuts = arithmetic.tensor_core && arithmetic.tensor_core->cuts_operands;
  return {arithmetic.input, cuts ? Rounding::toward_zero : Rounding::nearest_even};
}

template <class Real>
Values<Real>::Values(const Program& program, FormatId accumulator)
    : program_(&program), accumulator_(accumulator), entries_(program.size()) {
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
const Tensor<Real>& Values<Real>::product_operand(ValueId id, const OperandChoice& reading) {
  if (reading.format == accumulator_) return operand(id);
  auto& read = entries_.at(id).read_by_products;
  for (const auto& [known, values] : read)
    if (known == reading) return *values;
  const StoredTensor* const stored = entries_.at(id).stored;
  Tensor<Real> values = stored != nullptr ? rounded<Real>(*stored, reading.format, reading.rounding)
                                          : rounded<Real>(operand(id), reading.format, reading.rounding);
  read.emplace_back(reading, std::make_unique<const Tensor<Real>>(std::move(values)));
  return *read.back().second;
}

template <class Real>
const PackedMatrices<Real>& Values<Real>::packed_operand(std::size_t node, ValueId id, const OperandChoice& reading,
                                                         const ProductPlan& plan) {
  PackedMatrices<Real>& packed = packed_[node];
  pack_missing(plan, product_operand(id, reading), packed);
  return packed;
}

template class Values<float>;
template class Values<double>;

}  // namespace driftbound

#include "evaluate/values.hpp"

namespace driftbound {

template <class Real>
Values<Real>::Values(const Graph& graph, const ArithmeticModel& arithmetic)
    : graph_(&graph),
      input_(arithmetic.input),
      accumulator_(arithmetic.accumulator),
      depends_(driftbound::depends_on_input(graph)),
      entries_(graph.values.size()) {
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) entries_[id].stored = &graph.value(id).constant;
  }
}

template <class Real>
void Values<Real>::start_batch(const Inputs& inputs) {
  for (ValueId id = 0; id < entries_.size(); ++id) {
    if (depends_[id]) entries_[id] = Entry{};
  }
  for (const ValueId id : graph_->inputs) entries_[id].stored = &inputs.at(graph_->value(id).name);
  for (std::size_t node = 0; node < graph_->nodes.size(); ++node) {
    const std::vector<ValueId>& operands = graph_->nodes[node].inputs;
    if (operands.size() >= 2 && depends_[operands[1]]) packed_.erase(node);
  }
}

template <class Real>
void Values<Real>::set(ValueId id, Tensor<Real> computed) {
  entries_[id].rounded_to_accumulator = std::move(computed);
}

template <class Real>
Shape Values<Real>::shape(ValueId id) const {
  const Entry& entry = entries_.at(id);
  return entry.stored ? entry.stored->shape() : entry.rounded_to_accumulator.value().shape;
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
    entry.rounded_to_input = entry.stored ? rounded<Real>(*entry.stored, input_) : rounded<Real>(operand(id), input_);
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

#include "evaluate/device/device_values.hpp"

#include <string>

#include "driftbound/num/errors.hpp"
#include "evaluate/rounding.hpp"

namespace driftbound::device {
namespace {

constexpr std::size_t no_node = static_cast<std::size_t>(-1);

/// Whether every element is a number of float32.
bool fits_single(ElementType type) {
  return is_float(type) && bytes_per_element(type) <= sizeof(float);
}

}  // namespace

driftbound_format device_format(FormatId id) {
  switch (id) {
    case FormatId::fp32:
      return DRIFTBOUND_FORMAT_FP32;
    case FormatId::tf32:
      return DRIFTBOUND_FORMAT_TF32;
    case FormatId::bf16:
      return DRIFTBOUND_FORMAT_BF16;
    case FormatId::fp16:
      return DRIFTBOUND_FORMAT_FP16;
    case FormatId::fp64:
    case FormatId::fp8_e4m3:
    case FormatId::fp8_e5m2:
      break;
  }
  throw Unsupported("the device rounds to fp32, tf32, bf16 and fp16, not to " + std::string(format(id).name));
}

template <class Real>
DeviceValues<Real>::DeviceValues(const Graph& graph, const ArithmeticModel& arithmetic, OperandForm form,
                                 Device& device)
    : graph_(graph),
      input_(arithmetic.input),
      accumulator_(arithmetic.accumulator),
      form_(form),
      device_(device),
      depends_(driftbound::depends_on_input(graph)),
      entries_(graph.values.size()),
      last_used_by_(graph.nodes.size()) {
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) entries_[id].stored = &graph.value(id).constant;
  }
  find_last_uses(graph);
}

/// What is the same for every sample stays where a node that is not uses it: it is needed in the next batch.
template <class Real>
void DeviceValues<Real>::find_last_uses(const Graph& graph) {
  std::vector<std::size_t> last(graph.values.size(), no_node);
  std::vector<bool> stays(graph.values.size(), false);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const ValueId output = graph.nodes[node].output;
    last[output] = node;
    for (const ValueId id : graph.nodes[node].inputs) {
      last[id] = node;
      if (depends_[output] && !depends_[id]) stays[id] = true;
    }
  }
  for (ValueId id = 0; id < last.size(); ++id) {
    if (last[id] != no_node && !stays[id]) last_used_by_[last[id]].push_back(id);
  }
}

template <class Real>
void DeviceValues<Real>::start_batch(const Inputs& inputs) {
  for (ValueId id = 0; id < entries_.size(); ++id) {
    if (depends_[id]) entries_[id] = Entry{};
  }
  for (const ValueId id : graph_.inputs) entries_[id].stored = &inputs.at(graph_.value(id).name);
}

template <class Real>
void DeviceValues<Real>::release_after(std::size_t node) {
  for (const ValueId id : last_used_by_[node]) {
    entries_[id].operand.reset();
    entries_[id].product_operand.reset();
  }
}

template <class Real>
const Shape& DeviceValues<Real>::shape(ValueId id) const {
  const Entry& entry = entries_.at(id);
  return entry.stored != nullptr ? entry.stored->shape() : entry.operand.value().shape;
}

template <class Real>
DeviceTensor DeviceValues<Real>::operand(ValueId id) {
  Entry& entry = entries_.at(id);
  if (!entry.operand) entry.operand = uploaded(*entry.stored, accumulator_);
  return *entry.operand;
}

template <class Real>
DeviceTensor DeviceValues<Real>::product_operand(ValueId id) {
  if (input_ == accumulator_) return operand(id);
  Entry& entry = entries_.at(id);
  const bool rounds_itself = form_ == OperandForm::as_it_is;
  if (rounds_itself && (entry.stored == nullptr || fits_single(entry.stored->type()))) return operand(id);
  if (!entry.product_operand) {
    entry.product_operand = form_ == OperandForm::narrowed ? narrowed(rounded_operand(id)) : rounded_operand(id);
  }
  return *entry.product_operand;
}

template <class Real>
DeviceTensor DeviceValues<Real>::allocate(Shape shape) const {
  const auto bytes = static_cast<std::uint64_t>(element_count(shape)) * sizeof(Real);
  return {std::move(shape), device_.allocate(bytes)};
}

template <class Real>
DeviceTensor DeviceValues<Real>::uploaded(const StoredTensor& stored, FormatId target) const {
  const Tensor<Real> values = rounded<Real>(stored, target);
  return {values.shape, device_.uploaded(values.values.data(), values.size() * sizeof(Real))};
}

/// Rounded once, from the number as it is stored: on the host where the host has it. Narrowing rounds by itself.
template <class Real>
DeviceTensor DeviceValues<Real>::rounded_operand(ValueId id) {
  const Entry& entry = entries_[id];
  if (entry.stored != nullptr) return uploaded(*entry.stored, input_);
  const DeviceTensor& x = *entry.operand;
  const std::int64_t count = element_count(x.shape);
  if (form_ == OperandForm::narrowed || count == 0) return x;
  DeviceTensor y = allocate(x.shape);
  device_.call(device_.functions().round, real_of<Real>, device_format(input_), x.data(), y.data(), count);
  return y;
}

template <class Real>
DeviceTensor DeviceValues<Real>::narrowed(const DeviceTensor& x) const {
  const std::int64_t count = element_count(x.shape);
  DeviceTensor y{x.shape, device_.allocate(static_cast<std::uint64_t>(count) * 2)};
  if (count > 0) device_.call(device_.functions().narrow, device_format(input_), x.data(), y.data(), count);
  return y;
}

template class DeviceValues<float>;
template class DeviceValues<double>;

}  // namespace driftbound::device

#include "evaluate/device/device_values.hpp"

#include <string>

#include "driftbound/num/errors.hpp"
#include "evaluate/rounding.hpp"

namespace driftbound::device {
namespace {

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
DeviceValues<Real>::DeviceValues(const Program& program, const ArithmeticModel& arithmetic, OperandForm form,
                                 Device& device)
    : program_(program),
      input_(arithmetic.input),
      accumulator_(arithmetic.accumulator),
      form_(form),
      device_(device),
      stays_(program.size(), false),
      entries_(program.size()) {
  const Graph& graph = program.flat().graph;
  for (ValueId id = 0; id < program.size(); ++id)
    if (graph.is_constant(id)) entries_[id].stored = &graph.value(id).constant;
  for (const Node& node : program.nodes())
    for (const ValueId id : node.inputs)
      if (program.varies(node.output) && !program.varies(id)) stays_[id] = true;
}

template <class Real>
void DeviceValues<Real>::start_batch(const Inputs& inputs) {
  for (ValueId id = 0; id < entries_.size(); ++id)
    if (program_.varies(id)) entries_[id] = Entry{};
  const Graph& graph = program_.flat().graph;
  for (const ValueId id : graph.inputs) entries_[id].stored = &inputs.at(graph.value(id).name);
}

template <class Real>
void DeviceValues<Real>::release(ValueId id) {
  if (stays_[id]) return;
  entries_[id].operand.reset();
  entries_[id].product_operand.reset();
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

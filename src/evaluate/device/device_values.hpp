#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "evaluate/device/device.hpp"
#include "program/program.hpp"

namespace driftbound::device {

template <class Real>
inline constexpr driftbound_real real_of = sizeof(Real) == sizeof(float) ? DRIFTBOUND_F32 : DRIFTBOUND_F64;

/// A row-major tensor without gaps on a device. Reshaping shares the memory.
struct DeviceTensor {
  Shape shape;
  std::shared_ptr<const Buffer> memory;

  void* data() const { return memory->data(); }
};

/// How operands reach a matrix product.
enum class OperandForm {
  as_it_is,  ///< in the accumulator's format; the product rounds, if anything does
  rounded,   ///< rounded to the input format, stored as Real
  narrowed   ///< rounded to the input format, stored in its 16 bits
};

/// The module's name of a format.
/// Throws:    Unsupported
driftbound_format device_format(FormatId format);

/// The values of one run on a device: what is the same for every sample, and what belongs to the batch at hand.
/// Constants and inputs are rounded on the host and uploaded when an op first asks for them; memory is freed after the
/// last use.
template <class Real>
class DeviceValues {
public:
  /// The program outlives the object.
  DeviceValues(const Program& program, const ArithmeticModel& arithmetic, OperandForm form, Device& device);

  /// Forgets the last batch; the inputs must outlive the new one.
  void start_batch(const Inputs& inputs);
  void set(ValueId id, DeviceTensor computed) { entries_[id].operand = std::move(computed); }
  /// Frees a value that no later node reads, unless it is the same for every sample and read in the next batch.
  void release(ValueId id);

  /// In the accumulator's format.
  DeviceTensor operand(ValueId id);
  /// As matrix products take it.
  DeviceTensor product_operand(ValueId id);

  DeviceTensor allocate(Shape shape) const;

private:
  struct Entry {
    const StoredTensor* stored = nullptr;  ///< constants and inputs
    std::optional<DeviceTensor> operand, product_operand;
  };

  DeviceTensor uploaded(const StoredTensor& stored, FormatId format) const;
  DeviceTensor rounded_operand(ValueId id);
  DeviceTensor narrowed(const DeviceTensor& tensor) const;

  const Program& program_;
  FormatId input_, accumulator_;
  OperandForm form_;
  Device& device_;
  std::vector<bool> stays_;  ///< by value: the same for every sample, and read by a node that is not
  std::vector<Entry> entries_;
};

}  // namespace driftbound::device

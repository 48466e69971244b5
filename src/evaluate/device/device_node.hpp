#pragma once

#include <functional>

#include "driftbound/evaluate/cuda.hpp"
#include "evaluate/device/device_values.hpp"

namespace driftbound::device {

/// How a device computes: what the options ask for, settled once for a run.
struct DeviceRules {
  CudaProduct product = CudaProduct::vendor;
  driftbound_gemm_mode mode = DRIFTBOUND_GEMM_F32;  ///< of vendor products
  std::int32_t algorithm = 0;                       ///< with CudaProduct::by_algorithm
  SummationOrder order;                             ///< of ordered products and of Softmax
  ArithmeticModel arithmetic;
  OperandForm operands = OperandForm::as_it_is;
};

using UseOfAlgorithm = std::function<void(const driftbound_algorithm&)>;

/// Settles the rules for options that cuda_arithmetic accepts.
DeviceRules device_rules(const CudaOptions& options, const ArithmeticModel& arithmetic);

/// x rounded to nearest even to the format; x itself where the format holds every number of the accumulator.
/// Throws:    DeviceFailure
template <class Real>
DeviceTensor rounded_on_device(const DeviceTensor& x, FormatId target, const DeviceRules& rules, Device& device,
                               DeviceValues<Real>& values);

/// Output of one node of a program from the values at hand, as docs/arithmetic.md defines every op.
/// `used(algorithm)` hears of each product that one computes.
/// Throws:    DeviceFailure, Unsupported
template <class Real>
DeviceTensor evaluate_on_device(const Program& program, std::size_t node, const DeviceRules& rules, Device& device,
                                DeviceValues<Real>& values, const UseOfAlgorithm& used);

}  // namespace driftbound::device

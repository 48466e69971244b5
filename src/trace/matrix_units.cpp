#include "driftbound/trace/matrix_units.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

enum class Generation { volta, turing, ampere, ada, hopper, blackwell };

struct KnownUnit {
  Generation generation;
  FormatId operands;
  int fraction_bits, block, sum_bits;
  int narrow_block = 0;  ///< of another instruction; 0: there is none
};

/// The table of docs/arithmetic.md: instructions with float32 sums.
constexpr std::array<KnownUnit, 20> known_units = {{{Generation::volta, FormatId::fp16, 23, 4, 23},
                                                    {Generation::turing, FormatId::fp16, 24, 8, 23, 4},
                                                    {Generation::ampere, FormatId::fp16, 24, 8, 23},
                                                    {Generation::ampere, FormatId::bf16, 24, 8, 23},
                                                    {Generation::ampere, FormatId::tf32, 24, 4, 23},
                                                    {Generation::ada, FormatId::fp16, 24, 8, 23},
                                                    {Generation::ada, FormatId::bf16, 24, 8, 23},
                                                    {Generation::ada, FormatId::tf32, 24, 4, 23},
                                                    {Generation::ada, FormatId::fp8_e4m3, 13, 16, 13},
                                                    {Generation::ada, FormatId::fp8_e5m2, 13, 16, 13},
                                                    {Generation::hopper, FormatId::fp16, 25, 16, 23, 8},
                                                    {Generation::hopper, FormatId::bf16, 25, 16, 23, 8},
                                                    {Generation::hopper, FormatId::tf32, 25, 8, 23, 4},
                                                    {Generation::hopper, FormatId::fp8_e4m3, 13, 32, 13},
                                                    {Generation::hopper, FormatId::fp8_e5m2, 13, 32, 13},
                                                    {Generation::blackwell, FormatId::fp16, 25, 16, 23, 8},
                                                    {Generation::blackwell, FormatId::bf16, 25, 16, 23, 8},
                                                    {Generation::blackwell, FormatId::tf32, 25, 8, 23, 4},
                                                    {Generation::blackwell, FormatId::fp8_e4m3, 25, 32, 23, 16},
                                                    {Generation::blackwell, FormatId::fp8_e5m2, 25, 32, 23, 16}}};

struct DeviceOfGeneration {
  SimulatedDevice device;
  Generation generation;
};

constexpr std::array<DeviceOfGeneration, 7> devices = {{{{"v100", "NVIDIA Volta (V100)"}, Generation::volta},
                                                        {{"t4", "NVIDIA Turing (T4)"}, Generation::turing},
                                                        {{"a100", "NVIDIA Ampere (A100)"}, Generation::ampere},
                                                        {{"l40s", "NVIDIA Ada (L40S, RTX 4090)"}, Generation::ada},
                                                        {{"h100", "NVIDIA Hopper (H100)"}, Generation::hopper},
                                                        {{"h200", "NVIDIA Hopper (H200)"}, Generation::hopper},
                                                        {{"b200", "NVIDIA Blackwell (B200)"}, Generation::blackwell}}};

const DeviceOfGeneration& device_named(std::string_view name) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const DeviceOfGeneration& one) { return one.device.name == name; });
  if (found != devices.end()) return *found;
  std::string names;
  for (const DeviceOfGeneration& one : devices) names += (names.empty() ? "" : ", ") + std::string(one.device.name);
  throw InvalidArgument("no simulated device " + in_quotes(name) + "; there are: " + names);
}

const KnownUnit* unit_of(Generation generation, FormatId operands) {
  const auto* unit = std::find_if(known_units.begin(), known_units.end(), [&](const KnownUnit& one) {
    return one.generation == generation && one.operands == operands;
  });
  return unit == known_units.end() ? nullptr : unit;
}

int block_of(const KnownUnit& unit, const UnitUse& use, std::string_view device, std::string_view arithmetic) {
  if (use.block == 0 || use.block == unit.block) return unit.block;
  if (use.block == unit.narrow_block) return use.block;
  const std::string narrow = unit.narrow_block == 0 ? "" : " or " + std::to_string(unit.narrow_block);
  throw InvalidArgument("the matrix unit of " + std::string(device) + " for " + std::string(arithmetic) + " adds " +
                        std::to_string(unit.block) + narrow + " products a step, not " + std::to_string(use.block));
}

void promote(const UnitUse& use, ArithmeticModel& model) {
  if (use.promotion == 0) return;
  TensorCore& core = *model.tensor_core;
  if (use.promotion < 0 || use.promotion % core.block != 0)
    throw InvalidArgument("a promotion after " + std::to_string(use.promotion) +
                          " products is no multiple of the unit's " + std::to_string(core.block) + " products a step");
  core.promotion = use.promotion;
  if (model.order.kind == SummationOrder::Kind::sequential)
    model.order = {SummationOrder::Kind::blocked, use.promotion, model.order.fma};
}

void round_parts(const UnitUse& use, ArithmeticModel& model) {
  if (!use.rounds_parts && !use.rounds_sums) return;
  if (model.input != FormatId::bf16 && model.input != FormatId::fp16)
    throw InvalidArgument("parts of sums are rounded to the format of operands in bf16 and fp16, not in " + model.name);
  if (model.order.kind != SummationOrder::Kind::split_k)
    throw InvalidArgument("rounded parts of sums need the order split-k:S, which says how many parts there are, not " +
                          to_string(model.order));
  constexpr std::int64_t most = 1 << 20;
  model.reduced_reduction = {model.input, static_cast<int>(std::min(model.order.parameter, most)), use.rounds_sums};
}

}  // namespace

const std::vector<SimulatedDevice>& simulated_devices() {
  static const std::vector<SimulatedDevice> all = [] {
    std::vector<SimulatedDevice> names;
    for (const DeviceOfGeneration& one : devices) names.push_back(one.device);
    return names;
  }();
  return all;
}

ArithmeticModel simulated_arithmetic(std::string_view device, std::string_view arithmetic, const SummationOrder& order,
                                     const UnitUse& use) {
  const DeviceOfGeneration& known = device_named(device);
  ArithmeticModel model = cpu_arithmetic(arithmetic, order);
  model.source = "driftbound simulation of " + std::string(known.device.text);
  if (model.input == model.accumulator) {
    if (!(use == UnitUse{}))
      throw InvalidArgument("the arithmetic " + std::string(arithmetic) +
                            " uses no matrix unit: it has no block, no promotion and no rounded parts");
    return model;
  }
  const KnownUnit* unit = unit_of(known.generation, model.input);
  if (unit == nullptr)
    throw NotAvailable("the device " + in_quotes(device) + " has no matrix unit for " + std::string(arithmetic) +
                       " with float32 sums");
  TensorCore& core = model.tensor_core.emplace();
  core.fraction_bits = unit->fraction_bits;
  core.block = block_of(*unit, use, device, arithmetic);
  core.sum_bits = unit->sum_bits;
  promote(use, model);
  round_parts(use, model);
  kernel_of(model, core.block);  // refuses orders that it does not add in
  return model;
}

std::optional<SimulatedDevice> weakest_device(FormatId operands) {
  const auto bits = [](const KnownUnit& unit) { return std::tuple(unit.fraction_bits, unit.sum_bits, unit.block); };
  const KnownUnit* weakest = nullptr;
  std::optional<SimulatedDevice> found;
  for (const DeviceOfGeneration& one : devices) {
    const KnownUnit* unit = unit_of(one.generation, operands);
    if (unit == nullptr || (weakest != nullptr && bits(*weakest) <= bits(*unit))) continue;
    weakest = unit;
    found = one.device;
  }
  return found;
}

}  // namespace driftbound

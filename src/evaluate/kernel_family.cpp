#include "evaluate/kernel_family.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace driftbound {
namespace {

TensorCore unit_of(int fraction_bits, int block, int sum_bits = 23) {
  TensorCore unit;
  unit.fraction_bits = fraction_bits;
  unit.block = block;
  unit.sum_bits = sum_bits;
  return unit;
}

bool is_fp8(FormatId format) {
  return format == FormatId::fp8_e4m3 || format == FormatId::fp8_e5m2;
}

std::vector<TensorCore> units_of(FormatId operands) {
  if (operands == FormatId::tf32)
    return {unit_of(25, 8), unit_of(25, 4), unit_of(24, 4), unit_of(24, 8), unit_of(23, 4)};
  if (operands == FormatId::bf16 || operands == FormatId::fp16)
    return {unit_of(25, 16), unit_of(25, 8),  unit_of(25, 4), unit_of(24, 8),
            unit_of(24, 4),  unit_of(24, 16), unit_of(23, 4)};
  if (is_fp8(operands))
    return {unit_of(13, 32, 13), unit_of(13, 16, 13), unit_of(25, 32),
            unit_of(25, 16),     unit_of(13, 32),     unit_of(13, 16)};
  return {};
}

/// Collects dealings that differ.
class Dealings {
public:
  explicit Dealings(std::int64_t k, std::int64_t block) : k_(k), block_(block) {}

  void add(const Dealing& dealing) {
    const bool is_in_parts = dealing.run > 0 && dealing.run < k_;
    if (is_in_parts && (dealing.run % block_ != 0 || (is_balanced(dealing) && dealing.multiple % block_ != 0))) return;
    SumSchedule schedule = schedule_of(dealing, k_);
    if (seen_.emplace(std::move(schedule.terms), std::move(schedule.ends)).second) found_.push_back(dealing);
  }

  std::vector<Dealing> take() { return std::move(found_); }

private:
  static bool is_balanced(const Dealing& dealing) { return dealing.kind == Dealing::Kind::balanced; }

  std::int64_t k_, block_;
  std::set<std::pair<std::vector<std::uint32_t>, std::vector<std::size_t>>> seen_;
  std::vector<Dealing> found_;
};

}  // namespace

std::vector<OperandChoice> operand_choices() {
  return {{FormatId::fp32, Rounding::nearest_even},     {FormatId::tf32, Rounding::nearest_even},
          {FormatId::tf32, Rounding::nearest_away},     {FormatId::tf32, Rounding::toward_zero},
          {FormatId::bf16, Rounding::nearest_even},     {FormatId::fp16, Rounding::nearest_even},
          {FormatId::fp8_e4m3, Rounding::nearest_even}, {FormatId::fp8_e5m2, Rounding::nearest_even}};
}

std::vector<PartEngine> engines_of(FormatId operands) {
  std::vector<PartEngine> engines;
  for (const TensorCore& unit : units_of(operands)) engines.push_back({unit, false});
  engines.push_back({std::nullopt, true});
  if (operands == FormatId::fp32) engines.push_back({std::nullopt, false});
  return engines;
}

std::vector<Dealing> dealings_of(std::int64_t k, std::int64_t block) {
  using Kind = Dealing::Kind;
  Dealings all(k, block);
  all.add({});
  for (const std::int64_t slices : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 48, 64, 96, 128}) {
    for (const std::int64_t multiple : {1, 4, 8, 16, 32, 64, 128}) {
      const std::int64_t run = ((k + slices - 1) / slices + multiple - 1) / multiple * multiple;
      if (run < k) all.add({Kind::contiguous, 1, run, 1});
    }
  }
  for (const std::int64_t run : {1,   2,   4,   8,   16,  24,  32,  48,  64,  96,  128, 192, 240,  256,  288, 320,
                                 336, 352, 360, 384, 400, 416, 448, 480, 512, 576, 640, 768, 1024, 2048, 4096}) {
    if (run >= k) break;
    all.add({Kind::contiguous, 1, run, 1});
    for (const std::int64_t multiple : {1, 4, 8, 16, 24, 32}) all.add({Kind::balanced, 1, run, multiple});
  }
  for (const std::int64_t run : {1, 2, 4, 8, 16, 32, 64})
    for (const std::int64_t parts : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256})
      if (parts * run <= 2 * k) all.add({Kind::interleaved, parts, run, 1});
  return all.take();
}

}  // namespace driftbound

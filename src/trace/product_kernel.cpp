#include "driftbound/trace/product_kernel.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Where contiguous parts of n terms end.
std::vector<std::int64_t> ends_of_parts(const Dealing& dealing, std::int64_t n) {
  const std::int64_t run = dealing.run == 0 ? n : dealing.run;
  std::vector<std::int64_t> ends;
  for (std::int64_t done = 0; done < n; done = ends.back()) {
    const std::int64_t left = n - done;
    const bool is_halved = dealing.kind == Dealing::Kind::balanced && left > run && left < 2 * run;
    const std::int64_t length = is_halved ? rounded_up((left + 1) / 2, dealing.multiple) : run;
    ends.push_back(done + std::min(length, left));
  }
  return ends;
}

SumSchedule interleaved(const Dealing& dealing, std::int64_t n) {
  SumSchedule schedule;
  schedule.terms.reserve(static_cast<std::size_t>(n));
  const std::int64_t stride = dealing.parts * dealing.run;
  for (std::int64_t part = 0; part < dealing.parts && part * dealing.run < n; ++part) {
    for (std::int64_t first = part * dealing.run; first < n; first += stride)
      for (std::int64_t k = first; k < std::min(first + dealing.run, n); ++k)
        schedule.terms.push_back(static_cast<std::uint32_t>(k));
    schedule.ends.push_back(schedule.terms.size());
  }
  return schedule;
}

std::string text_of(Combination combination) {
  switch (combination) {
    case Combination::sequential:
      return "one after the other";
    case Combination::neighbours:
      return "neighbour to neighbour";
    case Combination::halves:
      return "half to half";
  }
  return "";
}

std::string dealing_text(const ProductKernel& kernel, std::int64_t n) {
  const Dealing& dealing = kernel.dealing;
  const std::size_t parts = schedule_of(dealing, n).ends.size();
  if (parts < 2) return kernel.matrix_unit ? "in one chain of steps" : "in one chain";
  std::string text;
  if (dealing.kind == Dealing::Kind::interleaved) {
    text = "K in " + std::to_string(parts) + " lanes of " +
           (dealing.run == 1 ? "1 product" : std::to_string(dealing.run) + " products") + " in turn";
  } else {
    text = "K in " + std::to_string(parts) + " slices of " + std::to_string(dealing.run);
    if (dealing.kind == Dealing::Kind::balanced) text += ", the last two alike,";
  }
  return text + " added " + text_of(kernel.combination);
}

}  // namespace

std::string reading_of_operands(const ProductKernel& kernel) {
  if (kernel.operands == FormatId::fp32) return "fp32";
  std::string text(format(kernel.operands).name);
  if (kernel.operand_rounding == Rounding::toward_zero) text += " (cut)";
  if (kernel.operand_rounding == Rounding::nearest_away) text += " (ties away)";
  return text;
}

std::string_view name_of(Dealing::Kind kind) {
  switch (kind) {
    case Dealing::Kind::contiguous:
      return "contiguous";
    case Dealing::Kind::balanced:
      return "balanced";
    case Dealing::Kind::interleaved:
      return "interleaved";
  }
  return "contiguous";
}

std::string_view name_of(Combination combination) {
  switch (combination) {
    case Combination::sequential:
      return "sequential";
    case Combination::neighbours:
      return "neighbours";
    case Combination::halves:
      return "halves";
  }
  return "sequential";
}

std::string_view name_of(AddendPlace place) {
  switch (place) {
    case AddendPlace::last:
      return "last";
    case AddendPlace::before_parts:
      return "before parts";
    case AddendPlace::chain_start:
      return "start of the chain";
  }
  return "last";
}

SumSchedule schedule_of(const Dealing& dealing, std::int64_t n) {
  if (n < 1 || dealing.run < 0 || dealing.parts < 1 || dealing.multiple < 1 ||
      (dealing.kind == Dealing::Kind::interleaved && dealing.run < 1))
    throw InvalidArgument("parts of a sum: terms, parts and their lengths are 1 or more");
  if (dealing.kind == Dealing::Kind::interleaved) return interleaved(dealing, n);
  SumSchedule schedule;
  schedule.terms.resize(static_cast<std::size_t>(n));
  std::iota(schedule.terms.begin(), schedule.terms.end(), 0U);
  for (const std::int64_t end : ends_of_parts(dealing, n)) schedule.ends.push_back(static_cast<std::size_t>(end));
  return schedule;
}

std::int64_t height_of(const SumSchedule& schedule, Combination combination) {
  std::int64_t longest = 0, first = 0, height = 0, index = 0;
  const auto parts = static_cast<std::int64_t>(schedule.ends.size());
  for (const std::size_t end : schedule.ends) {
    const std::int64_t length = static_cast<std::int64_t>(end) - first;
    first = static_cast<std::int64_t>(end);
    longest = std::max(longest, length);
    const std::int64_t additions_of_parts = index == 0 ? parts - 1 : parts - index;
    height = std::max(height, length - 1 + additions_of_parts);
    ++index;
  }
  if (combination == Combination::sequential) return height;
  return longest - 1 + static_cast<std::int64_t>(std::bit_width(schedule.ends.size() - 1));
}

ProductKernel kernel_of(const ArithmeticModel& arithmetic, std::int64_t n) {
  if (!arithmetic.tensor_core) throw Unsupported("arithmetic '" + arithmetic.name + "' has no matrix unit");
  ProductKernel kernel;
  kernel.operands = arithmetic.input;
  kernel.matrix_unit = arithmetic.tensor_core;
  if (arithmetic.tensor_core->cuts_operands) kernel.operand_rounding = Rounding::toward_zero;
  const std::int64_t block = arithmetic.tensor_core->block, promotion = arithmetic.tensor_core->promotion;
  const SummationOrder& order = arithmetic.order;
  if (order.kind == SummationOrder::Kind::split_k) {
    kernel.dealing.run = rounded_up((n + order.parameter - 1) / order.parameter, block);
  } else if (order.kind == SummationOrder::Kind::blocked && order.parameter % block == 0) {
    kernel.dealing.run = order.parameter;
  } else if (order.kind != SummationOrder::Kind::sequential) {
    throw Unsupported("a matrix unit adds in the orders sequential, split-k:S and blocked:B with B a multiple of its " +
                      std::to_string(block) + " products a step, not in " + to_string(order));
  }
  if (promotion > 0) {
    if (kernel.dealing.run > 0) throw Unsupported("a matrix unit with promotion adds in the order sequential alone");
    kernel.dealing.run = promotion / block * block;
  }
  return kernel;
}

std::string describe(const ProductKernel& kernel, std::int64_t n) {
  std::string text = reading_of_operands(kernel);
  if (kernel.matrix_unit) {
    text += " unit, block " + std::to_string(kernel.matrix_unit->block) + ", F " +
            std::to_string(kernel.matrix_unit->fraction_bits);
    if (kernel.matrix_unit->sum_bits < 23)
      text += ", sums of " + std::to_string(kernel.matrix_unit->sum_bits) + " bits";
  } else {
    text += kernel.fma ? ", fused multiply-adds" : ", products rounded";
  }
  text += ", " + dealing_text(kernel, n);
  if (kernel.addend == AddendPlace::before_parts) text += ", bias before the parts";
  if (kernel.addend == AddendPlace::chain_start) text += ", chain from the bias";
  return text;
}

}  // namespace driftbound

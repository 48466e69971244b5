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

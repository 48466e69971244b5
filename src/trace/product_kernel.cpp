#include "driftbound/trace/product_kernel.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Terms of the longest part.
std::int64_t longest_part(const Dealing& dealing, std::int64_t n) {
  std::size_t longest = 0, first = 0;
  for (const std::size_t end : schedule_of({dealing}, n).ends)
    longest = std::max(longest, end - std::exchange(first, end));
  return static_cast<std::int64_t>(longest);
}

std::string text_of(Combination combination) {
  switch (combination) {
    case Combination::sequential:
      return "one after the other";
    case Combination::neighbours:
      return "neighbour to neighbour";
    case Combination::halves:
      return "half to half";
    case Combination::fours:
      return "half to half down to four, these neighbour to neighbour";
  }
  return "";
}

/// "4 slices of 16", "32 lanes of 1 product in turn (those behind a multiple of 8 in the first)"
std::string dealing_text(const Dealing& dealing, std::size_t parts, bool of_products) {
  const bool has_lanes = dealing.kind == Dealing::Kind::interleaved;
  std::string text = std::to_string(parts) + (has_lanes ? " lanes of " : " slices of ") + std::to_string(dealing.run);
  if (has_lanes) text += std::string(of_products ? " product" : " term") + (dealing.run == 1 ? "" : "s") + " in turn";
  if (dealing.kind == Dealing::Kind::balanced) return text + ", the last two alike,";
  if (dealing.short_first) text += " from a short first round on";
  if (dealing.multiple == 1) return text;
  text += " (those behind a multiple of " + std::to_string(dealing.multiple);
  switch (dealing.rest) {
    case Dealing::Rest::in_part:
      return text + (has_lanes ? " in the first)" : " in the last)");
    case Dealing::Rest::one_by_one:
      return text + " last)";
    case Dealing::Rest::together:
      return text + " by themselves)";
  }
  return text;
}

/// The parts in which a matrix unit adds n products: none cuts a block of products that it adds at once.
SumParts parts_of_unit(const SummationOrder& order, std::int64_t block, std::int64_t n) {
  using Kind = SummationOrder::Kind;
  SumParts parts;
  if (order.kind == Kind::split_k) parts.dealing.run = rounded_up((n + order.parameter - 1) / order.parameter, block);
  if (order.kind == Kind::blocked) parts.dealing.run = order.parameter;
  if (order.kind == Kind::dealt) parts = order.parts;
  const Dealing& dealing = parts.dealing;
  const bool is_balanced = dealing.kind == Dealing::Kind::balanced;
  const bool is_known = order.kind == Kind::sequential || order.kind == Kind::split_k || order.kind == Kind::blocked ||
                        order.kind == Kind::dealt;
  const bool has_one_level = parts.tree == SumTree::dealt && parts.inside == Dealing{};
  const bool has_rest = dealing.short_first || (!is_balanced && dealing.multiple != 1);
  const bool has_whole_blocks = dealing.run % block == 0 && (!is_balanced || dealing.multiple % block == 0);
  if (!is_known || !has_one_level || has_rest || !has_whole_blocks)
    throw Unsupported(
        "a matrix unit adds in the orders sequential, split-k:S, blocked:B, slices:R, balanced:R:M and "
        "lanes:PxR, with B, R and M multiples of its " +
        std::to_string(block) + " products a step, not in " + to_string(order));
  return parts;
}

void round_parts(const ReducedReduction& reduction, const SummationOrder& order, ProductKernel& kernel) {
  if (order.kind != SummationOrder::Kind::split_k || order.parameter > reduction.parts)
    throw Unsupported("parts of a matrix unit are rounded in the order split-k:S, S at most the " +
                      std::to_string(reduction.parts) + " parts declared, not in " + to_string(order));
  kernel.part_format = reduction.format;
  kernel.rounds_sums_of_parts = reduction.rounds_sums;
}

std::string parts_text(const ProductKernel& kernel, std::int64_t n) {
  const SumParts& how = kernel.parts;
  const std::string of = kernel.of_products ? "K in " : "terms in ";
  if (how.tree == SumTree::halved) return of + "halves down to 128, these in 8 lanes";
  if (how.tree == SumTree::cascade)
    return of + std::to_string(how.lanes) + " x " + std::to_string(how.chains) +
           " lanes, each a cascade of four levels";
  const SumJoins joins = joins_of(how, n);
  if (joins.chains < 2) return kernel.matrix_unit ? "in one chain of steps" : "in one chain";
  const auto text_of_level = [&](const Dealing& dealing, std::size_t parts, Combination combination) {
    return dealing_text(dealing, parts, kernel.of_products) + " added " + text_of(combination);
  };
  const auto lanes_of = [&](const Dealing& dealing, std::size_t parts) {
    const bool has_lanes = dealing.kind == Dealing::Kind::interleaved;
    return has_lanes ? std::min(parts, static_cast<std::size_t>(dealing.parts)) : parts;
  };
  std::string inside;
  if (joins.within > 0) {
    const std::size_t lanes = joins_of({how.inside}, longest_part(how.dealing, n)).chains;
    inside = text_of_level(how.inside, lanes_of(how.inside, lanes), how.inside_combination);
  }
  if (joins.parts() < 2) return of + inside;
  const std::string text = of + text_of_level(how.dealing, lanes_of(how.dealing, joins.parts()), how.combination);
  return inside.empty() ? text : text + ", each in " + inside;
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

std::string_view name_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::none:
      return "none";
    case Scaling::divided:
      return "divided";
    case Scaling::multiplied:
      return "multiplied";
  }
  return "none";
}

ProductKernel kernel_of(const ArithmeticModel& arithmetic, std::int64_t n) {
  const bool is_dealt = arithmetic.order.kind == SummationOrder::Kind::dealt;
  if (!arithmetic.tensor_core && !is_dealt)
    throw Unsupported("arithmetic '" + arithmetic.name + "' has no matrix unit, and its order deals no products out");
  ProductKernel kernel;
  kernel.operands = arithmetic.input;
  if (!arithmetic.tensor_core) {
    kernel.fma = arithmetic.order.fma;
    kernel.parts = arithmetic.order.parts;
    return kernel;
  }
  kernel.matrix_unit = arithmetic.tensor_core;
  if (arithmetic.tensor_core->cuts_operands) kernel.operand_rounding = Rounding::toward_zero;
  const std::int64_t block = arithmetic.tensor_core->block, promotion = arithmetic.tensor_core->promotion;
  kernel.parts = parts_of_unit(arithmetic.order, block, n);
  const std::int64_t run = kernel.parts.dealing.run;
  if (promotion > 0) {
    const bool has_lanes = kernel.parts.dealing.kind == Dealing::Kind::interleaved;
    const bool is_split = arithmetic.order.kind == SummationOrder::Kind::split_k;
    if (run > promotion || has_lanes || is_split)
      throw Unsupported("a matrix unit with promotion after " + std::to_string(promotion) +
                        " products adds in one chain, or in slices no longer than that, not in " +
                        to_string(arithmetic.order));
    if (run == 0) kernel.parts.dealing.run = promotion / block * block;
  }
  if (arithmetic.reduced_reduction) round_parts(*arithmetic.reduced_reduction, arithmetic.order, kernel);
  return kernel;
}

std::string describe(const RowSteps& steps) {
  using Result = RowSteps::Result;
  const bool is_of_exponentials = steps.sums == RowSteps::Sums::exponentials;
  const bool has_log =
      steps.result == Result::less_log || steps.result == Result::less_maximum || steps.result == Result::log_of_sum;
  const std::string functions = has_log ? "exp and log " : "exp ";
  std::string text;
  switch (steps.sums) {
    case RowSteps::Sums::exponentials:
      text = functions + (steps.exponential == Exponential::sleef ? "of SLEEF"
                          : steps.exponential == Exponential::own ? "of this library"
                                                                  : "correctly rounded");
      break;
    case RowSteps::Sums::two_passes:
      text = "variance in two passes";
      break;
    case RowSteps::Sums::one_pass:
      text = "variance as mean of squares less square of mean";
      break;
    case RowSteps::Sums::squares:
      text = "mean of squares";
      break;
    case RowSteps::Sums::running:
      text = "running moments (Welford)";
      if (steps.lanes > 1) text += " in " + std::to_string(steps.lanes) + " lanes, chunks of 16 merged in pairs";
      break;
  }
  switch (steps.result) {
    case Result::quotient:
      text += is_of_exponentials ? ", divided by the sum" : ", divided by the root";
      break;
    case Result::product:
      text += is_of_exponentials ? ", times the reciprocal of the sum" : ", times the reciprocal of the root";
      break;
    case Result::shifted:
      text += ", x r - m r with the reciprocal r of the root";
      break;
    case Result::folded:
    case Result::folded_rounded:
      text += ", x f + (bias - m f) with f = scale over root";
      break;
    case Result::scaled:
      text += ", x - m times scale over root";
      break;
    case Result::less_log:
      text += ", less the maximum, then less the log";
      break;
    case Result::less_maximum:
      text += ", less the sum of maximum and log";
      break;
    case Result::log_of_sum:
      text += ", the maximum added to the log";
      break;
  }
  if (is_of_exponentials) return text;
  if (steps.result == Result::folded_rounded && steps.fused) return text + ", fused but for m f";
  return text + (steps.fused ? ", fused" : ", not fused");
}

std::string describe(const ProductKernel& kernel, std::int64_t n) {
  if (kernel.row && kernel.row->sums == RowSteps::Sums::running) return describe(*kernel.row);
  std::string text = kernel.of_products ? reading_of_operands(kernel) : "numbers as they are";
  if (kernel.matrix_unit) {
    text += " unit, block " + std::to_string(kernel.matrix_unit->block) + ", F " +
            std::to_string(kernel.matrix_unit->fraction_bits);
    if (kernel.matrix_unit->sum_bits < 23)
      text += ", sums of " + std::to_string(kernel.matrix_unit->sum_bits) + " bits";
  } else if (kernel.of_products) {
    text += kernel.fma ? ", fused multiply-adds" : ", products rounded";
  }
  text += ", " + parts_text(kernel, n);
  if (kernel.part_format != FormatId::fp32 && joins_of(kernel.parts, n).parts() > 1)
    text += (kernel.rounds_sums_of_parts ? ", slices and their sums rounded to " : ", slices rounded to ") +
            std::string(format(kernel.part_format).name);
  if (kernel.addend == AddendPlace::before_parts) text += ", bias before the parts";
  if (kernel.addend == AddendPlace::chain_start) text += ", chain from the bias";
  if (kernel.scaling == Scaling::divided) text += ", divided by the number of terms";
  if (kernel.scaling == Scaling::multiplied) text += ", times the rounded reciprocal of the number of terms";
  if (kernel.channels_together == 1) text += "; terms channel after channel";
  if (kernel.channels_together > 1) text += "; terms place after place of the window";
  if (kernel.channels_together > 1 && kernel.channels_together != all_channels)
    text += " in " + std::to_string(kernel.channels_together) + " channels at a time";
  if (kernel.row) text += "; " + describe(*kernel.row);
  return text;
}

}  // namespace driftbound

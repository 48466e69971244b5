#include "linalg/scheduled_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "linalg/kernels/ordered_product.hpp"
#include "num/parallel.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::linalg {
namespace {

static_assert(sum_lanes == panel_width<float>);

constexpr double lowest_power = 0x1p-126;

const ScheduledKernels& kernels() {
  return simd::fastest<scheduled_builds>();
}

UnitParts unit_parts(const TensorCore& unit, const SumSchedule& schedule) {
  UnitParts parts;
  parts.block = static_cast<std::size_t>(unit.block);
  parts.fraction_unit = std::ldexp(1.0, unit.fraction_bits);
  parts.sum_unit = std::ldexp(1.0, unit.sum_bits);
  parts.terms = schedule.terms.data();
  parts.ends = schedule.ends.data();
  parts.parts = schedule.ends.size();
  return parts;
}

ChainParts chain_parts(bool fma, const SumSchedule& schedule) {
  ChainParts parts;
  parts.fma = fma;
  parts.terms = schedule.terms.data();
  parts.ends = schedule.ends.data();
  parts.parts = schedule.ends.size();
  return parts;
}

using Lanes = std::array<float, sum_lanes>;

/// Computes rows of one product by panels of columns.
class KernelProduct {
public:
  KernelProduct(const ProductKernel& kernel, std::int64_t k)
      : kernel_(kernel),
        k_(static_cast<std::size_t>(k)),
        schedule_(schedule_of(kernel.parts, k)),
        whole_(schedule_of({}, k)) {}

  /// Shapes:    a [rows, k] row-major, panel [k, sum_lanes], c [rows, columns] with n numbers a row
  void multiply(const float* a, std::int64_t rows, const float* panel, std::size_t columns, float* c,
                std::int64_t n) const {
    UnitFactors left, right;
    if (kernel_.matrix_unit) right.take({panel, k_ * sum_lanes}, format(kernel_.operands));
    std::vector<float> parts(schedule_.ends.size() * sum_lanes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* const factors = a + static_cast<std::size_t>(row) * k_;
      if (kernel_.matrix_unit) left.take({factors, k_}, format(kernel_.operands));
      sum(factors, left, panel, right, parts);
      Lanes sums = combined(parts, schedule_.joins, PartRounding(kernel_));
      mend(factors, panel, sums);
      std::copy_n(sums.begin(), columns, c + row * n);
    }
  }

private:
  void sum(const float* a, const UnitFactors& left, const float* panel, const UnitFactors& right,
           std::vector<float>& parts) const {
    if (kernel_.matrix_unit) {
      UnitParts unit = unit_parts(*kernel_.matrix_unit, schedule_);
      unit.a = left.values.data();
      unit.a_power = left.powers.data();
      unit.b = right.values.data();
      unit.b_power = right.powers.data();
      unit.sums = parts.data();
      kernels().units(unit);
    } else {
      ChainParts chain = chain_parts(kernel_.fma, schedule_);
      chain.a = a;
      chain.b = panel;
      chain.sums = parts.data();
      kernels().chains(chain);
    }
  }

  /// Replaces sums that are not finite.
  void mend(const float* a, const float* panel, Lanes& sums) const {
    if (std::all_of(sums.begin(), sums.end(), [](float x) { return std::isfinite(x); })) return;
    Lanes plain;
    ChainParts chain = chain_parts(true, whole_);
    chain.a = a;
    chain.b = panel;
    chain.sums = plain.data();
    kernels().chains(chain);
    for (std::size_t lane = 0; lane < sum_lanes; ++lane)
      if (!std::isfinite(sums[lane])) sums[lane] = plain[lane];
  }

  const ProductKernel& kernel_;
  std::size_t k_;
  SumSchedule schedule_, whole_;
};

}  // namespace

void UnitFactors::take(std::span<const float> factors, const Format& operands) {
  values.assign(factors.begin(), factors.end());
  powers.resize(factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(values[i]) & (std::uint64_t{0x7ff} << 52);
    powers[i] = values[i] == 0.0 ? lowest_power : std::max(std::bit_cast<double>(exponent), operands.smallest_normal);
  }
}

std::vector<float> KernelSums::parts(const SumOperands& operands, const float* start) const {
  std::vector<float> sums(schedule_.ends.size() * sum_lanes);
  if (kernel_.matrix_unit) {
    UnitParts unit = unit_parts(*kernel_.matrix_unit, schedule_);
    unit.a = operands.a_of_unit.values.data();
    unit.a_power = operands.a_of_unit.powers.data();
    unit.b = operands.b_of_unit.values.data();
    unit.b_power = operands.b_of_unit.powers.data();
    unit.a_by_lane = true;
    unit.sums = sums.data();
    kernels().units(unit);
    return sums;
  }
  ChainParts chain = chain_parts(kernel_.fma, schedule_);
  chain.a = operands.a.data();
  chain.b = operands.b.data();
  chain.a_by_lane = true;
  chain.start = start;
  chain.sums = sums.data();
  kernels().chains(chain);
  return sums;
}

Lanes combined(std::vector<float> chains, const SumJoins& joins, const PartRounding& rounding, const float* first) {
  const bool rounds = rounding.format != FormatId::fp32 && joins.parts() > 1;
  const auto sum_of = [&](std::size_t chain) { return std::span<float>(&chains[chain * sum_lanes], sum_lanes); };
  const auto round = [&](std::size_t chain) {
    for (float& x : sum_of(chain))
      x = static_cast<float>(round_to(static_cast<double>(x), format(rounding.format), Rounding::nearest_even));
  };
  const auto add = [&](const float* more, std::size_t to) {
    for (std::size_t lane = 0; lane < sum_lanes; ++lane) chains[to * sum_lanes + lane] += more[lane];
  };
  const auto join = [&](std::size_t i) { add(sum_of(joins.list[i].from).data(), joins.list[i].to); };
  for (std::size_t i = 0; i < joins.within; ++i) join(i);
  if (rounds) round(0);
  for (std::size_t i = joins.within; rounds && i < joins.list.size(); ++i) round(joins.list[i].from);
  const bool rounds_sums = rounds && rounding.of_sums;
  if (first != nullptr) add(first, 0);
  if (first != nullptr && rounds_sums) round(0);
  for (std::size_t i = joins.within; i < joins.list.size(); ++i) {
    join(i);
    if (rounds_sums) round(joins.list[i].to);
  }
  Lanes sums;
  std::copy_n(chains.begin(), sum_lanes, sums.begin());
  return sums;
}

void multiply_by_kernel(const ProductPlan& plan, std::span<const float> a, const PackedMatrices<float>& b,
                        const ProductKernel& kernel, int threads, std::span<float> c) {
  if (c.empty()) return;
  if (plan.k == 0) return std::fill(c.begin(), c.end(), 0.0f);
  const KernelProduct product(kernel, plan.k);
  const auto lanes = static_cast<std::int64_t>(sum_lanes);
  const std::int64_t panels = (plan.n + lanes - 1) / lanes;
  std::vector<float> gathered;
  const float* const rows = in_rows<float>(plan, a, gathered);
  parallel_for(plan.batches * panels, threads, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t batch = i / panels, panel = i % panels;
      const float* const packed = b.at(plan.b_batch[static_cast<std::size_t>(batch)]).data() + panel * plan.k * lanes;
      product.multiply(rows + batch * plan.m * plan.k, plan.m, packed,
                       static_cast<std::size_t>(std::min(lanes, plan.n - panel * lanes)),
                       c.data() + batch * plan.m * plan.n + panel * lanes, plan.n);
    }
  });
}

}  // namespace driftbound::linalg

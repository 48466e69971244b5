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

template <class Real>
ChainParts<Real> chain_parts(bool fma, const SumSchedule& schedule) {
  ChainParts<Real> parts;
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

  /// `addends`: as multiply_by_kernel(); null: none.
  /// Shapes:    a [rows, k] row-major, panel [k, sum_lanes], c and addends [rows, columns] with n numbers a row
  void multiply(const float* a, std::int64_t rows, const float* panel, std::size_t columns, float* c,
                const float* addends, std::int64_t n) const {
    UnitFactors left, right;
    if (kernel_.matrix_unit) right.take({panel, k_ * sum_lanes}, format(kernel_.operands));
    std::vector<float> parts(schedule_.ends.size() * sum_lanes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* const factors = a + static_cast<std::size_t>(row) * k_;
      if (kernel_.matrix_unit) left.take({factors, k_}, format(kernel_.operands));
      Lanes addend = {};
      if (addends != nullptr) std::copy_n(addends + row * n, columns, addend.begin());
      const float* const first = addends == nullptr ? nullptr : addend.data();
      sum(factors, left, panel, right, kernel_.addend == AddendPlace::chain_start ? first : nullptr, parts);
      Lanes sums = combined(parts, schedule_.joins, PartRounding(kernel_),
                            kernel_.addend == AddendPlace::before_parts ? first : nullptr);
      mend(factors, panel, parts, addend, sums);
      std::copy_n(sums.begin(), columns, c + row * n);
    }
  }

private:
  void sum(const float* a, const UnitFactors& left, const float* panel, const UnitFactors& right, const float* start,
           std::vector<float>& parts) const {
    if (kernel_.matrix_unit) {
      UnitParts unit = unit_parts(*kernel_.matrix_unit, schedule_);
      unit.a = left.values.data();
      unit.a_power = left.powers.data();
      unit.b = right.values.data();
      unit.b_power = right.powers.data();
      unit.start = start;
      unit.sums = parts.data();
      kernels().units(unit);
    } else {
      ChainParts<float> chain = chain_parts<float>(kernel_.fma, schedule_);
      chain.a = a;
      chain.b = panel;
      chain.start = start;
      chain.sums = parts.data();
      kernels().chains(chain);
    }
  }

  /// Replaces sums that are not finite, but for those that the rounding of finite parts made so.
  void mend(const float* a, const float* panel, const std::vector<float>& parts, const Lanes& addend,
            Lanes& sums) const {
    if (std::all_of(sums.begin(), sums.end(), [](float x) { return std::isfinite(x); })) return;
    Lanes plain;
    ChainParts<float> chain = chain_parts<float>(true, whole_);
    chain.a = a;
    chain.b = panel;
    chain.sums = plain.data();
    kernels().chains(chain);
    for (std::size_t lane = 0; lane < sum_lanes; ++lane)
      if (!std::isfinite(sums[lane]) && !is_overflow_of_rounding(parts, lane)) sums[lane] = plain[lane] + addend[lane];
  }

  bool is_overflow_of_rounding(const std::vector<float>& parts, std::size_t lane) const {
    if (kernel_.part_format == FormatId::fp32) return false;
    for (std::size_t at = lane; at < parts.size(); at += sum_lanes)
      if (!std::isfinite(parts[at])) return false;
    return true;
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

template <class Real>
std::vector<Real> KernelSums::parts(const SumOperands<Real>& operands, const Real* start) const {
  std::vector<Real> sums(schedule_.ends.size() * sum_lanes);
  ChainParts<Real> chain = chain_parts<Real>(kernel_.fma, schedule_);
  chain.a = operands.a.data();
  chain.b = operands.b.data();
  chain.a_by_lane = true;
  chain.start = start;
  chain.sums = sums.data();
  if constexpr (std::is_same_v<Real, double>) {
    kernels().chains_in_double(chain);
  } else if (kernel_.matrix_unit) {
    UnitParts unit = unit_parts(*kernel_.matrix_unit, schedule_);
    unit.a = operands.a_of_unit.values.data();
    unit.a_power = operands.a_of_unit.powers.data();
    unit.b = operands.b_of_unit.values.data();
    unit.b_power = operands.b_of_unit.powers.data();
    unit.a_by_lane = true;
    unit.start = start;
    unit.sums = sums.data();
    kernels().units(unit);
  } else {
    kernels().chains(chain);
  }
  return sums;
}

template <class Real>
std::array<Real, sum_lanes> combined(std::vector<Real> chains, const SumJoins& joins, const PartRounding& rounding,
                                     std::type_identity_t<const Real*> first) {
  const bool rounds = rounding.format != FormatId::fp32 && joins.parts() > 1;
  const auto sum_of = [&](std::size_t chain) { return std::span<Real>(&chains[chain * sum_lanes], sum_lanes); };
  const auto round = [&](std::size_t chain) {
    for (Real& x : sum_of(chain))
      x = static_cast<Real>(round_to(static_cast<double>(x), format(rounding.format), Rounding::nearest_even));
  };
  const auto add = [&](const Real* more, std::size_t to) {
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
  std::array<Real, sum_lanes> sums;
  std::copy_n(chains.begin(), sum_lanes, sums.begin());
  return sums;
}

template std::vector<float> KernelSums::parts(const SumOperands<float>&, const float*) const;
template std::vector<double> KernelSums::parts(const SumOperands<double>&, const double*) const;
template std::array<float, sum_lanes> combined(std::vector<float>, const SumJoins&, const PartRounding&, const float*);
template std::array<double, sum_lanes> combined(std::vector<double>, const SumJoins&, const PartRounding&,
                                                const double*);

void multiply_by_kernel(const ProductPlan& plan, std::span<const float> a, const PackedMatrices<float>& b,
                        const ProductKernel& kernel, int threads, std::span<float> c, std::span<const float> addends) {
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
      const std::int64_t first = batch * plan.m * plan.n + panel * lanes;
      product.multiply(rows + batch * plan.m * plan.k, plan.m, packed,
                       static_cast<std::size_t>(std::min(lanes, plan.n - panel * lanes)), c.data() + first,
                       addends.empty() ? nullptr : addends.data() + first, plan.n);
    }
  });
}

}  // namespace driftbound::linalg

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

void add_chains(const ChainParts<float>& chain) {
  kernels().chains(chain);
}
void add_chains(const ChainParts<double>& chain) {
  kernels().chains_in_double(chain);
}

/// What the parts of sums are made of.
template <class Real>
struct Factors {
  const Real *a = nullptr, *b = nullptr;
  bool a_by_lane = false;
  const UnitFactors *a_of_unit = nullptr, *b_of_unit = nullptr;  ///< the same, of kernels with a matrix unit
};

/// The sums of all parts, each of which starts from `start`; null: from its first product, of a matrix unit from 0.
/// Shapes:    sums [parts, sum_lanes], start [sum_lanes]
template <class Real>
void add_parts(const ProductKernel& kernel, const SumSchedule& schedule, const Factors<Real>& factors,
               const Real* start, Real* sums) {
  if constexpr (std::is_same_v<Real, float>) {
    if (kernel.matrix_unit) {
      UnitParts unit;
      unit.a = factors.a_of_unit->values.data();
      unit.a_power = factors.a_of_unit->powers.data();
      unit.b = factors.b_of_unit->values.data();
      unit.b_power = factors.b_of_unit->powers.data();
      unit.a_by_lane = factors.a_by_lane;
      unit.block = static_cast<std::size_t>(kernel.matrix_unit->block);
      unit.fraction_unit = std::ldexp(1.0, kernel.matrix_unit->fraction_bits);
      unit.sum_unit = std::ldexp(1.0, kernel.matrix_unit->sum_bits);
      unit.terms = schedule.terms.data();
      unit.ends = schedule.ends.data();
      unit.parts = schedule.ends.size();
      unit.start = start;
      unit.sums = sums;
      return kernels().units(unit);
    }
  }
  ChainParts<Real> chain;
  chain.a = factors.a;
  chain.b = factors.b;
  chain.a_by_lane = factors.a_by_lane;
  chain.fma = kernel.fma;
  chain.terms = schedule.terms.data();
  chain.ends = schedule.ends.data();
  chain.parts = schedule.ends.size();
  chain.start = start;
  chain.sums = sums;
  add_chains(chain);
}

/// Columns [first, first + sum_lanes) of a packed matrix, 0 behind the last one: `packed` itself, or `gathered`, into which
/// narrower panels are copied.
/// Shapes:    packed [panels, k, panel_width], result [k, sum_lanes]
template <class Real>
const Real* columns_from(const std::vector<Real>& packed, std::size_t first, std::size_t k,
                         std::vector<Real>& gathered) {
  constexpr std::size_t width = panel_width<Real>;
  if constexpr (width == sum_lanes) return packed.data() + first * k;
  gathered.assign(k * sum_lanes, Real(0));
  for (std::size_t lane = 0; lane < sum_lanes && (first + lane) * k < packed.size(); lane += width)
    for (std::size_t row = 0; row < k; ++row)
      std::copy_n(packed.data() + (first + lane) * k + row * width, width, gathered.data() + row * sum_lanes + lane);
  return gathered.data();
}

/// Computes rows of one product by panels of columns.
template <class Real>
class KernelProduct {
public:
  using Lanes = std::array<Real, sum_lanes>;

  KernelProduct(const ProductKernel& kernel, std::int64_t k)
      : kernel_(kernel),
        k_(static_cast<std::size_t>(k)),
        schedule_(schedule_of(kernel.parts, k)),
        whole_(schedule_of({}, k)) {}

  /// `addends`: as multiply_by_kernel(); null: none.
  /// Shapes:    a [rows, k] row-major, panel [k, sum_lanes], c and addends [rows, columns] with n numbers a row
  void multiply(const Real* a, std::int64_t rows, const Real* panel, std::size_t columns, Real* c, const Real* addends,
                std::int64_t n) const {
    UnitFactors left, right;
    take({panel, k_ * sum_lanes}, right);
    std::vector<Real> parts(schedule_.ends.size() * sum_lanes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Real* const factors = a + static_cast<std::size_t>(row) * k_;
      take({factors, k_}, left);
      Lanes addend = {};
      if (addends != nullptr) std::copy_n(addends + row * n, columns, addend.begin());
      const Real* const first = addends == nullptr ? nullptr : addend.data();
      add_parts<Real>(kernel_, schedule_, {factors, panel, false, &left, &right},
                      kernel_.addend == AddendPlace::chain_start ? first : nullptr, parts.data());
      Lanes sums = combined(parts, schedule_.joins, PartRounding(kernel_),
                            kernel_.addend == AddendPlace::before_parts ? first : nullptr);
      if (kernel_.matrix_unit) mend(factors, panel, parts, addend, sums);
      std::copy_n(sums.begin(), columns, c + row * n);
    }
  }

private:
  /// Only a matrix unit takes its factors apart.
  void take(std::span<const Real> factors, UnitFactors& of_unit) const {
    if constexpr (std::is_same_v<Real, float>)
      if (kernel_.matrix_unit) of_unit.take(factors, format(kernel_.operands));
  }

  /// Replaces sums of a matrix unit that are not finite, but for those that the rounding of finite parts made so.
  void mend(const Real* a, const Real* panel, const std::vector<Real>& parts, const Lanes& addend, Lanes& sums) const {
    if (std::all_of(sums.begin(), sums.end(), [](Real x) { return std::isfinite(x); })) return;
    Lanes plain;
    add_parts<Real>({}, whole_, {a, panel}, nullptr, plain.data());
    for (std::size_t lane = 0; lane < sum_lanes; ++lane)
      if (!std::isfinite(sums[lane]) && !is_overflow_of_rounding(parts, lane)) sums[lane] = plain[lane] + addend[lane];
  }

  bool is_overflow_of_rounding(const std::vector<Real>& parts, std::size_t lane) const {
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
  add_parts<Real>(kernel_, schedule_,
                  {operands.a.data(), operands.b.data(), true, &operands.a_of_unit, &operands.b_of_unit}, start,
                  sums.data());
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

template <class Real>
void multiply_by_kernel(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                        const PackedMatrices<Real>& b, const ProductKernel& kernel, int threads,
                        std::type_identity_t<std::span<Real>> c, std::type_identity_t<std::span<const Real>> addends) {
  if (c.empty()) return;
  if (plan.k == 0) return std::fill(c.begin(), c.end(), Real(0));
  const KernelProduct<Real> product(kernel, plan.k);
  const auto lanes = static_cast<std::int64_t>(sum_lanes);
  const std::int64_t panels = (plan.n + lanes - 1) / lanes;
  std::vector<Real> gathered;
  const Real* const rows = in_rows<Real>(plan, a, gathered);
  parallel_for(plan.batches * panels, threads, [&](std::int64_t from, std::int64_t to) {
    std::vector<Real> of_panel;
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t batch = i / panels, column = i % panels * lanes;
      const Real* const panel =
          columns_from(b.at(plan.b_batch[static_cast<std::size_t>(batch)]), static_cast<std::size_t>(column),
                       static_cast<std::size_t>(plan.k), of_panel);
      const std::int64_t first = batch * plan.m * plan.n + column;
      product.multiply(rows + batch * plan.m * plan.k, plan.m, panel,
                       static_cast<std::size_t>(std::min(lanes, plan.n - column)), c.data() + first,
                       addends.empty() ? nullptr : addends.data() + first, plan.n);
    }
  });
}

template void multiply_by_kernel<float>(const ProductPlan&, std::span<const float>, const PackedMatrices<float>&,
                                        const ProductKernel&, int, std::span<float>, std::span<const float>);
template void multiply_by_kernel<double>(const ProductPlan&, std::span<const double>, const PackedMatrices<double>&,
                                         const ProductKernel&, int, std::span<double>, std::span<const double>);

}  // namespace driftbound::linalg

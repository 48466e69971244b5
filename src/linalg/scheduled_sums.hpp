#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "driftbound/trace/product_kernel.hpp"
#include "linalg/kernels/scheduled_sums.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::linalg {

/// Factors as a matrix unit takes them, with the powers of two of their exponents: that of a zero is -126, that of a
/// subnormal number the lowest of its format.
struct UnitFactors {
  std::vector<double> values, powers;

  void take(std::span<const float> factors, const Format& operands);
};

/// Factors of up to sum_lanes sums of k products each, as a kernel reads them: numbers of its operand format.
template <class Real>
struct SumOperands {
  std::int64_t k = 0;
  std::vector<Real> a, b;            ///< [k, sum_lanes]
  UnitFactors a_of_unit, b_of_unit;  ///< for kernels with a matrix unit: the same
};

/// The sums of a kernel whose parts are dealt out by one schedule.
class KernelSums {
public:
  /// The kernel's dealing is not looked at.
  KernelSums(const ProductKernel& kernel, const SumSchedule& schedule) : kernel_(kernel), schedule_(schedule) {}

  /// The sums of all parts, in float32 or, without a matrix unit, in float64. `start`: what each chain starts from;
  /// null: the first product, of a matrix unit 0.
  /// Shapes:    result [parts, sum_lanes], start [sum_lanes]
  template <class Real>
  std::vector<Real> parts(const SumOperands<Real>& operands, const Real* start = nullptr) const;

private:
  const ProductKernel& kernel_;
  const SumSchedule& schedule_;
};

/// How sums of parts are rounded: not at all, or each, or after every addition too (ProductKernel).
struct PartRounding {
  FormatId format = FormatId::fp32;
  bool of_sums = false;

  explicit PartRounding(const ProductKernel& kernel)
      : format(kernel.part_format), of_sums(kernel.rounds_sums_of_parts) {}
};

/// The sum of chains. `first`: what parts are added to before they are to each other; null: nothing.
/// Shapes:    chains [number of chains, sum_lanes]
template <class Real>
std::array<Real, sum_lanes> combined(std::vector<Real> chains, const SumJoins& joins, const PartRounding& rounding,
                                     std::type_identity_t<const Real*> first = nullptr);

/// C[batch, i, j] = sum_k A[batch, i, k] B[batch, k, j] as a kernel computes it, row-major; in float64 without a matrix
/// unit. A and B are numbers of the kernel's operand format. Sums of a matrix unit that are not finite, or have a factor
/// that is not, are those of a float32 chain, unless all parts are finite and their rounding is not.
/// `addends`: what is added before the parts, or what chains start from, as the kernel says; else empty.
/// Shapes:    c [batches * m * n], addends the same
/// Guarantee: the same bits for every number of threads and every instruction set
template <class Real>
void multiply_by_kernel(const ProductPlan& plan, std::type_identity_t<std::span<const Real>> a,
                        const PackedMatrices<Real>& b, const ProductKernel& kernel, int threads,
                        std::type_identity_t<std::span<Real>> c,
                        std::type_identity_t<std::span<const Real>> addends = {});

/// The sum of numbers along a schedule, to nearest. chain(k, k + 1) is term k.
template <class Chain>
auto scheduled_sum(const SumSchedule& schedule, const Chain& chain) {
  std::vector<decltype(chain(0, 1))> sums;
  std::size_t i = 0;
  for (const std::size_t end : schedule.ends) {
    auto sum = chain(schedule.terms[i], schedule.terms[i] + 1);
    while (++i < end) sum += chain(schedule.terms[i], schedule.terms[i] + 1);
    sums.push_back(sum);
  }
  for (const SumJoins::Join& join : schedule.joins.list) sums[join.to] += sums[join.from];
  return sums.front();
}

}  // namespace driftbound::linalg

#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "driftbound/num/format.hpp"
#include "support/bound_checks.hpp"

/// Products whose sums are split into parts that are rounded to 16 bits (T-23); what the assumption leaves open is
/// decided by chance.
namespace checks {

struct ReducedSum {
  std::vector<float> a, b;
  std::optional<float> addend;
  ReducedReduction reduction;
  std::vector<std::size_t> ends;  ///< of the parts
  bool rounds_everything = true;  ///< else sums of parts stay in float32 now and then
};

inline float reduced_to(float x, const ReducedSum& sum) {
  return static_cast<float>(round_to(static_cast<double>(x), format(sum.reduction.format), Rounding::nearest_even));
}

inline float computed_sum(const ReducedSum& sum, Generator& generator) {
  std::optional<float> total;
  const auto join = [&](float part) {
    const bool is_kept = total.has_value() && !sum.rounds_everything && generator() % 2 == 0;
    const float next = total ? *total + part : part;
    total = is_kept ? next : reduced_to(next, sum);
  };
  std::size_t first = 0;
  for (const std::size_t end : sum.ends) {
    float part = 0.0f;
    for (std::size_t k = first; k < end; ++k) part = part + sum.a[k] * sum.b[k];
    join(reduced_to(part, sum));
    first = end;
  }
  if (sum.addend) join(*sum.addend);
  return *total;
}

inline LayerBounds bounds_of_reduced(const ReducedSum& sum, float y) {
  const auto n = static_cast<std::int64_t>(sum.a.size());
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.reduced_reduction = sum.reduction;
  std::vector<Tensor<double>> operands = {{{1, n}, {sum.a.begin(), sum.a.end()}},
                                          {{n, 1}, {sum.b.begin(), sum.b.end()}}};
  if (sum.addend) operands.push_back({{1, 1}, {static_cast<double>(*sum.addend)}});
  return bounds_of(one_node(op::Gemm{}, operands, {{1, 1}, {static_cast<double>(y)}}, arithmetic));
}

inline Real exact_value(const ReducedSum& sum) {
  Real exact = sum.addend ? Real(static_cast<double>(*sum.addend)) : Real(0.0);
  for (std::size_t k = 0; k < sum.a.size(); ++k)
    exact = exact + Real(static_cast<double>(sum.a[k])) * Real(static_cast<double>(sum.b[k]));
  return exact;
}

inline void check_reduced_sum(const ReducedSum& sum, Generator& generator, Tallies& tallies) {
  const float y = computed_sum(sum, generator);
  if (!std::isfinite(y)) return;  // a part overflowed, and it shows
  tallies.add(bounds_of_reduced(sum, y), 0, static_cast<double>(y), exact_value(sum));
}

inline ReducedSum draw_reduced_sum(Generator& generator) {
  ReducedSum sum;
  const auto data = static_cast<Data>(generator() % static_cast<std::uint64_t>(Data::huge));
  const std::size_t n = 1 + generator() % 40;
  sum.reduction.format = generator() % 2 == 0 ? FormatId::bf16 : FormatId::fp16;
  sum.reduction.parts = 1 + static_cast<int>(generator() % 5);
  sum.rounds_everything = generator() % 2 == 0;
  for (std::size_t k = 0; k < n; ++k) {
    sum.a.push_back(static_cast<float>(draw(data, generator)));
    sum.b.push_back(static_cast<float>(draw(data, generator)));
  }
  for (int part = 1; part < sum.reduction.parts; ++part) sum.ends.push_back(generator() % (n + 1));
  sum.ends.push_back(n);
  std::sort(sum.ends.begin(), sum.ends.end());
  if (generator() % 2 == 0) sum.addend = static_cast<float>(draw(data, generator));
  return sum;
}

/// Two parts and an addend: every rounding to bfloat16 errs by half a unit of its last place, and upward.
inline ReducedSum hardest_reduced_sum() {
  ReducedSum sum;
  sum.a = {1.0f, 1.0f};
  sum.b = {1.0f + 0x1p-8f + 0x1p-20f, 1.0f + 3.0f * 0x1p-8f + 0x1p-20f};
  sum.addend = 0x1p-7f + 0x1p-20f;
  sum.reduction = {FormatId::bf16, 2};
  sum.ends = {1, 2};
  return sum;
}

inline std::int64_t check_reduced_reduction() {
  Generator generator(71);
  Tallies tallies;
  for (int i = 0; i < 200; ++i) check_reduced_sum(draw_reduced_sum(generator), generator, tallies);
  check_reduced_sum(hardest_reduced_sum(), generator, tallies);
  return tallies.violations();
}

/// Parts below the smallest number of float16, which become 0.
inline std::int64_t check_underflow_of_parts() {
  ReducedSum sum;
  sum.a = {0x1p-13f, 0x1p-13f};
  sum.b = {0x1p-13f, 0x1p-13f};
  sum.reduction = {FormatId::fp16, 2};
  sum.ends = {1, 2};
  Generator generator(74);
  Tallies tallies;
  check_reduced_sum(sum, generator, tallies);
  return tallies.violations();
}

}  // namespace checks

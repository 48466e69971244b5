#include "bounds/nodes/shares.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/kernels/row_kernels.hpp"
#include "bounds/theorems/defects.hpp"

namespace driftbound::bounds {
namespace {

/// Whether the product of x and any double is exact in double.
bool is_exact_factor(double x) {
  return x == 0.0 || x == 1.0 || x == -1.0;
}

}  // namespace

void judge_finiteness(Transposed& share) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto are_finite = [](const std::vector<double>& x) {
    return std::isfinite(fastest_row_kernels().largest(x.data(), x.size()));
  };
  if (are_finite(share.values) && are_finite(share.defect)) return;
  share.defect.resize(share.values.size());
  for (std::size_t i = 0; i < share.values.size(); ++i) {
    const bool is_known = std::isfinite(share.values[i]) && !std::isnan(share.defect[i]);
    if (!is_known) share.defect[i] = infinity;
  }
}

Transposed elementwise_share(std::span<const double> slopes, std::span<const double> d) {
  Transposed share;
  share.values.resize(d.size());
  for (std::size_t i = 0; i < d.size(); ++i) share.values[i] = slopes[i] * d[i];
  if (!std::all_of(slopes.begin(), slopes.end(), is_exact_factor)) {
    share.defect.resize(d.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      const bool is_exact = is_exact_factor(slopes[i]) || is_exact_factor(d[i]);
      if (!is_exact) share.defect[i] = theorems::defect(std::abs(share.values[i]), 1, 1);
    }
  }
  judge_finiteness(share);
  return share;
}

void SharedElements::add(std::size_t element, double slope, double d) {
  const double term = slope * d;
  sums_[element] += term;
  sizes_[element] += std::abs(term);
  ++terms_[element];
  if (!is_exact_factor(slope) && !is_exact_factor(d)) ++rounded_[element];
}

Transposed SharedElements::result() && {
  Transposed share{std::move(sums_), {}};
  const bool repeats = std::any_of(terms_.begin(), terms_.end(), [](std::int64_t terms) { return terms > 1; });
  const bool rounds = std::any_of(rounded_.begin(), rounded_.end(), [](std::int64_t count) { return count > 0; });
  if (repeats || rounds) {
    share.defect.resize(share.values.size());
    for (std::size_t i = 0; i < share.values.size(); ++i) {
      const std::int64_t additions = std::max<std::int64_t>(terms_[i] - 1, 0);
      const std::int64_t roundings = additions + (rounded_[i] > 0 ? 1 : 0);
      if (roundings > 0) share.defect[i] = theorems::defect(sizes_[i], roundings, rounded_[i]);
    }
  }
  judge_finiteness(share);
  return share;
}

}  // namespace driftbound::bounds

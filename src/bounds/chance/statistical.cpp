#include "bounds/chance/statistical.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {
namespace {

/// Returns the addend beta c of every element of a product's result, at the shadow; 0 if there is none.
class AddendsOfRun {
public:
  explicit AddendsOfRun(const NodeView& view) : view_(view) {
    const std::optional<Product> product = product_of(view);
    if (!product || !product->has_addend) return;
    beta_ = product->beta;
    index_.emplace(view.input(2).shape, view.output->shape);
  }
  double operator()(std::size_t i) const { return index_ ? beta_ * view_.input(2).values[(*index_)(i)] : 0.0; }

private:
  const NodeView& view_;
  double beta_ = 0.0;
  std::optional<BroadcastIndex> index_;
};

/// At least this share of a node's variance is attributed to one path of partial sums, since elements with correlated
/// terms share paths.
constexpr double least_in_common = 0.25;

/// Returns an upper bound of ln E exp(t X), X the sum of a node's weighted errors, which is modelled as normal given
/// the paths of the partial sums.
double log_moment(double t, const SumsByChance& sums) {
  const double worst = 0.5 * t * t * std::max(sums.variance, sums.most);
  const double largest = std::clamp(sums.largest, least_in_common * sums.variance, sums.variance);
  const double x = t * std::sqrt(6.0 * largest);
  if (x < 1e-3 || x >= std::numbers::pi) return worst;
  return std::min(worst, 0.5 * sums.variance / largest * std::log(x / std::sin(x)));
}

}  // namespace

double variance_over_orders(double fixed, std::span<const SumsByChance> nodes, double sigmas) {
  constexpr int steps = 24;
  double mean = fixed;
  for (const SumsByChance& sums : nodes) mean += sums.variance;
  if (nodes.empty() || !(mean > 0.0) || !std::isfinite(mean)) return mean;
  double threshold = std::numeric_limits<double>::infinity(), t = sigmas;
  for (int step = 0; step < steps; ++step, t *= 0.9) {
    double log_of_all = 0.5 * t * t * fixed / mean;
    for (const SumsByChance& sums : nodes)
      log_of_all += log_moment(t, {sums.variance / mean, sums.largest / mean, sums.most / mean});
    threshold = std::min(threshold, (0.5 * sigmas * sigmas + log_of_all) / t);
  }
  return std::max(1.0, threshold * threshold / (sigmas * sigmas)) * mean;
}

double estimate_sum_variance(const RandomOrderSum& sum) {
  if (sum.count <= 0.0) return 0.0;
  const double n = sum.count, s = sum.sum, c = sum.addend, from_zero = s - c;
  // The partial sums form a bridge from 0 to s - c if the addend comes last, from c to s if it comes first.
  const double drift = std::max(from_zero * from_zero, c == 0.0 ? 0.0 : c * c + c * s + s * s);
  const double bridge = drift * (n + 1.0) * (2.0 * n + 1.0) / (6.0 * n);
  const double spread = (n + 1.0) / 6.0 * std::max(0.0, sum.squares - s * s / n);
  const double last = c == 0.0 ? 0.0 : s * s;
  return rounding_variance * (bridge + spread + last + (sum.rounds_products ? sum.squares : 0.0));
}

NodeChance estimate_roundings(const RoundingNode& node, const Setting& setting) {
  NodeChance chance;
  if (node.sums.empty()) {
    for (const double added : node.added) chance.amplitudes.push_back(added / std::sqrt(3.0));
    return chance;
  }
  const AddendsOfRun addends(node.view);
  const double u = setting.machine.u;
  for (std::size_t i = 0; i < node.sums.size(); ++i) {
    const TermSizes& terms = node.sums[i].terms;
    const double norm = terms.norm.value(), y = node.view.y(i);
    const double variance = estimate_sum_variance(
        {static_cast<double>(terms.leaves), norm * norm, y, addends(i), terms.rounded != Magnitude()});
    const double stored = theorems::unrecorded_storing(Magnitude(y), setting.machine).value();
    const double of_storing = stored * stored / 3.0;
    chance.amplitudes.push_back(std::sqrt(u * u * variance + of_storing));
    const double most = theorems::partial_sums_squares(terms, setting.machine).value();
    chance.most.push_back(std::sqrt(rounding_variance * (most + u * u * y * y) + of_storing));
  }
  chance.rest = rest_of_sums(node, setting);
  return chance;
}

}  // namespace driftbound::bounds

#include "bounds/adjoint/statistical.hpp"

#include <algorithm>
#include <cmath>

namespace driftbound::bounds {
namespace {

/// Mean square of the rounding error of t to nearest, in units of u^2 t^2: a third of that of ufp(t)/|t|, whose
/// logarithm is spread evenly over a binade.
constexpr double rounding_variance = 0.18;

/// beta c of every element of a product's result.
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

}  // namespace

double estimate_sum_variance(const RandomOrderSum& sum) {
  if (sum.count <= 0.0) return 0.0;
  const double n = sum.count, s = sum.sum, c = sum.addend, from_zero = s - c;
  // A bridge from 0 to s - c before the addend, or from c to s after it.
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
    const double stored = setting.rules->unrecorded_storing(Magnitude(y), setting.machine).value();
    chance.amplitudes.push_back(std::sqrt(u * u * variance + stored * stored / 3.0));
  }
  chance.rest = rest_of_sums(node, setting);
  return chance;
}

}  // namespace driftbound::bounds

#include "implicit/pair_stage.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "bounds/boxes/pair_box.hpp"
#include "driftbound/num/directed.hpp"
#include "implicit/sign_of.hpp"

namespace driftbound::implicit {
namespace {

constexpr int pair_bits = 106;
/// The bound costs as much as so many points by balls.
constexpr std::size_t points_of_a_bound = 1000;

}  // namespace

std::unique_ptr<const PairStage> PairStage::of(const Graph& graph, const Box& domain) {
  std::unique_ptr<const PairNetwork> network = PairNetwork::of(graph);
  if (network == nullptr) return nullptr;
  return std::unique_ptr<const PairStage>(new PairStage(graph, domain, std::move(network)));
}

PairStage::PairStage(const Graph& graph, const Box& domain, std::unique_ptr<const PairNetwork> network)
    : graph_(graph), domain_(domain), network_(std::move(network)) {}

bool PairStage::pays_for(std::size_t points) const {
  return asked_.fetch_add(points, std::memory_order_relaxed) + points >= points_of_a_bound;
}

double PairStage::bound() const {
  std::call_once(is_bounded_, [&] { bound_ = bounds::pair_error_bound(graph_, domain_).value(); });
  return bound_;
}

void PairStage::decide(std::span<const double> points, std::span<PointSign> out) const {
  const double of_domain = bound();
  const std::size_t dimension = network_->dimension();
  std::unique_ptr<Workspace> workspace = network_->workspace();
  std::array<double, pair_rows> high{}, low{};
  for (std::size_t first = 0; first < out.size(); first += pair_rows) {
    const std::size_t count = std::min(pair_rows, out.size() - first);
    network_->evaluate(points.subspan(first * dimension, count * dimension), *workspace, std::span(high).first(count),
                       std::span(low).first(count));
    for (std::size_t row = 0; row < count; ++row) {
      const bool is_inside = contains(domain_, points.subspan((first + row) * dimension, dimension));
      const double bound = is_inside ? add_up(of_domain, std::fabs(low[row])) : std::numeric_limits<double>::infinity();
      out[first + row] = sign_of(high[row], bound, SignStage::double_double, pair_bits);
    }
  }
  network_->give_back(std::move(workspace));
}

}  // namespace driftbound::implicit

#include "implicit/domain_stage.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "implicit/sign_of.hpp"

namespace driftbound::implicit {

std::unique_ptr<const DomainStage> DomainStage::of(const Graph& graph, const Box& domain) {
  std::unique_ptr<const PackedNetwork> network = PackedNetwork::of(graph);
  if (network == nullptr) return nullptr;
  return std::unique_ptr<const DomainStage>(new DomainStage(graph, domain, std::move(network)));
}

DomainStage::DomainStage(const Graph& graph, const Box& domain, std::unique_ptr<const PackedNetwork> network)
    : graph_(graph), domain_(domain), network_(std::move(network)) {}

double DomainStage::bound() const {
  std::call_once(is_bounded_, [&] {
    bound_ = forward_error_bound(graph_, PackedNetwork::arithmetic(), domain_).error.value();
    has_bound_.store(true, std::memory_order_release);
  });
  return bound_;
}

PointSign DomainStage::sign_at(std::span<const double> point, double value) const {
  return sign_of(value, contains(domain_, point) ? bound_ : std::numeric_limits<double>::infinity(),
                 SignStage::float64_domain, 53);
}

PointSign DomainStage::at(std::span<const double> point) const {
  return sign_at(point, network_->evaluate(point));
}

void DomainStage::decide(std::span<const double> points, std::span<PointSign> out) const {
  bound();
  const std::size_t dimension = network_->dimension();
  std::unique_ptr<Workspace> workspace = network_->workspace();
  std::array<double, block_rows> values{};
  for (std::size_t first = 0; first < out.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, out.size() - first);
    network_->evaluate(points.subspan(first * dimension, count * dimension), *workspace,
                       std::span(values).first(count));
    for (std::size_t row = 0; row < count; ++row)
      out[first + row] = sign_at(points.subspan((first + row) * dimension, dimension), values[row]);
  }
  network_->give_back(std::move(workspace));
}

}  // namespace driftbound::implicit

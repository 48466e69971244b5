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

bool DomainStage::contains_all(std::span<const double> points) const {
  const std::size_t dimension = network_->dimension();
  bool inside = true;
  for (std::size_t c = 0; c < dimension; ++c) {
    const double lower = domain_.lower[c], upper = domain_.upper[c];
    for (std::size_t i = c; i < points.size(); i += dimension)
      inside = inside && lower <= points[i] && points[i] <= upper;
  }
  return inside;
}

std::size_t DomainStage::decide(std::span<const double> points, std::span<PointSign> out) const {
  bound();
  const std::size_t dimension = network_->dimension();
  std::unique_ptr<Workspace> workspace = network_->workspace();
  std::array<double, block_rows> values{};
  std::size_t decided = 0;
  for (std::size_t first = 0; first < out.size(); first += block_rows) {
    const std::size_t count = std::min(block_rows, out.size() - first);
    const std::span<const double> block = points.subspan(first * dimension, count * dimension);
    network_->evaluate(block, *workspace, std::span(values).first(count));
    const bool are_inside = contains_all(block);
    for (std::size_t row = 0; row < count; ++row) {
      const double value = values[row];
      PointSign& sign = out[first + row];
      sign = are_inside ? sign_of(value, bound_, SignStage::float64_domain, 53)
                        : sign_at(block.subspan(row * dimension, dimension), value);
      decided += static_cast<std::size_t>(sign.sign != Sign::undecided);
    }
  }
  network_->give_back(std::move(workspace));
  return decided;
}

}  // namespace driftbound::implicit

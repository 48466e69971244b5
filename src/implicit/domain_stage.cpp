#include "implicit/domain_stage.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
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
    : graph_(graph), domain_(domain), network_(std::move(network)) {
  for (std::size_t row = 0; row < block_rows; ++row) {
    lower_.insert(lower_.end(), domain_.lower.begin(), domain_.lower.end());
    upper_.insert(upper_.end(), domain_.upper.begin(), domain_.upper.end());
  }
}

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

bool DomainStage::contains_all(std::span<const double> block) const {
  std::int64_t outside = 0;  // as wide as what is compared, so that the loop takes several at once
  for (std::size_t i = 0; i < block.size(); ++i) {
    outside += static_cast<std::int64_t>(!(lower_[i] <= block[i]));
    outside += static_cast<std::int64_t>(!(block[i] <= upper_[i]));
  }
  return outside == 0;
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
    const std::span<PointSign> signs = out.subspan(first, count);
    if (contains_all(block)) {
      for (std::size_t row = 0; row < count; ++row)
        signs[row] = sign_of(values[row], bound_, SignStage::float64_domain, 53);
    } else {
      for (std::size_t row = 0; row < count; ++row)
        signs[row] = sign_at(block.subspan(row * dimension, dimension), values[row]);
    }
    for (const PointSign& sign : signs) decided += static_cast<std::size_t>(sign.sign != Sign::undecided);
  }
  network_->give_back(std::move(workspace));
  return decided;
}

}  // namespace driftbound::implicit

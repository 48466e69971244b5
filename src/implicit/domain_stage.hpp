#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/packed_network.hpp"

namespace driftbound::implicit {

/// Signs from float64 with one bound for a whole box. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-110, T-111
class DomainStage {
public:
  /// Null where PackedNetwork::of() is. The graph must outlive it.
  static std::unique_ptr<const DomainStage> of(const Graph& graph, const Box& domain);

  /// How many it decides.
  /// Shapes:    `points` row by row, `out` one entry a row, whose earlier contents are lost
  std::size_t decide(std::span<const double> points, std::span<PointSign> out) const;
  /// One point, once the bound has been found.
  PointSign at(std::span<const double> point) const;

  /// Of |value - f| everywhere in the box; found when it is first asked for.
  double bound() const;
  bool is_bounded() const { return has_bound_.load(std::memory_order_acquire); }

private:
  bool contains_all(std::span<const double> points) const;
  PointSign sign_at(std::span<const double> point, double value) const;

  DomainStage(const Graph& graph, const Box& domain, std::unique_ptr<const PackedNetwork> network);

  const Graph& graph_;
  Box domain_;
  std::unique_ptr<const PackedNetwork> network_;
  mutable std::once_flag is_bounded_;
  mutable double bound_ = 0.0;
  mutable std::atomic<bool> has_bound_ = false;
};

}  // namespace driftbound::implicit

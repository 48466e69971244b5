#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/pair_network.hpp"

namespace driftbound::implicit {

/// Signs from double-double with one bound for a whole box. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-110, T-114
class PairStage {
public:
  /// Null where PairNetwork::of() is, or where balls take less time. The graph must outlive it.
  static std::unique_ptr<const PairStage> of(const Graph& graph, const Box& domain);

  /// Whether finding the bound pays, for so many points and those that were asked for before.
  bool pays_for(std::size_t points) const;
  /// Shapes:    `points` row by row, `out` one entry a row, whose earlier contents are lost
  void decide(std::span<const double> points, std::span<PointSign> out) const;

private:
  PairStage(const Graph& graph, const Box& domain, std::unique_ptr<const PairNetwork> network);
  double bound() const;

  const Graph& graph_;
  Box domain_;
  std::unique_ptr<const PairNetwork> network_;
  mutable std::atomic<std::size_t> asked_ = 0;
  mutable std::once_flag is_bounded_;
  mutable double bound_ = 0.0;
};

}  // namespace driftbound::implicit

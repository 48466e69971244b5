#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "driftbound/bounds/box.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/float_network.hpp"

namespace driftbound::implicit {

/// Signs from float32 with one bound for a whole box, where that decides enough of them. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-110, T-115
class FloatStage {
public:
  /// For the graph's output minus `iso`. Null where FloatNetwork::of() is. The graph must outlive it.
  static std::unique_ptr<const FloatStage> of(const Graph& graph, double iso, const Box& domain);

  /// Finds the bound, and whether it decides enough of some points all over the box. Once.
  void prepare() const;
  bool is_prepared() const { return is_prepared_.load(std::memory_order_acquire); }

  /// How many it decides; 0, and nothing is known of `out`, where it does not pay: by prepare(), for few points, and
  /// where too few of the first points are decided.
  /// Shapes:    `points` row by row, `out` one entry a row, whose earlier contents are lost
  std::size_t decide(std::span<const double> points, std::span<PointSign> out) const;

private:
  FloatStage(const Graph& graph, double iso, const Box& domain, std::unique_ptr<const FloatNetwork> network);

  std::size_t decide_blocks(std::span<const double> points, FloatWorkspace& workspace, std::span<PointSign> out) const;

  const Graph& graph_;
  double iso_;
  Box domain_;
  std::unique_ptr<const FloatNetwork> network_;
  mutable std::once_flag once_;
  mutable double bound_ = 0.0;
  mutable bool pays_ = false;
  mutable std::atomic<bool> is_prepared_ = false;
};

}  // namespace driftbound::implicit

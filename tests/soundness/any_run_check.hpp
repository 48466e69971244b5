#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/reference/reference.hpp"
#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// One bound of one target, sample by sample.
struct TargetBound {
  bool gives_verdict = false;
  std::vector<double> values, remainder;  ///< remainder: empty where there is none
};

/// Bounds of the targets by kind: [target].
using RunBounds = std::map<BoundKind, std::vector<TargetBound>>;

/// Targets of one network on one set of inputs, held against what one run's bounds say of every run.
/// Domain:    batched models
class AnyRunCheck {
public:
  /// Inputs as given; targets: every output element, 8 at most, and the difference of the first two.
  AnyRunCheck(const Graph& graph, Inputs inputs);

  const Graph& graph() const { return graph_; }
  const Inputs& inputs() const { return inputs_; }
  std::size_t targets() const { return targets_.size(); }
  /// The difference of the first two elements, or the only element.
  std::size_t scalar() const { return targets_.size() - 1; }
  const Target& target(std::size_t index) const { return targets_.at(index); }

  /// The bounds of the targets that are asked for, from a trace of these inputs.
  RunBounds bounds_of(const Trace& trace, const std::vector<BoundRequest>& requests) const;
  /// Holds all targets of a run against one bound.
  void hold(const Trace& run, const std::vector<TargetBound>& bound, BoundTally& tally) const;
  /// |computed - exact| of a target, approximately.
  std::vector<double> errors_of(const Trace& run, std::size_t target) const;

private:
  /// computed - exact, and whether the run's numbers are finite.
  struct Deviation {
    Ball ball;
    bool is_finite = true;
  };
  std::vector<Deviation> deviations_of(const Trace& run, const Target& target) const;

  const Graph& graph_;
  Inputs inputs_;
  std::size_t samples_;
  std::vector<Target> targets_;
  std::vector<std::size_t> node_of_output_;
  std::vector<Tensor<Ball>> exact_;  ///< by output
};

}  // namespace driftbound::soundness

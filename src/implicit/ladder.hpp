#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/domain_stage.hpp"
#include "implicit/pair_stage.hpp"
#include "implicit/point_stage.hpp"
#include "implicit/reference_stage.hpp"

namespace driftbound::implicit {

/// Decides the signs of one scalar stage by stage; each takes what earlier ones left. Thread-safe when const.
/// Source:    docs/theory.md T-110
class Ladder {
public:
  /// The graph, of one output element a sample, must outlive it.
  Ladder(const Graph& graph, const SignOptions& options);

  /// Shapes:    `points` row by row, `out` one entry a row; `are_many`: what costs much once pays for them
  void decide(std::span<const double> points, bool are_many, std::span<PointSign> out,
              SignStatistics& statistics) const;

  /// One point, where the first stage decides it at once: its bound for the domain has been found.
  std::optional<PointSign> decide_at_once(std::span<const double> point) const;
  /// Finds the bound for the domain, if there is one to be found.
  void prepare() const;

private:
  /// Values below this are left to more precise stages at once: bounds for single points are four times as large at
  /// points all over the domain. Which stage decides a sign is a matter of time alone.
  double least_worth_bounding() const;

  const SignOptions& options_;
  std::unique_ptr<const DomainStage> domain_stage_;  ///< may be null
  std::unique_ptr<const PointStage> point_stage_;    ///< may be null
  std::unique_ptr<const PairStage> pair_stage_;      ///< may be null
  ReferenceStage reference_stage_;
  mutable std::once_flag is_least_found_;
  mutable double least_worth_bounding_ = 0.0;
};

}  // namespace driftbound::implicit

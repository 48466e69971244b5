#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "implicit/domain_stage.hpp"
#include "implicit/float_stage.hpp"
#include "implicit/pair_stage.hpp"
#include "implicit/point_stage.hpp"
#include "implicit/reference_stage.hpp"
#include "implicit/workspace.hpp"

namespace driftbound::implicit {

/// Decides the signs of one scalar stage by stage; each takes what earlier ones left. Thread-safe when const.
/// Source:    docs/theory.md T-110
class Ladder {
public:
  /// The graphs, of one output element a sample, must outlive it; `unshifted`: the same without the iso value.
  Ladder(const Graph& graph, const Graph& unshifted, const SignOptions& options);

  /// Shapes:    `points` row by row, `out` one entry a row; `asked`: points that calls have asked for so far, for
  ///            which what costs much once may pay
  void decide(std::span<const double> points, std::int64_t asked, std::span<PointSign> out,
              SignStatistics& statistics) const;

  /// One point, where the first stage decides it at once: its bound for the domain has been found.
  std::optional<PointSign> decide_at_once(std::span<const double> point) const;
  /// Finds the bounds for the domain, if there are some to be found.
  void prepare() const;

private:
  /// Points that are left, gathered row by row, and where their signs go.
  struct Open {
    std::vector<std::size_t> rows;
    std::vector<double> points;
    std::vector<PointSign> signs;
  };
  template <class Stage>
  void run(SignStage name, std::span<const double> points, std::span<PointSign> out, SignStatistics& statistics,
           const Stage& stage, double least = 0.0) const;
  bool decide_in_float32(std::span<const double> points, std::int64_t asked, std::span<PointSign> out,
                         SignStatistics& statistics) const;
  void decide_in_float64(std::span<const double> points, std::span<PointSign> out, SignStatistics& statistics) const;

  /// Values below this are left to more precise stages at once: bounds for single points are four times as large at
  /// points all over the domain. Which stage decides a sign is a matter of time alone.
  double least_worth_bounding() const;

  const SignOptions& options_;
  std::unique_ptr<const FloatStage> float_stage_;    ///< may be null
  std::unique_ptr<const DomainStage> domain_stage_;  ///< may be null
  std::unique_ptr<const PointStage> point_stage_;    ///< may be null
  std::unique_ptr<const PairStage> pair_stage_;      ///< may be null
  ReferenceStage reference_stage_;
  mutable Spares<Open> spares_;
  mutable std::once_flag is_least_found_;
  mutable double least_worth_bounding_ = 0.0;
};

}  // namespace driftbound::implicit

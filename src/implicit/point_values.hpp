#pragma once

#include <span>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/reference/reference.hpp"

namespace driftbound::implicit {

/// Values and signs of g at single points, as precise as it takes.
class PointValues {
public:
  /// The graph must outlive this.
  PointValues(const Graph& line, int max_bits, int threads);

  /// g(t) within 2^-10 of itself where max_bits suffice: in double-double at least.
  std::vector<Interval> precise(std::span<const double> t) const;
  std::vector<Sign> signs(std::span<const double> t) const;

private:
  Interval output(const Reference& reference, std::size_t row) const;

  const Graph& line_;
  SignField field_;
  ReferenceMaker maker_;
  PrecisionPolicy policy_;
  bool batched_ = false;
};

}  // namespace driftbound::implicit
